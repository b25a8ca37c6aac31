// Rows of the last axis on elements of any type: norms, softmax, cross entropy, rotary positions. Launchers
// take the kernels on vectors (rows_fast.cu) if operands are suited to them. Here a block for each row reads
// it again from the cache. Gradients of gamma and beta are sums over columns, with a block for each stretch
// of rows; stretches are combined in their order.
#include "backends/cuda/kernels/fast.cuh"

namespace boxcar::backends::cuda {
namespace {

template <class A>
__global__ void norm_rows(const __grid_constant__ Norm n) {
  const A width = static_cast<A>(n.width > 0 ? n.width : 1);
  for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
    const int64_t start = row * n.width;
    A mean = A(0), squares = A(0);
    if (n.beta.data) {
      for (int64_t i = threadIdx.x; i < n.width; i += blockDim.x) mean += load<A>(n.x, start + i);
      mean = block_sum(mean) / width;
    }
    for (int64_t i = threadIdx.x; i < n.width; i += blockDim.x) {
      const A centred = load<A>(n.x, start + i) - mean;
      squares += centred * centred;
    }
    const A rstd = A(1) / sqrt_of(block_sum(squares) / width + static_cast<A>(n.eps));
    for (int64_t i = threadIdx.x; i < n.width; i += blockDim.x) {
      const A scaled = (load<A>(n.x, start + i) - mean) * rstd * load<A>(n.gamma, i);
      store(n.y, start + i, n.beta.data ? scaled + load<A>(n.beta, i) : scaled);
    }
    if (threadIdx.x == 0) {
      if (n.mean.data) store(n.mean, row, mean);
      store(n.rstd, row, rstd);
    }
  }
}

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)); RMS leaves out
// mean(g).
template <class A>
__global__ void norm_rows_grad(const __grid_constant__ NormGrad n) {
  const A width = static_cast<A>(n.width > 0 ? n.width : 1);
  const bool centres = n.mean.data != nullptr;
  for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
    const int64_t start = row * n.width;
    const A mean = centres ? load<A>(n.mean, row) : A(0), rstd = load<A>(n.rstd, row);
    A sum = A(0), dot = A(0);
    for (int64_t i = threadIdx.x; i < n.width; i += blockDim.x) {
      const A g = load<A>(n.dy, start + i) * load<A>(n.gamma, i);
      sum += g;
      dot += g * (load<A>(n.x, start + i) - mean) * rstd;
    }
    sum = centres ? block_sum(sum) / width : A(0);
    dot = block_sum(dot) / width;
    for (int64_t i = threadIdx.x; i < n.width; i += blockDim.x) {
      const A g = load<A>(n.dy, start + i) * load<A>(n.gamma, i);
      const A normal = (load<A>(n.x, start + i) - mean) * rstd;
      store(n.dx, start + i, rstd * (g - sum - normal * dot));
    }
  }
}

// Rows of a stretch: 64 or more, for at most 1024 stretches, since a grid also has columns.
int64_t stretch_of(const NormGrad& n) {
  const int64_t least = 64, stretch = (n.rows + 1023) / 1024;
  return stretch > least ? stretch : least;
}
int64_t stretches_of(const NormGrad& n) { return (n.rows + stretch_of(n) - 1) / stretch_of(n); }

// Block (x, y): a column for each thread, one stretch of rows. partial: [stretch, gamma or beta, column].
template <class A>
__global__ void column_sums(const __grid_constant__ NormGrad n, int64_t stretch, A* partial) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= n.width) return;
  const bool centres = n.mean.data != nullptr;
  const int64_t begin = blockIdx.y * stretch;
  const int64_t end = begin + stretch < n.rows ? begin + stretch : n.rows;
  A gamma = A(0), beta = A(0);
  for (int64_t row = begin; row < end; ++row) {
    const A dy = load<A>(n.dy, row * n.width + column);
    const A mean = centres ? load<A>(n.mean, row) : A(0);
    gamma += dy * (load<A>(n.x, row * n.width + column) - mean) * load<A>(n.rstd, row);
    beta += dy;
  }
  A* const mine = partial + 2 * blockIdx.y * n.width + column;
  mine[0] = gamma;
  mine[n.width] = beta;
}
// Adds up partial [stretch, gamma or beta, column]: a block for 8 columns, in which each thread adds every
// n-th stretch; blockIdx.y 1: beta.
template <class A>
__global__ void columns_of_stretches(const __grid_constant__ NormGrad n, const A* partial, int stretches) {
  constexpr int columns = 8, parts = threads / columns;
  __shared__ A sums[threads];
  const int part = static_cast<int>(threadIdx.x) / columns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * columns + threadIdx.x % columns;
  const A* const from = partial + blockIdx.y * n.width + column;
  A sum = A(0);
  if (column < n.width) {
#pragma unroll 8
    for (int s = part; s < stretches; s += parts) sum += from[static_cast<int64_t>(s) * 2 * n.width];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (part > 0 || column >= n.width) return;
  for (int p = 1; p < parts; ++p) sum += sums[p * columns + threadIdx.x];
  store(blockIdx.y == 0 ? n.dgamma : n.dbeta, column, sum);
}

template <class A>
__global__ void softmax_rows(const __grid_constant__ Softmax s) {
  const A scale = static_cast<A>(s.scale);
  for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const int64_t start = row * s.width, last = row % s.queries + s.offset + 1;
    const int64_t visible = s.causal && last < s.width ? (last > 0 ? last : 0) : s.width;
    const int64_t first = s.window > 0 && last > s.window ? last - s.window : 0;
    A most = static_cast<A>(-INFINITY), sum = A(0);
    for (int64_t i = first + threadIdx.x; i < visible; i += blockDim.x) {
      const A x = scale * load<A>(s.x, start + i);
      most = x > most || x != x ? x : most;
    }
    most = block_max(most);
    for (int64_t i = first + threadIdx.x; i < visible; i += blockDim.x)
      sum += exp_of(scale * load<A>(s.x, start + i) - most);
    sum = block_sum(sum);
    for (int64_t i = threadIdx.x; i < s.width; i += blockDim.x) {
      const bool seen = i >= first && i < visible;
      store(s.y, start + i, seen ? exp_of(scale * load<A>(s.x, start + i) - most) / sum : A(0));
    }
  }
}

