// Every gradient op of the registry against finite differences of its forward op, on the forward op's
// samples:
//
//   d/dx sum(dy y(x))  =  sum(dy (y(x + h) - y(x - h))) / 2h       with random dy, element by element
//
// A row lists the gradient op's operands: x0 the first forward input, y0 the first forward output, dy0 the
// gradient of that output, xs all inputs; m and z the pieces of a class-split loss. Then it lists the inputs
// whose gradients the op outputs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <sstream>

#include "backends/cpu/reference.h"
#include "ir/images.h"
#include "ir/ops/pointwise.h"
#include "law1.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::run_reference;
using backends::cpu::Tensors;
using ir::Attrs;
using Ints = std::vector<int64_t>;

// Attributes of the gradient op that the forward op lacks, from the forward op's types; none: skips this
// sample.
using MoreAttrs = std::optional<Attrs> (*)(const ir::Types& inputs, const Attrs& forward);

std::optional<Attrs> same(const ir::Types&, const Attrs&) { return Attrs{}; }
std::optional<Attrs> input_size(const ir::Types& in, const Attrs& forward) {
  const ir::Shape x = ir::image_axes(forward).channels_first(in[0].shape);
  return Attrs{{"input_size", Ints{x[2], x[3]}}};
}
std::optional<Attrs> kernel(const ir::Types& in, const Attrs&) {
  return Attrs{{"kernel", Ints{in[1].shape[2], in[1].shape[3]}}};
}
std::optional<Attrs> rows(const ir::Types& in, const Attrs&) { return Attrs{{"rows", in[0].shape[0]}}; }
std::optional<Attrs> classes(const ir::Types& in, const Attrs&) { return Attrs{{"classes", in[0].shape[0]}}; }
std::optional<Attrs> whole_shape(const ir::Types& in, const Attrs&) { return Attrs{{"shape", in[0].shape}}; }
std::optional<Attrs> extent(const ir::Types& in, const Attrs& forward) {
  const int64_t axis = ir::attr_int(forward, "axis"), rank = static_cast<int64_t>(in[0].shape.size());
  return Attrs{{"extent", at(in[0].shape, axis < 0 ? axis + rank : axis)}};
}
std::optional<Attrs> head_dim(const ir::Types& in, const Attrs&) {
  return Attrs{{"head_dim", in[0].shape[3]}};
}
std::optional<Attrs> no_transpose(const ir::Types&, const Attrs& forward) {
  if (ir::attr_bool(forward, "transpose_a") || ir::attr_bool(forward, "transpose_b")) return std::nullopt;
  return Attrs{};
}

struct Row {
  std::string gradient, forward, operands, outputs;
  MoreAttrs attrs = same;
  bool stretched = false;  // gradients have the forward result's shape, not yet summed to a broadcast input's

  friend std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.operands; }
};

