// Reads the text form of graphs: see ir/graph.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "ir/graph.h"
#include "ir/graph_line.h"
#include "sbp/words.h"

namespace boxcar::ir {
namespace {

constexpr Role roles[] = {Role::activation, Role::input,     Role::parameter,
                          Role::gradient,   Role::optimizer, Role::constant};
constexpr Phase phases[] = {Phase::forward, Phase::backward, Phase::update};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph run() {
    bool headed = false;
    for (int number = 1; !text_.empty(); ++number) {
      GraphLine line(next_line(), number);
      if (line.ended() || line.peek('#')) continue;
      if (!headed) {
        head(line);
        headed = true;
      } else if (line.peek('%')) {
        op_line(line);
      } else {
        word_line(line);
      }
      if (!line.ended()) line.fail("expected the end of the line");
    }
    if (!headed) throw Error::input("graph:1:1", "expected 'graph NAME', got the end of the text");
    return std::move(graph_);
  }

 private:
  std::string_view next_line() {
    const size_t end = text_.find('\n');
    std::string_view line = text_.substr(0, end);
    text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
  }

  void head(GraphLine& line) {
    if (line.name("'graph NAME'") != "graph") line.fail_at(0, "expected 'graph NAME' first");
    graph_.name = line.name("a name");
    if (line.ended()) return;
    const size_t begin = line.at();
    if (line.name("'layers='") != "layers") line.fail_at(begin, "expected 'layers=' or the end of the line");
    line.expect('=');
    const size_t at_number = line.at();
    graph_.layers = line.number();
    if (graph_.layers < 0) line.fail_at(at_number, "expected 0 layers or more");
  }

  void word_line(GraphLine& line) {
    const size_t begin = line.at();
    const std::string_view word = line.name("'%', 'placement' or 'update'");
    if (word == "placement") {
      const std::string expected = fmt::format("p{}", graph_.placements.size());
      const size_t at_name = line.at();
      if (line.name("a placement's name") != expected)
        line.fail_at(at_name, "expected placement " + expected);
      line.expect('=');
      const size_t at = line.at();
      const std::string_view text = line.until("");
      graph_.placements.push_back(line.guarded(at, [&] { return sbp::parse_placement(text); }));
    } else if (word == "update") {
      const auto end = static_cast<TensorId>(graph_.tensors.size());
      const TensorId state = operand(line, end);
      line.expect('=');
      graph_.updates.push_back({state, operand(line, end)});
    } else {
      line.fail_at(begin, fmt::format("unknown word '{}' (use placement, update or %name)", word));
    }
  }

  // A tensor with an id below `end`, from the lines above.
  TensorId operand(GraphLine& line, TensorId end) {
    line.expect('%');
    const size_t begin = line.at();
    const std::string name(line.name("a tensor's name"));
    const auto found = ids_.find(name);
    if (found == ids_.end() || found->second >= end)
      line.fail_at(begin, fmt::format("%{} is not defined above", name));
    return found->second;
  }

  void op_line(GraphLine& line) {
    Op op;
    const auto id = static_cast<OpId>(graph_.ops.size());
    bool typed = true;
    do {
      op.outputs.push_back(define(line, id, static_cast<int>(op.outputs.size()), typed));
    } while (line.accept(','));
    line.expect('=');
    const size_t type_at = line.at();
    op.type = line.name("an op");
    const bool registered = has_op(op.type);
    if (!registered && !is_special(op.type)) line.guarded(type_at, [&] { ir::op(op.type); });
    line.expect('(');
    if (!line.peek(')')) do
        op.inputs.push_back(operand(line, op.outputs[0]));
      while (line.accept(','));
    line.expect(')');
    const size_t attrs_at = line.at();
    if (line.accept('{')) attributes(line, op);
    if (registered) op.attrs = line.guarded(attrs_at, [&] { return complete(ir::op(op.type), op.attrs); });
    if (!typed) infer_types(line, type_at, id, op);
    op.name = graph_.tensor(op.outputs[0]).name;
    for (TensorId output : op.outputs) graph_.tensor(output).role = usual_role(op.type);
    tail(line, op);
    graph_.ops.push_back(std::move(op));
  }

  // Sets `typed` to false if the type is omitted.
  TensorId define(GraphLine& line, OpId producer, int output, bool& typed) {
    line.expect('%');
    const size_t begin = line.at();
    const std::string name(line.name("a tensor's name"));
    TensorType type;
    if (line.accept(':'))
      type = line.type();
    else
      typed = false;
    return define(line, begin, {name, type, producer, output});
  }

  TensorId define(const GraphLine& line, size_t begin, Tensor tensor) {
    const auto id = static_cast<TensorId>(graph_.tensors.size());
    if (!ids_.emplace(tensor.name, id).second)
      line.fail_at(begin, fmt::format("%{} is defined twice", tensor.name));
    graph_.tensors.push_back(std::move(tensor));
    return id;
  }