template <class A>
__global__ void softmax_rows_grad(Array dy, Array y, Array dx, int64_t rows, int64_t width, double factor) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t start = row * width;
    A dot = A(0);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
      dot += load<A>(dy, start + i) * load<A>(y, start + i);
    dot = block_sum(dot);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
      store(dx, start + i, static_cast<A>(factor) * load<A>(y, start + i) * (load<A>(dy, start + i) - dot));
  }
}

template <class A>
__device__ A picked(const Loss& l, int64_t row) {
  const int64_t at = load_index(l.labels, row) - l.offset;
  return at >= 0 && at < l.width ? load<A>(l.logits, row * l.width + at) : A(0);
}

// A running maximum and sum of exp(x - maximum): both with one more x at a time.
template <class A>
struct ExpSum {
  A most = static_cast<A>(-INFINITY), sum = A(0);
  __device__ void add(A x) {
    if (x > most || x != x) {
      sum = (sum == A(0) ? A(0) : sum * exp_of(most - x)) + A(1);
      most = x;
    } else if (x > static_cast<A>(-INFINITY)) {
      sum += exp_of(x - most);
    }
  }
};

template <class A>
__global__ void losses(const __grid_constant__ Loss l) {
  for (int64_t row = blockIdx.x; row < l.rows; row += gridDim.x) {
    ExpSum<A> mine;
    for (int64_t i = threadIdx.x; i < l.classes; i += blockDim.x)
      mine.add(load<A>(l.logits, row * l.width + i));
    const A most = block_max(mine.most);
    const A sum = block_sum(mine.sum == A(0) ? A(0) : mine.sum * exp_of(mine.most - most));
    if (threadIdx.x != 0) continue;
    store(l.out, row, log_of(sum) + most - picked<A>(l, row));
    if (l.m.data) store(l.m, row, most);
    if (l.z.data) store(l.z, row, sum);
  }
}

template <class A>
__global__ void exp_sums(const __grid_constant__ Loss l) {
  for (int64_t row = blockIdx.x; row < l.rows; row += gridDim.x) {
    const A most = load<A>(l.m, row);
    A sum = A(0);
    for (int64_t i = threadIdx.x; i < l.classes; i += blockDim.x)
      sum += exp_of(load<A>(l.logits, row * l.width + i) - most);
    sum = block_sum(sum);
    if (threadIdx.x != 0) continue;
    store(l.z, row, sum);
    if (l.out.data) store(l.out, row, picked<A>(l, row));
  }
}

template <class A>
__global__ void picks(const __grid_constant__ Loss l) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < l.rows) store(l.out, row, picked<A>(l, row));
}

template <class A>
__global__ void cross_entropy_rows_grad(const __grid_constant__ Loss l) {
  for (int64_t row = blockIdx.x; row < l.rows; row += gridDim.x) {
    const int64_t start = row * l.width, label = load_index(l.labels, row) - l.offset;
    const A dloss = load<A>(l.dloss, row), m = load<A>(l.m, row), z = load<A>(l.z, row);
    for (int64_t i = threadIdx.x; i < l.width; i += blockDim.x) {
      const A share = i < l.classes ? exp_of(load<A>(l.logits, start + i) - m) / z : A(0);
      store(l.out, start + i, dloss * (share - (i == label ? A(1) : A(0))));
    }
  }
}