const Row kRows[] = {
    {"avg_pool2d_grad", "avg_pool2d", "dy0", "x0", input_size},
    {"batch_norm_grad", "batch_norm", "dy0 x0 x1 y1 y2", "x0 x1 x2"},
    {"bias_gelu_grad", "bias_gelu", "dy0 x0 x1", "x0"},
    {"conv2d_input_grad", "conv2d", "dy0 x1", "x0", input_size},
    {"conv2d_weight_grad", "conv2d", "dy0 x0", "x1", kernel},
    // of the transposed convolution
    {"conv2d", "conv2d_input_grad", "dy0 x1", "x0"},
    {"conv2d_weight_grad", "conv2d_input_grad", "x0 dy0", "x1", kernel},
    {"cross_entropy_grad", "cross_entropy", "dy0 x0 m z x1", "x0"},
    {"dropout_grad", "dropout", "dy0", "x0"},
    {"embedding_grad", "embedding", "dy0 x1", "x0", rows},
    {"gather_grad", "gather", "dy0 x1", "x0", extent},
    {"layer_norm_grad", "layer_norm", "dy0 x0 x1 y1 y2", "x0 x1 x2"},
    {"matmul_weight_grad", "matmul", "x0 dy0", "x1", no_transpose},
    {"matmul_bias_grad", "matmul_bias", "x0 dy0", "x1 x2", no_transpose},
    {"max_pool2d_grad", "max_pool2d", "dy0 x0", "x0"},
    {"moe_combine_grad", "moe_combine", "dy0 x0 x1 x2", "x0 x2"},
    {"moe_dispatch_grad", "moe_dispatch", "dy0 x1", "x0"},
    {"merge_heads_grad", "merge_heads", "dy0", "x0", head_dim},
    {"rms_norm_grad", "rms_norm", "dy0 x0 x1 y1", "x0 x1"},
    {"sample_rows_grad", "sample_rows", "dy0 x1", "x0", classes},
    {"scale_mask_softmax_grad", "scale_mask_softmax", "dy0 y0", "x0"},
    {"scaled_dot_product_attention_grad", "scaled_dot_product_attention", "dy0 x0 x1 x2 y0 y1 x3?",
     "x0 x1 x2"},
    {"slice_grad", "slice", "dy0", "x0", whole_shape},
    {"softmax_grad", "softmax", "dy0 y0", "x0"},
    {"split_heads_grad", "split_heads", "dy0 dy1 dy2", "x0"},
    {"fused_grad", "fused", "dy0 xs", "xs", same, true},
    {"swiglu_grad", "swiglu", "dy0 x0 x1", "x0 x1"},
    {"swiglu_pairs_grad", "swiglu_pairs", "dy0 x0", "x0"},
    {"weighed_swiglu_pairs_grad", "weighed_swiglu_pairs", "dy0 x0 x1", "x0 x1"},
};

// The rows above, and the gradients of pointwise ops.
std::vector<Row> all_rows() {
  std::vector<Row> rows(std::begin(kRows), std::end(kRows));
  for (const ir::PointwiseRow& row : ir::pointwise_rows())
    if (row.has_grad_op)
      rows.push_back(
          {ir::grad_op(row), row.name, row.grad_reads == ir::PointwiseRow::y ? "dy0 y0" : "dy0 x0", "x0"});
  return rows;
}

size_t number(const std::string& word) { return static_cast<size_t>(word.back() - '0'); }

// The words of `text`, with "xs" expanded to all `inputs` inputs, and "x3?" left out if there is no such
// input.
std::vector<std::string> words(const std::string& text, size_t inputs) {
  std::istringstream in(text);
  std::vector<std::string> result;
  for (std::string word; in >> word;) {
    const bool optional = word.back() == '?';
    if (optional) word.pop_back();
    if (word != "xs" && (!optional || number(word) < inputs)) result.push_back(word);
    for (size_t i = 0; word == "xs" && i < inputs; ++i) result.push_back(fmt::format("x{}", i));
  }
  return result;
}

