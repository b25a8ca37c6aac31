#include "ir/ops/fused.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/ops.h"
#include "ir/ops/pointwise.h"
#include "ir/read_number.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

// In the order in which messages list them.
std::vector<std::string_view> fusable() {
  std::vector<std::string_view> ops = {"add", "sub", "mul", "div"};
  for (const PointwiseRow& row : pointwise_rows()) ops.emplace_back(row.name);
  ops.insert(ops.end(), {"scale", "cast", "identity", "dropout", "causal_mask"});
  return ops;
}

// Text between `open` and its closing bracket, from text[at] on. Moves `at` to after the bracket.
std::string_view bracketed(std::string_view text, size_t& at, char open, char close) {
  while (at < text.size() && text[at] == ' ') ++at;
  if (at >= text.size() || text[at] != open) return {};
  const size_t begin = at + 1, end = text.find(close, begin);
  if (end == std::string_view::npos) {
    at = std::string_view::npos;
    return {};
  }
  at = end + 1;
  return text.substr(begin, end - begin);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits at `separator` outside of [ ].
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != separator || depth > 0)) continue;
    if (const auto part = trimmed(text.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

[[noreturn]] void refuse_step(std::string_view step, const std::string& message) {
  throw Error::input("fused", fmt::format("program step \"{}\": {}", step, message));
}

FusedStep parse_step(std::string_view text, int values) {
  FusedStep step;
  size_t at = text.find('(');
  if (at == std::string_view::npos) refuse_step(text, "expected op(operands), such as add(0, 1)");
  step.op = trimmed(text.substr(0, at));
  if (!is_fusable(step.op))
    refuse_step(text, fmt::format("{} is not one of {}", step.op, fmt::join(fusable(), ", ")));
  for (const std::string_view operand : split(bracketed(text, at, '(', ')'), ',')) {
    const int value = read_number<int>(operand).value_or(-1);
    if (value < 0 || value >= values)
      refuse_step(text, fmt::format("operand {} is no value before it (0 to {})", operand, values - 1));
    step.operands.push_back(value);
  }
  const bool closed = at != std::string_view::npos;
  for (const std::string_view pair : split(bracketed(text, at, '{', '}'), ',')) {
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse_step(text, fmt::format("expected name=value, got {}", pair));
    step.attrs.emplace(trimmed(pair.substr(0, equals)), parse_attr(trimmed(pair.substr(equals + 1))));
  }
  if (!closed || at == std::string_view::npos) refuse_step(text, "a bracket is not closed");
  step.attrs = complete(op(step.op), step.attrs);
  if (!trimmed(text.substr(at)).empty()) refuse_step(text, "something stands after it");
  return step;
}

// --- the rows. The gradient takes dy before the inputs of the program.

FusedProgram program_of(const Types& in, const Attrs& attrs, size_t before) {
  return parse_fused(attr_text(attrs, "program"), in.size() - before);
}

Types operands_of(const FusedStep& step, const Types& values) {
  Types types;
  for (const int operand : step.operands) types.push_back(at(values, operand));
  return types;
}

// The types of all values.
Types infer_values(const char* name, const FusedProgram& program, Types values) {
  if (program.empty()) throw Error::input(name, "program is empty");
  const size_t inputs = values.size();
  for (const FusedStep& step : program) {
    values.push_back(op(step.op).infer(operands_of(step, values), step.attrs)[0]);
    if (!is_float(values.back().dtype)) refuse(name, step.op, values.back(), "a floating-point result");
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (i >= inputs && values[i].shape != values.back().shape)
      refuse(name, program[i - inputs].op, values[i], "the shape of every step", "the result", values.back());
  return values;
}

// The indices of a value that is broadcast to the result.
Indices aligned_indices(const TensorType& value, const TensorType& result) {
  const size_t rank = value.shape.size(), missing = result.shape.size() - rank;
  Indices names = indices("i", result.shape.size());
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(missing));
  for (size_t i = 0; i < rank; ++i)
    if (value.shape[i] == 1 && result.shape[missing + i] != 1) names[i] = "1";
  return names;
}

// Whether the result is jointly linear in the inputs of `set`, derived step by step.
bool linear_in(const FusedProgram& program, const Types& values, size_t inputs, uint32_t set) {
  enum Kind : char { constant, linear, other };
  std::vector<Kind> kinds;
  for (size_t i = 0; i < inputs; ++i) kinds.push_back((set >> i & 1) != 0 ? linear : constant);
  for (const FusedStep& step : program) {
    std::vector<int> moving;
    bool bad = false;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const Kind kind = at(kinds, step.operands[i]);
      if (kind == linear) moving.push_back(static_cast<int>(i));
      bad = bad || kind == other;
    }
    const auto map = op(step.op).index_map(operands_of(step, values), step.attrs);
    const bool keeps = std::any_of(map.linear.begin(), map.linear.end(), [&](std::vector<int> joint) {
      std::sort(joint.begin(), joint.end());
      return joint == moving;
    });
    kinds.push_back(bad ? other : moving.empty() ? constant : keeps ? linear : other);
  }
  return kinds.back() == linear;
}

sbp::IndexMap fused_map(const Types& in, const Attrs& attrs) {
  const FusedProgram program = program_of(in, attrs, 0);
  const Types values = infer_values("fused", program, in);
  sbp::IndexMap map;
  for (const TensorType& input : in) map.inputs.push_back(aligned_indices(input, values.back()));
  map.outputs = {indices("i", values.back().shape.size())};
  for (uint32_t set = 1; set < (1U << in.size()); ++set) {
    if (!linear_in(program, values, in.size(), set)) continue;
    map.linear.emplace_back();
    for (size_t i = 0; i < in.size(); ++i)
      if ((set >> i & 1) != 0) map.linear.back().push_back(static_cast<int>(i));
  }
  return map;
}

sbp::IndexMap fused_grad_map(const Types& in, const Attrs&) {
  sbp::IndexMap map;
  for (const TensorType& input : in) map.inputs.push_back(aligned_indices(input, in[0]));
  map.outputs.assign(in.size() - 1, map.inputs[0]);
  map.linear = {{0}};
  return map;
}

// Sets the position of this part in the global tensor for steps that depend on it (dropout, masks).
Attrs localize_steps(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                     int64_t index, size_t before) {
  FusedProgram program = program_of(in, attrs, before);
  const Types inputs(in.begin() + static_cast<std::ptrdiff_t>(before), in.end());
  const Types values = infer_values("fused", program, inputs);
  sbp::Sbp whole = sbp::Sbp::B();  // the layout of every step
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const sbp::Sbp input = signature.inputs[before + i]; input.is_split())
      whole = sbp::Sbp::S(input.axis + static_cast<int>(values.back().shape.size() - inputs[i].shape.size()));
  std::vector<sbp::Sbp> layouts(values.size(), whole);
  std::copy(signature.inputs.begin() + static_cast<std::ptrdiff_t>(before), signature.inputs.end(),
            layouts.begin());
  for (FusedStep& step : program) {
    sbp::Signature inner{{}, {whole}};
    for (const int operand : step.operands) inner.inputs.push_back(at(layouts, operand));
    step.attrs = localize(op(step.op), operands_of(step, values), step.attrs, inner, parts, index);
  }
  return with(attrs, "program", part_text(program));
}

