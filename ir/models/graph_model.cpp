#include "ir/models/graph_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>
#include <variant>

#include "ir/graph_line.h"
#include "ir/models/require.h"
#include "ir/ops/classes.h"
#include "sbp/error.h"

namespace boxcar::ir::models {
namespace {

constexpr std::string_view batch_word = "batch";

// Replaces `batch` in brackets, and products with it, by the batch's size. The new text has the same width if
// possible, so that columns in messages stay right.
class BatchWriter {
 public:
  BatchWriter(std::string_view text, int64_t batch) : text_(text), batch_(batch) {}

  std::string run() {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      const char c = text_[at_];
      depth_ += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (c == '\n') depth_ = 0;
      if (c == '#' || c == '"')
        skip_to(c == '#' ? '\n' : '"');
      else if (depth_ == 0 || !product(begin))
        at_ = std::max(at_, begin + 1);
      if (!written_) out_ += text_.substr(begin, at_ - begin);
      written_ = false;
    }
    return std::move(out_);
  }

 private:
  void skip_to(char end) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != end && text_[at_] != '\n') ++at_;
    if (at_ < text_.size()) ++at_;
  }

  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_graph_name(text_.substr(at_, 1))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<int64_t> factor(std::string_view word) const {
    if (word == batch_word) return batch_;
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < 1) return std::nullopt;
    return number;
  }

  // Reads a word, or words separated by stars; writes their product if one is the batch.
  bool product(size_t begin) {
    bool has_batch = false;
    int64_t value = 1;
    while (true) {
      const std::string_view factor_text = word();
      if (factor_text.empty()) return false;
      const std::optional<int64_t> next = factor(factor_text);
      if (!next) return true;
      if (value > largest / *next)
        throw Error::input("graph", fmt::format("{} at a batch of {} is too large",
                                                text_.substr(begin, at_ - begin), batch_));
      value *= *next;
      has_batch = has_batch || factor_text == batch_word;
      if (at_ == text_.size() || text_[at_] != '*') break;
      ++at_;
    }
    if (!has_batch) return true;
    out_ += fmt::format("{:<{}}", value, at_ - begin);
    written_ = true;
    return true;
  }

  static constexpr int64_t largest = int64_t{1} << 53;
  std::string_view text_;
  int64_t batch_;
  size_t at_ = 0;
  int depth_ = 0;
  bool written_ = false;
  std::string out_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& message) {
  throw Error::input("graph", fmt::format("{}: {}", what, message));
}

bool is_source(const Op& op) { return is_special(op.type); }

// Checks that the graph has only forward ops on tensors without a layout.
void check_plain(const Graph& graph) {
  if (!graph.placements.empty()) refuse(graph.name, "placements are the plan's (leave them out)");
  if (!graph.updates.empty()) refuse(graph.name, "updates are the optimizer's (leave them out)");
  for (const Op& op : graph.ops) {
    const std::string name = "%" + graph.tensor(op.outputs[0]).name;
    if (op.is(OpKind::to_global)) refuse(name, "to_global is the plan's (leave it out)");
    if (op.phase != Phase::forward) refuse(name, "is of a phase; a model is its forward pass (leave it out)");
    for (const TensorId output : op.outputs) {
      const Role role = graph.tensor(output).role;
      const bool untrained = op.is(OpKind::parameter) && role == Role::constant;
      if (role != usual_role(op.type) && !untrained)
        refuse(name, "has a role of its own (leave it out; role=constant is for parameters)");
      if (graph.tensor(output).sbp) refuse(name, "has a layout; give it as --pin of a search");
    }
    if (op.layer > 0 && graph.layers == 0)
      refuse(name,
             fmt::format("is of layer {}, and the first line has no layers={}", op.layer, op.layer + 1));
    if (op.layer >= graph.layers + 1 || op.layer < -1)
      refuse(name, fmt::format("is of layer {} of {} (use 0 to {})", op.layer, graph.layers, graph.layers));
  }
}

