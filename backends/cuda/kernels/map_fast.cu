// Elementwise programs on eight elements at a time. The programs of usual models are compiled, one kernel
// each (shapes[]). Other programs keep values in four registers of eight, which the host assigns, and read a
// step once for eight elements. Casts and SwiGLU's gradient have kernels of their own.
#include <initializer_list>

#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

constexpr int registers = 4, most_steps = 24, most_outputs = 1 + Map::max_more;

struct FastInput {
  const void* data = nullptr;
  Type type = Type::float32;  // of a scalar
  MapInput::Mode mode = MapInput::same;
  Divisor period;  // row: in eights
};
struct FastStep {
  Step op = Step::identity;
  int operands = 1;
  unsigned char from[3] = {}, to = 0, drop = 0;
  double x = 0;
  Divisor rows, columns;  // causal_mask, columns in eights
  int ahead = 0, window = 0;
};
struct FastDrop {
  uint64_t key = 0;
  const uint64_t* key_at = nullptr;
  int64_t least = 0, first = 0;
  float kept = 1;
  int dims = 0;
  Divisor local[max_dims];  // the last one in eights
  int64_t start[max_dims] = {}, stride[max_dims] = {};
};
struct FastOutput {
  void* data = nullptr;
  int from = 0;
};
struct Fast {
  unsigned eights = 0;
  int inputs = 0, steps = 0, outputs = 0;
  FastInput input[registers];
  FastStep step[most_steps];
  FastDrop drop[Map::max_drops];
  FastOutput output[most_outputs];
};

template <class A>
__device__ void copy(const float (&from)[eight], A (&to)[eight]) {
#pragma unroll
  for (int e = 0; e < eight; ++e) to[e] = from[e];
}
// Registers are indexed by constants only, so that they do not go to memory.
__device__ void get(const float (&file)[registers][eight], int which, float (&to)[eight]) {
  switch (which) {
    case 0:
      return copy(file[0], to);
    case 1:
      return copy(file[1], to);
    case 2:
      return copy(file[2], to);
    default:
      return copy(file[3], to);
  }
}
__device__ void set(float (&file)[registers][eight], int which, const float (&from)[eight]) {
  switch (which) {
    case 0:
      return copy(from, file[0]);
    case 1:
      return copy(from, file[1]);
    case 2:
      return copy(from, file[2]);
    default:
      return copy(from, file[3]);
  }
}

template <class Op>
__device__ auto parameter(const FastStep& step) {
  if constexpr (Op::row.kind == ir::PointwiseRow::number)
    return static_cast<float>(step.x);
  else
    return step.x != 0;
}

__device__ void drop_eight(const FastDrop& drop, unsigned group, float (&x)[eight]) {
  if (drop.least == 0) return;
  int64_t element = drop.first;
  if (drop.dims == 0) {
    element += static_cast<int64_t>(group) * eight;
  } else {
    unsigned rest = group;
    for (int d = drop.dims; d-- > 0;) {
      const unsigned left = rest / drop.local[d], at = rest - left * drop.local[d].by;
      const int64_t here = d == drop.dims - 1 ? static_cast<int64_t>(at) * eight : at;
      element += (drop.start[d] + here) * drop.stride[d];
      rest = left;
    }
  }
  const uint64_t key = drop.key_at ? *drop.key_at : drop.key;
#pragma unroll
  for (int e = 0; e < eight; ++e) {
    const auto draw = static_cast<int64_t>(mixed(key ^ static_cast<uint64_t>(element + e)) >> 40);
    x[e] = draw >= drop.least ? x[e] * drop.kept : x[e] * 0.0f;
  }
}

