#include "planner/op_layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {

using sbp::NdSbp;
using sbp::Sbp;
using sbp::Signature;

std::vector<size_t> split_order(const OpLayout& layout) {
  const size_t dims = layout.signatures.size();
  std::vector<int8_t> inner(dims);
  for (const auto* operands : {&layout.inputs, &layout.outputs})
    for (const NdSbp& operand : *operands)
      for (size_t d = 0; d < dims; ++d) inner[d] = std::max(inner[d], operand[d].inner);
  std::vector<size_t> order(dims);
  for (size_t d = 0; d < dims; ++d) order[d] = d;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return inner[a] < inner[b]; });
  return order;
}

void take_part(ir::Types& types, const std::vector<Sbp>& layouts, int64_t parts, int64_t index) {
  for (size_t i = 0; i < types.size(); ++i)
    if (layouts[i].is_split()) {
      int64_t& extent = at(types[i].shape, layouts[i].axis);
      extent = sbp::part_range(extent, parts, index).size();
    }
}

namespace {

bool any_partial(const std::vector<Sbp>& layouts) {
  return std::any_of(layouts.begin(), layouts.end(), [](Sbp sbp) { return sbp.is_partial(); });
}

bool any_split(const std::vector<Sbp>& layouts) {
  return std::any_of(layouts.begin(), layouts.end(), [](Sbp sbp) { return sbp.is_split(); });
}

// Whether operands are cut in the order of the whole op.
bool follows_order(const OpLayout& layout, const std::vector<size_t>& order) {
  const auto follows = [&](const NdSbp& operand) {
    for (const std::vector<size_t>& cuts : sbp::split_order(operand)) {
      auto at = order.begin();
      for (const size_t d : cuts)
        if ((at = std::find(at, order.end(), d)) == order.end()) return false;
    }
    return true;
  };
  return std::all_of(layout.inputs.begin(), layout.inputs.end(), follows) &&
         std::all_of(layout.outputs.begin(), layout.outputs.end(), follows);
}

bool mixes_reductions(const std::vector<Sbp>& one, const std::vector<Sbp>& other) {
  for (size_t i = 0; i < one.size(); ++i)
    if (one[i].is_partial() && other[i].is_partial() && one[i].reduction != other[i].reduction) return true;
  return false;
}

// Whether `one` has an input that is P there and B in `other`, while `other` has P inputs.
bool multiplies_partials(const Signature& one, const Signature& other) {
  if (!any_partial(other.inputs)) return false;
  for (size_t i = 0; i < one.inputs.size(); ++i)
    if (one.inputs[i].is_partial() && other.inputs[i].is_broadcast()) return true;
  return false;
}

bool partials_go_together(const std::vector<Signature>& signatures) {
  for (const Signature& one : signatures)
    for (const Signature& other : signatures)
      if (&one != &other && (mixes_reductions(one.inputs, other.inputs) ||
                             mixes_reductions(one.outputs, other.outputs) || multiplies_partials(one, other)))
        return false;
  return true;
}

// One part's types and attributes.
struct Part {
  ir::Types inputs;
  ir::Attrs attrs;
  friend bool operator==(const Part&, const Part&) = default;
};

// Indices of parts that represent all: the ends, and both sides of the place where parts become smaller.
std::set<int64_t> some_indices(const ir::OpDef& def, const Part& part, const Signature& signature,
                               int64_t parts) {
  std::set<int64_t> indices = {0, 1, parts - 1};
  const auto add = [&](const ir::Types& types, const std::vector<Sbp>& layouts) {
    for (size_t i = 0; i < types.size(); ++i)
      if (layouts[i].is_split())
        if (const int64_t more = at(types[i].shape, layouts[i].axis) % parts; more > 0)
          indices.insert({more - 1, more});
  };
  add(part.inputs, signature.inputs);
  if (any_split(signature.outputs)) add(def.infer(part.inputs, part.attrs), signature.outputs);
  return indices;
}

// The parts of all `wholes`, each kind once.
std::vector<Part> cut(const ir::OpDef& def, const std::vector<Part>& wholes, const Signature& signature,
                      int64_t parts) {
  std::vector<Part> result;
  for (const Part& whole : wholes)
    for (const int64_t index : some_indices(def, whole, signature, parts)) {
      Part part{whole.inputs, ir::localize(def, whole.inputs, whole.attrs, signature, parts, index)};
      take_part(part.inputs, signature.inputs, parts, index);
      if (std::find(result.begin(), result.end(), part) == result.end()) result.push_back(std::move(part));
    }
  return result;
}

bool offers(const ir::OpDef& def, const std::vector<Part>& parts, const Signature& signature,
            int64_t devices) {
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    const std::vector<Signature> offered = ir::signatures(def, part.inputs, part.attrs, devices);
    return std::find(offered.begin(), offered.end(), signature) != offered.end();
  });
}

}  // namespace

bool is_legal(const ir::OpDef& def, const ir::Types& inputs, const ir::Attrs& attrs, const OpLayout& layout,
              const sbp::Shape& mesh) {
  const std::vector<size_t> order = split_order(layout);
  if (!follows_order(layout, order) || !partials_go_together(layout.signatures)) return false;
  std::vector<Part> parts = {{inputs, attrs}};
  for (size_t k = 0; k < order.size(); ++k) {
    const Signature& signature = layout.signatures[order[k]];
    const int64_t devices = mesh[order[k]];
    if (!offers(def, parts, signature, devices)) return false;
    const bool splits = any_split(signature.inputs) || any_split(signature.outputs);
    if (splits && k + 1 < order.size()) parts = cut(def, parts, signature, devices);
  }
  return true;
}

std::vector<OpLayout> legal_layouts(const ir::OpDef& def, const ir::Types& inputs, const ir::Attrs& attrs,
                                    const sbp::Shape& mesh) {
  std::vector<OpLayout> layouts(1);
  layouts[0].inputs.resize(inputs.size()), layouts[0].outputs.resize(def.infer(inputs, attrs).size());
  for (const int64_t devices : mesh) {
    std::vector<OpLayout> longer;
    for (const OpLayout& layout : layouts)
      for (const Signature& signature : ir::signatures(def, inputs, attrs, devices)) {
        OpLayout next = layout;
        for (size_t i = 0; i < inputs.size(); ++i) next.inputs[i].push_back(signature.inputs[i]);
        for (size_t o = 0; o < next.outputs.size(); ++o) next.outputs[o].push_back(signature.outputs[o]);
        next.signatures.push_back(signature);
        if (is_legal(def, inputs, attrs, next, mesh)) longer.push_back(std::move(next));
      }
    layouts = std::move(longer);
  }
  return layouts;
}

std::vector<Signature> offered(const ir::OpDef& def, const ir::Types& inputs, const ir::Attrs& attrs,
                               const Mesh& mesh, size_t d) {
  std::vector<Signature> all = ir::signatures(def, inputs, attrs, mesh.extents[d]);
  const auto local = attrs.find("local");
  if (local == attrs.end() || local->second == ir::Attr(false)) return all;
  ir::Attrs attrs_of_all = attrs;
  attrs_of_all["local"] = false;
  std::vector<Signature> whole = ir::signatures(def, inputs, attrs_of_all, mesh.extents[d]);
  if (mesh.names[d] == "tp" || mesh.names[d] == "cp") return whole;
  std::vector<Signature> own;
  for (Signature& signature : all)
    if (std::find(whole.begin(), whole.end(), signature) == whole.end()) own.push_back(std::move(signature));
  return own.empty() ? whole : own;
}

}  // namespace boxcar::planner
