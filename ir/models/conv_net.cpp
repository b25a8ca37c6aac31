#include "ir/models/conv_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "ir/images.h"
#include "ir/models/require.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir::models {
namespace {

struct Depth {
  int64_t layers;
  std::array<int64_t, 4> blocks;  // of each group
};
constexpr Depth depths[] = {{16, {3, 4, 6, 3}}, {33, {3, 4, 23, 3}}, {50, {3, 8, 36, 3}}};

const Depth* find_depth(int64_t layers) {
  const auto* found =
      std::find_if(std::begin(depths), std::end(depths), [&](const Depth& d) { return d.layers == layers; });
  return found == std::end(depths) ? nullptr : found;
}

constexpr int64_t alexnet_layers = 8;
constexpr int64_t heads = 8;  // of diffusion_unet

// Channels of a level of diffusion_unet.
int64_t level_channels(const ConvNet& c, int64_t level) {
  return c.channels << std::min(level, c.layers / 2 - 2);
}

TensorType f32(Shape shape) { return {std::move(shape), DType::float32}; }

class NetWriter {
 public:
  NetWriter(const ConvNet& config, int64_t batch)
      : c_(config), batch_(batch), b_(config.family), axes_(image_axes(layout({}))) {}

  Graph run() {
    const TensorId images = to_layout(b_.input("images", f32({batch_, 3, c_.image, c_.image})), "images");
    if (c_.family == "diffusion_unet") {
      square_loss(diffusion_unet(images));
    } else {
      const bool pixels = c_.family == "unet";
      const TensorId scores = pixels                   ? unet(images)
                              : c_.family == "alexnet" ? alexnet(images)
                                                       : resnet(images);
      const TensorId labels =
          b_.input("labels", {pixels ? Shape{batch_, c_.image, c_.image} : Shape{batch_}, DType::int64});
      loss(scores, labels, pixels ? Shape{0, 1, 2} : Shape{0});
    }
    Graph graph = b_.finish();
    graph.layers = static_cast<int>(c_.layers);
    return graph;
  }

 private:
  // The code below writes images with channels first; axes_ gives their true order.
  Attrs layout(Attrs attrs) const {
    attrs["channels_last"] = c_.channels_last;
    return attrs;
  }
  Shape shape_of(TensorId image) const { return axes_.channels_first(b_.type(image).shape); }
  int64_t channels(TensorId image) const { return shape_of(image)[1]; }
  int64_t axis(size_t axis) const { return static_cast<int64_t>(axis); }
  Shape shape(int64_t n, int64_t c, int64_t h, int64_t w) const { return axes_.shape(n, c, h, w); }
  // to_layout: from channels first to the images' order; to_first: back; to_last: from the images' order to
  // channels last; from_last: back.
  TensorId to_layout(TensorId x, const std::string& name) {
    return c_.channels_last ? b_.op1("transpose", {x}, {{"perm", Shape{0, 2, 3, 1}}}, name + ".last") : x;
  }
  TensorId to_first(TensorId x, const std::string& name) {
    return c_.channels_last ? b_.op1("transpose", {x}, {{"perm", Shape{0, 3, 1, 2}}}, name + ".first") : x;
  }
  TensorId to_last(TensorId x, const std::string& name) {
    return c_.channels_last ? x : b_.op1("transpose", {x}, {{"perm", Shape{0, 2, 3, 1}}}, name);
  }
  TensorId from_last(TensorId x, const std::string& name) {
    return c_.channels_last ? x : b_.op1("transpose", {x}, {{"perm", Shape{0, 3, 1, 2}}}, name);
  }

  void layer(int64_t index) { b_.set_layer(static_cast<int>(index), layer_name(static_cast<int>(index))); }
  void end() { b_.set_layer(static_cast<int>(c_.layers), ""); }

  TensorId conv(TensorId x, const std::string& name, int64_t to, int64_t kernel, int64_t stride = 1) {
    return conv(x, name, to, kernel, stride, kernel / 2);
  }