// a = op(a, b, c)
__device__ void apply_eight(const Fast& fast, const FastStep& step, unsigned group, float (&a)[eight],
                            const float (&b)[eight], const float (&c)[eight]) {
#define BOXCAR_EACH(value)                                        \
  _Pragma("unroll") for (int e = 0; e < eight; ++e) a[e] = value; \
  return;
#define BOXCAR_CASES(op)                                                                          \
  case Step::op:                                                                                  \
    BOXCAR_EACH(ir::pointwise::op::forward<DeviceMath>(a[e], parameter<ir::pointwise::op>(step))) \
  case Step::op##_grad:                                                                           \
    BOXCAR_EACH(ir::pointwise::op::backward<DeviceMath>(a[e], b[e], parameter<ir::pointwise::op>(step)))
  switch (step.op) {
    BOXCAR_POINTWISE(BOXCAR_CASES)
    case Step::identity:
      return;
    case Step::scale:
      BOXCAR_EACH(static_cast<float>(step.x) * a[e])
    case Step::to_boolean:
      BOXCAR_EACH(a[e] != 0.0f ? 1.0f : 0.0f)
    case Step::truncate:
      BOXCAR_EACH(truncf(a[e]))
    case Step::dropout:
      return drop_eight(fast.drop[step.drop], group, a);
    case Step::causal_mask: {
      const unsigned line = group / step.columns;
      const int row = static_cast<int>(line - line / step.rows * step.rows.by);
      const int behind = row + step.ahead - static_cast<int>(group - line * step.columns.by) * eight;
      const auto fill = static_cast<float>(step.x);
      BOXCAR_EACH(behind - e >= 0 && (step.window == 0 || behind - e < step.window) ? a[e] : fill)
    }
    case Step::add:
      BOXCAR_EACH(a[e] + b[e])
    case Step::sub:
      BOXCAR_EACH(a[e] - b[e])
    case Step::mul:
      BOXCAR_EACH(a[e] * b[e])
    case Step::div:
      BOXCAR_EACH(a[e] / b[e])
    default:
      BOXCAR_EACH(a[e] != 0.0f ? b[e] : c[e])
  }
#undef BOXCAR_CASES
#undef BOXCAR_EACH
}

int operands_of(Step op) {
  switch (op) {
    case Step::identity:
    case Step::scale:
    case Step::to_boolean:
    case Step::truncate:
    case Step::dropout:
    case Step::causal_mask:
      return 1;
    case Step::add:
    case Step::sub:
    case Step::mul:
    case Step::div:
      return 2;
    case Step::where:
      return 3;
    default:  // rows of pointwise_rows.h: NAME, NAME_grad
      return 1 + (static_cast<int>(op) - static_cast<int>(Step::where) - 1) % 2;
  }
}

// --- programs that are compiled: values are inputs first, then one for each step, as in Map

struct ShapeStep {
  Step op = Step::identity;
  int a = 0, b = 0;
};
struct Shape {
  int inputs, steps;
  ShapeStep step[3];
  int outputs = 1;  // all of the last value
};
constexpr Shape shapes[] = {
    {2, 1, {{Step::add, 0, 1}}},
    {2, 1, {{Step::mul, 0, 1}}},
    {1, 1, {{Step::scale, 0}}},
    {1, 1, {{Step::identity, 0}}},
    {1, 1, {{Step::dropout, 0}}},
    {1, 1, {{Step::relu, 0}}},
    {2, 1, {{Step::relu_grad, 0, 1}}},
    {1, 1, {{Step::gelu, 0}}},
    {2, 1, {{Step::gelu_grad, 0, 1}}},
    {2, 2, {{Step::add, 0, 1}, {Step::relu, 2}}},                              // a residual, ReLU
    {3, 3, {{Step::add, 1, 2}, {Step::relu, 3}, {Step::relu_grad, 0, 4}}, 2},  // its gradients
    {2, 2, {{Step::add, 0, 1}, {Step::gelu, 2}}},                              // bias_gelu
    {3, 2, {{Step::add, 1, 2}, {Step::gelu_grad, 0, 3}}},                      // bias_gelu_grad
    {3, 3, {{Step::add, 0, 1}, {Step::dropout, 3}, {Step::add, 4, 2}}},        // bias_dropout_add
    {2, 2, {{Step::add, 0, 1}, {Step::dropout, 2}}},                           // embeddings, dropout
    {2, 2, {{Step::silu, 0}, {Step::mul, 2, 1}}},                              // swiglu
};
constexpr int shape_count = sizeof shapes / sizeof shapes[0];

