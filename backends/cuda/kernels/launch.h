// Launchers of the device's kernels, defined in .cu files and called by the rest of this folder. Plain C++17,
// like the rows of ops, its only includes from Boxcar, so that any nvcc compiles it.
//
// Arrays are of any element type. Kernels compute in float, or in double with `wide`, and round once when
// they store. Launchers return at once; counts of 0 launch nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/ops/optimizer_rows.h"
#include "ir/ops/pointwise_rows.h"

namespace boxcar::backends::cuda {

using Stream = void*;  // cudaStream_t

// In the order of ir::DType.
enum class Type : int { float64, float32, float16, bfloat16, float8, int64, int32, int8, boolean };

struct Array {
  void* data = nullptr;
  Type type = Type::float32;
};

constexpr int max_dims = 8;

// A divisor of numbers below 2^31, as a multiplication and a shift.
struct Divisor {
  uint32_t by = 1, multiplier = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(int64_t d) : by(static_cast<uint32_t>(d)) {
    uint32_t bits = 0;
    while ((int64_t{1} << bits) < d) ++bits;
    if (bits == 0) return;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + by - 1) / by);
    shift = bits - 1;
  }
};

// --- elementwise: a program over values, inputs first, then one result per step; the last is the result

// NAME, and NAME_grad of dy and the gradient's other operands, for each row of pointwise_rows.h, and others.
#define BOXCAR_STEPS(op) op, op##_grad,
enum class Step : int {
  identity,
  scale,
  to_boolean,
  truncate,
  dropout,
  causal_mask,
  add,
  sub,
  mul,
  div,
  where,
  BOXCAR_POINTWISE(BOXCAR_STEPS)
};
#undef BOXCAR_STEPS

// Dropout of element `flat`, drawn by its position in the step's global batch (backends/random.h).
struct Drop {
  uint64_t key = 0;
  const uint64_t* key_at = nullptr;  // the key in device memory, used instead
  int64_t least = 0;                 // of the draws that keep; 0 keeps all
  double kept = 1;
  int64_t first = 0;  // position of the micro-batch's first element
  int dims = 0;       // 0: the part is the whole
  int64_t local[max_dims] = {}, start[max_dims] = {}, stride[max_dims] = {};
};

struct MapStep {
  Step op = Step::identity;
  int a = 0, b = 0, c = 0;  // values
  double x = 0;             // scale's factor, causal_mask's fill; the parameter of a row's op
  int64_t rows = 1, columns = 1, ahead = 0, window = 0;  // causal_mask
  int drop = 0;
};

struct MapInput {
  Array array;
  enum Mode : int { same, scalar, row, strided } mode = same;
  int64_t period = 1;             // row: element i is i % period
  int64_t stride[max_dims] = {};  // strided
};

struct Map {
  static constexpr int max_inputs = 8, max_steps = 32, max_drops = 2;
  int64_t count = 0;
  int inputs = 0, steps = 0, dims = 0;
  int64_t extent[max_dims] = {};  // of the result, if an input is strided
  int result = 0;                 // which value
  MapInput input[max_inputs];
  MapStep step[max_steps];
  Drop drop[max_drops];
  Array out;
  int64_t out_stride = 1;  // elements from one result to the next
  // Further results, whose elements are neighbours.
  static constexpr int max_more = 2;
  struct More {
    Array out;
    int result = 0;
  };
  int more = 0;
  More other[max_more];
};
void launch_map(const Map& map, bool wide, Stream stream);
// For operands of one type in whole vectors of 16 bytes; otherwise false, and nothing is launched.
// y[i] = silu(x[2 i]) x[2 i + 1]
bool launch_swiglu_pairs(Array x, Array y, int64_t count, Stream stream);
// dgate = dy up silu'(gate), dup = dy silu(gate). If up and dup are null, gate and dgate hold pairs with
// them.
bool launch_swiglu_grad(Array dy, Array gate, Array up, Array dgate, Array dup, int64_t count, Stream stream);

// --- moves

// out[sum of index x to] = in[sum of index x from], for elements of `bytes` bytes each.
struct Move {
  int dims = 0, bytes = 4;
  int64_t count = 0;
  int64_t extent[max_dims] = {}, from[max_dims] = {}, to[max_dims] = {};
  const void* in = nullptr;
  void* out = nullptr;
};
void launch_move(const Move& move, Stream stream);

