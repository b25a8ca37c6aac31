// Convolutional networks as logical graphs of one micro-batch, forward to loss.
//
//   wide_resnet: 7x7 stem, max pool, bottleneck blocks (a layer each) in four groups of 3, 4, 6 (or 23) and
//   3,
//     their 3x3 convolution `width` times as wide as the first; layers 16 (ResNet-50) or 33 (ResNet-101)
//   unet: pairs of 3x3 convolutions (a layer each), `layers` odd: down with max pools to the middle one, up
//     with transposed convolutions, each beside what the same level made on the way down; labels by pixel
//
// Batch norm's statistics are those of each device's own samples, as published runs have them.
#pragma once

#include "ir/graph.h"

namespace boxcar::ir::models {

struct ConvNet {
  std::string family = "wide_resnet";  // or unet
  int64_t layers = 0;
  int64_t channels = 0;  // of the stem, of the first pair
  int64_t width = 1;     // wide_resnet alone
  int64_t image = 224;   // height and width
  int64_t classes = 0;
};

bool is_conv_net(const std::string& family);

// Throws Error naming the key for sizes that cannot be.
void check_sizes(const ConvNet& config);

// Inputs "images": float32[batch, 3, image, image], and "labels": int64[batch] or [batch, image, image].
// Parameters "h0.conv1.weight", "h0.norm1.gamma", ...; a layer's output is "h0.out". Output: "loss".
Graph build(const ConvNet& config, int64_t batch);

int64_t parameters(const ConvNet& config);

}  // namespace boxcar::ir::models
