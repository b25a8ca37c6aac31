// Convolutional networks as logical graphs of one micro-batch, forward to loss.
//
//   resnet: 7x7 stem, max pool, bottleneck blocks (a layer each) in four groups, `width` times as wide
//   inside;
//     layers 16 (ResNet-50), 33 (ResNet-101) or 50 (ResNet-152). v1.5: a block's stride is in its 3x3
//   wide_resnet: the same, but only the 3x3 convolution is `width` times as wide as the first
//   alexnet: five convolutions and three products (a layer each)
//   unet: pairs of 3x3 convolutions (a layer each), `layers` odd: down with max pools to the middle one, up
//     with transposed convolutions, each joined to the same level's result on the way down; labels by pixel
//   diffusion_unet: the U-Net of latent diffusion. Each level has a residual and a transformer block (8
//     heads). The last level down and the last level up have no transformer block; the last level up has
//     two residual blocks. In the middle are two residual blocks around a transformer block. Each of these is
//     a layer. Channels double per level, except at the last. The loss is the mean square error of each pixel
//
//   ConvNet{"resnet", 16, 64, 1, 224, 1000}        ResNet-50 v1.5: 25,557,032 parameters, 4.09 G
//                                                  multiply-adds an image
//   ConvNet{"resnet", 33, 64, 2, 224, 1000}        Wide-ResNet-101-2: 126,886,696 parameters
//   ConvNet{"alexnet", 8, 64, 1, 224, 1000}        61,100,840 parameters
//   ConvNet{"diffusion_unet", 9, 320, 1, 32, 4}    471,190,724 parameters
//
// Batch norm takes statistics over each device's own samples, as published runs do. The diffusion U-Net has
// batch norms where published ones have group norms. These have the same number of parameters and bytes.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace boxcar::ir::models {

struct ConvNet {
  std::string family = "resnet";  // resnet | wide_resnet | alexnet | unet | diffusion_unet
  int64_t layers = 0;
  int64_t channels = 0;  // of the first convolution
  int64_t width = 1;     // of residual networks
  int64_t image = 224;   // height and width
  int64_t classes = 0;   // diffusion_unet: predicted channels of a pixel
  // Images are [batch, height, width, channels] inside (ir/images.h). Inputs and parameters do not depend on
  // it: images are transposed at the input.
  bool channels_last = false;
  friend bool operator==(const ConvNet&, const ConvNet&) = default;
};

const std::vector<std::string>& conv_net_families();
bool is_conv_net(const std::string& family);

// Throws Error naming the key for impossible sizes.
void check_sizes(const ConvNet& config);

// Inputs "images": float32[batch, 3, image, image], and "labels": int64[batch] or [batch, image, image].
// Parameters "h0.conv1.weight", "h0.norm1.gamma", ...; a layer's output is "h0.out". Output: "loss".
// diffusion_unet reads, all float32: "images"; "times"[batch, channels], the sines of each image's time step;
// "context"[batch, tokens, 4 channels], one token for each of the smallest level's pixels; and
// "targets"[batch, classes, image, image].
Graph build(const ConvNet& config, int64_t batch);

int64_t parameters(const ConvNet& config);

}  // namespace boxcar::ir::models
