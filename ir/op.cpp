#include "ir/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ir/limits.h"
#include "ir/ops/ops.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::ir {
namespace {

constexpr auto kGroups = {add_matmul_ops, add_elementwise_ops, add_reduce_ops, add_shape_ops,
                          add_index_ops,  add_update_ops,      add_nn_ops,     add_attention_ops,
                          add_conv_ops,   add_packed_ops,      add_fused_ops};

// The numbers of inputs that a row allows.
struct Arity {
  size_t least = 0, most = 0;
};

Arity arity(const OpDef& def) {
  Arity result;
  for (const std::string& operand : def.inputs) {
    if (operand.ends_with("...")) {
      ++result.least;
      result.most = SIZE_MAX;
      break;
    }
    if (!operand.ends_with("?")) ++result.least;
    ++result.most;
  }
  return result;
}

void check_arity(const std::string& name, const std::string& operands, Arity allowed, const Types& inputs) {
  if (inputs.size() >= allowed.least && inputs.size() <= allowed.most) return;
  std::vector<std::string> types;
  for (const TensorType& type : inputs) types.push_back(to_text(type));
  throw Error::input(name, fmt::format("got {} operand{} ({}), expected ({})", inputs.size(),
                                       inputs.size() == 1 ? "" : "s", fmt::join(types, ", "), operands));
}

void check_types(const std::string& name, const char* verb, const Types& types) {
  for (const TensorType& type : types)
    if (const std::string flaw = flaw_of(type); !flaw.empty())
      throw Error::input(name, fmt::format("{} {}: {}", verb, to_text(type), flaw));
}

void check_attrs(const std::string& name, const Attrs& attrs) {
  const auto within = [](int64_t value) { return -most_extent <= value && value <= most_extent; };
  for (const auto& [attr, value] : attrs) {
    const auto* number = std::get_if<int64_t>(&value);
    const auto* list = std::get_if<std::vector<int64_t>>(&value);
    if ((number && !within(*number)) || (list && !std::all_of(list->begin(), list->end(), within)))
      refuse_attr(name, attr, attrs, fmt::format("numbers from {} to {}", -most_extent, most_extent));
  }
}

// Numbers of a graph or plan may be untrusted. Values that a row computes from numbers that pass here, and
// from its own results, fit in 64 bits.
void guard(OpDef& def) {
  def.infer = [name = def.name, operands = fmt::format("{}", fmt::join(def.inputs, ", ")),
               allowed = arity(def), infer = std::move(def.infer)](const Types& inputs, const Attrs& attrs) {
    check_arity(name, operands, allowed, inputs);
    check_types(name, "takes", inputs);
    check_attrs(name, attrs);
    Types outputs = infer(inputs, attrs);
    check_types(name, "makes", outputs);
    return outputs;
  };
}

std::vector<OpDef> build_registry() {
  std::vector<OpDef> ops;
  for (auto add : kGroups) add(ops);
  std::sort(ops.begin(), ops.end(), [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  for (OpDef& def : ops) guard(def);
  return ops;
}

const std::vector<OpDef>& registry() {
  static const std::vector<OpDef> ops = build_registry();
  return ops;
}

// Few names agree in all four values. Speed matters because passes look up thousands of ops.
struct NameHash {
  size_t operator()(std::string_view name) const {
    if (name.empty()) return 0;
    const auto at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(name[i])); };
    return name.size() + 37 * (at(0) + 37 * (at(name.size() / 2) + 37 * at(name.size() - 1)));
  }
};

const OpDef* find(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const OpDef*, NameHash> ops;
    for (const OpDef& def : registry()) ops.emplace(def.name, &def);
    return ops;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const OpDef& def : registry()) all.push_back(def.name);
  return all;
}

std::string known_attrs(const OpDef& def) {
  if (def.attrs.empty()) return "it has none";
  std::string text;
  for (const auto& entry : def.attrs) text += (text.empty() ? "known are " : ", ") + entry.first;
  return text;
}

// An integer may stand for a float; everything else must be of the same kind.
Attr convert(const OpDef& def, const std::string& name, const Attr& wanted, const Attr& given) {
  if (wanted.index() == given.index()) return given;
  if (std::holds_alternative<double>(wanted) && std::holds_alternative<int64_t>(given)) {
    return static_cast<double>(std::get<int64_t>(given));
  }
  static constexpr const char* kKinds[] = {"an integer", "a number", "true or false", "a text",
                                           "a list of integers"};
  throw Error::input(
      def.name, fmt::format("attribute {} is {}, expected {}", name, to_text(given), kKinds[wanted.index()]));
}

}  // namespace

const OpDef& op(std::string_view name) {
  if (const OpDef* def = find(name)) return *def;
  throw Error::input(std::string(name), "no such op" + did_you_mean(name, names()));
}

bool has_op(std::string_view name) { return find(name) != nullptr; }

std::span<const OpDef> all_ops() { return registry(); }

Attrs complete(const OpDef& def, const Attrs& attrs) {
  Attrs full = def.attrs;
  for (const auto& [name, value] : attrs) {
    auto known = full.find(name);
    if (known == full.end()) {
      throw Error::input(def.name, fmt::format("no attribute {}; {}", name, known_attrs(def)));
    }
    known->second = convert(def, name, known->second, value);
  }
  return full;
}

std::vector<sbp::Signature> signatures(const OpDef& def, const Types& inputs, const Attrs& attrs,
                                       int64_t parts) {
  std::vector<sbp::Signature> all = sbp::derive(def.index_map(inputs, attrs));
  if (!def.extra) return all;
  for (sbp::Signature& signature : def.extra(inputs, attrs, parts)) {
    if (std::find(all.begin(), all.end(), signature) == all.end()) all.push_back(std::move(signature));
  }
  return all;
}

Attrs localize(const OpDef& def, const Types& inputs, const Attrs& attrs, const sbp::Signature& signature,
               int64_t parts, int64_t index) {
  return def.localize ? def.localize(inputs, attrs, signature, parts, index) : attrs;
}

Work work(const OpDef& def, const Types& inputs, const Types& outputs, const Attrs& attrs) {
  return def.work ? def.work(inputs, outputs, attrs) : Work{0, bytes_of(inputs) + bytes_of(outputs)};
}

}  // namespace boxcar::ir
