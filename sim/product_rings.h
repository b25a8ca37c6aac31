// Products of tensor parallelism in chunks of rows (Wang et al. 2023, doi 10.1145/3567955.3567959): the
// overlap of Transformer Engine's userbuffers and of PyTorch's asynchronous tensor parallelism.
//
//   ln1 | gather | qkv | ...        in chunks   ln1 | qkv qkv qkv qkv | ...
//                                                     gather gather gather
//
// A product takes part if nothing else runs beside its exchange: a gather of its rows that begins when the
// kernel before it has ended, or a reduce-scatter of its result that the kernel after it waits for. Chunks
// have fewer rows, so they fill a device less well, and those of a reduce-scatter are added up afterwards;
// that is what the overlap costs.
#pragma once

#include "backends/machines/forward.h"
#include "ir/op.h"
#include "sim/rings.h"

namespace boxcar::sim {

// Adds the rings of products, apart from gradients of weights, which sum over rows.
void add_product_rings(const ir::Program& program, KernelRings& rings);

// Seconds to add up the chunks of all ranks, each of type `chunk`, at the end of a reduce-scatter: one kernel
// (torch.sum of _fused_matmul_reduce_scatter in torch/distributed/_symmetric_memory, reduce_buf of
// Transformer Engine's CommOverlapP2PBase::split_overlap_rs).
double chunk_sum_seconds(const backends::DeviceProfile& device, int ranks, const ir::TensorType& chunk);

// Turns the operand and result types of a product into those of one of `ranks` chunks.
void take_chunk(int ranks, ir::Types& inputs, ir::Types& outputs);

}  // namespace boxcar::sim
