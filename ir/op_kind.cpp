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
    {"moe_dispatch_grad", OpKind::combine},
    {"load", OpKind::load},
    {"read", OpKind::read},
    {"decode", OpKind::decode},
    {"save", OpKind::save},
    {"write", OpKind::write},
};

// The rows by size, first and last character: passes ask for kinds of thousands of ops.
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