// Only a whole loss may have padding: its pieces would have to agree on it.
void check_classes(const Graph& graph) {
  for (const Op& op : graph.ops) {
    const std::string name = "%" + graph.tensor(op.outputs[0]).name;
    const bool piece = op.type == "reduce_max" || op.type == "sum_exp" || op.type == "sum_exp_pick" ||
                       op.type == "cross_entropy_parts" || op.type == "cross_entropy_grad";
    if (!piece && op.type != "cross_entropy") continue;
    const int64_t classes = attr_int(op.attrs, "classes");
    if (piece && classes != 0) refuse(name, "classes are for cross_entropy (leave them out)");
    if (piece && op.attrs.contains("offset") && attr_int(op.attrs, "offset") != 0)
      refuse(name, "offset is the plan's (leave it out)");
    if (piece) continue;
    const int64_t logits = graph.tensor(op.inputs[0]).type.shape.back();
    if (classes > logits) refuse(name, fmt::format("has {} classes, but {} logits", classes, logits));
  }
}

// Sampled labels are places in the sample that rows of the same labels are drawn for.
void check_draws(const Graph& graph) {
  constexpr const char* drawn_by_steps[] = {"first", "step", "micro_batch", "below"};
  constexpr const char* the_same[] = {"samples", "parts", "seed"};
  const auto drawn_by = [&](const Op& rows, const Op& places) {
    return rows.type == "sample_rows" && rows.inputs[1] == places.inputs[0] &&
           graph.tensor(rows.inputs[0]).type.shape[0] == attr_int(places.attrs, "classes") &&
           std::all_of(std::begin(the_same), std::end(the_same), [&](const char* number) {
             return attr_int(rows.attrs, number) == attr_int(places.attrs, number);
           });
  };
  for (const Op& op : graph.ops) {
    if (op.type != "sample_rows" && op.type != "sample_labels") continue;
    const std::string name = "%" + graph.tensor(op.outputs[0]).name;
    for (const char* number : drawn_by_steps)
      if (attr_int(op.attrs, number) != 0)
        refuse(name, fmt::format("{} is the plan's (leave it out)", number));
    if (op.type == "sample_labels" &&
        std::none_of(graph.ops.begin(), graph.ops.end(), [&](const Op& rows) { return drawn_by(rows, op); }))
      refuse(name,
             fmt::format("needs a sample_rows of %{} from a table of {} classes, with the same samples, "
                         "parts and seed",
                         graph.tensor(op.inputs[0]).name, attr_int(op.attrs, "classes")));
  }
}

// Fills in missing layers: an op gets its operands' last layer, a source the layer of its first reader.
void fill_layers(Graph& graph) {
  if (graph.layers == 0) {
    graph.layers = 1;
    for (Op& op : graph.ops) op.layer = 0;
    return;
  }
  const auto layer_of = [&](TensorId t) -> int& { return at(graph.ops, graph.tensor(t).producer).layer; };
  std::vector<bool> given;
  for (const Op& op : graph.ops) given.push_back(op.layer >= 0);
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    Op& op = graph.ops[o];
    if (is_source(op)) continue;
    int last = -1;
    TensorId latest = -1;
    for (const TensorId input : op.inputs)
      if (const int layer = layer_of(input); layer > last) last = layer, latest = input;
    if (!given[o])
      op.layer = last;
    else if (op.layer < last)
      refuse("%" + graph.tensor(op.outputs[0]).name, fmt::format("is of layer {}, but reads %{} of layer {}",
                                                                 op.layer, graph.tensor(latest).name, last));
    for (const TensorId input : op.inputs) {
      const auto producer = static_cast<size_t>(graph.tensor(input).producer);
      if (is_source(graph.ops[producer]) && !given[producer])
        layer_of(input) = op.layer, given[producer] = true;
    }
  }
}

// Puts ops of a layer together, as autodiff expects. No op reads a later layer, so each stays after the ops
// that it reads.
void sort_by_layer(Graph& graph) {
  std::stable_sort(graph.ops.begin(), graph.ops.end(),
                   [](const Op& a, const Op& b) { return a.layer < b.layer; });
  for (size_t o = 0; o < graph.ops.size(); ++o)
    for (const TensorId output : graph.ops[o].outputs) graph.tensor(output).producer = static_cast<OpId>(o);
}

