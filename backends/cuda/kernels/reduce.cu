// Reductions over axes of any strides and types, and over the members of a group. Launchers take the kernels
// on vectors (reduce_fast.cu) if operands are suited to them. A block for each result or, if there are few,
// for each stretch of one; stretches are then combined in their order.
#include "backends/cuda/kernels/combine.cuh"
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

constexpr int64_t stretch = 1 << 15;  // elements that a block combines
constexpr int64_t few = 1 << 10;      // results

__device__ int64_t place(int dims, const int64_t* extent, const int64_t* stride, int64_t i) {
  int64_t at = 0;
  for (int d = dims; d-- > 0; i /= extent[d]) at += i % extent[d] * stride[d];
  return at;
}

// Block (k, s): stretch s of result k. `partial` is null if there is one stretch.
template <class A>
__global__ void over_axes(const __grid_constant__ Reduce r, A* partial, int64_t length, int64_t stretches) {
  for (int64_t block = blockIdx.x; block < r.kept * stretches; block += gridDim.x) {
    const int64_t k = block / stretches, s = block % stretches;
    const int64_t base = place(r.keep_dims, r.keep_extent, r.keep_stride, k);
    const int64_t end = (s + 1) * length < r.reduced ? (s + 1) * length : r.reduced;
    A sum = nothing<A>(r.combine);
    for (int64_t i = s * length + threadIdx.x; i < end; i += blockDim.x) {
      const int64_t at = base + place(r.reduce_dims, r.reduce_extent, r.reduce_stride, i);
      sum = combined(r.combine, sum, prepared(r.combine, load<A>(r.in, at)));
    }
    sum = over_block(sum, [&r](A a, A b) { return combined(r.combine, a, b); });
    if (threadIdx.x != 0) continue;
    if (partial)
      partial[block] = sum;
    else
      store(r.out, k, static_cast<A>(r.factor) * sum);
  }
}

template <class A>
__global__ void over_stretches(const __grid_constant__ Reduce r, const A* partial, int64_t stretches) {
  const int64_t k = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= r.kept) return;
  A sum = nothing<A>(r.combine);
  for (int64_t s = 0; s < stretches; ++s) sum = combined(r.combine, sum, partial[k * stretches + s]);
  store(r.out, k, static_cast<A>(r.factor) * sum);
}

int64_t stretches_of(const Reduce& r) {
  return r.kept <= few && r.reduced > stretch ? (r.reduced + stretch - 1) / stretch : 1;
}

template <class A>
void run(const Reduce& r, void* scratch, cudaStream_t stream) {
  const int64_t stretches = stretches_of(r), length = stretches > 1 ? stretch : r.reduced;
  A* const partial = stretches > 1 ? static_cast<A*>(scratch) : nullptr;
  launch(over_axes<A>, blocks_for(r.kept * stretches, 1), stream, r, partial, length, stretches);
  if (partial) launch(over_stretches<A>, blocks_for(r.kept), stream, r, partial, stretches);
}

template <class Stored, class Wide>
struct As {
  __device__ static Wide get(const void* from, int64_t i) {
    return static_cast<Wide>(static_cast<const Stored*>(from)[i]);
  }
  __device__ static void put(void* to, int64_t i, Wide x) {
    static_cast<Stored*>(to)[i] = static_cast<Stored>(x);
  }
};

template <class Stored, class Wide>
__global__ void over_parts(const __grid_constant__ Parts parts, void* out, int64_t count, Combine combine) {
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += all) {
    Wide sum = As<Stored, Wide>::get(parts.part[0], i);
    for (int p = 1; p < parts.parts; ++p)
      sum = combined(combine, sum, As<Stored, Wide>::get(parts.part[p], i));
    As<Stored, Wide>::put(out, i, sum);
  }
}

}  // namespace

int64_t scratch_of(const Reduce& r) {
  const int64_t own = stretches_of(r) > 1 ? r.kept * stretches_of(r) * 8 : 0, fast = fast_reduce_scratch(r);
  return own > fast ? own : fast;
}

void launch_reduce(const Reduce& r, void* scratch, bool wide, Stream stream) {
  if (r.kept == 0 || (!wide && fast_reduce(r, scratch, of(stream)))) return;
  if (wide)
    run<double>(r, scratch, of(stream));
  else
    run<float>(r, scratch, of(stream));
}

void launch_reduce_parts(const Parts& parts, void* out, int64_t count, Type type, Combine combine,
                         Stream stream) {
  if (count == 0) return;
  const unsigned blocks = blocks_for(count);
  const cudaStream_t s = of(stream);
  switch (type) {
    case Type::float64:
      launch(over_parts<double, double>, blocks, s, parts, out, count, combine);
      break;
    case Type::float32:
      launch(over_parts<float, float>, blocks, s, parts, out, count, combine);
      break;
    case Type::float16:
      launch(over_parts<__half, float>, blocks, s, parts, out, count, combine);
      break;
    case Type::bfloat16:
      launch(over_parts<__nv_bfloat16, float>, blocks, s, parts, out, count, combine);
      break;
    case Type::int64:
      launch(over_parts<long long, long long>, blocks, s, parts, out, count, combine);
      break;
    case Type::int32:
      launch(over_parts<int, long long>, blocks, s, parts, out, count, combine);
      break;
    case Type::int8:
      launch(over_parts<signed char, long long>, blocks, s, parts, out, count, combine);
      break;
    default:
      launch(over_parts<unsigned char, int>, blocks, s, parts, out, count, combine);
  }
}

}  // namespace boxcar::backends::cuda