template <Step op>
__device__ float apply_one(const FastStep& step, float a, float b) {
#define BOXCAR_CASES(row)                                                                   \
  if constexpr (op == Step::row)                                                            \
    return ir::pointwise::row::forward<DeviceMath>(a, parameter<ir::pointwise::row>(step)); \
  if constexpr (op == Step::row##_grad)                                                     \
    return ir::pointwise::row::backward<DeviceMath>(a, b, parameter<ir::pointwise::row>(step));
  BOXCAR_POINTWISE(BOXCAR_CASES)
#undef BOXCAR_CASES
  if constexpr (op == Step::scale) return static_cast<float>(step.x) * a;
  if constexpr (op == Step::add) return a + b;
  if constexpr (op == Step::mul) return a * b;
  return a;
}

template <int which, int s>
__device__ void shape_steps(const Fast& fast, unsigned group,
                            float (&value)[shapes[which].inputs + shapes[which].steps][eight]) {
  constexpr Shape shape = shapes[which];
  if constexpr (s < shape.steps) {
    constexpr ShapeStep step = shape.step[s];
    float(&to)[eight] = value[shape.inputs + s];
    if constexpr (step.op == Step::dropout) {
      copy(value[step.a], to);
      drop_eight(fast.drop[fast.step[s].drop], group, to);
    } else {
#pragma unroll
      for (int e = 0; e < eight; ++e)
        to[e] = apply_one<step.op>(fast.step[s], value[step.a][e], value[step.b][e]);
    }
    shape_steps<which, s + 1>(fast, group, value);
  }
}

// Some of a program's inputs: a thread loads those of `unroll` groups before it uses the first.
template <class T, int inputs>
__device__ void load_inputs(const Fast& fast, unsigned group, Eight<T> (&raw)[inputs]) {
#pragma unroll
  for (int n = 0; n < inputs; ++n) {
    const FastInput& input = fast.input[n];
    if (input.mode == MapInput::scalar) continue;
    const unsigned at = input.mode == MapInput::row ? group - group / input.period * input.period.by : group;
    raw[n].load(static_cast<const T*>(input.data), at);
  }
}

template <class T, int which>
__global__ void __launch_bounds__(threads) shaped(const __grid_constant__ Fast fast) {
  constexpr Shape shape = shapes[which];
  constexpr int inputs = shape.inputs, unroll = inputs * Eight<T>::vectors > 1 ? 1 : 2;
  const unsigned all = gridDim.x * threads;
  float scalar[inputs];
#pragma unroll
  for (int n = 0; n < inputs; ++n)
    scalar[n] = fast.input[n].mode == MapInput::scalar
                    ? load<float>({const_cast<void*>(fast.input[n].data), fast.input[n].type}, 0)
                    : 0.0f;
  for (unsigned begin = blockIdx.x * threads + threadIdx.x; begin < fast.eights; begin += unroll * all) {
    Eight<T> raw[unroll][inputs];
#pragma unroll
    for (int u = 0; u < unroll; ++u)
      if (begin + u * all < fast.eights) load_inputs<T, inputs>(fast, begin + u * all, raw[u]);
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const unsigned group = begin + u * all;
      if (group >= fast.eights) continue;
      float value[inputs + shape.steps][eight];
#pragma unroll
      for (int n = 0; n < inputs; ++n) {
        if (fast.input[n].mode == MapInput::scalar) {
#pragma unroll
          for (int e = 0; e < eight; ++e) value[n][e] = scalar[n];
        } else {
          raw[u][n].unpack_to(value[n]);
        }
      }
      shape_steps<which, 0>(fast, group, value);
      Eight<T> out;
      out.pack_from(value[inputs + shape.steps - 1]);
#pragma unroll
      for (int o = 0; o < shape.outputs; ++o) out.store(static_cast<T*>(fast.output[o].data), group);
    }
  }
}

bool is_shape(const Map& map, const Fast& fast, const Shape& shape) {
  const int last = shape.inputs + shape.steps - 1;
  bool same = map.inputs == shape.inputs && map.steps == shape.steps && fast.steps == map.steps &&
              map.result == last && shape.outputs == 1 + map.more;
  for (int m = 0; m < map.more; ++m) same = same && map.other[m].result == last;
  for (int s = 0; same && s < shape.steps; ++s) {
    const MapStep& step = map.step[s];
    const ShapeStep& want = shape.step[s];
    same = step.op == want.op && step.a == want.a && (operands_of(step.op) < 2 || step.b == want.b);
  }
  return same;
}

template <class T, int which = 0>
bool launch_shape(const Map& map, const Fast& fast, cudaStream_t stream) {
  if constexpr (which == shape_count) {
    return false;
  } else {
    if (!is_shape(map, fast, shapes[which])) return launch_shape<T, which + 1>(map, fast, stream);
    launch(shaped<T, which>, blocks_for(fast.eights, threads, multiprocessors * 16), stream, fast);
    return true;
  }
}

