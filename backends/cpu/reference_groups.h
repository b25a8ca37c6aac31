// The files that reference_nn.cpp and reference_conv.cpp are made of, one function each.
#pragma once

#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {

void add_norm_kernels(KernelTable& table);       // reference_norm.cpp: layer, RMS and batch norm
void add_softmax_kernels(KernelTable& table);    // reference_softmax.cpp: softmax and losses
void add_embedding_kernels(KernelTable& table);  // reference_embedding.cpp
void add_moe_kernels(KernelTable& table);        // reference_moe.cpp
void add_pool_kernels(KernelTable& table);       // reference_pool.cpp

}  // namespace boxcar::backends::cpu
