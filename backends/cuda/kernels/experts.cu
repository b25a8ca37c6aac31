// Mixture of experts, and the choice of experts. Slots are counted by one thread per group and expert, in the
// order of tokens, so that drops do not depend on timing.
#include "backends/cuda/kernels/common.cuh"

namespace boxcar::backends::cuda {
namespace {

// slots[token of x, choice] = the row of y that the choice takes; it begins as -1, and stays so if there is
// none.
__global__ void count_slots(const __grid_constant__ Experts e, int64_t* slots) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= e.groups * e.experts) return;
  const int64_t group = i / e.experts, expert = i % e.experts, choices = e.all_tokens * e.choices;
  int64_t taken = 0;
  for (int64_t at = 0; at < choices && taken < e.capacity; ++at) {
    if (load_index(e.index, group * choices + at) - e.first_expert != expert) continue;
    const int64_t slot = taken++, token = at / e.choices - e.first_token;
    if (token < 0 || token >= e.tokens) continue;
    slots[(group * e.tokens + token) * e.choices + at % e.choices] = i * e.capacity + slot;
  }
}

void find_slots(const Experts& e, void* scratch, cudaStream_t stream) {
  if (scratch_of(e) == 0) return;
  cudaMemsetAsync(scratch, 0xff, static_cast<size_t>(scratch_of(e)), stream);
  const int64_t count = e.groups * e.experts;
  if (count == 0) return;
  launch(count_slots, static_cast<unsigned>((count + threads - 1) / threads), stream, e,
         static_cast<int64_t*>(scratch));
}

// A block for each choice.
template <class T>
__global__ void dispatch(const __grid_constant__ Experts e, const int64_t* slots) {
  const T* const x = static_cast<const T*>(e.x.data);
  T* const y = static_cast<T*>(e.y.data);
  for (int64_t i = blockIdx.x; i < e.groups * e.tokens * e.choices; i += gridDim.x) {
    const int64_t slot = slots[i];
    if (slot < 0) continue;
    for (int64_t w = threadIdx.x; w < e.width; w += blockDim.x)
      y[slot * e.width + w] = x[i / e.choices * e.width + w];
  }
}

// A block for each token.
template <class A>
__global__ void combine(const __grid_constant__ Experts e, const int64_t* slots) {
  for (int64_t token = blockIdx.x; token < e.groups * e.tokens; token += gridDim.x) {
    for (int64_t w = threadIdx.x; w < e.width; w += blockDim.x) {
      A sum = A(0);
      for (int64_t i = token * e.choices; i < (token + 1) * e.choices; ++i) {
        if (slots[i] < 0) continue;
        const A by = e.weight.data ? load<A>(e.weight, i) : A(1);
        sum += by * load<A>(e.y, slots[i] * e.width + w);
      }
      store(e.x, token * e.width + w, sum);
    }
  }
}

