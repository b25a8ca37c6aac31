#include "ir/models/conv_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sbp/error.h"

namespace boxcar::ir::models {
namespace {

void need(bool ok, const char* key, const std::string& message) {
  if (!ok) throw Error::input(key, message);
}

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

TensorType f32(Shape shape) { return {std::move(shape), DType::float32}; }

class NetWriter {
 public:
  NetWriter(const ConvNet& config, int64_t batch) : c_(config), batch_(batch), b_(config.family) {}

  Graph run() {
    const TensorId images = b_.input("images", f32({batch_, 3, c_.image, c_.image}));
    const bool pixels = c_.family == "unet";
    const TensorId scores = pixels ? unet(images) : resnet(images);
    const TensorId labels =
        b_.input("labels", {pixels ? Shape{batch_, c_.image, c_.image} : Shape{batch_}, DType::int64});
    loss(scores, labels, pixels ? Shape{0, 1, 2} : Shape{0});
    Graph graph = b_.finish();
    graph.layers = static_cast<int>(c_.layers);
    return graph;
  }

 private:
  int64_t channels(TensorId x) const { return b_.type(x).shape[1]; }

  void layer(int64_t index) { b_.set_layer(static_cast<int>(index), fmt::format("h{}", index)); }
  void end() { b_.set_layer(static_cast<int>(c_.layers), ""); }

  TensorId conv(TensorId x, const std::string& name, int64_t to, int64_t kernel, int64_t stride = 1) {
    const TensorId weight = b_.parameter(name + ".weight", f32({to, channels(x), kernel, kernel}));
    return b_.op1("conv2d", {x, weight}, {{"stride", stride}, {"padding", kernel / 2}}, name);
  }

  TensorId norm(TensorId x, const std::string& name) {
    const TensorId gamma = b_.parameter(name + ".gamma", f32({channels(x)}));
    const TensorId beta = b_.parameter(name + ".beta", f32({channels(x)}));
    return b_.op("batch_norm", {x, gamma, beta}, {{"local", true}}, name)[0];
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
    x = b_.op1("max_pool2d", {x}, {{"kernel", int64_t{3}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}},
               "pool");
    int64_t index = 0, inner = c_.channels;
    for (const int64_t blocks : find_depth(c_.layers)->blocks) {
      for (int64_t block = 0; block < blocks; ++block, ++index) {
        layer(index);
        x = bottleneck(x, inner, index > 0 && block == 0 ? 2 : 1);
      }
      inner *= 2;
    }
    end();
    x = b_.op1("reduce_mean", {x}, {{"axes", Shape{2, 3}}}, "pool");
    const TensorId weight = b_.parameter("head.weight", f32({b_.type(x).shape[1], c_.classes}));
    x = b_.op1("matmul", {x, weight}, {}, "head");
    return b_.op1("add", {x, b_.parameter("head.bias", f32({c_.classes}))}, {}, "head.bias_add");
  }

  // --- unet

  TensorId pair(TensorId x, int64_t to) {
    return relu(norm(conv(conv_norm_relu(x, "1", to, 3), "conv2", to, 3), "norm2"), "out");
  }

  // Twice as high and wide: the transposed convolution of 2 x 2, stride 2.
  TensorId up(TensorId x) {
    const Shape& shape = b_.type(x).shape;
    const int64_t to = shape[1] / 2;
    const Shape size{2 * shape[2], 2 * shape[3]};
    const TensorId weight = b_.parameter("up.weight", f32({shape[1], to, 2, 2}));
    const TensorId y = b_.op1("conv2d_input_grad", {x, weight},
                              {{"stride", int64_t{2}}, {"padding", int64_t{0}}, {"input_size", size}}, "up");
    return b_.op1("add", {y, b_.parameter("up.bias", f32({to, 1, 1}))}, {}, "up.bias_add");
  }

  TensorId unet(TensorId x) {
    const int64_t depth = c_.layers / 2;
    std::vector<TensorId> skips;
    for (int64_t level = 0; level <= depth; ++level) {
      layer(level);
      if (level > 0) x = b_.op1("max_pool2d", {x}, {}, "pool");
      x = pair(x, c_.channels << level);
      skips.push_back(x);
    }
    for (int64_t level = depth - 1; level >= 0; --level) {
      layer(2 * depth - level);
      x = b_.op1("concat", {skips[static_cast<size_t>(level)], up(x)}, {{"axis", int64_t{1}}}, "beside");
      x = pair(x, c_.channels << level);
    }
    end();
    x = conv(x, "head", c_.classes, 1);
    x = b_.op1("add", {x, b_.parameter("head.bias", f32({c_.classes, 1, 1}))}, {}, "head.bias_add");
    return b_.op1("transpose", {x}, {{"perm", Shape{0, 2, 3, 1}}}, "scores");
  }

  void loss(TensorId scores, TensorId labels, const Shape& all) {
    const TensorId max = b_.op1("reduce_max", {scores}, {{"axes", Shape{-1}}}, "loss.max");
    const TensorId sum = b_.op1("sum_exp", {scores, max}, {}, "loss.sum_exp");
    const TensorId pick = b_.op1("pick", {scores, labels}, {}, "loss.pick");
    const TensorId nll = b_.op1("nll", {max, sum, pick}, {}, "loss.nll");
    b_.op1("reduce_mean", {nll}, {{"axes", all}}, "loss");
  }

  ConvNet c_;
  int64_t batch_;
  Builder b_;
};

}  // namespace

bool is_conv_net(const std::string& family) {
  return family == "resnet" || family == "wide_resnet" || family == "unet";
}

void check_sizes(const ConvNet& c) {
  const std::pair<const char*, int64_t> positive[] = {
      {"hidden", c.channels}, {"width", c.width}, {"image", c.image}, {"vocab", c.classes}};
  for (const auto& [key, value] : positive)
    need(value > 0, key, fmt::format("is {}, expected at least 1", value));
  if (c.family != "unet") {
    need(find_depth(c.layers) != nullptr, "layers",
         fmt::format("is {}, expected the blocks of ResNet-50, -101 or -152: 16, 33 or 50", c.layers));
    need(c.image % 32 == 0, "image", fmt::format("{} is no multiple of 32", c.image));
    return;
  }
  need(c.layers % 2 == 1 && c.layers < 20, "layers",
       fmt::format("is {}, expected an odd number up to 19: levels down, one in the middle, levels up",
                   c.layers));
  const int64_t scale = int64_t{1} << (c.layers / 2);
  need(c.image % scale == 0, "image", fmt::format("{} is no multiple of {}", c.image, scale));
}

Graph build(const ConvNet& config, int64_t batch) {
  check_sizes(config);
  need(batch > 0, "batch", fmt::format("is {}, expected at least 1", batch));
  return NetWriter(config, batch).run();
}

int64_t parameters(const ConvNet& config) {
  int64_t count = 0;
  const Graph graph = build(config, 1);
  for (const Op& op : graph.ops)
    if (op.type == "parameter") count += graph.tensor(op.outputs[0]).type.elements();
  return count;
}

}  // namespace boxcar::ir::models
