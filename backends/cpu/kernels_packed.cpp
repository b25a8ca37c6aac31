// Heads split from and merged into a packed axis: rows of one head's width are moved whole.
#include <cstring>

#include "backends/cpu/kernels.h"

namespace boxcar::backends::cpu {
namespace {

// Calls move(row in the packed tensor, operand, row there) for every row: operand 0 is q, 1 is k, 2 is v. The
// packed tensor has for each position and key head its queries, the key, the value.
struct Packing {
  int64_t batch, sequence, key_heads, group;

  template <class Move>
  void each_row(Move move) const {
    int64_t packed = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t s = 0; s < sequence; ++s)
        for (int64_t head = 0; head < key_heads; ++head) {
          const int64_t queries = (b * key_heads + head) * group;
          for (int64_t j = 0; j < group; ++j) move(packed++, size_t{0}, (queries + j) * sequence + s);
          for (const size_t operand : {1, 2}) move(packed++, operand, (b * key_heads + head) * sequence + s);
        }
  }
};

Packing packing(const ir::TensorType& q, const ir::TensorType& k) {
  const int64_t key_heads = k.shape[1];
  return {q.shape[0], q.shape[2], key_heads, key_heads == 0 ? 0 : q.shape[1] / key_heads};
}

std::unique_ptr<Kernel> make_split_heads(const Call& call) {
  const Packing rows = packing(call.outputs[0], call.outputs[1]);
  const int64_t bytes = call.outputs[0].shape[3] * size_of(call.outputs[0].dtype);
  return kernel([rows, bytes](const Operands& at) {
    rows.each_row([&](int64_t packed, size_t operand, int64_t row) {
      std::memcpy(at.out<std::byte>(operand) + row * bytes, at.in<std::byte>(0) + packed * bytes,
                  static_cast<size_t>(bytes));
    });
  });
}

std::unique_ptr<Kernel> make_split_heads_grad(const Call& call) {
  const Packing rows = packing(call.inputs[0], call.inputs[1]);
  const int64_t bytes = call.inputs[0].shape[3] * size_of(call.inputs[0].dtype);
  return kernel([rows, bytes](const Operands& at) {
    rows.each_row([&](int64_t packed, size_t operand, int64_t row) {
      std::memcpy(at.out<std::byte>(0) + packed * bytes, at.in<std::byte>(operand) + row * bytes,
                  static_cast<size_t>(bytes));
    });
  });
}

// [batch, from, to, width] -> [batch, to, from, width], width in bytes
std::unique_ptr<Kernel> swap_middle(int64_t batch, int64_t from, int64_t to, int64_t bytes) {
  return kernel([=](const Operands& at) {
    auto* out = at.out<std::byte>(0);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t j = 0; j < to; ++j)
        for (int64_t i = 0; i < from; ++i, out += bytes)
          std::memcpy(out, at.in<std::byte>(0) + ((b * from + i) * to + j) * bytes,
                      static_cast<size_t>(bytes));
  });
}

std::unique_ptr<Kernel> make_merge_heads(const Call& call) {
  const ir::Shape& x = call.inputs[0].shape;
  return swap_middle(x[0], x[1], x[2], x[3] * size_of(call.inputs[0].dtype));
}

std::unique_ptr<Kernel> make_merge_heads_grad(const Call& call) {
  const ir::Shape& dx = call.outputs[0].shape;
  return swap_middle(dx[0], dx[2], dx[1], dx[3] * size_of(call.outputs[0].dtype));
}

}  // namespace

void add_packed_kernels(Factories& table) {
  table.insert({{"split_heads", make_split_heads},
                {"split_heads_grad", make_split_heads_grad},
                {"merge_heads", make_merge_heads},
                {"merge_heads_grad", make_merge_heads_grad}});
}

}  // namespace boxcar::backends::cpu
