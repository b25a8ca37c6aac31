#include "ir/op_kind.h"

#include <array>
#include <utility>

namespace boxcar::ir {
namespace {

using Row = std::pair<std::string_view, OpKind>;
constexpr Row kinds[] = {
    {"input", OpKind::input},
    {"parameter", OpKind::parameter},
    {"constant", OpKind::constant},
    {"to_global", OpKind::to_global},
    {"reshape", OpKind::alias},
    {"identity", OpKind::alias},
    {"cast", OpKind::cast},
    {"add", OpKind::add},
    {"sum", OpKind::sum},
    {"accumulate", OpKind::accumulate},
    {"accumulate_statistics", OpKind::accumulate},
    {"matmul", OpKind::product},
    {"matmul_bias", OpKind::product_with_epilogue},
    {"matmul_add", OpKind::product_with_epilogue},
    {"matmul_bias_gelu", OpKind::product_with_epilogue},
    {"matmul_weight_grad", OpKind::weight_grad},
    {"matmul_bias_grad", OpKind::weight_grad_with_bias},
    {"batch_matmul", OpKind::batched_product},
    {"conv2d", OpKind::convolution},
    {"conv2d_input_grad", OpKind::convolution_input_grad},
    {"conv2d_weight_grad", OpKind::convolution_weight_grad},
    {"reduce_sum", OpKind::reduction},
    {"reduce_mean", OpKind::reduction},
    {"reduce_max", OpKind::reduction},
    {"reduce_min", OpKind::reduction},
    {"square_sum", OpKind::square_sum},
    {"running_average", OpKind::moving_average},
    {"second_moment", OpKind::moving_average},
    {"layer_norm", OpKind::norm},
    {"rms_norm", OpKind::norm},
    {"fused", OpKind::fused},
    {"scale_mask_softmax", OpKind::softmax},
    {"scale_mask_softmax_grad", OpKind::softmax_grad},
    {"scaled_dot_product_attention", OpKind::attention},
    {"scaled_dot_product_attention_grad", OpKind::attention_grad},
    {"moe_dispatch", OpKind::dispatch},
    {"moe_combine", OpKind::combine},
    {"moe_dispatch_grad", OpKind::combine},
    {"moe_combine_grad", OpKind::combine_grad},
    {"load", OpKind::load},
    {"read", OpKind::read},
    {"decode", OpKind::decode},
    {"copy", OpKind::copy},
    {"save", OpKind::save},
    {"write", OpKind::write},
};

// The rows by size, first and last character, because passes ask for the kinds of thousands of ops.
constexpr size_t slots = 128;
constexpr size_t slot_of(std::string_view type) {
  return type.empty()
             ? 0
             : (type.size() * 11 + static_cast<size_t>(type.front()) * 5 + static_cast<size_t>(type.back())) %
                   slots;
}
constexpr size_t after(size_t slot) { return (slot + 1) % slots; }
constexpr std::array<Row, slots> by_slot = [] {
  std::array<Row, slots> all{};
  for (const Row& row : kinds) {
    size_t slot = slot_of(row.first);
    while (!all[slot].first.empty()) slot = after(slot);
    all[slot] = row;
  }
  return all;
}();

}  // namespace

OpKind kind_of(std::string_view op_type) {
  for (size_t slot = slot_of(op_type); !by_slot[slot].first.empty(); slot = after(slot))
    if (by_slot[slot].first == op_type) return by_slot[slot].second;
  return OpKind::compute;
}

}  // namespace boxcar::ir
