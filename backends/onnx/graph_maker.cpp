#include "backends/onnx/graph_maker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backends/cpu/convert.h"
#include "backends/onnx/blocks.h"
#include "ir/graph_line.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::backends::onnx {

using ir::DType;
using ir::TensorId;

std::string as_name(std::string_view name) {
  while (name.starts_with('/')) name.remove_prefix(1);
  std::string result(name);
  for (char& c : result)
    if (c == '/' || !ir::is_graph_name(std::string_view(&c, 1))) c = c == '/' ? '.' : '_';
  return result;
}

GraphMaker::GraphMaker(const OnnxModel& model, const ImportOptions& options, int64_t batch)
    : model_(model), options_(options), batch_(batch), builder_(options.name), names_{ir::loss_name} {}

GraphMaker::Made GraphMaker::run() {
  find_needed();
  check_operators();
  add_inputs();
  for (const OnnxNode& node : model_.nodes)
    if (is_needed(node)) convert(node);
  add_loss();
  ir::Graph graph = builder_.finish();
  for (const TensorId table : tables_) graph.tensor(table).role = ir::Role::constant;
  mark_blocks(graph, model_, node_of_op_);
  mark_cores(graph);
  return {std::move(graph), std::move(weights_), file_batch_};
}

const OnnxValue& GraphMaker::chosen_output() const {
  std::vector<std::string> names;
  for (const OnnxValue& output : model_.outputs) names.push_back(output.name);
  if (options_.output.empty()) {
    if (model_.outputs.size() == 1) return model_.outputs[0];
    throw Error::input("--of", fmt::format("is missing; the model has {}", fmt::join(names, ", ")));
  }
  for (const OnnxValue& output : model_.outputs)
    if (output.name == options_.output) return output;
  throw Error::input("--of", fmt::format("the model has no output {}{}; it has {}", options_.output,
                                         did_you_mean(options_.output, names), fmt::join(names, ", ")));
}

bool GraphMaker::is_needed(const OnnxNode& node) const {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](const std::string& name) { return needed_.contains(name); });
}

// Finds the nodes on which the output depends.
void GraphMaker::find_needed() {
  needed_.insert(chosen_output().name);
  for (size_t n = model_.nodes.size(); n-- > 0;) {
    const OnnxNode& node = model_.nodes[n];
    if (is_needed(node)) needed_.insert(node.inputs.begin(), node.inputs.end());
    needed_.erase("");  // an operand that is left out
  }
}

void GraphMaker::check_operators() const {
  std::map<std::string, int> missing;
  for (const OnnxNode& node : model_.nodes)
    if (is_needed(node) && !converters().contains(node.type)) ++missing[node.type];
  if (missing.empty()) return;
  std::string list;
  for (const auto& [type, count] : missing)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, type);
  throw Error::input("", fmt::format("operators that have no form here: {}", list));
}

void GraphMaker::add_inputs() {
  std::vector<std::string> open;  // symbols of axes behind the batch
  for (const OnnxValue& input : model_.inputs) {
    if (!needed_.contains(input.name)) continue;
    ir::Shape shape;
    for (const OnnxExtent& extent : input.extents) {
      int64_t size = extent.size;
      if (const auto given = options_.sizes.find(extent.symbol); given != options_.sizes.end())
        size = given->second;
      if (!shape.empty() && !extent.symbol.empty()) open.push_back(extent.symbol);
      if (!shape.empty() && size == 0)
        throw Error::input(input.name,
                           fmt::format("axis {} has no size (give it as --size {}=...)", shape.size(),
                                       extent.symbol.empty() ? "NAME" : extent.symbol));
      shape.push_back(size);
    }
    if (shape.empty()) throw Error::input(input.name, "is a scalar; an input begins with the batch");
    const int64_t batch = input.extents[0].size;
    if (file_batch_ != 0 && batch != file_batch_)
      throw Error::input(input.name,
                         fmt::format("begins with {}, another input with {}; an input begins with "
                                     "the batch",
                                     batch, file_batch_));
    file_batch_ = batch;
    shape[0] = batch_;
    const std::string name = unique(as_name(input.name));
    const bool whole = input.dtype != DType::float32;
    const TensorId tensor = builder_.input(name, {shape, whole ? DType::int64 : DType::float32});
    Value value{builder_.type(tensor), tensor, nullptr, {}, {}};
    if (input.dtype == DType::boolean) {
      value.tensor = builder_.op1("cast", {tensor}, {{"to", "boolean"}}, unique(name + ".boolean"));
      value.type = builder_.type(value.tensor);
    }
    values_[input.name] = value;
  }
  for (const auto& [symbol, size] : options_.sizes)
    if (std::find(open.begin(), open.end(), symbol) == open.end())
      throw Error::input("--size", fmt::format("no axis behind the batch is called {}{}; open are: {}",
                                               symbol, did_you_mean(symbol, open), fmt::join(open, ", ")));
  for (const auto& [name, weight] : model_.weights)
    if (needed_.contains(name)) values_[name] = {weight.type, -1, &weight, {}, name};
}