// --- all others

template <class T>
__global__ void __launch_bounds__(threads, 2) eights(const __grid_constant__ Fast fast) {
  float file[registers][eight];
  float scalar[registers];
#pragma unroll
  for (int n = 0; n < registers; ++n)
    scalar[n] = n < fast.inputs && fast.input[n].mode == MapInput::scalar
                    ? load<float>({const_cast<void*>(fast.input[n].data), fast.input[n].type}, 0)
                    : 0.0f;
  for (unsigned group = blockIdx.x * threads + threadIdx.x; group < fast.eights;
       group += gridDim.x * threads) {
    Eight<T> raw[registers];
#pragma unroll
    for (int n = 0; n < registers; ++n) {
      if (n >= fast.inputs || fast.input[n].mode == MapInput::scalar) continue;
      const FastInput& input = fast.input[n];
      const unsigned at =
          input.mode == MapInput::row ? group - group / input.period * input.period.by : group;
      raw[n].load(static_cast<const T*>(input.data), at);
    }
#pragma unroll
    for (int n = 0; n < registers; ++n) {
      if (n >= fast.inputs) continue;
      if (fast.input[n].mode == MapInput::scalar) {
#pragma unroll
        for (int e = 0; e < eight; ++e) file[n][e] = scalar[n];
      } else {
        raw[n].unpack_to(file[n]);
      }
    }
    for (int s = 0; s < fast.steps; ++s) {
      const FastStep& step = fast.step[s];
      float a[eight], b[eight], c[eight];
      get(file, step.from[0], a);
      if (step.operands > 1) get(file, step.from[1], b);
      if (step.operands > 2) get(file, step.from[2], c);
      apply_eight(fast, step, group, a, b, c);
      set(file, step.to, a);
    }
    for (int o = 0; o < fast.outputs; ++o) {
      float result[eight];
      get(file, fast.output[o].from, result);
      Eight<T> out;
      out.pack_from(result);
      out.store(static_cast<T*>(fast.output[o].data), group);
    }
  }
}

// to = factor from, in another type.
template <class T, class U>
__global__ void __launch_bounds__(threads) cast_eights(const T* from, U* to, unsigned groups, float factor) {
  const unsigned all = gridDim.x * threads;
  unsigned group = blockIdx.x * threads + threadIdx.x;
  const auto put = [=](const Eight<T>& raw, unsigned at) {
    float x[eight];
    raw.unpack_to(x);
#pragma unroll
    for (float& each : x) each *= factor;
    Eight<U> out;
    out.pack_from(x);
    out.store(to, at);
  };
  for (; group + all < groups; group += 2 * all) {
    Eight<T> first, second;
    first.load(from, group);
    second.load(from, group + all);
    put(first, group);
    put(second, group + all);
  }
  if (group >= groups) return;
  Eight<T> raw;
  raw.load(from, group);
  put(raw, group);
}

constexpr int64_t most = int64_t{1} << 30;
bool small(int64_t x) { return x > -most && x < most; }

bool fast_drop(const Drop& drop, FastDrop& to) {
  to.key = drop.key, to.key_at = drop.key_at, to.least = drop.least, to.first = drop.first;
  to.kept = static_cast<float>(drop.kept), to.dims = drop.dims;
  const int last = drop.dims - 1;
  if (last >= 0 && (drop.local[last] % eight != 0 || drop.stride[last] != 1)) return false;
  for (int d = 0; d <= last; ++d) {
    if (drop.local[d] < 1 || !small(drop.local[d])) return false;
    to.local[d] = Divisor(d == last ? drop.local[d] / eight : drop.local[d]);
    to.start[d] = drop.start[d], to.stride[d] = drop.stride[d];
  }
  return true;
}