  TensorId conv(TensorId x, const std::string& name, int64_t to, int64_t kernel, int64_t stride,
                int64_t padding) {
    const TensorId weight = b_.parameter(name + ".weight", f32({to, channels(x), kernel, kernel}));
    return b_.op1("conv2d", {x, weight}, layout({{"stride", stride}, {"padding", padding}}), name);
  }

  // A bias of each channel of an image.
  TensorId biased(TensorId x, const std::string& name) {
    TensorId bias = b_.parameter(name + ".bias", f32({channels(x), 1, 1}));
    if (c_.channels_last)
      bias = b_.op1("reshape", {bias}, {{"shape", Shape{channels(x)}}}, name + ".bias_by_channel");
    return b_.op1("add", {x, bias}, {}, name + ".bias_add");
  }

  TensorId product(TensorId x, const std::string& name, int64_t to) {
    const TensorId weight = b_.parameter(name + ".weight", f32({b_.type(x).shape.back(), to}));
    return b_.op1("matmul", {x, weight}, {}, name);
  }

  TensorId linear(TensorId x, const std::string& name, int64_t to) {
    const TensorId y = product(x, name, to);
    return b_.op1("add", {y, b_.parameter(name + ".bias", f32({to}))}, {}, name + ".bias_add");
  }

  TensorId norm(TensorId x, const std::string& name) {
    const TensorId gamma = b_.parameter(name + ".gamma", f32({channels(x)}));
    const TensorId beta = b_.parameter(name + ".beta", f32({channels(x)}));
    return b_.op("batch_norm", {x, gamma, beta}, layout({{"local", true}}), name)[0];
  }

  TensorId relu(TensorId x, const std::string& name) { return b_.op1("relu", {x}, {}, name); }

  TensorId conv_norm_relu(TensorId x, const std::string& number, int64_t to, int64_t kernel,
                          int64_t stride = 1) {
    const TensorId y = norm(conv(x, "conv" + number, to, kernel, stride), "norm" + number);
    return relu(y, "relu" + number);
  }

  // --- resnet, wide_resnet

  TensorId bottleneck(TensorId x, int64_t inner, int64_t stride) {
    TensorId y = conv_norm_relu(x, "1", c_.family == "resnet" ? inner * c_.width : inner, 1);
    y = conv_norm_relu(y, "2", inner * c_.width, 3, stride);
    y = norm(conv(y, "conv3", 4 * inner, 1), "norm3");
    const bool same = stride == 1 && channels(x) == 4 * inner;
    const TensorId beside = same ? x : norm(conv(x, "beside", 4 * inner, 1, stride), "beside.norm");
    return relu(b_.op1("add", {y, beside}, {}, "sum"), "out");
  }

  TensorId resnet(TensorId images) {
    b_.set_layer(-1, "stem");
    TensorId x = conv_norm_relu(images, "", c_.channels, 7, 2);
    x = b_.op1("max_pool2d", {x},
               layout({{"kernel", int64_t{3}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}}), "pool");
    int64_t index = 0, inner = c_.channels;
    for (const int64_t blocks : find_depth(c_.layers)->blocks) {
      for (int64_t block = 0; block < blocks; ++block, ++index) {
        layer(index);
        x = bottleneck(x, inner, index > 0 && block == 0 ? 2 : 1);
      }
      inner *= 2;
    }
    end();
    x = b_.op1("reduce_mean", {x}, {{"axes", Shape{axis(axes_.height), axis(axes_.width)}}}, "pool");
    return linear(x, "head", c_.classes);
  }

  // --- alexnet

  TensorId pool(TensorId x) {
    return b_.op1("max_pool2d", {x}, layout({{"kernel", int64_t{3}}, {"stride", int64_t{2}}}), "pool");
  }

