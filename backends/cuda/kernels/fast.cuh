// Launchers of the kernels on vectors (vectors.cuh). They return false, and launch nothing, if operands are
// not suited to vectors. Counts are above 0.
#pragma once

#include "backends/cuda/kernels/vectors.cuh"

namespace boxcar::backends::cuda {

// rows_fast.cu
bool fast_norm(const Norm& norm, cudaStream_t stream);
// Blocks whose sums of columns go to `partial`, [block, gamma or beta, column]; 0: not suited.
int64_t fast_norm_grad_blocks(const NormGrad& grad);
bool fast_norm_grad(const NormGrad& grad, float* partial, cudaStream_t stream);
bool fast_softmax(const Softmax& softmax, cudaStream_t stream);
bool fast_softmax_grad(Array dy, Array y, Array dx, int64_t rows, int64_t width, double scale,
                       cudaStream_t stream);
bool fast_cross_entropy(const Loss& loss, cudaStream_t stream);
bool fast_sum_exp(const Loss& loss, cudaStream_t stream);
bool fast_cross_entropy_grad(const Loss& loss, cudaStream_t stream);
bool fast_rotary(const Rotary& rotary, cudaStream_t stream);

// map_fast.cu: the program on eight elements at a time.
bool fast_map(const Map& map, cudaStream_t stream);

// moves_fast.cu
bool fast_move(const Move& move, cudaStream_t stream);
bool fast_gather(const Gather& gather, cudaStream_t stream);

// reduce_fast.cu; `scratch` has fast_reduce_scratch() bytes.
int64_t fast_reduce_scratch(const Reduce& reduce);
bool fast_reduce(const Reduce& reduce, void* scratch, cudaStream_t stream);

// images_fast.cu: channels last, in vectors; `scratch` has scratch_of_pool_grad() bytes.
bool fast_pool(const Pool& pool, cudaStream_t stream);
bool fast_pool_grad(const Pool& pool, void* scratch, cudaStream_t stream);

// update_fast.cu: all tensors of the same types.
bool fast_update(const Update& update, unsigned blocks, cudaStream_t stream);

}  // namespace boxcar::backends::cuda
