#include <cmath>

#include "backends/cpu/reference.h"
#include "backends/cpu/reference_math.h"

namespace boxcar::backends::cpu {
namespace {

// Visits (b, head, s, i) of a packed qkv tensor: calls move(packed position, which of q, k, v, position in
// it).
template <typename Move>
void for_each_packed(const ir::Shape& q, int64_t kv_heads, Move move) {
  const int64_t batch = q[0], seq = q[2], d = q[3];
  const int64_t group = kv_heads == 0 ? 1 : q[1] / kv_heads;
  const int64_t heads = kv_heads * group;
  int64_t packed = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < seq; ++s)
      for (int64_t kv = 0; kv < kv_heads; ++kv)
        for (int64_t j = 0; j < group + 2; ++j)
          for (int64_t i = 0; i < d; ++i) {
            const bool query = j < group;
            const int64_t row = query ? b * heads + kv * group + j : b * kv_heads + kv;
            move(static_cast<size_t>(packed++), query ? 0 : static_cast<int>(j - group) + 1,
                 static_cast<size_t>((row * seq + s) * d + i));
          }
}

void split_heads(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for_each_packed(out[0].type.shape, out[1].type.shape[1], [&](size_t packed, int which, size_t at) {
    out[static_cast<size_t>(which)].data[at] = in[0].data[packed];
  });
}

void split_heads_grad(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for_each_packed(in[0].type.shape, in[1].type.shape[1], [&](size_t packed, int which, size_t at) {
    out[0].data[packed] = in[static_cast<size_t>(which)].data[at];
  });
}

// [b, n, m, d] -> [b, m, n, d]
void swap_middle(const std::vector<double>& from, const ir::Shape& s, std::vector<double>& to) {
  for (int64_t b = 0; b < s[0]; ++b)
    for (int64_t n = 0; n < s[1]; ++n)
      for (int64_t m = 0; m < s[2]; ++m)
        for (int64_t i = 0; i < s[3]; ++i)
          to[static_cast<size_t>(((b * s[2] + m) * s[1] + n) * s[3] + i)] =
              from[static_cast<size_t>(((b * s[1] + n) * s[2] + m) * s[3] + i)];
}

void merge_heads(const Tensors& in, Tensors& out, const ir::Attrs&) {
  swap_middle(in[0].data, in[0].type.shape, out[0].data);
}

void merge_heads_grad(const Tensors& in, Tensors& out, const ir::Attrs&) {
  const ir::Shape& s = out[0].type.shape;
  swap_middle(in[0].data, {s[0], s[2], s[1], s[3]}, out[0].data);
}

void swiglu_pairs(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const double gate = in[0].data[2 * i], up = in[0].data[2 * i + 1];
    out[0].data[i] = silu(gate) * up;
  }
}

void swiglu_pairs_grad(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double dy = in[0].data[i], gate = in[1].data[2 * i], up = in[1].data[2 * i + 1];
    out[0].data[2 * i] = dy * up * silu_slope(gate);
    out[0].data[2 * i + 1] = dy * silu(gate);
  }
}

void weighed_swiglu_pairs(const Tensors& in, Tensors& out, const ir::Attrs&) {
  const size_t n = out[0].data.size() / std::max<size_t>(1, in[1].data.size());
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const double gate = in[0].data[2 * i], up = in[0].data[2 * i + 1];
    out[0].data[i] = silu(gate) * up * in[1].data[i / n];
  }
}

void weighed_swiglu_pairs_grad(const Tensors& in, Tensors& out, const ir::Attrs&) {
  const size_t n = in[0].data.size() / std::max<size_t>(1, in[2].data.size());
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double gate = in[1].data[2 * i], up = in[1].data[2 * i + 1];
    const double dy = in[0].data[i], share = dy * in[2].data[i / n];
    out[0].data[2 * i] = share * up * silu_slope(gate);
    out[0].data[2 * i + 1] = share * silu(gate);
    out[1].data[i / n] += dy * silu(gate) * up;
  }
}

// Keeps x[row, column] where the column is not after the row, both counted in the global tensor, and with a
// window one of that many up to the row.
void causal_mask(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const ir::Shape& shape = in[0].type.shape;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const double fill = ir::attr_float(attrs, "fill");
  const int64_t window = ir::attr_int(attrs, "window");
  const int64_t ahead = ir::attr_int(attrs, "row_offset") - ir::attr_int(attrs, "column_offset");
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t row = at / columns % rows, column = at % columns;
    const bool seen = column <= row + ahead && (window == 0 || column > row + ahead - window);
    out[0].data[i] = seen ? in[0].data[i] : fill;
  }
}

}  // namespace

void add_packed_kernels(KernelTable& table) {
  table["split_heads"] = split_heads;
  table["split_heads_grad"] = split_heads_grad;
  table["merge_heads"] = merge_heads;
  table["merge_heads_grad"] = merge_heads_grad;
  table["swiglu_pairs"] = swiglu_pairs;
  table["swiglu_pairs_grad"] = swiglu_pairs_grad;
  table["weighed_swiglu_pairs"] = weighed_swiglu_pairs;
  table["weighed_swiglu_pairs_grad"] = weighed_swiglu_pairs_grad;
  table["causal_mask"] = causal_mask;
}

}  // namespace boxcar::backends::cpu