std::string GraphMaker::unique(const std::string& name) {
  std::string free = name;
  for (int i = 2; !names_.insert(free).second; ++i) free = fmt::format("{}_{}", name, i);
  return free;
}

std::string GraphMaker::op_name(const OnnxNode& node, std::string_view what) {
  std::string name = as_name(node.name);
  if (name.empty()) name = as_name(node.outputs[0]);
  if (name.empty()) name = node.type;
  if (!what.empty()) name += fmt::format(".{}", what);
  return unique(name);
}

void GraphMaker::convert(const OnnxNode& node) {
  Conversion conversion(*this, node);
  try {
    converters().at(node.type)(conversion);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    const std::string where =
        fmt::format("{} {}", node.type, node.name.empty() ? node.outputs[0] : node.name);
    const char* batch =
        file_batch_ > 0 ? " (the file has a fixed batch; with an open one more can be imported)" : "";
    throw Error::input(where, std::string(error.what()) + batch);
  }
}

// --- values in the graph

std::string GraphMaker::parameter_name(const std::string& weight, const OnnxNode& reader) const {
  std::string name = as_name(weight);
  // A weight that an exporter folded has a number for a name; its reader's place in the model says more.
  if (weight.find("::") != std::string::npos) {
    const std::string path = as_name(reader.name);
    if (const size_t last = path.rfind('.'); last != std::string::npos)
      name = path.substr(0, last) + ".weight";
  }
  const auto end = ends_.find(weight);
  if (end == ends_.end() || name.ends_with(end->second)) return name;
  const size_t last = name.rfind('.');
  const bool plain =
      last != std::string::npos && (name.substr(last) == ".weight" || name.substr(last) == ".bias");
  return (plain ? name.substr(0, last) : name) + end->second;
}

TensorId GraphMaker::parameter(const std::string& name, const HostTensor& value) {
  const TensorId tensor = builder_.parameter(name, value.type);
  StoredTensor& stored = weights_[name];
  stored.type = value.type;
  stored.bytes.resize(static_cast<size_t>(value.type.bytes()));
  cpu::store(value, stored.bytes.data());
  return tensor;
}

std::vector<TensorId> GraphMaker::add(const OnnxNode& node, std::string_view op,
                                      const std::vector<Value>& operands, ir::Attrs attrs,
                                      std::string_view what) {
  std::vector<TensorId> tensors;
  for (const Value& value : operands) tensors.push_back(place(value, node));
  const std::string name = op_name(node, what);
  node_of_op_[name] = static_cast<size_t>(&node - model_.nodes.data());
  const TensorId first = tensors[0];
  const std::vector<TensorId> results = builder_.op(op, std::move(tensors), std::move(attrs), name);
  for (const TensorId result : results) producers_[result] = {std::string(op), first};
  return results;
}

TensorId GraphMaker::place(const Value& value, const OnnxNode& reader) {
  if (!value.is_known()) return value.tensor;
  if (const Origin* origin = value.origin.get()) {
    std::vector<TensorId>& made = made_[value.origin];
    if (made.empty()) made = add(*origin->node, origin->op, origin->operands, origin->attrs, origin->what);
    return at(made, value.result);
  }
  const bool is_weight = !value.weight.empty() && value.type.dtype == DType::float32;
  if (is_weight && value.stored) {
    TensorId& tensor = parameters_.try_emplace(value.weight, -1).first->second;
    if (tensor < 0) {
      const std::string name = unique(parameter_name(value.weight, reader));
      weights_[name] = *value.stored;
      tensor = builder_.parameter(name, value.type);
    }
    return tensor;
  }
  const HostTensor elements =
      value.computed ? *value.computed : cpu::load(value.type, value.stored->bytes.data());
  if (is_weight) return parameter(unique(parameter_name(value.weight, reader)), elements);
  const auto& data = elements.data;
  if (std::all_of(data.begin(), data.end(), [&](double x) { return x == data[0]; })) {
    const double number = data.empty() ? 0 : data[0];
    TensorId& constant = constants_.try_emplace({ir::to_text(value.type), number}, -1).first->second;
    if (constant < 0) constant = builder_.constant(unique("constant"), value.type, number);
    return constant;
  }
  if (value.type.dtype != DType::float32)
    throw Error::input("",
                       fmt::format("reads {} that are known before data, which graphs have no constants for",
                                   ir::to_text(value.type)));
  tables_.push_back(parameter(op_name(reader, "table"), elements));
  return tables_.back();
}

