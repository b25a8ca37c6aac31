#include "ir/op_kind.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace boxcar::ir {

OpKind kind_of(std::string_view op_type) {
  static constexpr std::pair<std::string_view, OpKind> kinds[] = {
      {"input", OpKind::input},
      {"parameter", OpKind::parameter},
      {"constant", OpKind::constant},
      {"to_global", OpKind::to_global},
      {"reshape", OpKind::alias},
      {"identity", OpKind::alias},
      {"cast", OpKind::cast},
      {"add", OpKind::sum},
      {"sum", OpKind::sum},
      {"accumulate", OpKind::accumulate},
      {"matmul", OpKind::product},
      {"matmul_bias", OpKind::product},
      {"matmul_add", OpKind::product},
      {"matmul_bias_gelu", OpKind::product},
      {"scaled_dot_product_attention", OpKind::attention},
      {"scaled_dot_product_attention_grad", OpKind::attention_grad},
      {"moe_dispatch", OpKind::dispatch},
      {"moe_combine", OpKind::combine},
      {"load", OpKind::load},
      {"read", OpKind::read},
      {"decode", OpKind::decode},
      {"save", OpKind::save},
      {"write", OpKind::write},
  };
  const auto* found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& row) { return row.first == op_type; });
  return found == std::end(kinds) ? OpKind::compute : found->second;
}

}  // namespace boxcar::ir