// out[o, j, i] = table[o, index[j] - offset, i]; 0 if that is outside.
struct Gather {
  Array table, index, out;
  int64_t outer = 1, extent = 1, inner = 1, indices = 0, offset = 0;
};
void launch_gather(const Gather& gather, bool wide, Stream stream);
// table[o, r, i] = sum of out[o, j, i] over the j whose index is r, in their order. `bytes`: of the table.
int64_t scratch_of(const Gather& gather);
void launch_gather_grad(const Gather& gather, int64_t bytes, void* scratch, bool wide, Stream stream);
// Writes an index to `found` if it is not 0 to below - 1; such an index is never 0.
void launch_check_limit(Array index, int64_t count, int64_t below, int64_t* found, Stream stream);
// out[j, c] = index[j] - offset == c, `extent` classes.
void launch_one_hot(const Gather& one_hot, Stream stream);
// Along the middle of [outer, extent, inner].
void launch_cumsum(Array in, Array out, int64_t outer, int64_t extent, int64_t inner, bool wide,
                   Stream stream);

// --- reductions

enum class Combine : int { sum, max, min, square_sum, all_finite };
// out[k] = factor x the combination of in[k x keep + r x reduce] over all r, in an order that follows from
// shapes.
struct Reduce {
  Array in, out;
  Combine combine = Combine::sum;
  double factor = 1;
  int keep_dims = 0, reduce_dims = 0;
  int64_t kept = 1, reduced = 1;  // how many
  int64_t keep_extent[max_dims] = {}, keep_stride[max_dims] = {};
  int64_t reduce_extent[max_dims] = {}, reduce_stride[max_dims] = {};
};
// Bytes of scratch memory that the launch needs.
int64_t scratch_of(const Reduce& reduce);
void launch_reduce(const Reduce& reduce, void* scratch, bool wide, Stream stream);

// Reduces members' elements in rank order: 16-bit floats in float, whole numbers in 64 bits. `out` may be one
// of the parts.
struct Parts {
  static constexpr int most = 64;
  int parts = 0;
  const void* part[most] = {};
};
void launch_reduce_parts(const Parts& parts, void* out, int64_t count, Type type, Combine combine,
                         Stream stream);

// --- rows of the last axis

struct Norm {
  Array x, gamma, beta, y, mean, rstd;  // beta and mean are null for RMS
  int64_t rows = 0, width = 0;
  double eps = 0;
};
void launch_norm(const Norm& norm, bool wide, Stream stream);
struct NormGrad {
  Array dy, x, gamma, mean, rstd, dx, dgamma, dbeta;  // mean and dbeta are null for RMS
  int64_t rows = 0, width = 0;
};
int64_t scratch_of(const NormGrad& grad);
void launch_norm_grad(const NormGrad& grad, void* scratch, bool wide, Stream stream);

// y = softmax(scale x) of the first min(row % queries + offset + 1, width) elements if causal, 0 beyond.
struct Softmax {
  Array x, y;
  int64_t rows = 0, width = 0, queries = 1, offset = 0, window = 0;
  bool causal = false;
  double scale = 1;
};
void launch_softmax(const Softmax& softmax, bool wide, Stream stream);
void launch_softmax_grad(Array dy, Array y, Array dx, int64_t rows, int64_t width, double scale, bool wide,
                         Stream stream);

struct Loss {
  Array logits, labels, m, z, dloss, out;
  int64_t rows = 0, width = 0, offset = 0;
  int64_t classes = 0;  // of the width; the rest is padding
};
// out = log z + m - picked, and m and z unless they are null: logits are read once.
void launch_cross_entropy(const Loss& loss, bool wide, Stream stream);
// z = sum exp(logits - m); out = picked unless it is null.
void launch_sum_exp(const Loss& loss, bool wide, Stream stream);
void launch_pick(const Loss& loss, bool wide, Stream stream);  // the label's logit, or 0
void launch_cross_entropy_grad(const Loss& loss, bool wide,
                               Stream stream);  // dloss (exp(logits - m) / z - hit)

struct Rotary {
  Array x, y;
  int64_t rows = 0, width = 0, sequence = 1, offset = 0;
  double base = 10000;
  bool inverse = false;
};
void launch_rotary(const Rotary& rotary, bool wide, Stream stream);

// The `k` largest elements of each row of [rows, width], and their places. NaN comes first; of equal ones,
// the earlier. With groups, only of the top_groups whose two largest elements have the largest sums.
struct TopK {
  Array x, values, index;
  int64_t rows = 0, width = 0, k = 0, groups = 1, top_groups = 1;
};
void launch_top_k(const TopK& top_k, Stream stream);

// --- images [images, channels, height, width]

struct Pool {
  Array x, y;         // the gradients' x is null if it is not read
  Array dy, dx;       // of the gradient
  bool max = false;   // else the mean of kernel x kernel, padding being 0
  bool last = false;  // channels are last: [images, height, width, channels]
  int64_t images = 0, channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t kernel = 1, stride = 1, padding = 0;
};
void launch_pool(const Pool& pool, bool wide, Stream stream);
// The most elements of a window whose places, and one more for nowhere, fit into a byte.
constexpr int64_t most_places = 255;
// Bytes of `scratch`, for the places of maxima.
int64_t scratch_of_pool_grad(const Pool& pool);
void launch_pool_grad(const Pool& pool, void* scratch, bool wide, Stream stream);