// Registers for the values of a program; false if it needs more at a time than there are.
bool assign(const Map& map, Fast& fast) {
  constexpr int values = Map::max_inputs + Map::max_steps;
  int last_use[values] = {}, place[values] = {}, held_by[registers];
  bool needed[values] = {};
  for (int& by : held_by) by = -1;
  const auto keep = [&](int result) { needed[result] = true, last_use[result] = map.steps; };
  keep(map.result);
  for (int m = 0; m < map.more; ++m) keep(map.other[m].result);
  for (int s = map.steps; s-- > 0;) {
    const MapStep& step = map.step[s];
    const int given[3] = {step.a, step.b, step.c};
    for (int o = 0; o < operands_of(step.op) && needed[map.inputs + s]; ++o) {
      needed[given[o]] = true;
      if (last_use[given[o]] < s) last_use[given[o]] = s;
    }
  }
  for (int n = 0; n < map.inputs; ++n) place[n] = n, held_by[n] = n;
  for (int s = 0; s < map.steps; ++s) {
    const MapStep& step = map.step[s];
    if (!needed[map.inputs + s]) continue;
    FastStep& to = fast.step[fast.steps++];
    const int given[3] = {step.a, step.b, step.c}, value = map.inputs + s;
    to.op = step.op, to.x = step.x, to.operands = operands_of(step.op);
    to.drop = static_cast<unsigned char>(step.drop);
    for (int o = 0; o < to.operands; ++o) to.from[o] = static_cast<unsigned char>(place[given[o]]);
    int found = -1;
    for (int r = 0; r < registers && found < 0; ++r)
      if (held_by[r] < 0 || last_use[held_by[r]] <= s) found = r;
    if (found < 0) return false;
    held_by[found] = value, place[value] = found;
    to.to = static_cast<unsigned char>(found);
    if (step.op == Step::causal_mask) {
      if (step.columns % eight != 0 || !small(step.columns) || !small(step.rows) || !small(step.ahead) ||
          !small(step.window) || step.rows < 1)
        return false;
      to.rows = Divisor(step.rows), to.columns = Divisor(step.columns / eight);
      to.ahead = static_cast<int>(step.ahead), to.window = static_cast<int>(step.window);
    }
  }
  fast.outputs = 1 + map.more;
  fast.output[0] = {map.out.data, place[map.result]};
  for (int m = 0; m < map.more; ++m) fast.output[1 + m] = {map.other[m].out.data, place[map.other[m].result]};
  return true;
}

bool fast_cast(const Map& map, cudaStream_t stream) {
  const MapInput& in = map.input[0];
  const bool is_cast = map.steps == 1 && map.inputs == 1 && map.result == 1 && map.more == 0 &&
                       (map.step[0].op == Step::identity || map.step[0].op == Step::scale) &&
                       in.mode == MapInput::same && in.array.type != map.out.type && aligned(in.array);
  if (!is_cast) return false;
  const auto groups = static_cast<unsigned>(map.count / eight);
  const float factor = map.step[0].op == Step::scale ? static_cast<float>(map.step[0].x) : 1.0f;
  const unsigned blocks = blocks_for(groups, threads, multiprocessors * 16);
  const auto start = [&](auto from, auto to) {
    using T = decltype(from);
    using U = decltype(to);
    launch(cast_eights<T, U>, blocks, stream, static_cast<const T*>(in.array.data),
           static_cast<U*>(map.out.data), groups, factor);
    return true;
  };
  const Type from = in.array.type, to = map.out.type;
  if (from == Type::float32 && to == Type::bfloat16) return start(float(), __nv_bfloat16());
  if (from == Type::float32 && to == Type::float16) return start(float(), __half());
  if (from == Type::bfloat16 && to == Type::float32) return start(__nv_bfloat16(), float());
  if (from == Type::float16 && to == Type::float32) return start(__half(), float());
  return false;
}

}  // namespace

bool fast_map(const Map& map, cudaStream_t stream) {
  const Type type = map.out.type;
  if (!is_fast(type) || map.count % eight != 0 || map.count / eight >= most_units || map.out_stride != 1 ||
      !aligned(map.out) || map.inputs > registers || map.steps > most_steps)
    return false;
  if (fast_cast(map, stream)) return true;
  Fast fast;
  fast.eights = static_cast<unsigned>(map.count / eight);
  fast.inputs = map.inputs;
  for (int n = 0; n < map.inputs; ++n) {
    const MapInput& in = map.input[n];
    FastInput& to = fast.input[n];
    to.data = in.array.data, to.type = in.array.type, to.mode = in.mode;
    if (in.mode == MapInput::scalar) continue;
    if (in.mode == MapInput::strided || in.array.type != type || !aligned(in.array)) return false;
    if (in.mode == MapInput::row && in.period % eight != 0) return false;
    if (in.mode == MapInput::row) to.period = Divisor(in.period / eight);
  }
  for (int m = 0; m < map.more; ++m)
    if (map.other[m].out.type != type || !aligned(map.other[m].out)) return false;
  for (int d = 0; d < Map::max_drops; ++d)
    if (!fast_drop(map.drop[d], fast.drop[d])) return false;
  if (!assign(map, fast)) return false;
  return with_type(type, [&](auto of) {
    if (launch_shape<decltype(of)>(map, fast, stream)) return;
    launch(eights<decltype(of)>, blocks_for(fast.eights, threads, multiprocessors * 16), stream, fast);
  });
}