const char* const chain = "add(0, 1); tanh(3); dropout(4) {p=0.1}; mul(5, 2)";
const char* const masked = "scale(0) {factor=0.5}; causal_mask(1) {fill=-9.0}; dropout(2) {p=0.5}";
const char* const curve = "mul(0, 1); scale(2) {factor=2.0}; gelu(3) {tanh=true}; gelu(4)";

std::vector<Sample> fused_samples(const Extent& n, bool grad) {
  const int64_t a = n(), b = n(), c = n();
  std::vector<Sample> samples = {
      {.inputs = {f32({a, b}), f32({b}), f32({a, b})}, .attrs = {{"program", chain}}},
      {.inputs = {f32({a, b, c}), f32({a, 1, c})}, .attrs = {{"program", curve}}},
      {.inputs = {f32({a, b, c})}, .attrs = {{"program", masked}}},
  };
  if (!grad)
    samples.push_back(
        {.inputs = {f32({a, b}), f32({a, b})}, .attrs = {{"program", "add(0, 1); scale(2) {factor=2.0}"}}});
  if (grad)
    for (Sample& sample : samples) sample.inputs.insert(sample.inputs.begin(), sample.inputs[0]);
  return samples;
}

Work fused_work(const Types& in, const Types& out, const Attrs& attrs) {
  const auto steps = static_cast<double>(split(attr_text(attrs, "program"), ';').size());
  return {steps * static_cast<double>(out[0].elements()), bytes_of(in) + bytes_of(out)};
}

