// Reference kernels against values worked out by hand, and gradients against differences of the op itself.
#include "backends/cpu/reference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/ops/pointwise.h"
#include "reference_run.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

using Ints = std::vector<int64_t>;
using ir::Attrs;

struct Case {
  const char* name;
  Tensors inputs;
  Attrs attrs;
  std::vector<double> expected;  // of the first output
};

const HostTensor k2x3 = tensor("float32[2, 3]", {1, 2, 3, 4, 5, 6});
const HostTensor k3x2 = tensor("float32[3, 2]", {1, 0, 0, 1, 1, 1});

TEST(Reference, ValuesByHand) {
  const HostTensor bits = tensor("boolean[3]", {1, 0, 1}), row = tensor("float32[3]", {10, 20, 30});
  const HostTensor rows = tensor("int64[3]", {1, 0, 1});
  const HostTensor w = tensor("float32[2]", {3, 4}), g = tensor("float32[2]", {6, 8}),
                   ones = tensor("float32[2]", {1, 1}), none = tensor("float32[2]", {0, 0});
  const HostTensor in_groups = tensor("float32[6]", {5, 0, 4, 3, 1, 1});
  const ir::Attrs best_group{{"k", int64_t{2}}, {"groups", int64_t{3}}, {"top_groups", int64_t{1}}};
  const Case cases[] = {
      {"matmul", {k2x3, k3x2}, {}, {4, 5, 10, 11}},
      {"matmul", {k2x3, tensor("float32[1, 3]", {1, 0, 2})}, {{"transpose_b", true}}, {7, 16}},
      {"matmul", {k2x3, tensor("float32[2, 1]", {1, 10})}, {{"transpose_a", true}}, {41, 52, 63}},
      {"matmul_weight_grad", {k2x3, tensor("float32[2, 1]", {1, 10})}, {}, {41, 52, 63}},
      {"batch_matmul",
       {tensor("float32[2, 1, 2]", {1, 2, 3, 4}), tensor("float32[2, 2, 1]", {1, 1, 0, 2})},
       {},
       {3, 8}},
      {"add", {k2x3, row}, {}, {11, 22, 33, 14, 25, 36}},
      {"sub", {row, k2x3}, {}, {9, 18, 27, 6, 15, 24}},
      {"mul", {k2x3, tensor("float32[2, 1]", {2, -1})}, {}, {2, 4, 6, -4, -5, -6}},
      {"div", {row, tensor("float32[]", {4})}, {}, {2.5, 5, 7.5}},
      {"neg", {row}, {}, {-10, -20, -30}},
      {"scale", {row}, {{"factor", 0.5}}, {5, 10, 15}},
      {"relu", {tensor("float32[3]", {-1, 0, 2})}, {}, {0, 0, 2}},
      {"identity", {row}, {}, {10, 20, 30}},
      {"exp", {tensor("float32[2]", {0, 1})}, {}, {1, 2.718281828459045}},
      {"log", {tensor("float32[2]", {1, 8})}, {}, {0, 2.0794415416798357}},
      {"sqrt", {tensor("float32[2]", {4, 9})}, {}, {2, 3}},
      {"sin", {tensor("float32[2]", {0, 1})}, {}, {0, 0.8414709848078965}},
      {"cos", {tensor("float32[2]", {0, 1})}, {}, {1, 0.5403023058681398}},
      {"elu", {tensor("float32[3]", {-1, 0, 2})}, {{"alpha", 0.5}}, {-0.31606027941427883, 0, 2}},
      {"elu_grad",
       {tensor("float32[3]", {5, 6, 7}), tensor("float32[3]", {-1, 0, 2})},
       {{"alpha", 0.5}},
       {0.9196986029286058, 3, 7}},
      {"softplus", {tensor("float32[3]", {0, 1, 1000})}, {}, {0.6931471805599453, 1.3132616875182228, 1000}},
      {"accumulate", {row}, {}, {10, 20, 30}},
      {"gelu", {tensor("float32[2]", {0, 1})}, {}, {0, 0.8413447460685429}},
      {"silu", {tensor("float32[2]", {0, 1})}, {}, {0, 0.7310585786300049}},
      {"clamp_min", {tensor("float32[3]", {-2, 1, 3})}, {{"min", 1.0}}, {1, 1, 3}},
      {"clamp_max", {tensor("float32[3]", {-2, 1, 3})}, {{"max", 1.0}}, {-2, 1, 1}},
      {"clamp_min_grad",
       {tensor("float32[3]", {5, 6, 7}), tensor("float32[3]", {-2, 1, 3})},
       {{"min", 1.0}},
       {0, 6, 7}},
      {"clamp_max_grad",
       {tensor("float32[3]", {5, 6, 7}), tensor("float32[3]", {-2, 1, 3})},
       {{"max", 1.0}},
       {5, 6, 0}},
      {"cast", {tensor("float32[3]", {-1.5, 0, 2.5})}, {{"to", "int32"}}, {-1, 0, 2}},
      {"where", {bits, row, tensor("float32[]", {7})}, {}, {10, 7, 30}},
      {"reduce_sum", {k2x3}, {{"axes", Ints{0}}}, {5, 7, 9}},
      {"reduce_mean", {k2x3}, {{"axes", Ints{-1}}}, {2, 5}},
      {"reduce_mean", {k2x3}, {{"axes", Ints{-1}}, {"count", int64_t{6}}}, {1, 2.5}},
      {"reduce_max", {k2x3}, {}, {6}},
      {"reduce_min", {tensor("float32[0]", {})}, {}, {INFINITY}},
      {"reshape", {k2x3}, {{"shape", Ints{3, 2}}}, {1, 2, 3, 4, 5, 6}},
      {"transpose", {k2x3}, {}, {1, 4, 2, 5, 3, 6}},
      {"slice", {k2x3}, {{"starts", Ints{0, 1}}, {"ends", Ints{2, 3}}}, {2, 3, 5, 6}},
      {"slice_grad", {row}, {{"starts", Ints{1}}, {"shape", Ints{5}}}, {0, 10, 20, 30, 0}},
      {"concat", {k2x3, tensor("float32[2, 1]", {8, 9})}, {{"axis", int64_t{1}}}, {1, 2, 3, 8, 4, 5, 6, 9}},
      {"broadcast_to", {tensor("float32[2, 1]", {1, 2})}, {{"shape", Ints{2, 3}}}, {1, 1, 1, 2, 2, 2}},
      {"gather", {k2x3, rows}, {}, {4, 5, 6, 1, 2, 3, 4, 5, 6}},
      {"gather", {row, tensor("int64[3]", {1, 2, 3})}, {{"offset", int64_t{1}}}, {10, 20, 30}},
      {"gather", {row, tensor("int64[2]", {0, 4})}, {{"offset", int64_t{1}}}, {0, 0}},
      {"gather_grad", {row, rows}, {{"extent", int64_t{2}}}, {20, 40}},
      {"one_hot", {rows}, {{"depth", int64_t{2}}}, {0, 1, 1, 0, 0, 1}},
      {"cumsum", {k2x3}, {}, {1, 3, 6, 4, 9, 15}},
      {"cumsum", {k2x3}, {{"axis", int64_t{0}}}, {1, 2, 3, 5, 7, 9}},
      {"top_k", {tensor("float32[4]", {3, 9, 9, 1})}, {{"k", int64_t{3}}}, {9, 9, 3}},
      {"top_k", {in_groups}, best_group, {4, 3}},
      {"sgd", {row, tensor("float32[3]", {1, 2, 3})}, {{"lr", 0.5}}, {9.5, 19, 28.5}},
      {"momentum",
       {tensor("float32[1]", {1}), tensor("float32[1]", {2}), tensor("float32[1]", {4})},
       {{"lr", 0.5}, {"momentum", 0.25}},
       {-0.5}},
      // First step: bias correction makes m = g and v = g^2, so w moves by lr against g's sign.
      {"adam",
       {row, tensor("float32[3]", {4, -2, 0.5}), tensor("float32[3]", {0, 0, 0}),
        tensor("float32[3]", {0, 0, 0})},
       {{"lr", 0.125}, {"eps", 0.0}},
       {9.875, 20.125, 29.875}},
      // Row 2 is read twice, row 0 never: it does not decay. The other part of the table has rows 3 and 4.
      {"sgd_rows",
       {tensor("float32[3, 2]", {1, 2, 3, 4, 5, 6}), tensor("float32[4, 2]", {1, 2, 10, 20, 3, 4, 7, 8}),
        tensor("int64[4]", {2, 1, 2, 3})},
       {{"lr", 0.5}, {"weight_decay", 1.0}},
       {1, 2, 3 - 0.5 * 13, 4 - 0.5 * 24, 5 - 0.5 * 9, 6 - 0.5 * 12}},
      {"sgd_rows",
       {tensor("float32[2, 1]", {1, 2}), tensor("float32[2, 1, 1]", {4, 8}), tensor("int64[2, 1]", {2, 4})},
       {{"lr", 0.5}, {"offset", int64_t{3}}},
       {1, -2}},
      // Sums of squares of 1, 4 and 16: w moves by 0.5 times slope over root.
      {"adagrad",
       {row, tensor("float32[3]", {-4, -8, -19}), tensor("float32[3]", {0, 0, 0})},
       {{"lr", 0.5}, {"eps", 0.0}, {"weight_decay", 0.5}},
       {9.5, 19.5, 30.5}},
      // Blends of 0.5, -0.25 and 0. With beta2 in place of beta1 the first and the last would be negative.
      {"lion",
       {row, tensor("float32[3]", {4, 4, 1}), tensor("float32[3]", {-3, -4.5, -1})},
       {{"lr", 0.5}, {"beta1", 0.5}, {"beta2", 0.75}, {"weight_decay", 0.5}},
       {7, 15.5, 22.5}},
      // Norms 5 and 10: the ratio is 0.75 * 5 / (10 + 0.5 * 5), that of tensors without gradients 1.
      {"lars",
       {w, g, ones, tensor("float32[2]", {25, 100})},
       {{"lr", 0.5}, {"momentum", 0.5}, {"trust_coefficient", 0.75}, {"eps", 0.0}, {"weight_decay", 0.5}},
       {1.625, 2.25}},
      {"lars",
       {w, none, ones, tensor("float32[2]", {25, 0})},
       {{"lr", 0.5}, {"momentum", 0.5}, {"weight_decay", 0.5}},
       {2, 2.75}},
      {"lars_norms", {w, g, tensor("float32[]", {0.5})}, {}, {25, 25}},
      // First step: directions 1 and -1, and the decay's 1.5 and 2.
      {"lamb",
       {w, tensor("float32[2]", {4, -2}), none, none, tensor("float32[2]", {25, 100})},
       {{"lr", 0.5}, {"eps", 0.0}, {"weight_decay", 0.5}},
       {2.375, 3.75}},
      {"lamb",
       {w, tensor("float32[2]", {4, -2}), none, none, tensor("float32[2]", {0, 100})},
       {{"lr", 0.5}, {"eps", 0.0}, {"weight_decay", 0.5}},
       {1.75, 3.5}},
      // Directions of -4, 8 and 0, decay of 0.5.
      {"adafactor",
       {row, tensor("float32[3]", {-4, 8, 0})},
       {{"lr", 0.5}, {"weight_decay", 0.5}},
       {9.5, 11, 22.5}},
      // The fourth step replaces 4^-0.5, a half.
      {"second_moment",
       {tensor("float32[2]", {4, 0}), tensor("float32[2]", {2, 5})},
       {{"power", 0.5}, {"eps", 1.0}, {"step", int64_t{4}}},
       {3.5, 3}},
      {"second_moment",
       {tensor("float32[2]", {4, 0}), tensor("float32[2]", {2, 5}), tensor("boolean[]", {0})},
       {{"step", int64_t{4}}},
       {2, 5}},
      {"lamb_norms",
       {w, tensor("float32[2]", {4, -2}), none, none},
       {{"eps", 0.0}, {"weight_decay", 0.5}},
       {25, 7.25}},
      {"square_sum", {k2x3}, {}, {91}},
      {"clip_scale", {tensor("float32[]", {16})}, {{"max_norm", 2.0}}, {0.5}},
      {"clip_scale", {tensor("float32[]", {1})}, {{"max_norm", 2.0}}, {1}},
      {"all_finite", {k2x3}, {}, {1}},
      {"all_finite", {tensor("float32[2]", {1, NAN})}, {}, {0}},
  };
  for (const Case& c : cases) {
    Tensors got = run(c.name, c.inputs, c.attrs);
    ASSERT_EQ(got[0].data.size(), c.expected.size()) << c.name;
    for (size_t i = 0; i < c.expected.size(); ++i) {
      if (got[0].data[i] == c.expected[i]) continue;  // infinities too
      EXPECT_NEAR(got[0].data[i], c.expected[i], 1e-6) << c.name << " at " << i;
    }
  }
}

