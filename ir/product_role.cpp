#include "ir/product_role.h"

#include "ir/op_kind.h"

namespace boxcar::ir {
namespace {

bool has_true(const Attrs& attrs, const char* name) {
  const auto found = attrs.find(name);
  return found != attrs.end() && std::get<bool>(found->second);
}

}  // namespace

ProductRole role_of(const OpDef& def, const Attrs& attrs) {
  const OpKind kind = kind_of(def.name);
  if (kind == OpKind::weight_grad || kind == OpKind::weight_grad_with_bias || has_true(attrs, "transpose_a"))
    return ProductRole::weight_grad;
  return has_true(attrs, "transpose_b") ? ProductRole::input_grad : ProductRole::forward;
}

}  // namespace boxcar::ir
