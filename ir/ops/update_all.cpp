// Optimizers for many tensors in one act, which also writes copies of the weights in 16 bits (updates.h).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/ops/ops.h"
#include "ir/ops/optimizers.h"
#include "ir/ops/updates.h"

namespace boxcar::ir {
namespace {

Updates operands_of(const std::string& name, const Types& in, const Attrs& attrs) {
  const int64_t tensors = attr_int(attrs, "tensors");
  if (tensors < 1) refuse_attr(name, "tensors", attrs, "at least 1");
  Updates updates = *updates_of(name, attrs);
  const size_t least = updates.scalars_at();
  if (in.size() < least || in.size() > least + 2)
    throw Error::input(name, fmt::format("{} inputs, expected {} for each of {} tensors, then scale? finite?",
                                         in.size(), updates.operands, tensors));
  const Shape& copies = attr_ints(attrs, "copies");
  const auto rises = [](int64_t a, int64_t b) { return a >= b; };
  if (std::adjacent_find(copies.begin(), copies.end(), rises) != copies.end() ||
      (!copies.empty() && (copies.front() < 0 || copies.back() >= tensors)))
    refuse_attr(name, "copies", attrs, fmt::format("numbers of tensors, ascending, below {}", tensors));
  return updates;
}

// The types that one op per tensor would infer.
Types infer_all(const std::string& name, const Types& in, const Attrs& attrs) {
  const Updates updates = operands_of(name, in, attrs);
  const OpDef& one = op(updates.rule);
  Types out;
  for (size_t t = 0; t < updates.tensors; ++t)
    for (TensorType& type : one.infer(updates.of_tensor(in, t), attrs)) out.push_back(std::move(type));
  const DType to = parse_dtype(attr_text(attrs, "to"));
  for (const size_t t : updates.copies) out.push_back({in[updates.input(t, 0)].shape, to});
  return out;
}

sbp::IndexMap map_all(const std::string& name, const Types& in, const Attrs& attrs) {
  sbp::IndexMap map;
  for (const TensorType& type : in) map.inputs.emplace_back(type.shape.size(), "_");
  for (const TensorType& type : infer_all(name, in, attrs)) map.outputs.emplace_back(type.shape.size(), "_");
  return map;
}

constexpr size_t most_choices = 4096;

// Every choice of an axis, or none, for each tensor; tensors beyond a limit on the number of choices stay
// whole.
std::vector<sbp::Signature> splits_of_all(const std::string& name, const Types& in, const Attrs& attrs) {
  const Updates updates = operands_of(name, in, attrs);
  std::vector<std::vector<sbp::Sbp>> choices = {{}};  // by tensor
  for (size_t t = 0; t < updates.tensors; ++t) {
    const size_t rank = in[updates.input(t, 0)].shape.size();
    const int axes = choices.size() * (rank + 1) > most_choices ? 0 : static_cast<int>(rank);
    for (const std::vector<sbp::Sbp>& before : std::exchange(choices, {}))
      for (int axis = -1; axis < axes; ++axis) {
        choices.push_back(before);
        choices.back().push_back(axis < 0 ? sbp::Sbp::B() : sbp::Sbp::S(axis));
      }
  }
  std::vector<sbp::Signature> signatures;
  for (const std::vector<sbp::Sbp>& choice : choices) {
    sbp::Signature signature;
    for (const sbp::Sbp layout : choice) {
      signature.inputs.insert(signature.inputs.end(), updates.states() + 1, layout);
      if (updates.has_norms) signature.inputs.push_back(sbp::Sbp::B());
      signature.outputs.insert(signature.outputs.end(), updates.states(), layout);
    }
    for (const size_t t : updates.copies) signature.outputs.push_back(choice[t]);
    signature.inputs.resize(in.size(), sbp::Sbp::B());  // scalars
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

Work work_of_all(const OpDef& one, const Types& in, const Types& out, const Attrs& attrs) {
  const Updates updates = *updates_of(one.name + "_all", attrs);
  Work work{0, bytes_of(in) + bytes_of(out)};
  for (size_t t = 0; t < updates.tensors; ++t)
    work.flops += one.work(updates.of_tensor(in, t), {}, attrs).flops;
  return work;
}

// Samples with a factor, with a factor and a flag for finite gradients, and with neither.
std::vector<Sample> samples_of(const OpDef& one, const Extent& n) {
  const Sample single = one.samples(n)[2];
  const size_t operands = single.inputs.size();
  const bool has_norms = updates_of(one.name, {})->has_norms;
  const auto sample = [&](const std::vector<Shape>& shapes, size_t scalars, Shape copies) {
    Sample result{.inputs = {},
                  .attrs = {{"tensors", static_cast<int64_t>(shapes.size())}, {"copies", std::move(copies)}}};
    for (const Shape& shape : shapes) {
      result.inputs.insert(result.inputs.end(), operands, f32(shape));
      if (has_norms) result.inputs.back() = single.inputs.back();
      result.domains.insert(result.domains.end(), single.domains.begin(), single.domains.end());
      result.domains.resize(result.inputs.size());
    }
    if (scalars > 0) result.inputs.push_back(f32({})), result.domains.push_back({0.25, 2, 0.25});
    if (scalars > 1) result.inputs.push_back({{}, DType::boolean}), result.domains.push_back({0, 1, 1});
    return result;
  };
  const int64_t a = n(), b = n();
  std::vector<Sample> samples = {sample({{a, b}}, 1, {0}), sample({{b}}, 2, {0}), sample({{a}}, 0, {})};
  if (operands < 4) samples.push_back(sample({{a, b}, {a}}, 0, {1}));  // too many for law 1 with eight
  return samples;
}

}  // namespace

std::optional<Updates> updates_of(std::string_view name, const Attrs& attrs) {
  for (const OptimizerRow& row : optimizer_rows()) {
    const bool all = name == all_op(row);
    if (!all && name != row.name) continue;
    Updates updates{.rule = row.name, .operands = operands_of(row), .has_norms = row.has_trust()};
    if (!all) return updates;
    const Shape& copies = attr_ints(attrs, "copies");
    updates.tensors = static_cast<size_t>(attr_int(attrs, "tensors"));
    updates.copies.assign(copies.begin(), copies.end());
    return updates;
  }
  return {};
}

void add_update_all(std::vector<OpDef>& out) {
  for (const OpDef& one : std::vector<OpDef>(out.begin(), out.end())) {
    if (!updates_of(one.name, {})) continue;
    const std::string name = one.name + "_all";
    Attrs attrs = one.attrs;
    attrs.insert({{"tensors", int64_t{1}}, {"copies", Shape{}}, {"to", "bfloat16"}});
    out.push_back(
        {.name = name,
         .inputs = {"operands..."},
         .outputs = {"states..."},
         .attrs = std::move(attrs),
         .infer = [name](const Types& in, const Attrs& a) { return infer_all(name, in, a); },
         .index_map = [name](const Types& in, const Attrs& a) { return map_all(name, in, a); },
         .extra = [name](const Types& in, const Attrs& a, int64_t) { return splits_of_all(name, in, a); },
         .extra_reason = "each tensor is split along an axis of its own",
         .work = [one](const Types& in, const Types& result,
                       const Attrs& a) { return work_of_all(one, in, result, a); },
         .tolerance = one.tolerance,
         .samples = [one](const Extent& n) { return samples_of(one, n); },
         .omitted = {{"states are whole or split when they are updated, never parts of sums", has_partial}}});
  }
}

}  // namespace boxcar::ir
