// Ops that move elements: shapes, heads, tables by index.
#include <algorithm>
#include <numeric>

#include "backends/cuda/kernel_table.h"
#include "sbp/at.h"

namespace boxcar::backends::cuda {
namespace {

using Steps = std::vector<int64_t>;

// Over `extent`, from and to in elements; offsets into the tensors in elements.
struct Piece {
  Move move;
  size_t input = 0, output = 0;
  int64_t from = 0, to = 0;
};

Piece piece(const ir::Shape& extent, const Steps& from, const Steps& to, ir::DType dtype) {
  Piece result;
  result.move.dims = static_cast<int>(extent.size());
  result.move.bytes = static_cast<int>(ir::size_of(dtype));
  result.move.count = elements(extent);
  std::copy(extent.begin(), extent.end(), result.move.extent);
  std::copy(from.begin(), from.end(), result.move.from);
  std::copy(to.begin(), to.end(), result.move.to);
  return result;
}

std::unique_ptr<Kernel> moves(const Call& call, const Place& place, std::vector<Piece> pieces,
                              bool zeros = false) {
  for (const Piece& p : pieces)
    if (p.move.dims > max_dims) return nullptr;
  return kernel(call, place, 0, [pieces = std::move(pieces), zeros](const Act& act) {
    if (zeros) zero(act, act.out(0), act.call.outputs[0].bytes());
    for (const Piece& p : pieces) {
      if (p.move.count == 0) continue;
      Move move = p.move;
      move.in = static_cast<const std::byte*>(act.inputs[p.input]) + p.from * move.bytes;
      move.out = static_cast<std::byte*>(act.outputs[p.output]) + p.to * move.bytes;
      launch_move(move, act.stream);
    }
  });
}

std::unique_ptr<Kernel> make_reshape(const Call& call, const Place& place) {
  return moves(call, place, {piece({call.inputs[0].elements()}, {1}, {1}, call.inputs[0].dtype)});
}

std::unique_ptr<Kernel> make_transpose(const Call& call, const Place& place) {
  const Steps own = strides(call.inputs[0].shape);
  Steps from;
  const std::vector<int64_t>& perm = ir::attr_ints(call.attrs, "perm");
  for (const int64_t axis : perm) from.push_back(at(own, axis));
  if (perm.empty()) from.assign(own.rbegin(), own.rend());
  const ir::Shape& shape = call.outputs[0].shape;
  return moves(call, place, {piece(shape, from, strides(shape), call.inputs[0].dtype)});
}

std::unique_ptr<Kernel> make_broadcast_to(const Call& call, const Place& place) {
  const ir::Shape &own = call.inputs[0].shape, &shape = call.outputs[0].shape;
  const Steps steps = strides(own);
  Steps from(shape.size(), 0);
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i] != 1) from[shape.size() - own.size() + i] = steps[i];
  return moves(call, place, {piece(shape, from, strides(shape), call.inputs[0].dtype)});
}

std::unique_ptr<Kernel> make_slice(const Call& call, const Place& place) {
  const Steps own = strides(call.inputs[0].shape);
  const std::vector<int64_t>& starts = ir::attr_ints(call.attrs, "starts");
  const ir::Shape& shape = call.outputs[0].shape;
  Piece p = piece(shape, own, strides(shape), call.inputs[0].dtype);
  p.from = std::inner_product(own.begin(), own.end(), starts.begin(), int64_t{0});
  return moves(call, place, {p});
}

// Elements outside of the result are left out.
std::unique_ptr<Kernel> make_slice_grad(const Call& call, const Place& place) {
  const ir::Shape &in = call.inputs[0].shape, &out = call.outputs[0].shape;
  const Steps from = strides(in), to = strides(out);
  const std::vector<int64_t>& starts = ir::attr_ints(call.attrs, "starts");
  ir::Shape extent;
  int64_t first_from = 0, first_to = 0;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t begin = std::max<int64_t>(0, -starts[d]), end = std::min(in[d], out[d] - starts[d]);
    extent.push_back(std::max<int64_t>(0, end - begin));
    first_from += begin * from[d];
    first_to += (begin + starts[d]) * to[d];
  }
  Piece p = piece(extent, from, to, call.inputs[0].dtype);
  p.from = first_from, p.to = first_to;
  return moves(call, place, {p}, true);
}

std::unique_ptr<Kernel> make_concat(const Call& call, const Place& place) {
  const int64_t axis = ir::attr_int(call.attrs, "axis");
  const Around whole = around(call.outputs[0].shape, axis);
  std::vector<Piece> pieces;
  int64_t start = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Around part = around(call.inputs[i].shape, axis);
    const int64_t row = part.extent * part.inner;
    Piece p = piece({part.outer, row}, {row, 1}, {whole.extent * whole.inner, 1}, call.inputs[i].dtype);
    p.input = i, p.to = start * whole.inner;
    pieces.push_back(p);
    start += part.extent;
  }
  return moves(call, place, std::move(pieces));
}