// An alias (reshape, identity) has its operand's register. The loss is watched, so it needs its own register.
void give_loss_a_register(Graph& graph) {
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    Tensor& loss = graph.tensors[t];
    if (loss.name != loss_name || !at(graph.ops, loss.producer).is(OpKind::alias)) continue;
    Op& alias = at(graph.ops, loss.producer);
    loss.name = alias.name = "loss.alias";
    Op copy;
    copy.name = loss_name, copy.type = "scale", copy.attrs = {{"factor", 1.0}}, copy.layer = alias.layer;
    copy.inputs = {static_cast<TensorId>(t)};
    copy.outputs = {static_cast<TensorId>(graph.tensors.size())};
    Tensor same = loss;
    same.name = loss_name, same.producer = static_cast<OpId>(graph.ops.size());
    graph.tensors.push_back(std::move(same));
    graph.ops.push_back(std::move(copy));
    return;
  }
}

// Gives ops that draw random numbers different numbers, so that their draws are independent.
void number_draws(Graph& graph) {
  int64_t last = 0;
  for (const Op& op : graph.ops)
    if (const auto given = op.attrs.find("op"); given != op.attrs.end())
      last = std::max(last, std::get<int64_t>(given->second));
  for (Op& op : graph.ops)
    if (const auto given = op.attrs.find("op");
        given != op.attrs.end() && std::get<int64_t>(given->second) == 0)
      given->second = ++last;
}

// Converts a constant's number to the form in which it is kept.
void read_constants(Graph& graph) {
  for (Op& op : graph.ops) {
    if (!op.is(OpKind::constant)) continue;
    const auto found = op.attrs.find("value");
    const bool alone = found != op.attrs.end() && op.attrs.size() == 1;
    if (const auto* whole = alone ? std::get_if<int64_t>(&found->second) : nullptr)
      found->second = static_cast<double>(*whole);
    if (!alone || !std::holds_alternative<double>(found->second))
      refuse("%" + graph.tensor(op.outputs[0]).name, "a constant is written constant() {value=1.0}");
  }
}

// How many elements an op's indices may name, if `operand` holds indices; 0: it does not.
int64_t room_of(const Graph& graph, const Op& op, size_t operand) {
  const auto shape = [&](size_t i) -> const Shape& { return graph.tensor(op.inputs[i]).type.shape; };
  if (op.type == "one_hot") return attr_int(op.attrs, "depth");
  if (op.type == "sample_labels") return attr_int(op.attrs, "classes");
  if (operand != 1) return 0;
  if (op.type == "embedding" || op.type == "sample_rows") return shape(0)[0];
  if (op.type == "gather") {
    const int64_t axis = attr_int(op.attrs, "axis"), axes = static_cast<int64_t>(shape(0).size());
    return at(shape(0), axis < 0 ? axis + axes : axis);
  }
  if (op.type == "cross_entropy") return classes_here(op.attrs, shape(0).back());
  if (op.type == "pick") return shape(0).back();
  if (op.type == "moe_combine" || op.type == "moe_dispatch_grad") return at(shape(0), shape(0).size() - 3);
  return op.type == "moe_dispatch" ? attr_int(op.attrs, "experts") : 0;
}

bool moves_elements(const Op& op) {
  constexpr std::string_view moving[] = {"reshape",      "transpose", "slice",
                                         "broadcast_to", "concat",    "identity"};
  return std::find(std::begin(moving), std::end(moving), op.type) != std::end(moving);
}

// The limit of whole numbers in a tensor, from its readers and those of tensors made by moving its elements;
// 0: no limit is known.
int64_t room_for(const Graph& graph, const std::vector<std::vector<OpId>>& readers, TensorId tensor) {
  int64_t least = 0;
  const auto take = [&](int64_t room) {
    if (room > 0) least = least == 0 ? room : std::min(least, room);
  };
  for (const OpId reader : at(readers, tensor)) {
    const Op& op = at(graph.ops, reader);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] == tensor) take(room_of(graph, op, i));
    if (moves_elements(op)) take(room_for(graph, readers, op.outputs[0]));
  }
  return least;
}

