// The files that reference_nn.cpp and reference_conv.cpp are made of, one function each.
#pragma once

#include "backends/cpu/reference.h"
#include "ir/images.h"

namespace boxcar::backends::cpu {

// An image's extents and strides, whatever the order of its axes.
struct Image {
  Image(const ir::Shape& shape, const ir::Attrs& attrs) {
    const ir::ImageAxes axes = ir::image_axes(attrs);
    extent = axes.channels_first(shape);
    stride = axes.channels_first(strides(shape));
  }
  size_t at(int64_t n, int64_t c, int64_t row, int64_t column) const {
    return static_cast<size_t>(n * stride[0] + c * stride[1] + row * stride[2] + column * stride[3]);
  }
  bool has(int64_t row, int64_t column) const {
    return row >= 0 && row < extent[2] && column >= 0 && column < extent[3];
  }
  ir::Shape extent;  // image, channel, row, column
  std::vector<int64_t> stride;
};

void add_norm_kernels(KernelTable& table);       // reference_norm.cpp: layer, RMS and batch norm
void add_softmax_kernels(KernelTable& table);    // reference_softmax.cpp: softmax and losses
void add_embedding_kernels(KernelTable& table);  // reference_embedding.cpp
void add_sampling_kernels(KernelTable& table);   // reference_sampling.cpp
void add_moe_kernels(KernelTable& table);        // reference_moe.cpp
void add_pool_kernels(KernelTable& table);       // reference_pool.cpp

}  // namespace boxcar::backends::cpu
