// The text form of graphs: see ir/graph.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "ir/graph.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

constexpr Role roles[] = {Role::activation, Role::input, Role::parameter, Role::gradient, Role::optimizer, Role::constant};
constexpr Phase phases[] = {Phase::forward, Phase::backward, Phase::update};

// The role of an output whose line says nothing of it.
Role default_role(std::string_view op_type) {
  if (op_type == "input") return Role::input;
  if (op_type == "parameter") return Role::parameter;
  if (op_type == "constant") return Role::constant;
  return Role::activation;
}

void write_layouts(const Graph& graph, const Op& op, std::string& out) {
  const auto pinned = [&](TensorId id) { return graph.tensor(id).sbp.has_value(); };
  if (std::none_of(op.outputs.begin(), op.outputs.end(), pinned)) return;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const auto& sbp = graph.tensor(op.outputs[i]).sbp;
    out += (i == 0 ? " " : ", ") + (sbp ? sbp::to_text(*sbp) : "-");
  }
}

void write_roles(const Graph& graph, const Op& op, std::string& out) {
  const Role usual = default_role(op.type);
  const auto is_usual = [&](TensorId id) { return graph.tensor(id).role == usual; };
  if (std::all_of(op.outputs.begin(), op.outputs.end(), is_usual)) return;
  out += " role=";
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (i > 0) out += ",";
    out += to_text(graph.tensor(op.outputs[i]).role);
  }
}

// Those that are not the op's defaults.
Attrs telling_attrs(const Op& op) {
  if (!has_op(op.type)) return op.attrs;
  const Attrs& usual = ir::op(op.type).attrs;
  Attrs telling;
  for (const auto& [name, value] : op.attrs) {
    const auto found = usual.find(name);
    if (found == usual.end() || found->second != value) telling.emplace(name, value);
  }
  return telling;
}

void write_op(const Graph& graph, const Op& op, std::string& out) {
  auto to = std::back_inserter(out);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.outputs[i]);
    fmt::format_to(to, "{}%{}: {}", i == 0 ? "" : ", ", tensor.name, to_text(tensor.type));
  }
  fmt::format_to(to, " = {}(", op.type);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    fmt::format_to(to, "{}%{}", i == 0 ? "" : ", ", graph.tensor(op.inputs[i]).name);
  out += ")";
  if (const Attrs attrs = telling_attrs(op); !attrs.empty()) out += " " + to_text(attrs);
  if (op.placement >= 0) fmt::format_to(to, " @p{}", op.placement);
  write_layouts(graph, op, out);
  if (op.to_sbp) out += " to=" + sbp::to_text(*op.to_sbp);
  if (op.outputs.empty() || op.name != graph.tensor(op.outputs[0]).name) out += " name=" + op.name;
  write_roles(graph, op, out);
  if (op.layer != -1) fmt::format_to(to, " layer={}", op.layer);
  if (op.phase != Phase::forward) fmt::format_to(to, " phase={}", to_text(op.phase));
  if (op.recomputed) out += " recomputed";
  out += "\n";
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
         c == '/';
}

// A place in one line of the text; errors say where.
class Line {
 public:
  Line(std::string_view graph, std::string_view text, int number) : graph_(graph), text_(text), number_(number) {}

  [[noreturn]] void fail(const std::string& message) const { fail_at(at_, message); }
  [[noreturn]] void fail_at(size_t at, const std::string& message) const {
    throw Error::input(fmt::format("{}:{}:{}", graph_, number_, at + 1), message);
  }

  // Runs `parse`; its error gets this line and column `begin`.
  template <typename Parse>
  auto guarded(size_t begin, Parse parse) const -> decltype(parse()) {
    try {
      return parse();
    } catch (const Error& error) {
      fail_at(begin, error.what());
    }
  }

