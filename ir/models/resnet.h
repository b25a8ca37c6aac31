// Residual networks of bottleneck blocks as logical graphs of one micro-batch, forward to loss: ResNet-50
// v1.5 (the stride of a block stands in its 3x3 convolution), deeper, and wide ones.
//
//   ResNet{}                          ResNet-50 v1.5: 25,557,032 parameters, 4.09 G multiply-adds an image
//   ResNet{.depth = 101, .width = 2}  Wide-ResNet-101-2: 126,886,696 parameters
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace boxcar::ir::models {

struct ResNet {
  int64_t depth = 50;  // 50, 101 or 152
  int64_t channels =
      64;  // of the first convolution; what the four stages put out has 4, 8, 16 and 32 times as many
  int64_t width = 1;    // blocks are this many times as wide inside
  int64_t image = 224;  // rows and columns, a multiple of 32
  int64_t classes = 1000;
};

// Throws Error naming the key for sizes that cannot be.
void check(const ResNet& config);

// Names: "stem.conv", "stem.bn", "stem.relu", "stem.pool"; in block i (`Op::layer`) "h0.conv1", "h0.bn1",
// "h0.relu1", ..., "h0.bn3", "h0.shortcut.conv" and "h0.shortcut.bn" where the shape changes, "h0.sum",
// "h0.relu3"; after the last block "pool", "head", "loss". Parameters "h0.conv1.weight", "h0.bn1.gamma",
// "h0.bn1.beta", "head.weight", "head.bias". Inputs "images": float32[batch, 3, image, image] and "labels":
// int64[batch]. Each device normalises by its own part of the batch. Output: "loss", a scalar mean.
Graph build(const ResNet& config, int64_t batch);

int64_t blocks(const ResNet& config);
int64_t parameters(const ResNet& config);  // running statistics are none

}  // namespace boxcar::ir::models