// [b, s, kv, group + 2, d] to q [b, kv x group, s, d], k and v [b, kv, s, d]; or back.
std::unique_ptr<Kernel> heads(const Call& call, const Place& place, const ir::Types& qkv, bool split) {
  const ir::Shape& q = qkv[0].shape;
  const int64_t batch = q[0], seq = q[2], d = q[3], kv = qkv[1].shape[1], group = kv == 0 ? 1 : q[1] / kv;
  const int64_t slots = group + 2;
  std::vector<Piece> pieces;
  for (size_t which = 0; which < 3; ++which) {
    const int64_t own = which == 0 ? group : 1;
    const ir::Shape extent = {batch, seq, kv, own, d};
    const Steps packed = {seq * kv * slots * d, kv * slots * d, slots * d, d, 1};
    const Steps apart = {kv * own * seq * d, d, own * seq * d, seq * d, 1};
    Piece p = split ? piece(extent, packed, apart, qkv[0].dtype) : piece(extent, apart, packed, qkv[0].dtype);
    const int64_t begin = which == 0 ? 0 : (group + static_cast<int64_t>(which) - 1) * d;
    (split ? p.from : p.to) = begin;
    (split ? p.output : p.input) = which;
    pieces.push_back(p);
  }
  return moves(call, place, std::move(pieces));
}
std::unique_ptr<Kernel> make_split_heads(const Call& call, const Place& place) {
  return heads(call, place, call.outputs, true);
}
std::unique_ptr<Kernel> make_split_heads_grad(const Call& call, const Place& place) {
  return heads(call, place, call.inputs, false);
}

// [b, n, m, d] -> [b, m, n, d]
std::unique_ptr<Kernel> swap_middle(const Call& call, const Place& place, const ir::Shape& s) {
  const ir::Shape extent = {s[0], s[2], s[1], s[3]};
  const Steps from = {s[1] * s[2] * s[3], s[3], s[2] * s[3], 1};
  return moves(call, place, {piece(extent, from, strides(extent), call.inputs[0].dtype)});
}
std::unique_ptr<Kernel> make_merge_heads(const Call& call, const Place& place) {
  return swap_middle(call, place, call.inputs[0].shape);
}
std::unique_ptr<Kernel> make_merge_heads_grad(const Call& call, const Place& place) {
  const ir::Shape& s = call.outputs[0].shape;
  return swap_middle(call, place, {s[0], s[2], s[1], s[3]});
}

// `table` and `picked` say which operands those are; embedding is a gather along axis 0.
Gather gather_of(const ir::TensorType& table, const ir::TensorType& index, const ir::Attrs& attrs) {
  const Around a = around(table.shape, attrs.contains("axis") ? ir::attr_int(attrs, "axis") : 0);
  Gather g;
  g.outer = a.outer, g.extent = a.extent, g.inner = a.inner;
  g.indices = index.elements();
  g.offset = ir::attr_int(attrs, "offset");
  return g;
}
std::unique_ptr<Kernel> make_gather(const Call& call, const Place& place) {
  const Gather shape = gather_of(call.inputs[0], call.inputs[1], call.attrs);
  const bool wide = any_float64(call) || !ir::is_float(call.inputs[0].dtype);
  return kernel(call, place, 0, [shape, wide](const Act& act) {
    Gather g = shape;
    g.table = act.in(0), g.index = act.in(1), g.out = act.out(0);
    launch_gather(g, wide, act.stream);
  });
}
std::unique_ptr<Kernel> make_gather_grad(const Call& call, const Place& place) {
  const Gather shape = gather_of(call.outputs[0], call.inputs[1], call.attrs);
  const bool wide = any_float64(call) || !ir::is_float(call.inputs[0].dtype);
  return kernel(call, place, scratch_of(shape), [shape, wide](const Act& act) {
    Gather g = shape;
    g.out = act.in(0), g.index = act.in(1), g.table = act.out(0);
    launch_gather_grad(g, act.call.outputs[0].bytes(), act.scratch, wide, act.stream);
  });
}
std::unique_ptr<Kernel> make_one_hot(const Call& call, const Place& place) {
  Gather shape;
  shape.extent = ir::attr_int(call.attrs, "depth");
  shape.indices = call.inputs[0].elements();
  shape.offset = ir::attr_int(call.attrs, "offset");
  return kernel(call, place, 0, [shape](const Act& act) {
    Gather g = shape;
    g.index = act.in(0), g.out = act.out(0);
    launch_one_hot(g, act.stream);
  });
}
std::unique_ptr<Kernel> make_cumsum(const Call& call, const Place& place) {
  const Around a = around(call.inputs[0].shape, ir::attr_int(call.attrs, "axis"));
  const bool wide = any_wide(call);
  return kernel(call, place, 0, [a, wide](const Act& act) {
    launch_cumsum(act.in(0), act.out(0), a.outer, a.extent, a.inner, wide, act.stream);
  });
}

}  // namespace

void add_move_kernels(Factories& table) {
  table.insert({{"reshape", make_reshape},
                {"transpose", make_transpose},
                {"broadcast_to", make_broadcast_to},
                {"slice", make_slice},
                {"slice_grad", make_slice_grad},
                {"concat", make_concat},
                {"split_heads", make_split_heads},
                {"split_heads_grad", make_split_heads_grad},
                {"merge_heads", make_merge_heads},
                {"merge_heads_grad", make_merge_heads_grad},
                {"gather", make_gather},
                {"gather_grad", make_gather_grad},
                {"embedding", make_gather},
                {"embedding_grad", make_gather_grad},
                {"one_hot", make_one_hot},
                {"cumsum", make_cumsum}});
}

}  // namespace boxcar::backends::cuda