OpDef fused() {
  return {.name = "fused",
          .inputs = {"xs..."},
          .outputs = {"y"},
          .attrs = {{"program", ""}},
          .infer = [](const Types& in, const Attrs& attrs) -> Types {
            return {infer_values("fused", program_of(in, attrs, 0), in).back()};
          },
          .index_map = fused_map,
          .localize = [](const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                         int64_t index) { return localize_steps(in, attrs, signature, parts, index, 0); },
          .work = fused_work,
          .tolerance = 1e-9,
          .samples = [](const Extent& n) { return fused_samples(n, false); },
          .omitted = {{"maxima and minima are not followed through a chain", has_extremum}}};
}

// dxs[i] has the shape of the result: another op sums the gradients of broadcast inputs.
OpDef fused_grad() {
  return {.name = "fused_grad",
          .inputs = {"dy", "xs..."},
          .outputs = {"dxs..."},
          .attrs = {{"program", ""}},
          .infer = [](const Types& in, const Attrs& attrs) -> Types {
            const Types inputs(in.begin() + 1, in.end());
            const Types values = infer_values("fused_grad", program_of(in, attrs, 1), inputs);
            same_shape("fused_grad", "dy", in[0], "the result", values.back());
            Types out;
            for (const TensorType& input : inputs) out.push_back({values.back().shape, input.dtype});
            return out;
          },
          .index_map = fused_grad_map,
          .localize = [](const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                         int64_t index) { return localize_steps(in, attrs, signature, parts, index, 1); },
          .work = fused_work,
          .tolerance = 1e-9,
          .samples = [](const Extent& n) { return fused_samples(n, true); },
          .omitted = {{"only dy is followed through the gradient of a chain", has_partial}}};
}

// Attributes that are not defaults, and those named in `always`.
std::string text_of(const FusedProgram& program, const std::vector<std::string_view>& always) {
  std::string text;
  for (const FusedStep& step : program) {
    text += fmt::format("{}{}({})", text.empty() ? "" : "; ", step.op, fmt::join(step.operands, ", "));
    std::string attrs;
    const Attrs& usual = op(step.op).attrs;
    for (const auto& [name, value] : step.attrs) {
      const auto found = usual.find(name);
      const bool is_usual = found != usual.end() && found->second == value;
      if (is_usual && std::find(always.begin(), always.end(), name) == always.end()) continue;
      const auto* word = std::get_if<std::string>(&value);
      attrs += fmt::format("{}{}={}", attrs.empty() ? "" : ", ", name, word ? *word : to_text(value));
    }
    if (!attrs.empty()) text += " {" + attrs + "}";
  }
  return text;
}

}  // namespace

bool is_fusable(std::string_view op) {
  static const std::vector<std::string_view> ops = fusable();
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

std::string to_text(const FusedProgram& program) { return text_of(program, {}); }

std::string part_text(const FusedProgram& program) {
  return text_of(program, {"column_offset", "row_offset"});
}

FusedProgram parse_fused(std::string_view text, size_t inputs) {
  FusedProgram program;
  for (const std::string_view step : split(text, ';'))
    program.push_back(parse_step(step, static_cast<int>(inputs + program.size())));
  return program;
}

void add_fused_ops(std::vector<OpDef>& out) {
  out.push_back(fused());
  out.push_back(fused_grad());
}

}  // namespace boxcar::ir