// dy[slot] = weight dx, dweight = sum(dx y[slot]). A block for each choice.
template <class A>
__global__ void combine_grads(const __grid_constant__ Experts e, const int64_t* slots) {
  for (int64_t i = blockIdx.x; i < e.groups * e.tokens * e.choices; i += gridDim.x) {
    const int64_t slot = slots[i], token = i / e.choices;
    A sum = A(0);
    if (slot >= 0) {
      const A by = load<A>(e.weight, i);
      for (int64_t w = threadIdx.x; w < e.width; w += blockDim.x) {
        const A dx = load<A>(e.x, token * e.width + w);
        sum += dx * load<A>(e.y, slot * e.width + w);
        store(e.dy, slot * e.width + w, by * dx);
      }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store(e.dweight, i, sum);
  }
}

__device__ inline bool before(double x, int64_t i, double y, int64_t j) {
  const bool nan_x = isnan(x), nan_y = isnan(y);
  if (nan_x || nan_y) return nan_x != nan_y ? nan_x : i < j;
  return x != y ? x > y : i < j;
}

// An element or a group of a row. None (at -1) comes behind all.
struct Best {
  double value = 0;
  int64_t at = -1;
};
__device__ inline bool is_before(Best a, Best b) {
  return a.at >= 0 && (b.at < 0 || before(a.value, a.at, b.value, b.at));
}

__device__ inline Best element(const TopK& t, int64_t row, int64_t at) {
  return {load<double>(t.x, row * t.width + at), at};
}

// A group with the sum of its two best elements.
__device__ inline Best scored(const TopK& t, int64_t row, int64_t group) {
  const int64_t size = t.width / t.groups;
  Best first, second;
  for (int64_t i = group * size; i < (group + 1) * size; ++i) {
    const Best x = element(t, row, i);
    if (is_before(x, first)) {
      second = first;
      first = x;
    } else if (is_before(x, second)) {
      second = x;
    }
  }
  return {second.at < 0 ? first.value : first.value + second.value, group};
}

// A thread for each row, which looks for the next one k times.
__global__ void top_k(const __grid_constant__ TopK t) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= t.rows) return;
  const bool in_groups = t.top_groups < t.groups;
  const int64_t size = t.width / t.groups;
  Best worst;  // of the best groups
  for (int64_t n = 0; in_groups && n < t.top_groups; ++n) {
    Best best;
    for (int64_t g = 0; g < t.groups; ++g) {
      const Best group = scored(t, row, g);
      if ((worst.at < 0 || is_before(worst, group)) && is_before(group, best)) best = group;
    }
    worst = best;
  }
  Best last;
  for (int64_t n = 0; n < t.k; ++n) {
    Best best;
    for (int64_t g = 0; g < t.groups; ++g) {
      if (in_groups && is_before(worst, scored(t, row, g))) continue;
      for (int64_t i = g * size; i < (g + 1) * size; ++i) {
        const Best x = element(t, row, i);
        if ((last.at < 0 || is_before(last, x)) && is_before(x, best)) best = x;
      }
    }
    store(t.values, row * t.k + n, best.value);
    static_cast<int64_t*>(t.index.data)[row * t.k + n] = best.at;
    last = best;
  }
}

}  // namespace

void launch_dispatch(const Experts& e, void* scratch, Stream stream) {
  const int64_t choices = e.groups * e.tokens * e.choices;
  if (choices == 0 || e.width == 0) return;
  find_slots(e, scratch, of(stream));
  const auto* const slots = static_cast<const int64_t*>(scratch);
  const unsigned blocks = blocks_for(choices, 1);
  const cudaStream_t s = of(stream);
  switch (e.x.type) {
    case Type::float64:
    case Type::int64:
      launch(dispatch<unsigned long long>, blocks, s, e, slots);
      break;
    case Type::float32:
    case Type::int32:
      launch(dispatch<unsigned>, blocks, s, e, slots);
      break;
    case Type::float16:
    case Type::bfloat16:
      launch(dispatch<unsigned short>, blocks, s, e, slots);
      break;
    default:
      launch(dispatch<unsigned char>, blocks, s, e, slots);
  }
}

void launch_combine(const Experts& e, void* scratch, bool wide, Stream stream) {
  const int64_t tokens = e.groups * e.tokens;
  if (tokens == 0 || e.width == 0) return;
  find_slots(e, scratch, of(stream));
  const auto* const slots = static_cast<const int64_t*>(scratch);
  launch(wide ? combine<double> : combine<float>, blocks_for(tokens, 1), of(stream), e, slots);
}

void launch_combine_grad(const Experts& e, void* scratch, bool wide, Stream stream) {
  const int64_t choices = e.groups * e.tokens * e.choices;
  if (choices == 0) return;
  find_slots(e, scratch, of(stream));
  const auto* const slots = static_cast<const int64_t*>(scratch);
  launch(wide ? combine_grads<double> : combine_grads<float>, blocks_for(choices, 1), of(stream), e, slots);
}

void launch_top_k(const TopK& t, Stream stream) {
  if (t.rows == 0 || t.k == 0) return;
  launch(top_k, static_cast<unsigned>((t.rows + threads - 1) / threads), of(stream), t);
}

}  // namespace boxcar::backends::cuda