TEST(Reference, SecondOutputs) {
  EXPECT_EQ(run("top_k", {tensor("float32[4]", {3, 9, 9, 1})}, {{"k", int64_t{3}}})[1].data,
            (std::vector<double>{1, 2, 0}));
  const HostTensor in_groups = tensor("float32[6]", {5, 0, 4, 3, 1, 1});
  EXPECT_EQ(
      run("top_k", {in_groups}, {{"k", int64_t{2}}, {"groups", int64_t{3}}, {"top_groups", int64_t{2}}})[1]
          .data,
      (std::vector<double>{0, 2}));
  Tensors adam = run("adam",
                     {tensor("float32[1]", {1}), tensor("float32[1]", {4}), tensor("float32[1]", {2}),
                      tensor("float32[1]", {8})},
                     {{"beta1", 0.5}, {"beta2", 0.75}});
  EXPECT_EQ(adam[1].data[0], 3);
  EXPECT_EQ(adam[2].data[0], 10);
  const Tensors squares{tensor("float32[1]", {1}), tensor("float32[1]", {4}), tensor("float32[1]", {9})};
  EXPECT_EQ(run("adagrad", squares, {})[1].data[0], 25);
  const Tensors moved{tensor("float32[1]", {1}), tensor("float32[1]", {4}), tensor("float32[1]", {8})};
  EXPECT_EQ(run("lion", moved, {{"beta1", 0.5}, {"beta2", 0.75}})[1].data[0], 7);
  const HostTensor norms = tensor("float32[2]", {4, 1});
  const ir::Attrs lars = {{"momentum", 0.5}, {"trust_coefficient", 0.25}, {"eps", 0.0}};
  EXPECT_EQ(run("lars", {moved[0], moved[1], moved[2], norms}, lars)[1].data[0], 6);
  Tensors lamb = run("lamb", {moved[0], moved[1], tensor("float32[1]", {2}), moved[2], norms},
                     {{"beta1", 0.5}, {"beta2", 0.75}});
  EXPECT_EQ(lamb[1].data[0], 3);
  EXPECT_EQ(lamb[2].data[0], 10);
}