HostTensor draw(std::mt19937_64& random, const ir::TensorType& type, const ir::Domain* domain) {
  HostTensor tensor = backends::cpu::zeros(type);
  const ir::Domain range = domain ? *domain : ir::Domain{-2, 2, 1};
  std::uniform_real_distribution<double> real(range.low, range.high);
  for (double& x : tensor.data) x = ir::is_float(type.dtype) ? real(random) : std::round(real(random));
  return tensor;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Sums over the axes along which broadcasting `type` to the tensor's shape repeats.
HostTensor summed_to(const HostTensor& tensor, const ir::TensorType& type) {
  HostTensor sum = backends::cpu::zeros(type);
  const std::vector<int64_t> steps = backends::cpu::strides(type.shape);
  backends::cpu::for_each(tensor.type.shape, [&](const std::vector<int64_t>& index, int64_t flat) {
    const size_t skipped = index.size() - steps.size();
    int64_t place = 0;
    for (size_t i = 0; i < steps.size(); ++i) place += type.shape[i] == 1 ? 0 : index[skipped + i] * steps[i];
    at(sum.data, place) += at(tensor.data, flat);
  });
  return sum;
}

// One sample of one row: inputs, outputs and gradients of the outputs.
class Check {
 public:
  Check(const Row& row, const ir::Sample& sample, std::mt19937_64& random)
      : row_(row), attrs_(ir::complete(ir::op(row.forward), sample.attrs)) {
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      inputs_.push_back(
          draw(random, sample.inputs[i], i < sample.domains.size() ? &sample.domains[i] : nullptr));
    }
    outputs_ = run_reference(row.forward, inputs_, attrs_);
    for (const HostTensor& y : outputs_) dy_.push_back(draw(random, y.type, nullptr));
  }

  // False where the gradient op does not support this sample.
  bool run() const {
    const std::optional<Attrs> attrs = gradient_attrs();
    if (!attrs) return false;
    Tensors operands;
    for (const std::string& word : words(row_.operands, inputs_.size())) operands.push_back(operand(word));
    const Tensors got = run_reference(row_.gradient, operands, *attrs);
    const auto wanted = words(row_.outputs, inputs_.size());
    EXPECT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const size_t input = number(wanted[i]);
      compare(row_.stretched ? summed_to(got.at(i), inputs_[input].type) : got.at(i), input);
    }
    return true;
  }

 private:
  // Attributes that both ops have, and those that the row adds.
  std::optional<Attrs> gradient_attrs() const {
    ir::Types types;
    for (const HostTensor& x : inputs_) types.push_back(x.type);
    std::optional<Attrs> more = row_.attrs(types, attrs_);
    if (!more) return std::nullopt;
    const ir::OpDef& def = ir::op(row_.gradient);
    for (const auto& [name, value] : attrs_) {
      if (def.attrs.count(name)) more->insert({name, value});
    }
    return ir::complete(def, *more);
  }

  HostTensor operand(const std::string& word) const {
    const auto of_classes = [&](const char* op, const Tensors& operands, Attrs attrs) {
      attrs["classes"] = attrs_.at("classes");
      return run_reference(op, operands, ir::complete(ir::op(op), attrs))[0];
    };
    if (word == "m") return of_classes("reduce_max", {inputs_[0]}, {{"axes", Ints{-1}}});
    if (word == "z") return of_classes("sum_exp", {inputs_[0], operand("m")}, {});
    const Tensors& from = word[0] == 'x' ? inputs_ : word[0] == 'y' ? outputs_ : dy_;
    return from.at(number(word));
  }

  // sum(dy y) over the outputs whose gradients the op takes.
  double loss(const Tensors& inputs) const {
    const Tensors y = run_reference(row_.forward, inputs, attrs_);
    double sum = 0;
    for (const std::string& word : words(row_.operands, inputs_.size())) {
      if (word[0] == 'd') sum += dot(dy_[number(word)].data, y[number(word)].data);
    }
    return sum;
  }

  void compare(const HostTensor& got, size_t input) const {
    constexpr double kStep = 1e-5;
    ASSERT_EQ(got.type.shape, inputs_[input].type.shape) << row_.gradient;
    for (size_t i = 0; i < got.data.size(); ++i) {
      Tensors moved = inputs_;
      moved[input].data[i] += kStep;
      const double above = loss(moved);
      moved[input].data[i] -= 2 * kStep;
      const double slope = (above - loss(moved)) / (2 * kStep);
      ASSERT_NEAR(got.data[i], slope, 1e-6 * std::max(1.0, std::abs(slope)))
          << row_.gradient << " " << ir::to_text(attrs_) << ": input " << input << ", element " << i;
    }
  }

  const Row& row_;
  Attrs attrs_;
  Tensors inputs_, outputs_, dy_;
};

class GradientTest : public testing::TestWithParam<Row> {};

TEST_P(GradientTest, IsTheSlopeOfItsForwardOp) {
  const Row& row = GetParam();
  std::mt19937_64 random(11);
  int checked = 0;
  for (const ir::Sample& sample : draw_samples(ir::op(row.forward), 11))
    checked += Check(row, sample, random).run();
  EXPECT_GT(checked, 0);
}

INSTANTIATE_TEST_SUITE_P(Registry, GradientTest, testing::ValuesIn(all_rows()),
                         [](const testing::TestParamInfo<Row>& row) {
                           return fmt::format("{}_of_{}", row.param.gradient, row.param.forward);
                         });

TEST(GradientTable, HasEveryGradientOp) {
  std::set<std::string> rows;
  for (const Row& row : all_rows()) rows.insert(row.gradient);
  for (const ir::OpDef& def : ir::all_ops()) {
    if (!def.name.ends_with("_grad")) continue;
    EXPECT_TRUE(rows.count(def.name)) << def.name;
  }
}

}  // namespace
}  // namespace boxcar::tests
