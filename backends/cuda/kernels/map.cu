// Elementwise programs on elements of any type and place: one step in registers, longer ones over an array of
// values. Launchers take the program on eights (map_fast.cu) if operands are suited to it.
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

// A number as A, a choice as bool.
template <class Op, class A>
__device__ auto parameter(const MapStep& step) {
  if constexpr (Op::row.kind == ir::PointwiseRow::number)
    return static_cast<A>(step.x);
  else
    return step.x != 0;
}

template <class A>
__device__ A apply(const Map& map, const MapStep& step, int64_t i, A a, A b, A c) {
#define BOXCAR_CASES(op)                                                                     \
  case Step::op:                                                                             \
    return ir::pointwise::op::forward<DeviceMath>(a, parameter<ir::pointwise::op, A>(step)); \
  case Step::op##_grad:                                                                      \
    return ir::pointwise::op::backward<DeviceMath>(a, b, parameter<ir::pointwise::op, A>(step));
  switch (step.op) {
    BOXCAR_POINTWISE(BOXCAR_CASES)
    case Step::identity:
      return a;
    case Step::scale:
      return static_cast<A>(step.x) * a;
    case Step::to_boolean:
      return a != A(0) ? A(1) : A(0);
    case Step::truncate:
      return static_cast<A>(trunc(static_cast<double>(a)));
    case Step::dropout:
      return a * drop_factor<A>(map.drop[step.drop], i);
    case Step::causal_mask: {
      const int64_t behind = i / step.columns % step.rows + step.ahead - i % step.columns;
      return behind >= 0 && (step.window == 0 || behind < step.window) ? a : static_cast<A>(step.x);
    }
    case Step::add:
      return a + b;
    case Step::sub:
      return a - b;
    case Step::mul:
      return a * b;
    case Step::div:
      return a / b;
    default:
      return a != A(0) ? b : c;
  }
#undef BOXCAR_CASES
}

template <class A>
__device__ A operand(const Map& map, int which, int64_t i) {
  const MapInput& input = map.input[which];
  int64_t at = i;
  if (input.mode == MapInput::scalar) at = 0;
  if (input.mode == MapInput::row) at = i % input.period;
  if (input.mode == MapInput::strided) {
    at = 0;
    for (int d = map.dims; d-- > 0; i /= map.extent[d]) at += i % map.extent[d] * input.stride[d];
  }
  return load<A>(input.array, at);
}

template <class A>
__global__ void one_step(const __grid_constant__ Map map) {
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const MapStep& step = map.step[0];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < map.count; i += all) {
    const A a = operand<A>(map, step.a, i);
    const A b = map.inputs > 1 ? operand<A>(map, step.b, i) : A(0);
    const A c = map.inputs > 2 ? operand<A>(map, step.c, i) : A(0);
    store(map.out, i * map.out_stride, apply(map, step, i, a, b, c));
  }
}

template <class A>
__global__ void program(const __grid_constant__ Map map) {
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  A values[Map::max_inputs + Map::max_steps];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < map.count; i += all) {
    for (int n = 0; n < map.inputs; ++n) values[n] = operand<A>(map, n, i);
    for (int s = 0; s < map.steps; ++s) {
      const MapStep& step = map.step[s];
      values[map.inputs + s] = apply(map, step, i, values[step.a], values[step.b], values[step.c]);
    }
    store(map.out, i * map.out_stride, values[map.result]);
  }
}

}  // namespace

void launch_map(const Map& map, bool wide, Stream stream) {
  if (map.count == 0 || (!wide && fast_map(map, of(stream)))) return;
  if (map.more > 0) {
    Map one = map;
    one.more = 0;
    launch_map(one, wide, stream);
    for (int m = 0; m < map.more; ++m) {
      one.out = map.other[m].out, one.out_stride = 1, one.result = map.other[m].result;
      launch_map(one, wide, stream);
    }
    return;
  }
  const unsigned blocks = blocks_for(map.count);
  if (map.steps == 1 && map.result == map.inputs) {
    launch(wide ? one_step<double> : one_step<float>, blocks, of(stream), map);
    return;
  }
  launch(wide ? program<double> : program<float>, blocks, of(stream), map);
}

}  // namespace boxcar::backends::cuda