// --- the loss

// PyTorch has the classes of images on the second axis.
TensorId GraphMaker::with_classes_last(const Value& scores) {
  if (scores.type.shape.size() != 4) return scores.tensor;
  return builder_.op1("transpose", {scores.tensor}, {{"perm", ir::Shape{0, 2, 3, 1}}}, unique("scores"));
}

// [batch, positions...] of flat scores [batch x positions, classes]: the axes that a reshape made rows of.
// Empty if they are not found, since rows may be in another order.
ir::Shape GraphMaker::rows_of(TensorId scores) const {
  const int64_t rows = builder_.type(scores).shape[0];
  while (true) {
    const auto found = producers_.find(scores);
    if (found == producers_.end()) return {};
    const auto& [op, first] = found->second;
    const ir::Shape& from = builder_.type(first).shape;
    if (op == "reshape") {
      int64_t leading = 1;
      for (size_t axes = 0; axes < from.size(); ++axes) {
        leading *= from[axes];
        const auto end = from.begin() + static_cast<std::ptrdiff_t>(axes) + 1;
        if (leading == rows) return {from.begin(), end};
      }
      return {};
    }
    constexpr std::string_view keeping_rows[] = {"matmul",  "add",      "sub",     "mul",  "scale",
                                                 "relu",    "gelu",     "silu",    "tanh", "layer_norm",
                                                 "sigmoid", "rms_norm", "dropout", "div"};
    const bool keeps =
        std::find(std::begin(keeping_rows), std::end(keeping_rows), op) != std::end(keeping_rows);
    if (!keeps || from.empty() || from[0] != rows) return {};
    scores = first;
  }
}

// An input for labels of these scores, [batch, ..., classes], as an input begins with the batch.
TensorId GraphMaker::labels_like(TensorId scores) {
  const ir::TensorType type = builder_.type(scores);
  ir::Shape labels = type.shape;
  if (!labels.empty()) labels.pop_back();
  const bool flat = labels.size() == 1 && labels[0] != batch_;
  const ir::Shape sample = flat ? rows_of(scores) : labels;
  if (sample.empty() || sample[0] != batch_)
    throw Error::input(
        chosen_output().name,
        fmt::format("is {}, expected scores of classes [batch, ..., classes]", ir::to_text(type)));
  const TensorId input = builder_.input(unique("labels"), {sample, DType::int64});
  return flat ? builder_.op1("reshape", {input}, {{"shape", labels}}, unique("labels.flat")) : input;
}

void GraphMaker::add_loss() {
  const OnnxValue& output = chosen_output();
  const auto found = values_.find(output.name);
  if (found == values_.end()) throw Error::input(output.name, "is not computed");
  const Value& value = found->second;
  if (value.is_known()) throw Error::input(output.name, "does not depend on data");
  const auto mean = [&](TensorId losses) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < builder_.type(losses).shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    builder_.op1("reduce_mean", {losses}, {{"axes", axes}}, ir::loss_name);
  };
  if (options_.loss == "cross_entropy") {
    const TensorId scores = with_classes_last(value);
    return mean(builder_.op("cross_entropy", {scores, labels_like(scores)}, {}, unique("losses"))[0]);
  }
  if (options_.loss == "mean_squared") {
    if (value.type.shape.empty() || value.type.shape[0] != batch_)
      throw Error::input(output.name, fmt::format("is {}, expected an output that begins with the batch",
                                                  ir::to_text(value.type)));
    const TensorId target = builder_.input(unique("targets"), value.type);
    const TensorId error = builder_.op1("sub", {value.tensor, target}, {}, unique("errors"));
    return mean(builder_.op1("mul", {error, error}, {}, unique("losses")));
  }
  if (value.type.elements() != 1 || value.type.dtype != DType::float32)
    throw Error::input(output.name, fmt::format("is {}, no loss (give --loss cross_entropy or mean_squared)",
                                                ir::to_text(value.type)));
  builder_.op1("reshape", {value.tensor}, {{"shape", ir::Shape{}}}, ir::loss_name);
}

}  // namespace boxcar::backends::onnx