TEST(Reference, MomentsOfRowsThatAreNotReadStay) {
  const Tensors got =
      run("adam_rows",
          {tensor("float32[2, 1]", {1, 1}), tensor("float32[2, 1]", {3, 1}), tensor("float32[2, 1]", {2, 2}),
           tensor("float32[2, 1]", {8, 8}), tensor("int64[2]", {1, 1})},
          {{"beta1", 0.5}, {"beta2", 0.75}, {"weight_decay", 0.5}});
  EXPECT_EQ(got[0].data[0], 1);
  EXPECT_EQ(got[1].data, (std::vector<double>{2, 3}));
  EXPECT_EQ(got[2].data, (std::vector<double>{8, 10}));
}

TEST(Reference, TakeAndPutAreInverse) {
  std::vector<sbp::Range> ranges = {{0, 2}, {1, 3}};
  HostTensor part = take(k2x3, ranges), whole = zeros(k2x3.type);
  EXPECT_EQ(part.data, (std::vector<double>{2, 3, 5, 6}));
  EXPECT_EQ(ir::to_text(part.type), "float32[2, 2]");
  put(whole, ranges, part);
  EXPECT_EQ(whole.data, (std::vector<double>{0, 2, 3, 0, 5, 6}));
}

TEST(Reference, RefusesWhatInferRefuses) { EXPECT_THROW(run("matmul", {k2x3, k2x3}), Error); }

