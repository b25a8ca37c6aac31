#include "models.h"

#include <cmath>
#include <numbers>
#include <ostream>

#include "backends/random.h"
#include "ir/models/conv_net.h"

namespace boxcar::tests {
namespace {

using backends::host::InitialRule;
using ir::Builder;
using ir::DType;
using ir::Shape;
using ir::TensorId;

constexpr int64_t classes = 5;

int64_t below(int64_t limit, int64_t step, int64_t element) {
  return static_cast<int64_t>(uniform(backends::random_key(5, step, 0), element) *
                              static_cast<double>(limit));
}

double normal(int64_t step, int64_t element) {
  const backends::RandomKey key = backends::random_key(6, step, 0);
  return std::sqrt(-2 * std::log(1 - uniform(key, 2 * element))) *
         std::cos(2 * std::numbers::pi * uniform(key, 2 * element + 1));
}

ir::TensorType f32(Shape shape) { return {std::move(shape), DType::float32}; }

TensorId linear(Builder& b, TensorId x, const std::string& name, int64_t from, int64_t to) {
  const TensorId y = b.op1("matmul", {x, b.parameter(name + ".weight", f32({from, to}))}, {}, name);
  return b.op1("add", {y, b.parameter(name + ".bias", f32({to}))}, {}, name + ".bias_add");
}

void loss(Builder& b, TensorId logits, TensorId labels) {
  const TensorId each = b.op1("cross_entropy", {logits, labels}, {}, "loss.each");
  b.op1("reduce_mean", {each}, {{"axes", Shape{0}}}, "loss");
}

TensorId convolution(Builder& b, TensorId x, const std::string& name, Shape weight, ir::Attrs attrs) {
  return b.op1("conv2d", {x, b.parameter(name + ".weight", f32(std::move(weight)))}, std::move(attrs), name);
}

TensorId batch_norm(Builder& b, TensorId x, const std::string& name, int64_t channels) {
  const TensorId gamma = b.parameter(name + ".weight", f32({channels}));
  return b.op("batch_norm", {x, gamma, b.parameter(name + ".bias", f32({channels}))}, {}, name)[0];
}

}  // namespace

planner::Job transformer(const std::string& family, double dropout, int64_t batch) {
  planner::Job job;
  job.gpus = job.parallel.dp = 1;
  job.parallel.micro_batch = static_cast<int>(batch);
  job.global_batch = batch;
  if (ir::models::is_conv_net(family)) {
    const bool alexnet = family == "alexnet";
    job.model = alexnet ? ir::models::ConvNet{family, 8, 4, 1, 63, classes}
                        : ir::models::ConvNet{family, 16, 2, 1, 32, classes};
    return job;
  }
  job.model = ir::models::defaults(family);
  job.model->layers = 2, job.model->hidden = 16, job.model->heads = 4, job.model->seq = 8;
  job.model->vocab = 31, job.model->pad_vocab_to = 1;
  if (family == "llama") job.model->kv_heads = 2, job.model->ffn = 24;
  job.model->dropout = dropout;
  return job;
}

std::ostream& operator<<(std::ostream& out, const TransformerRow& row) { return out << row.name; }

planner::ResolvedJob job_of(const TransformerRow& row, int64_t batch, const ir::TrainOptions& options) {
  planner::Job job = transformer(row.family, row.dropout, batch);
  job.train = options;
  row.change(job);
  planner::Hints& h = job.parallel;
  h.micro_batch = static_cast<int>(batch) / (h.dp * row.micro_batches);
  job.gpus = h.dp * h.tp * h.pp * h.cp;
  return planner::resolve(job);
}

Start transformer_start(const planner::Job& job) {
  if (const ir::models::ConvNet* net = job.model.conv_net()) {
    Start start = graph_start(3 * net->image * net->image);
    start.rule = [](const std::string& tensor) {
      const InitialRule rule = backends::host::initial_rule(tensor, 1);
      return InitialRule{rule.mean, 8 * rule.deviation};
    };
    return start;
  }
  const int64_t layers = job.model.layers(), vocab = job.model->vocab;
  return {.rule = [layers](const std::string& tensor) -> InitialRule {
            // Otherwise B is zero, and A has no gradient.
            if (tensor.ends_with(".lora_a.weight") || tensor.ends_with(".lora_b.weight")) return {0, 0.16};
            InitialRule rule = backends::host::initial_rule(tensor, layers);
            rule.deviation *= 8;
            return rule;
          },
          .data =
              [vocab](const std::string& input, int64_t step, int64_t element) {
                const int64_t token = below(vocab, step, element);
                if (input == "seen") return static_cast<double>(1 + token % 5);
                return static_cast<double>(input == "labels" ? (7 * token + 3) % vocab : token);
              }};
}

ir::Graph mlp(int64_t batch) {
  Builder b("mlp");
  b.set_layer(0, "");
  TensorId x = b.input("x", f32({batch, 6}));
  x = b.op1("gelu", {linear(b, x, "fc1", 6, 10)});
  b.set_layer(1, "");
  x = b.op1("relu", {linear(b, x, "fc2", 10, 9)});
  b.set_layer(2, "");
  x = linear(b, x, "fc3", 9, classes);
  loss(b, x, b.input("labels", {{batch}, DType::int64}));
  return b.finish();
}

ir::Graph convnet(int64_t batch) {
  Builder b("convnet");
  b.set_layer(0, "");
  TensorId x = b.input("x", f32({batch, 3, 8, 6}));
  x = convolution(b, x, "conv1", {6, 3, 3, 3}, {{"padding", int64_t{1}}});
  x = b.op1("relu", {batch_norm(b, x, "ln1", 6)});
  b.set_layer(1, "");
  x = b.op1("max_pool2d", {x}, {{"kernel", int64_t{2}}, {"stride", int64_t{2}}});
  x = convolution(b, x, "conv2", {7, 6, 3, 3}, {{"padding", int64_t{1}}});
  x = b.op1("avg_pool2d", {b.op1("relu", {x})}, {{"kernel", int64_t{2}}, {"stride", int64_t{1}}});
  b.set_layer(2, "");
  x = b.op1("reshape", {x}, {{"shape", Shape{batch, 7 * 3 * 2}}});
  x = linear(b, x, "head", 7 * 3 * 2, classes);
  loss(b, x, b.input("labels", {{batch}, DType::int64}));
  return b.finish();
}

Start graph_start(int64_t elements) {
  return {.rule =
              [](const std::string& tensor) {
                const InitialRule rule = backends::host::initial_rule(tensor, 1);
                return InitialRule{rule.mean, 15 * rule.deviation};
              },
          .data =
              [elements](const std::string& input, int64_t step, int64_t element) {
                if (input == "labels") return static_cast<double>(below(classes, step, element));
                const int64_t label = below(classes, step, element / elements);
                return normal(step, element) + 0.7 * static_cast<double>(label - classes / 2);
              }};
}

}  // namespace boxcar::tests