// --- SwiGLU's gradient, and SwiGLU of pairs: gate and up are neighbours

namespace {

template <class T>
__global__ void __launch_bounds__(threads) swiglu_pair_eights(const T* x, T* y, unsigned groups) {
  for (unsigned group = blockIdx.x * threads + threadIdx.x; group < groups; group += gridDim.x * threads) {
    Eight<T> raw[2], out;
    raw[0].load(x, 2 * group);
    raw[1].load(x, 2 * group + 1);
    float in[2 * eight], result[eight];
    raw[0].unpack_to(in);
    raw[1].unpack_to(in + eight);
#pragma unroll
    for (int e = 0; e < eight; ++e) result[e] = in[2 * e] * DeviceMath::sigmoid(in[2 * e]) * in[2 * e + 1];
    out.pack_from(result);
    out.store(y, group);
  }
}

// `pairs`: gate and dgate are pairs with up and dup, which are null.
template <class T, bool pairs>
__global__ void __launch_bounds__(threads)
    swiglu_grad_eights(const T* dy, const T* gate, const T* up, T* dgate, T* dup, unsigned groups) {
  for (unsigned group = blockIdx.x * threads + threadIdx.x; group < groups; group += gridDim.x * threads) {
    Eight<T> raw_dy, raw[2], out[2];
    raw_dy.load(dy, group);
    raw[0].load(gate, pairs ? 2 * group : group);
    raw[1].load(pairs ? gate : up, pairs ? 2 * group + 1 : group);
    float g[eight], in[2 * eight], result[2 * eight];
    raw_dy.unpack_to(g);
    raw[0].unpack_to(in);
    raw[1].unpack_to(in + eight);
#pragma unroll
    for (int e = 0; e < eight; ++e) {
      const int x = pairs ? 2 * e : e, u = pairs ? 2 * e + 1 : eight + e;
      const float s = DeviceMath::sigmoid(in[x]);
      result[x] = g[e] * in[u] * s * (1.0f + in[x] * (1.0f - s));
      result[u] = g[e] * in[x] * s;
    }
    out[0].pack_from(result);
    out[1].pack_from(result + eight);
    out[0].store(dgate, pairs ? 2 * group : group);
    out[1].store(pairs ? dgate : dup, pairs ? 2 * group + 1 : group);
  }
}

unsigned eights_of(int64_t count, std::initializer_list<Array> arrays) {
  const Type type = arrays.begin()->type;
  for (const Array& array : arrays)
    if (array.data && (array.type != type || !aligned(array))) return 0;
  return is_fast(type) && count % eight == 0 && count / eight < most_units / 2
             ? static_cast<unsigned>(count / eight)
             : 0;
}

}  // namespace

bool launch_swiglu_pairs(Array x, Array y, int64_t count, Stream stream) {
  const unsigned groups = eights_of(count, {x, y});
  return groups > 0 && with_type(x.type, [&](auto type) {
           using T = decltype(type);
           launch(swiglu_pair_eights<T>, blocks_for(groups, threads, multiprocessors * 16), of(stream),
                  pointer<const T>(x), pointer<T>(y), groups);
         });
}
bool launch_swiglu_grad(Array dy, Array gate, Array up, Array dgate, Array dup, int64_t count,
                        Stream stream) {
  const unsigned groups = eights_of(count, {dy, gate, up, dgate, dup});
  return groups > 0 && with_type(dy.type, [&](auto type) {
           using T = decltype(type);
           launch(up.data ? swiglu_grad_eights<T, false> : swiglu_grad_eights<T, true>,
                  blocks_for(groups, threads, multiprocessors * 16), of(stream), pointer<const T>(dy),
                  pointer<const T>(gate), pointer<const T>(up), pointer<T>(dgate), pointer<T>(dup), groups);
         });
}

}  // namespace boxcar::backends::cuda