  TensorId alexnet(TensorId x) {
    struct Layer {
      int64_t times, kernel, stride;
      bool pooled;
    };
    constexpr Layer layers[] = {
        {1, 11, 4, false}, {3, 5, 1, true}, {6, 3, 1, true}, {4, 3, 1, false}, {4, 3, 1, false}};
    int64_t index = 0;
    for (const Layer& l : layers) {
      layer(index++);
      if (l.pooled) x = pool(x);
      // The first convolution leaves out a row and a column on either side.
      const int64_t padding = l.stride > 1 ? 2 : l.kernel / 2;
      x = relu(biased(conv(x, "conv", l.times * c_.channels, l.kernel, l.stride, padding), "conv"), "out");
    }
    layer(index++);
    x = to_first(pool(x), "pool");
    const Shape& shape = b_.type(x).shape;
    x = b_.op1("reshape", {x}, {{"shape", Shape{batch_, shape[1] * shape[2] * shape[3]}}}, "flat");
    x = relu(linear(x, "fc", 64 * c_.channels), "out");
    layer(index++);
    x = relu(linear(x, "fc", 64 * c_.channels), "out");
    layer(index++);
    x = linear(x, "fc", c_.classes);
    end();
    return x;
  }

  // --- unet

  TensorId pair(TensorId x, int64_t to) {
    return relu(norm(conv(conv_norm_relu(x, "1", to, 3), "conv2", to, 3), "norm2"), "out");
  }

  // Doubles height and width by a transposed 2 x 2 convolution with stride 2.
  TensorId up(TensorId x) {
    const Shape shape = shape_of(x);
    const int64_t to = shape[1] / 2;
    const Shape size{2 * shape[2], 2 * shape[3]};
    const TensorId weight = b_.parameter("up.weight", f32({shape[1], to, 2, 2}));
    const TensorId y =
        b_.op1("conv2d_input_grad", {x, weight},
               layout({{"stride", int64_t{2}}, {"padding", int64_t{0}}, {"input_size", size}}), "up");
    return biased(y, "up");
  }

  TensorId unet(TensorId x) {
    const int64_t depth = c_.layers / 2;
    std::vector<TensorId> skips;
    for (int64_t level = 0; level <= depth; ++level) {
      layer(level);
      if (level > 0) x = b_.op1("max_pool2d", {x}, layout({}), "pool");
      x = pair(x, c_.channels << level);
      skips.push_back(x);
    }
    for (int64_t level = depth - 1; level >= 0; --level) {
      layer(2 * depth - level);
      x = beside(at(skips, level), up(x), "beside");
      x = pair(x, c_.channels << level);
    }
    end();
    x = biased(conv(x, "head", c_.classes, 1), "head");
    return to_last(x, "scores");
  }

  // --- diffusion_unet

  TensorId silu(TensorId x, const std::string& name) { return b_.op1("silu", {x}, {}, name); }
  TensorId sum(TensorId x, TensorId y, const std::string& name) { return b_.op1("add", {x, y}, {}, name); }

  // A residual block with a projection of the time step between its convolutions.
  TensorId residual(TensorId x, const std::string& name, int64_t to) {
    const auto normed = [&](TensorId y, const std::string& at) {
      return silu(norm(y, name + ".norm" + at), name + ".silu" + at);
    };
    const auto conv3 = [&](TensorId y, const std::string& at) { return biased(conv(y, at, to, 3), at); };
    const TensorId time = linear(time_, name + ".time", to);
    TensorId y = conv3(normed(x, "1"), name + ".conv1");
    y = sum(y, b_.op1("reshape", {time}, {{"shape", shape(batch_, to, 1, 1)}}, name + ".time_by_channel"),
            name + ".timed");
    y = conv3(normed(y, "2"), name + ".conv2");
    const std::string beside = name + ".beside";
    return sum(channels(x) == to ? x : biased(conv(x, beside, to, 1), beside), y, name);
  }

  TensorId attention(TensorId x, TensorId context, const std::string& name) {
    const int64_t width = b_.type(x).shape.back(), d = width / heads;
    const auto by_head = [&](TensorId from, const char* which) {
      const std::string at = name + which;
      return b_.op1("merge_heads_grad", {product(from, at, width)}, {{"head_dim", d}}, at + ".heads");
    };
    const TensorId q = by_head(x, ".q"), k = by_head(context, ".k"), v = by_head(context, ".v");
    TensorId y = b_.op1("batch_matmul", {q, k}, {{"transpose_b", true}}, name + ".scores");
    y = b_.op1("scale", {y}, {{"factor", 1 / std::sqrt(static_cast<double>(d))}}, name + ".scale");
    y = b_.op1("batch_matmul", {b_.op1("softmax", {y}, {}, name + ".softmax"), v}, {}, name + ".values");
    return linear(b_.op1("merge_heads", {y}, {}, name + ".merge"), name + ".out", width);
  }