// --- gradients
// ------------------------------------------------------------------------------------------------

HostTensor random_like(std::mt19937_64& random, const HostTensor& like) {
  HostTensor result = zeros(like.type);
  for (double& x : result.data) x = static_cast<double>(random() % 1000) / 250 - 2;
  return result;
}

// d(sum of dy * op(inputs))/d(input), by central differences.
std::vector<double> differences(const char* name, Tensors inputs, size_t input, const HostTensor& dy,
                                const Attrs& attrs) {
  const double step = 1e-5;
  auto at = [&](double& x, double value) {
    double old = x, total = 0;
    x = value;
    HostTensor y = run(name, inputs, attrs)[0];
    for (size_t i = 0; i < y.data.size(); ++i) total += y.data[i] * dy.data[i];
    x = old;
    return total;
  };
  std::vector<double> slopes;
  for (double& x : inputs[input].data) slopes.push_back((at(x, x + step) - at(x, x - step)) / (2 * step));
  return slopes;
}

void expect_near(const char* name, const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << name << " at " << i;
}

TEST(Gradient, OfActivationsAgreesWithDifferences) {
  std::mt19937_64 random(3);
  for (const ir::PointwiseRow& row : ir::pointwise_rows()) {
    if (!row.has_grad_op) continue;
    HostTensor x = random_like(random, k2x3), dy = random_like(random, k2x3);
    HostTensor read = row.grad_reads == ir::PointwiseRow::y ? run(row.name, {x})[0] : x;
    expect_near(row.name, run(ir::grad_op(row).c_str(), {dy, read})[0].data,
                differences(row.name, {x}, 0, dy, {}));
  }
}

TEST(Gradient, OfMovesAndProductsAgreesWithDifferences) {
  std::mt19937_64 random(4);
  HostTensor x = random_like(random, k2x3), w = random_like(random, k3x2),
             dy = random_like(random, zeros({{2, 2}}));
  expect_near("matmul", run("matmul_weight_grad", {x, dy})[0].data, differences("matmul", {x, w}, 1, dy, {}));
  expect_near("matmul", run("matmul", {dy, w}, {{"transpose_b", true}})[0].data,
              differences("matmul", {x, w}, 0, dy, {}));

  HostTensor rows = tensor("int64[2]", {2, 2});
  expect_near("gather",
              run("gather_grad", {dy, rows}, {{"axis", int64_t{1}}, {"extent", int64_t{3}}})[0].data,
              differences("gather", {x, rows}, 0, dy, {{"axis", int64_t{1}}}));
  Attrs slice = {{"starts", Ints{0, 1}}, {"ends", Ints{2, 3}}};
  expect_near("slice", run("slice_grad", {dy}, {{"starts", Ints{0, 1}}, {"shape", Ints{2, 3}}})[0].data,
              differences("slice", {x}, 0, dy, slice));
}

}  // namespace
}  // namespace boxcar::backends::cpu