  void infer_types(const GraphLine& line, size_t at, OpId id, Op& op) {
    const std::string first = graph_.tensor(op.outputs[0]).name;
    if (is_special(op.type))
      line.fail_at(at, fmt::format("{} needs a type: %{}: float32[4, 5]", op.type, first));
    const OpDef& def = ir::op(op.type);
    Types operands;
    for (const TensorId input : op.inputs) operands.push_back(graph_.tensor(input).type);
    const Types results = line.guarded(at, [&] { return def.infer(operands, op.attrs); });
    if (op.outputs.size() > results.size())
      line.fail_at(at, fmt::format("{} results, {} gives {}", op.outputs.size(), op.type, results.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      if (i < op.outputs.size())
        graph_.tensor(op.outputs[i]).type = results[i];
      else
        op.outputs.push_back(
            define(line, at, {output_name(def, first, i), results[i], id, static_cast<int>(i)}));
    }
  }

  void attributes(GraphLine& line, Op& op) {
    if (line.accept('}')) return;
    do {
      const size_t begin = line.at();
      const std::string name(line.name("an attribute"));
      line.expect('=');
      const size_t at = line.at();
      const std::string_view text = line.until(",}");
      Attr attr = line.guarded(at, [&] { return parse_attr(text); });
      if (!op.attrs.emplace(name, std::move(attr)).second)
        line.fail_at(begin, fmt::format("attribute {} stands twice", name));
    } while (line.accept(','));
    line.expect('}');
  }

  void tail(GraphLine& line, Op& op) {
    if (line.accept('@')) placement(line, op);
    while (!line.ended()) {
      const size_t begin = line.at();
      if (line.peek('(') || line.peek('-')) {
        layouts(line, op);
        continue;
      }
      GraphLine ahead = line;
      const std::string_view word = ahead.name("a layout or a key");
      if (ahead.accept('=')) {
        line = ahead;
        key(line, op, begin, word);
      } else if (word == "core") {
        line = ahead;
        op.module = Module::core_attn;
      } else if (bool* mark = mark_of(op, word)) {
        line = ahead;
        *mark = true;
      } else {
        layouts(line, op);
      }
    }
  }

  static bool* mark_of(Op& op, std::string_view word) {
    if (word == "runs_again") return &op.runs_again;
    return word == "recomputed" ? &op.recomputed : nullptr;
  }

  void placement(GraphLine& line, Op& op) {
    const size_t begin = line.at();
    const std::string_view name = line.name("a placement");
    for (size_t i = 0; i < graph_.placements.size(); ++i)
      if (name == fmt::format("p{}", i)) op.placement = static_cast<int>(i);
    if (op.placement < 0) line.fail_at(begin, fmt::format("placement {} is not defined above", name));
  }

  void layouts(GraphLine& line, Op& op) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (i > 0) line.expect(',');
      if (!line.accept('-')) graph_.tensor(op.outputs[i]).sbp = line.layout();
    }
  }

  void key(GraphLine& line, Op& op, size_t begin, std::string_view word) {
    if (word == "to") {
      op.to_sbp = line.layout();
    } else if (word == "replica_of") {
      op.replica_of = line.name("a parameter");
    } else if (word == "name") {
      op.name = line.name("an op's name");
    } else if (word == "layer") {
      op.layer = line.number();
    } else if (word == "phase") {
      op.phase = value_of(line, phases);
    } else if (word == "module") {
      op.module = module(line);
    } else if (word == "role") {
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (i > 0) line.expect(',');
        graph_.tensor(op.outputs[i]).role = value_of(line, roles);
      }
    } else {
      line.fail_at(
          begin,
          fmt::format(
              "unknown key '{}' (use to, replica_of, name, role, layer, phase, module, core, runs_again or "
              "recomputed)",
              word));
    }
  }

  static Module module(GraphLine& line) {
    const size_t begin = line.at();
    const std::string_view text = line.name("a module");
    if (const std::optional<Module> found = parse_word<Module>(text)) return *found;
    line.fail_at(begin, fmt::format("unknown '{}' (use {})", text, fmt::join(words_of(Module()), ", ")));
  }

  template <typename Value, size_t count>
  static Value value_of(GraphLine& line, const Value (&values)[count]) {
    const size_t begin = line.at();
    const std::string_view word = line.name("a value");
    std::string known;
    for (Value value : values) {
      if (word == to_text(value)) return value;
      known += (known.empty() ? "" : ", ") + std::string(to_text(value));
    }
    line.fail_at(begin, fmt::format("unknown '{}' (use {})", word, known));
  }

  std::string_view text_;
  Graph graph_;
  std::unordered_map<std::string, TensorId> ids_;
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).run(); }

}  // namespace boxcar::ir