// Indices in data are checked when the data are read. Those of other tensors are checked by the op that reads
// them.
void limit_computed_indices(Graph& graph) {
  std::vector<bool> read(graph.tensors.size(), false);  // by tensor: its elements are those of inputs
  for (Op& op : graph.ops) {
    at(read, op.outputs[0]) =
        op.is(OpKind::input) || (moves_elements(op) && std::all_of(op.inputs.begin(), op.inputs.end(),
                                                                   [&](TensorId t) { return at(read, t); }));
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (const int64_t room = room_of(graph, op, i); room > 0 && !at(read, op.inputs[i]))
        op.attrs["below"] = room;
  }
}

Graph parse(const std::string& text, int64_t batch) {
  Graph graph = parse_graph(BatchWriter(text, batch).run());
  check_plain(graph);
  check_classes(graph);
  check_draws(graph);
  number_draws(graph);
  read_constants(graph);
  fill_layers(graph);
  give_loss_a_register(graph);
  sort_by_layer(graph);
  limit_computed_indices(graph);
  try {
    verify(graph);
  } catch (const Error& error) {
    throw Error::input("", error.what());  // the user's mistake, not ours
  }
  return graph;
}

// Checks that every layer has a parameter, and that the loss depends on every source.
void check_uses(const Graph& graph) {
  std::vector<bool> used(graph.tensors.size(), false),
      has_parameter(static_cast<size_t>(graph.layers), false);
  used[static_cast<size_t>(find_tensor(graph, loss_name))] = true;
  for (size_t o = graph.ops.size(); o-- > 0;) {
    const Op& op = graph.ops[o];
    if (std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) { return at(used, t); }))
      for (const TensorId input : op.inputs) at(used, input) = true;
  }
  for (const Op& op : graph.ops) {
    const bool parameter = op.is(OpKind::parameter);
    if ((parameter || op.is(OpKind::input)) && !at(used, op.outputs[0]))
      refuse("%" + graph.tensor(op.outputs[0]).name, "the loss does not depend on it (leave it out)");
    if (parameter && graph.in_layer(op)) at(has_parameter, op.layer) = true;
  }
  for (int layer = 0; layer < graph.layers; ++layer)
    if (!at(has_parameter, layer))
      refuse(graph.name,
             fmt::format("layer {} of {} has no parameter (join it with another)", layer, graph.layers));
}

// By tensor: whether its value depends on data.
std::vector<bool> of_data(const Graph& graph) {
  std::vector<bool> depends(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    const bool any = op.is(OpKind::input) || std::any_of(op.inputs.begin(), op.inputs.end(),
                                                         [&](TensorId t) { return at(depends, t); });
    for (const TensorId output : op.outputs) at(depends, output) = any;
  }
  return depends;
}

// Whether the op is linear in these operands together, for any values of the others.
bool is_linear(const Graph& graph, const Op& op, const std::vector<size_t>& operands) {
  Types types;
  for (const TensorId input : op.inputs) types.push_back(graph.tensor(input).type);
  const OpDef& def = ir::op(op.type);
  const auto linear = def.index_map(types, complete(def, op.attrs)).linear;
  return std::any_of(linear.begin(), linear.end(), [&](const auto& jointly) {
    return std::all_of(operands.begin(), operands.end(), [&](size_t operand) {
      return std::find(jointly.begin(), jointly.end(), operand) != jointly.end();
    });
  });
}

// `one` and `two` are graphs of one sample and of two. Micro-batches and data-parallel ranks sum means, so
// the loss must be linear in means over samples: a reduce_mean joins the samples, and all later ops are
// linear.
void check_loss(const Graph& one, const Graph& two) {
  const TensorId loss = find_tensor(one, loss_name);
  if (!(one.tensor(loss).type == TensorType{{}, DType::float32}))
    refuse("%loss",
           fmt::format("is {}, expected float32[], the mean over samples", to_text(one.tensor(loss).type)));
  const std::vector<bool> depends = of_data(one);
  std::vector<bool> seen(one.tensors.size(), false);
  std::vector<TensorId> tail{loss};
  while (!tail.empty()) {
    const TensorId result = tail.back();
    tail.pop_back();
    if (!at(depends, result) || at(seen, result)) continue;
    at(seen, result) = true;
    const Op& op = at(one.ops, one.tensor(result).producer);
    const std::string name = "%" + one.tensor(result).name;
    std::vector<size_t> operands;
    bool of_samples = false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId input = op.inputs[i];
      if (!at(depends, input)) continue;
      operands.push_back(i);
      if (one.tensor(input).type.shape != two.tensor(input).type.shape)
        of_samples = true;
      else
        tail.push_back(input);
    }
    if (of_samples && op.type == "reduce_sum")
      refuse(name, "is a sum over samples; a loss is their mean (use reduce_mean)");
    if (of_samples && op.type != "reduce_mean")
      refuse(name,
             fmt::format("takes samples together by {}; a loss is their mean (use reduce_mean)", op.type));
    if (op.type == "reduce_mean" && attr_int(op.attrs, "count") != 0)
      refuse(name, "has a count of its own; a loss is the mean over samples (leave count out)");
    if (!is_linear(one, op, operands))
      refuse(name, fmt::format("is of the mean over samples by {}, which is not linear; a loss is that mean "
                               "(use {} before reduce_mean)",
                               op.type, op.type));
  }
}

