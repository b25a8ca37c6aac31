#include "ir/models/resnet.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "sbp/error.h"

namespace boxcar::ir::models {
namespace {

constexpr int64_t expansion = 4;     // a block puts out this many times the channels of its stage
constexpr int64_t least_image = 32;  // five halvings

struct Depth {
  int64_t depth;
  std::array<int64_t, 4> blocks;  // of each stage
};
constexpr Depth depths[] = {{50, {3, 4, 6, 3}}, {101, {3, 4, 23, 3}}, {152, {3, 8, 36, 3}}};

const Depth* find(int64_t depth) {
  for (const Depth& known : depths)
    if (known.depth == depth) return &known;
  return nullptr;
}

void need(bool ok, const char* key, const std::string& message) {
  if (!ok) throw Error::input(key, message);
}

// One block: its place and what it changes.
struct Block {
  int64_t from = 0, inside = 0, to = 0, stride = 1;
  bool projects() const { return from != to || stride != 1; }
};

template <typename Visit>
void each_block(const ResNet& c, const Visit& visit) {
  int64_t from = c.channels, base = c.channels, stride = 1;
  for (const int64_t count : find(c.depth)->blocks) {
    for (int64_t i = 0; i < count; ++i) {
      const Block block{from, base * c.width, base * expansion, i == 0 ? stride : 1};
      visit(block);
      from = block.to;
    }
    base *= 2;
    stride = 2;
  }
}

// Writes the forward graph, op by op.
class Writer {
 public:
  Writer(const ResNet& config, int64_t batch) : c_(config), batch_(batch), b_("resnet") {}

  Graph run() {
    const int last = static_cast<int>(blocks(c_));
    TensorId x = b_.input("images", f32({batch_, 3, c_.image, c_.image}));
    b_.set_layer(last, "");
    const TensorId labels = b_.input("labels", {{batch_}, DType::int64});
    b_.set_layer(-1, "");
    x = relu(normalised(convolution(x, "stem.conv", 3, c_.channels, 7, 2), "stem.bn", c_.channels),
             "stem.relu");
    x = b_.op1("max_pool2d", {x}, {{"kernel", int64_t{3}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}},
               "stem.pool");
    int layer = 0;
    each_block(c_, [&](const Block& block) {
      b_.set_layer(layer, fmt::format("h{}", layer));
      x = bottleneck(x, block);
      ++layer;
    });
    b_.set_layer(last, "");
    loss(classes(x), labels);
    Graph graph = b_.finish();
    graph.layers = last;
    return graph;
  }

 private:
  TensorType f32(Shape shape) const { return {std::move(shape), DType::float32}; }

  // Padded so that a stride of 1 keeps rows and columns.
  TensorId convolution(TensorId x, const std::string& name, int64_t from, int64_t to, int64_t kernel,
                       int64_t stride) {
    const TensorId weight = b_.parameter(name + ".weight", f32({to, from, kernel, kernel}));
    return b_.op1("conv2d", {x, weight}, {{"stride", stride}, {"padding", kernel / 2}}, name);
  }

  TensorId normalised(TensorId x, const std::string& name, int64_t channels) {
    const TensorId gamma = b_.parameter(name + ".gamma", f32({channels}));
    const TensorId beta = b_.parameter(name + ".beta", f32({channels}));
    return b_.op("batch_norm", {x, gamma, beta}, {{"local", true}}, name)[0];
  }

  TensorId relu(TensorId x, const std::string& name) { return b_.op1("relu", {x}, {}, name); }

  TensorId bottleneck(TensorId x, const Block& block) {
    TensorId y = relu(
        normalised(convolution(x, "conv1", block.from, block.inside, 1, 1), "bn1", block.inside), "relu1");
    y = convolution(y, "conv2", block.inside, block.inside, 3, block.stride);
    y = relu(normalised(y, "bn2", block.inside), "relu2");
    y = normalised(convolution(y, "conv3", block.inside, block.to, 1, 1), "bn3", block.to);
    TensorId shortcut = x;
    if (block.projects()) {
      shortcut = convolution(x, "shortcut.conv", block.from, block.to, 1, block.stride);
      shortcut = normalised(shortcut, "shortcut.bn", block.to);
    }
    return relu(b_.op1("add", {y, shortcut}, {}, "sum"), "relu3");
  }

  TensorId classes(TensorId x) {
    const Shape shape = b_.type(x).shape;
    x = b_.op1("avg_pool2d", {x}, {{"kernel", shape[2]}}, "pool");
    x = b_.op1("reshape", {x}, {{"shape", Shape{batch_, shape[1]}}}, "features");
    x = b_.op1("matmul", {x, b_.parameter("head.weight", f32({shape[1], c_.classes}))}, {}, "head");
    return b_.op1("add", {x, b_.parameter("head.bias", f32({c_.classes}))}, {}, "head.bias_add");
  }

  void loss(TensorId logits, TensorId labels) {
    const TensorId each = b_.op1("cross_entropy", {logits, labels}, {}, "loss.each");
    b_.op1("reduce_mean", {each}, {{"axes", Shape{0}}}, "loss");
  }

  ResNet c_;
  int64_t batch_;
  Builder b_;
};

}  // namespace

void check(const ResNet& c) {
  need(find(c.depth) != nullptr, "depth", fmt::format("is {}, expected 50, 101 or 152", c.depth));
  const std::pair<const char*, int64_t> positive[] = {
      {"channels", c.channels}, {"width", c.width}, {"classes", c.classes}};
  for (const auto& [key, value] : positive)
    need(value > 0, key, fmt::format("is {}, expected at least 1", value));
  need(c.image > 0 && c.image % least_image == 0, "image",
       fmt::format("is {}, expected a multiple of {}", c.image, least_image));
}

int64_t blocks(const ResNet& config) {
  check(config);
  int64_t count = 0;
  each_block(config, [&](const Block&) { ++count; });
  return count;
}

Graph build(const ResNet& config, int64_t batch) {
  check(config);
  need(batch > 0, "batch", fmt::format("is {}, expected at least 1", batch));
  return Writer(config, batch).run();
}

int64_t parameters(const ResNet& config) {
  check(config);
  const auto convolution = [](int64_t from, int64_t to, int64_t kernel) {
    return to * from * kernel * kernel + 2 * to;
  };
  int64_t count = convolution(3, config.channels, 7), last = 0;
  each_block(config, [&](const Block& b) {
    count += convolution(b.from, b.inside, 1) + convolution(b.inside, b.inside, 3) +
             convolution(b.inside, b.to, 1);
    if (b.projects()) count += convolution(b.from, b.to, 1);
    last = b.to;
  });
  return count + (last + 1) * config.classes;
}

}  // namespace boxcar::ir::models