  TensorId layer_norm(TensorId x, const std::string& name) {
    const int64_t width = b_.type(x).shape.back();
    const TensorId weight = b_.parameter(name + ".weight", f32({width}));
    return b_.op("layer_norm", {x, weight, b_.parameter(name + ".bias", f32({width}))}, {}, name)[0];
  }

  // A transformer block with pixels as tokens: self-attention, attention to the context, and a gated
  // feed-forward.
  TensorId transformer(TensorId image) {
    const Shape shape = shape_of(image);
    const int64_t width = shape[1];
    TensorId x = biased(conv(norm(image, "in_norm"), "in", width, 1), "in");
    x = to_last(x, "by_pixel");
    x = b_.op1("reshape", {x}, {{"shape", Shape{batch_, shape[2] * shape[3], width}}}, "tokens");
    const TensorId own = layer_norm(x, "ln1");
    x = sum(x, attention(own, own, "self"), "add1");
    x = sum(x, attention(layer_norm(x, "ln2"), context_, "cross"), "add2");
    const TensorId y = layer_norm(x, "ln3");
    const TensorId gate = b_.op1("gelu", {linear(y, "ff.gate", 4 * width)}, {}, "ff.gelu");
    const TensorId gated = b_.op1("mul", {linear(y, "ff.up", 4 * width), gate}, {}, "ff.gated");
    x = sum(x, linear(gated, "ff.down", width), "add3");
    x = b_.op1("reshape", {x}, {{"shape", Shape{batch_, shape[2], shape[3], width}}}, "by_row");
    x = from_last(x, "by_channel");
    return sum(image, biased(conv(x, "after", width, 1), "after"), "attended");
  }

  // Repeats every pixel four times and applies a convolution.
  TensorId nearest_up(TensorId x) {
    const Shape s = shape_of(x);
    const auto each_pixel = [&](int64_t times) {
      return c_.channels_last ? Shape{s[0], s[2], times, s[3], times, s[1]}
                              : Shape{s[0], s[1], s[2], times, s[3], times};
    };
    x = b_.op1("reshape", {x}, {{"shape", each_pixel(1)}}, "up.apart");
    x = b_.op1("broadcast_to", {x}, {{"shape", each_pixel(2)}}, "up.four");
    x = b_.op1("reshape", {x}, {{"shape", shape(s[0], s[1], 2 * s[2], 2 * s[3])}}, "up.larger");
    return biased(conv(x, "up", s[1], 3), "up");
  }

  TensorId beside(TensorId x, TensorId skip, const std::string& name) {
    return b_.op1("concat", {x, skip}, {{"axis", axis(axes_.channel)}}, name);
  }

  TensorId diffusion_unet(TensorId images) {
    const int64_t depth = c_.layers / 2, side = c_.image >> (depth - 1);
    const int64_t smallest = level_channels(c_, depth - 1);
    const TensorId times = b_.input("times", f32({batch_, c_.channels}));
    context_ = b_.input("context", f32({batch_, side * side, smallest}));
    TensorId t = silu(linear(times, "time.fc1", 4 * c_.channels), "time.silu");
    time_ = silu(linear(t, "time.fc2", 4 * c_.channels), "time.out");
    const TensorId stem = biased(conv(images, "stem", c_.channels, 3), "stem");
    TensorId x = stem;
    std::vector<TensorId> skips;
    for (int64_t level = 0; level < depth; ++level) {
      layer(level);
      const bool last = level == depth - 1;
      x = residual(x, "block", level_channels(c_, level));
      if (!last) x = transformer(x);
      skips.push_back(x);
      if (!last) x = biased(conv(x, "down", channels(x), 3, 2), "down");
    }
    layer(depth);
    x = residual(transformer(residual(x, "block1", smallest)), "block2", smallest);
    for (int64_t level = depth - 1; level >= 0; --level) {
      layer(2 * depth - level);
      if (level < depth - 1) x = nearest_up(x);
      x = residual(beside(x, at(skips, level), "beside"), "block", level_channels(c_, level));
      x = level > 0 ? transformer(x) : residual(beside(x, stem, "beside_stem"), "block2", c_.channels);
    }
    end();
    x = silu(norm(x, "head.norm"), "head.silu");
    return biased(conv(x, "head", c_.classes, 3), "head");
  }