// Only the text's inputs and parameters, on their own lines.
std::string sources_of(const std::string& text) {
  std::string sources;
  std::istringstream lines(text);
  bool headed = false;
  for (std::string line; std::getline(lines, line);) {
    std::string bare = line;
    std::erase_if(bare, [](char c) { return c == ' ' || c == '\t'; });
    const bool source =
        bare.find("=input(") != std::string::npos || bare.find("=parameter(") != std::string::npos;
    if (source || !headed) sources += line;
    headed = headed || line.starts_with("graph");
    sources += '\n';
  }
  return sources;
}

void check_sources(const std::string& text) {
  const std::string sources = sources_of(text);
  const Graph one = parse_graph(BatchWriter(sources, 1).run()),
              two = parse_graph(BatchWriter(sources, 2).run());
  bool any = false;
  for (size_t t = 0; t < one.tensors.size(); ++t) {
    const Tensor& tensor = one.tensors[t];
    const Shape &x = tensor.type.shape, &y = two.tensors[t].type.shape;
    if (at(one.ops, tensor.producer).is(OpKind::parameter)) {
      if (x != y) refuse("%" + tensor.name, "a parameter's shape does not depend on the batch");
      continue;
    }
    any = true;
    if (x.empty() || x[0] != 1 || y[0] != 2 || !std::equal(x.begin() + 1, x.end(), y.begin() + 1, y.end()))
      refuse("%" + tensor.name, "an input's first extent is batch, and no other one depends on it");
  }
  if (!any) refuse(one.name, "has no input");
}

}  // namespace

GraphModel read_graph_model(std::string text) {
  check_sources(text);
  const Graph one = parse(text, 1);
  check_loss(one, parse(text, 2));
  check_uses(one);
  std::set<Module> modules;
  for (const Op& op : one.ops) modules.insert(op.module);
  return {"graph", one.layers, std::make_shared<const std::string>(std::move(text)), std::move(modules)};
}

Graph build(const GraphModel& model, int64_t batch) {
  if (!model.text) throw Error::input("graph", "missing");
  require(batch > 0, "batch", fmt::format("is {}, expected at least 1", batch));
  return parse(*model.text, batch);
}

int64_t parameters(const GraphModel& model) { return parameter_elements(build(model, 1)); }

std::vector<GraphParameter> parameters_of(const GraphModel& model) {
  const Graph graph = build(model, 1);
  std::vector<GraphParameter> parameters;
  for (const Op& op : graph.ops) {
    if (!op.is(OpKind::parameter)) continue;
    const Tensor& tensor = graph.tensor(op.outputs[0]);
    parameters.push_back({tensor.name, tensor.type, tensor.role != Role::constant});
  }
  return parameters;
}

std::vector<GraphInput> inputs_of(const GraphModel& model) {
  const Graph graph = build(model, 1);
  const std::vector<std::vector<OpId>> readers = consumers(graph);
  std::vector<GraphInput> inputs;
  for (const Op& op : graph.ops) {
    if (!op.is(OpKind::input)) continue;
    const Tensor& tensor = graph.tensor(op.outputs[0]);
    GraphInput input{tensor.name, tensor.type};
    input.sample.shape.erase(input.sample.shape.begin());
    input.below = room_for(graph, readers, op.outputs[0]);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace boxcar::ir::models