  void spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool ended() {
    spaces();
    return at_ == text_.size();
  }
  bool peek(char c) {
    spaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}', got {}", c, rest()));
  }
  std::string_view name(const char* what) {
    spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (begin == at_) fail(fmt::format("expected {}, got {}", what, rest()));
    return text_.substr(begin, at_ - begin);
  }
  // Up to one of `stops` outside brackets and quotes.
  std::string_view until(std::string_view stops) {
    spaces();
    const size_t begin = at_;
    int depth = 0;
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quoted && c == '\\') ++at_;  // what follows is taken as it is
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (depth == 0 && stops.find(c) != std::string_view::npos) break;
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
    }
    return text_.substr(begin, at_ - begin);
  }
  // A type: "float32" or "float32[4, 5]".
  TensorType type() {
    spaces();
    const size_t begin = at_;
    name("a type");
    if (at_ < text_.size() && text_[at_] == '[')
      while (at_ < text_.size() && text_[at_++] != ']') {
      }
    return guarded(begin, [&] { return parse_tensor_type(text_.substr(begin, at_ - begin)); });
  }
  sbp::NdSbp layout() {
    spaces();
    const size_t begin = at_;
    if (!peek('(')) name("a layout");
    if (peek('(')) {
      int depth = 0;
      for (; at_ < text_.size(); ++at_) {
        if (text_[at_] == '(') ++depth;
        if (text_[at_] == ')' && --depth == 0) break;
      }
      if (at_ < text_.size()) ++at_;
    }
    return guarded(begin, [&] { return sbp::parse_nd_sbp(text_.substr(begin, at_ - begin)); });
  }
  int number() {
    spaces();
    const size_t begin = at_;
    int value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail_at(begin, fmt::format("expected a number, got {}", rest()));
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  size_t at() {  // of what comes next
    spaces();
    return at_;
  }

 private:
  std::string rest() const {
    return at_ >= text_.size() ? "the end of the line" : fmt::format("'{}'", text_.substr(at_, 20));
  }

  std::string_view graph_, text_;
  int number_;
  size_t at_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph run() {
    bool headed = false;
    for (int number = 1; !text_.empty(); ++number) {
      Line line("graph", next_line(), number);
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

  void head(Line& line) {
    if (line.name("'graph NAME'") != "graph") line.fail_at(0, "expected 'graph NAME' first");
    graph_.name = line.name("a name");
    if (line.ended()) return;
    const size_t begin = line.at();
    if (line.name("'layers='") != "layers") line.fail_at(begin, "expected 'layers=' or the end of the line");
    line.expect('=');
    graph_.layers = line.number();
  }

  void word_line(Line& line) {
    const size_t begin = line.at();
    const std::string_view word = line.name("'%', 'placement' or 'update'");
    if (word == "placement") {
      const std::string expected = fmt::format("p{}", graph_.placements.size());
      const size_t at_name = line.at();
      if (line.name("a placement's name") != expected) line.fail_at(at_name, "expected placement " + expected);
      line.expect('=');
      const size_t at = line.at();
      const std::string_view text = line.until("");
      graph_.placements.push_back(line.guarded(at, [&] { return sbp::parse_placement(text); }));
    } else if (word == "update") {
      const TensorId state = operand(line);
      line.expect('=');
      graph_.updates.push_back({state, operand(line)});
    } else {
      line.fail_at(begin, fmt::format("unknown word '{}' (use placement, update or %name)", word));
    }
  }

  TensorId operand(Line& line) {
    line.expect('%');
    const size_t begin = line.at();
    const std::string name(line.name("a tensor's name"));
    const auto found = ids_.find(name);
    if (found == ids_.end()) line.fail_at(begin, fmt::format("%{} is not defined above", name));
    return found->second;
  }

  void op_line(Line& line) {
    Op op;
    const auto id = static_cast<OpId>(graph_.ops.size());
    do {
      op.outputs.push_back(define(line, id, static_cast<int>(op.outputs.size())));
    } while (line.accept(','));
    line.expect('=');
    const size_t type_at = line.at();
    op.type = line.name("an op");
    const bool registered = has_op(op.type);
    if (!registered && !is_special(op.type))
      line.guarded(type_at, [&] { ir::op(op.type); });
    line.expect('(');
    if (!line.peek(')')) do op.inputs.push_back(operand(line));
      while (line.accept(','));
    line.expect(')');
    const size_t attrs_at = line.at();
    if (line.accept('{')) attributes(line, op);
    if (registered) op.attrs = line.guarded(attrs_at, [&] { return complete(ir::op(op.type), op.attrs); });
    op.name = graph_.tensor(op.outputs[0]).name;
    for (TensorId output : op.outputs) graph_.tensor(output).role = default_role(op.type);
    tail(line, op);
    graph_.ops.push_back(std::move(op));
  }

  static bool is_special(std::string_view type) {
    return type == "input" || type == "parameter" || type == "constant" || type == "to_global";
  }

  TensorId define(Line& line, OpId producer, int output) {
    line.expect('%');
    const size_t begin = line.at();
    Tensor tensor;
    tensor.name = line.name("a tensor's name");
    line.expect(':');
    tensor.type = line.type();
    tensor.producer = producer;
    tensor.output = output;
    const auto id = static_cast<TensorId>(graph_.tensors.size());
    if (!ids_.emplace(tensor.name, id).second) line.fail_at(begin, fmt::format("%{} is defined twice", tensor.name));
    graph_.tensors.push_back(std::move(tensor));
    return id;
  }

  void attributes(Line& line, Op& op) {
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

  void tail(Line& line, Op& op) {
    if (line.accept('@')) placement(line, op);
    while (!line.ended()) {
      const size_t begin = line.at();
      if (line.peek('(') || line.peek('-')) {
        layouts(line, op);
        continue;
      }
      Line ahead = line;
      const std::string_view word = ahead.name("a layout or a key");
      if (ahead.accept('=')) {
        line = ahead;
        key(line, op, begin, word);
      } else if (word == "recomputed") {
        line = ahead;
        op.recomputed = true;
      } else {
        layouts(line, op);
      }
    }
  }

  void placement(Line& line, Op& op) {
    const size_t begin = line.at();
    const std::string_view name = line.name("a placement");
    for (size_t i = 0; i < graph_.placements.size(); ++i)
      if (name == fmt::format("p{}", i)) op.placement = static_cast<int>(i);
    if (op.placement < 0) line.fail_at(begin, fmt::format("placement {} is not defined above", name));
  }

  void layouts(Line& line, Op& op) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (i > 0) line.expect(',');
      if (!line.accept('-')) graph_.tensor(op.outputs[i]).sbp = line.layout();
    }
  }

  void key(Line& line, Op& op, size_t begin, std::string_view word) {
    if (word == "to") {
      op.to_sbp = line.layout();
    } else if (word == "name") {
      op.name = line.name("an op's name");
    } else if (word == "layer") {
      op.layer = line.number();
    } else if (word == "phase") {
      op.phase = value_of(line, phases);
    } else if (word == "role") {
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (i > 0) line.expect(',');
        graph_.tensor(op.outputs[i]).role = value_of(line, roles);
      }
    } else {
      line.fail_at(begin, fmt::format("unknown key '{}' (use to, name, role, layer, phase or recomputed)", word));
    }
  }

  template <typename Value, size_t count>
  static Value value_of(Line& line, const Value (&values)[count]) {
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

std::string to_text(const Graph& graph) {
  std::string out = "graph " + graph.name;
  if (graph.layers > 0) out += fmt::format(" layers={}", graph.layers);
  out += "\n";
  for (size_t i = 0; i < graph.placements.size(); ++i)
    out += fmt::format("placement p{} = {}\n", i, sbp::to_text(graph.placements[i]));
  for (const Op& op : graph.ops) write_op(graph, op, out);
  for (const Update& update : graph.updates)
    out += fmt::format("update %{} = %{}\n", graph.tensor(update.state).name, graph.tensor(update.next).name);
  return out;
}

Graph parse_graph(std::string_view text) { return Parser(text).run(); }

}  // namespace boxcar::ir