  void square_loss(TensorId predicted) {
    const TensorId targets =
        to_layout(b_.input("targets", f32({batch_, c_.classes, c_.image, c_.image})), "targets");
    const TensorId off = b_.op1("sub", {predicted, targets}, {}, "loss.off");
    b_.op1("reduce_mean", {b_.op1("mul", {off, off}, {}, "loss.square")}, {{"axes", Shape{0, 1, 2, 3}}},
           loss_name);
  }

  void loss(TensorId scores, TensorId labels, const Shape& all) {
    const TensorId max = b_.op1("reduce_max", {scores}, {{"axes", Shape{-1}}}, "loss.max");
    const TensorId sum = b_.op1("sum_exp", {scores, max}, {}, "loss.sum_exp");
    const TensorId pick = b_.op1("pick", {scores, labels}, {}, "loss.pick");
    const TensorId nll = b_.op1("nll", {max, sum, pick}, {}, "loss.nll");
    b_.op1("reduce_mean", {nll}, {{"axes", all}}, loss_name);
  }

  ConvNet c_;
  int64_t batch_;
  Builder b_;
  const ImageAxes axes_;
  TensorId time_ = -1, context_ = -1;  // of diffusion_unet
};

void check_levels(const ConvNet& c) {
  const bool diffusion = c.family == "diffusion_unet";
  const int64_t least = diffusion ? 5 : 1;
  require(c.layers % 2 == 1 && c.layers >= least && c.layers < 20, "layers",
          fmt::format("is {}, expected an odd number{} up to 19: levels down, one in the middle, levels up",
                      c.layers, diffusion ? " from 5" : ""));
  const int64_t scale = int64_t{1} << (c.layers / 2 - (diffusion ? 1 : 0));
  require(c.image % scale == 0, "image", fmt::format("{} is no multiple of {}", c.image, scale));
  require(!diffusion || c.channels % heads == 0, "channels",
          fmt::format("{} is no multiple of the {} heads of attention", c.channels, heads));
}

}  // namespace

const std::vector<std::string>& conv_net_families() {
  static const std::vector<std::string> families{"resnet", "wide_resnet", "alexnet", "unet",
                                                 "diffusion_unet"};
  return families;
}

bool is_conv_net(const std::string& family) {
  const std::vector<std::string>& families = conv_net_families();
  return std::find(families.begin(), families.end(), family) != families.end();
}

void check_sizes(const ConvNet& c) {
  require_small({{"layers", c.layers},
                 {"channels", c.channels},
                 {"width", c.width},
                 {"image", c.image},
                 {"classes", c.classes}});
  const std::pair<const char*, int64_t> positive[] = {
      {"channels", c.channels}, {"width", c.width}, {"image", c.image}, {"classes", c.classes}};
  for (const auto& [key, value] : positive)
    require(value > 0, key, fmt::format("is {}, expected at least 1", value));
  if (c.family == "unet" || c.family == "diffusion_unet") return check_levels(c);
  if (c.family == "alexnet") {
    require(c.layers == alexnet_layers, "layers",
            fmt::format("is {}, expected the {} of AlexNet", c.layers, alexnet_layers));
    require(c.image >= 63, "image", fmt::format("is {}, expected at least 63", c.image));
    return;
  }
  require(find_depth(c.layers) != nullptr, "layers",
          fmt::format("is {}, expected the blocks of ResNet-50, -101 or -152: 16, 33 or 50", c.layers));
  require(c.image % 32 == 0, "image", fmt::format("{} is no multiple of 32", c.image));
}

Graph build(const ConvNet& config, int64_t batch) {
  check_sizes(config);
  require(batch > 0, "batch", fmt::format("is {}, expected at least 1", batch));
  return NetWriter(config, batch).run();
}

int64_t parameters(const ConvNet& config) { return parameter_elements(build(config, 1)); }

}  // namespace boxcar::ir::models