// x [batch, channels, inner], normalised by channel.
struct BatchNorm {
  Array x, gamma, beta, y, mean, rstd;
  Array dy, dx, dgamma, dbeta;       // of the gradient
  Array mean_share, variance_share;  // if share > 0
  int64_t batch = 0, channels = 0, inner = 0;
  double eps = 0, share = 0;
};
void launch_batch_norm(const BatchNorm& norm, bool wide, Stream stream);
void launch_batch_norm_grad(const BatchNorm& norm, bool wide, Stream stream);
// Only the shares of statistics, from mean and rstd; launch_batch_norm_grad gives them too.
void launch_batch_norm_shares(const BatchNorm& norm, bool wide, Stream stream);

// --- mixture of experts

// x [groups, tokens, width] and y [groups, experts, capacity, width], as a device has them; index [groups,
// all_tokens, choices] over all tokens. A choice takes its expert's next slot, in the order of tokens.
struct Experts {
  Array index, x, y, weight;  // weight [groups, tokens, choices]; null: all 1
  Array dy, dweight;          // of combine's gradient, in which x is the result's gradient
  int64_t groups = 0, tokens = 0, all_tokens = 0, choices = 0, experts = 0, capacity = 0, width = 0;
  int64_t first_expert = 0, first_token = 0;
};
// Bytes of scratch memory that the launches need: the slot of each choice.
inline int64_t scratch_of(const Experts& e) { return e.groups * e.tokens * e.choices * 8; }
void launch_dispatch(const Experts& experts, void* scratch, Stream stream);            // y = x, by slot
void launch_combine(const Experts& experts, void* scratch, bool wide, Stream stream);  // x = sum weight y
void launch_combine_grad(const Experts& experts, void* scratch, bool wide, Stream stream);

// --- updates

// An optimizer and the numbers of a step.
struct UpdateRule {
  ir::Optimizer rule = ir::Optimizer::sgd;
  const double* step_values = nullptr;  // lr and left in device memory, used instead
  double lr = 0, weight_decay = 0;
  double number[ir::OptimizerRow::most_numbers] = {},
         left[ir::OptimizerRow::most_numbers] = {};  // as ir::Rates
};

// One rule on many tensors, some of which are copied in another type as well.
struct Update : UpdateRule {
  // Address and type of each; null if the rule or the tensor has none. Results may overwrite states.
  enum What : int { w, g, m, v, norms, new_w, new_m, new_v, copy, whats };
  struct Tensor {
    void* data[whats] = {};
    int64_t count = 0;
    unsigned first = 0;  // of the blocks that work on it
    signed char type[whats] = {};

    void set(What what, const Array& array) {
      data[what] = array.data, type[what] = static_cast<signed char>(array.type);
    }
  };
  static constexpr int most = 320;  // tensors: a kernel takes 32,764 bytes of parameters
  Tensor tensor[most];
  int tensors = 0;
  Array scale, finite;  // one element each, or null
};
static_assert(sizeof(Update) <= 32764);
// Sets `first` of its tensors.
void launch_update(Update& update, bool wide, Stream stream);
// Two sums of squares: of the one tensor's weights, and of what its rule measures. Takes scratch_of_norms()
// of its elements.
int64_t scratch_of_norms(int64_t elements);
void launch_norms(const Update& update, Array sums, void* scratch, bool wide, Stream stream);
void launch_clip_scale(Array norm2, Array factor, double loss_scale, double max_norm, Stream stream);

// next = (1 - part) old + part (fresh + eps), or old if `finite` is false.
struct SecondMoment {
  Array fresh, old, next, finite;     // finite: one element, or null
  const double* step_part = nullptr;  // in device memory, used in place of `part`
  double part = 0, eps = 0;
  int64_t count = 0;
};
void launch_second_moment(const SecondMoment& moment, bool wide, Stream stream);

// --- attention

// q [batch, heads, queries, width], k [batch, key_heads, keys, width], v [.., value_width]; head h uses key
// head (h + head_offset) / group.
struct Attention {
  static constexpr int64_t widest = 1024;  // the largest value_width
  Array q, k, v, out, lse;
  Array dy, dq, dk, dv;           // of the gradient
  const int64_t* seen = nullptr;  // [batch, queries]: keys that a query sees up to its own; null: all
  int64_t batch = 0, heads = 0, queries = 0, width = 0, key_heads = 0, keys = 0, value_width = 0;
  int64_t group = 1, head_offset = 0, offset = 0;
  int64_t window = 0;  // if causal: keys that a query sees up to its own; 0: all
  bool causal = false;
  double scale = 1;
  Drop drop;
};
void launch_attention(const Attention& attention, bool wide, Stream stream);
void launch_attention_grad(const Attention& attention, bool wide, Stream stream);

}  // namespace boxcar::backends::cuda