// Angles in double: positions are large.
template <class A>
__global__ void rotate(const __grid_constant__ Rotary r) {
  const int64_t half = r.width / 2, all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < r.rows * half; i += all) {
    const int64_t row = i / half, pair = i % half, at = row * r.width + pair;
    const double share = static_cast<double>(2 * pair) / static_cast<double>(r.width);
    const double angle =
        (r.inverse ? -1.0 : 1.0) * static_cast<double>(row % r.sequence + r.offset) * pow(r.base, -share);
    const A c = static_cast<A>(cos(angle)), s = static_cast<A>(sin(angle));
    const A a = load<A>(r.x, at), b = load<A>(r.x, at + half);
    store(r.y, at, a * c - b * s);
    store(r.y, at + half, a * s + b * c);
  }
}

}  // namespace

void launch_norm(const Norm& n, bool wide, Stream stream) {
  if (n.rows == 0 || (!wide && fast_norm(n, of(stream)))) return;
  launch(wide ? norm_rows<double> : norm_rows<float>, blocks_for(n.rows, 1), of(stream), n);
}

int64_t scratch_of(const NormGrad& n) {
  const int64_t stretches = stretches_of(n), blocks = fast_norm_grad_blocks(n);
  return (stretches > blocks ? stretches : blocks) * 2 * n.width * 8;
}

template <class A>
static void run_norm_grad(const NormGrad& n, A* partial, cudaStream_t stream) {
  int64_t stretches = stretches_of(n);
  bool done = false;
  if constexpr (sizeof(A) == 4) done = n.rows > 0 && n.width > 0 && fast_norm_grad(n, partial, stream);
  if (done) stretches = fast_norm_grad_blocks(n);
  if (!done && n.rows > 0) launch(norm_rows_grad<A>, blocks_for(n.rows, 1), stream, n);
  if (n.width == 0) return;
  if (!done && stretches > 0)
    launch(column_sums<A>, dim3(blocks_for(n.width), static_cast<unsigned>(stretches)), stream, n,
           stretch_of(n), partial);
  launch(columns_of_stretches<A>, dim3(blocks_for(n.width, 8), n.dbeta.data ? 2 : 1), stream, n, partial,
         static_cast<int>(stretches));
}
void launch_norm_grad(const NormGrad& n, void* scratch, bool wide, Stream stream) {
  if (wide)
    run_norm_grad(n, static_cast<double*>(scratch), of(stream));
  else
    run_norm_grad(n, static_cast<float*>(scratch), of(stream));
}

void launch_softmax(const Softmax& s, bool wide, Stream stream) {
  if (s.rows * s.width == 0 || (!wide && fast_softmax(s, of(stream)))) return;
  launch(wide ? softmax_rows<double> : softmax_rows<float>, blocks_for(s.rows, 1), of(stream), s);
}
void launch_softmax_grad(Array dy, Array y, Array dx, int64_t rows, int64_t width, double scale, bool wide,
                         Stream stream) {
  if (rows * width == 0 || (!wide && fast_softmax_grad(dy, y, dx, rows, width, scale, of(stream)))) return;
  launch(wide ? softmax_rows_grad<double> : softmax_rows_grad<float>, blocks_for(rows, 1), of(stream), dy, y,
         dx, rows, width, scale);
}

void launch_cross_entropy(const Loss& l, bool wide, Stream stream) {
  if (l.rows == 0 || (!wide && fast_cross_entropy(l, of(stream)))) return;
  launch(wide ? losses<double> : losses<float>, blocks_for(l.rows, 1), of(stream), l);
}
void launch_sum_exp(const Loss& l, bool wide, Stream stream) {
  if (l.rows == 0 || (!wide && fast_sum_exp(l, of(stream)))) return;
  launch(wide ? exp_sums<double> : exp_sums<float>, blocks_for(l.rows, 1), of(stream), l);
}
void launch_pick(const Loss& l, bool wide, Stream stream) {
  if (l.rows == 0) return;
  const auto blocks = static_cast<unsigned>((l.rows + threads - 1) / threads);
  launch(wide ? picks<double> : picks<float>, blocks, of(stream), l);
}
void launch_cross_entropy_grad(const Loss& l, bool wide, Stream stream) {
  if (l.rows * l.width == 0 || (!wide && fast_cross_entropy_grad(l, of(stream)))) return;
  launch(wide ? cross_entropy_rows_grad<double> : cross_entropy_rows_grad<float>, blocks_for(l.rows, 1),
         of(stream), l);
}
void launch_rotary(const Rotary& r, bool wide, Stream stream) {
  if (r.rows * r.width == 0 || (!wide && fast_rotary(r, of(stream)))) return;
  launch(wide ? rotate<double> : rotate<float>, blocks_for(r.rows * r.width / 2), of(stream), r);
}

}  // namespace boxcar::backends::cuda
