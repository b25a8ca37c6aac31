#include "sim/models/kernel_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/machines/device_profile.h"
#include "sim/models/matmul_time.h"
#include "support/samples.h"

namespace boxcar::sim {
namespace {

using ir::DType;
using ir::Family;
using ir::TensorType;

const backends::DeviceProfile& a100() {
  static const backends::DeviceProfile device = backends::load_device("a100-sxm-80g");
  return device;
}

// A device with round numbers: 100 Tflop/s, 1 TB/s, no overheads.
backends::DeviceProfile round_device() {
  backends::DeviceProfile device;
  device.memory_bandwidth = 1e12;
  device.peak_flops = {{DType::float16, 100e12}, {DType::float32, 10e12}};
  device.multiprocessors = 100;
  return device;
}

ir::OpDef op_of(const std::string& name, Family family) {
  ir::OpDef def;
  def.name = name;
  def.family = family;
  return def;
}

double seconds(const backends::DeviceProfile& device, const ir::OpDef& def, ir::Types inputs,
               ir::Types outputs, const ir::Attrs& attrs = {}) {
  return kernel_seconds(device, def, inputs, outputs, attrs);
}

struct Errors {
  double mean = 0, worst = 0;
  int count = 0;
  void add(double predicted, double measured) {
    double error = std::fabs(predicted / measured - 1);
    mean = (mean * count + error) / (count + 1);
    worst = std::max(worst, error);
    ++count;
  }
  std::string text() const {
    return fmt::format("{} rows, mean {:.1f} %, worst {:.0f} %", count, mean * 100, worst * 100);
  }
};

Errors matmul_errors(const std::string& device_name, const std::string& table, DType type = DType::bfloat16,
                     double unit = 1e-6) {
  backends::DeviceProfile device = backends::load_device(device_name);
  device.under_load = 1;  // the tables' products run alone
  Errors errors;
  for (const auto& row : support::samples(table)) {
    MatmulShape shape{1, std::stoll(row[0]), std::stoll(row[1]), std::stoll(row[2])};
    double bytes =
        static_cast<double>(ir::size_of(type) * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n));
    double predicted = device.launch_latency + matmul_seconds(device, shape, type, bytes);
    errors.add(predicted, std::stod(row.back()) * unit);
  }
  return errors;
}

// Accuracy of the profiles, on rows of the tables they were fitted to and, for the last three, of others. The
// V100's are fitted to products inside training steps, which are slower than DeepBench's isolated ones.
TEST(Profiles, MatrixProducts) {
  EXPECT_EQ(matmul_errors("a100-sxm-80g", "gemm_a100.csv").text(), "28 rows, mean 4.7 %, worst 28 %");
  EXPECT_EQ(matmul_errors("h100-sxm", "gemm_h100.csv").text(), "28 rows, mean 5.9 %, worst 17 %");
  EXPECT_EQ(matmul_errors("h200-sxm", "gemm_h200.csv").text(), "28 rows, mean 4.0 %, worst 14 %");
  EXPECT_EQ(matmul_errors("a100-pcie-80g", "gemm_a100_pcie.csv").text(), "28 rows, mean 5.8 %, worst 14 %");
  EXPECT_EQ(matmul_errors("b200-sxm", "gemm_b200.csv").text(), "24 rows, mean 8.1 %, worst 24 %");
  EXPECT_EQ(matmul_errors("v100-sxm2-16g", "gemm_v100_float.csv", DType::float32, 1e-3).text(),
            "28 rows, mean 12.6 %, worst 95 %");
  EXPECT_EQ(matmul_errors("v100-sxm2-16g", "gemm_v100_half.csv", DType::float16, 1e-3).text(),
            "28 rows, mean 23.2 %, worst 44 %");
}

// An H200 is an H100 with another memory: in a step its large products take as long.
TEST(Profiles, OneChipHasOneRate) {
  const backends::DeviceProfile h100 = backends::load_device("h100-sxm"),
                                h200 = backends::load_device("h200-sxm");
  for (const DType type : {DType::bfloat16, DType::float8}) {
    double before = 0, after = 0;
    for (const int64_t m : {4096, 8192, 16384})
      for (const auto& [k, n] :
           {std::pair<int64_t, int64_t>(4096, 6144), {4096, 28672}, {14336, 4096}, {8192, 7168}}) {
        const MatmulShape shape{1, m, k, n};
        const auto bytes = static_cast<double>(2 * (m * k + k * n + m * n));
        before += matmul_seconds(h100, shape, type, bytes), after += matmul_seconds(h200, shape, type, bytes);
      }
    EXPECT_NEAR(after / before, 1, 0.05) << ir::to_text(type);
  }
}

// Rows of pass, causal, head size, sequence, hidden size, batch, Tflop/s; both passes take 3.5 times the
// forward flops.
TEST(Profiles, Attention) {
  const auto errors_of = [](const char* device_name, const char* table) {
    const backends::DeviceProfile device = backends::load_device(device_name);
    Errors errors;
    for (const auto& row : support::samples(table)) {
      const bool both = row[0] == "fwd+bwd", causal = row[1] == "1";
      const int64_t head = std::stoll(row[2]), sequence = std::stoll(row[3]),
                    heads = std::stoll(row[4]) / head, batch = std::stoll(row[5]);
      const TensorType x{{batch, heads, sequence, head}, DType::float16},
          lse{{batch, heads, sequence}, DType::float32};
      const auto run = [&](const char* name, const ir::Types& inputs) {
        const ir::OpDef& def = ir::op(name);
        const ir::Attrs attrs = ir::complete(def, {{"causal", causal}});
        return seconds(device, def, inputs, def.infer(inputs, attrs), attrs);
      };
      double predicted = run("scaled_dot_product_attention", {x, x, x});
      if (both) predicted += run("scaled_dot_product_attention_grad", {x, x, x, x, x, lse});
      const double flops = 4.0 * static_cast<double>(x.elements() * sequence) / (causal ? 2 : 1);
      errors.add(predicted, flops * (both ? 3.5 : 1) / (std::stod(row[6]) * 1e12));
    }
    return errors.text();
  };
  EXPECT_EQ(errors_of("a100-sxm-80g", "attention_a100.csv"), "22 rows, mean 1.0 %, worst 3 %");
  EXPECT_EQ(errors_of("h100-sxm", "attention_h100.csv"), "28 rows, mean 3.2 %, worst 9 %");
}

// Rows of GPU, cuDNN, model, batch, sequence, causal, heads, key heads, head size, value size, window,
// deterministic, forward and backward milliseconds.
TEST(Profiles, AttentionOfCudnn) {
  const auto errors_of = [](const char* device_name, const std::string& gpu, const std::string& model) {
    backends::DeviceProfile device = backends::load_device(device_name);
    use_attention_kernel(device, "cudnn");
    Errors errors;
    for (const auto& row : support::samples("attention_cudnn.csv")) {
      if (row[0] != gpu || row[2] != model) continue;
      const int64_t batch = std::stoll(row[3]), sequence = std::stoll(row[4]), heads = std::stoll(row[6]);
      const int64_t window = row[10].empty() ? 0 : std::stoll(row[10]);
      const TensorType x{{batch, heads, sequence, std::stoll(row[8])}, DType::bfloat16},
          v{{batch, heads, sequence, std::stoll(row[9])}, DType::bfloat16},
          lse{{batch, heads, sequence}, DType::float32};
      const auto run = [&](const char* name, const ir::Types& inputs) {
        const ir::OpDef& def = ir::op(name);
        const ir::Attrs attrs = ir::complete(def, {{"causal", row[5] == "1"}, {"window", window}});
        return seconds(device, def, inputs, def.infer(inputs, attrs), attrs);
      };
      errors.add(run("scaled_dot_product_attention", {x, x, v}), std::stod(row[12]) * 1e-3);
      errors.add(run("scaled_dot_product_attention_grad", {v, x, x, v, v, lse}), std::stod(row[13]) * 1e-3);
    }
    return errors.text();
  };
  EXPECT_EQ(errors_of("h200-sxm", "H200", "llama3.1"), "20 rows, mean 0.7 %, worst 6 %");
  EXPECT_EQ(errors_of("gb200", "GB200", "llama3.1"), "20 rows, mean 2.8 %, worst 20 %");
  EXPECT_EQ(errors_of("gb300", "GB300", "llama3.1"), "20 rows, mean 2.7 %, worst 15 %");
  // A window of 1,024, which no curve was fitted to, and heads of 192 with values of 128.
  EXPECT_EQ(errors_of("h200-sxm", "H200", "gpt_oss"), "10 rows, mean 4.5 %, worst 18 %");
  EXPECT_EQ(errors_of("gb200", "GB200", "gpt_oss"), "10 rows, mean 13.2 %, worst 37 %");
  EXPECT_EQ(errors_of("h200-sxm", "H200", "dsv3"), "6 rows, mean 9.7 %, worst 19 %");
}

// Rows of op, rows, columns, milliseconds, in float32.
TEST(Profiles, MemoryBoundKernels) {
  const auto errors_of = [](const char* device_name, const char* table) {
    const backends::DeviceProfile device = backends::load_device(device_name);
    Errors errors;
    for (const auto& row : support::samples(table)) {
      const TensorType x{{std::stoll(row[1]), std::stoll(row[2])}}, width{{std::stoll(row[2])}};
      ir::Types inputs{x};
      if (row[0] == "add") inputs.push_back(x);
      if (row[0] == "ln") inputs.insert(inputs.end(), {width, width});
      const ir::OpDef& def = ir::op(row[0] == "ln" ? "layer_norm" : row[0]);
      const ir::Attrs attrs = ir::complete(def, {});
      errors.add(seconds(device, def, inputs, def.infer(inputs, attrs), attrs), std::stod(row[3]) * 1e-3);
    }
    return errors.text();
  };
  EXPECT_EQ(errors_of("a100-pcie-80g", "memory_a100_pcie.csv"), "28 rows, mean 11.2 %, worst 33 %");
  EXPECT_EQ(errors_of("v100-sxm2-32g", "memory_v100.csv"), "28 rows, mean 10.8 %, worst 52 %");
}

// One wave of 108 multiprocessors holds 108 tiles of 128 x 256. One more tile costs a second wave, half of
// which this device hides.
TEST(Matmul, AWaveMore) {
  auto time = [](int64_t m) { return matmul_seconds(a100(), {1, m, 256 * 12, 8192}, DType::float16, 0); };
  double full = time(128 * 9), more = time(128 * 10);
  EXPECT_GT(more / full, 1.2);
  EXPECT_NEAR(time(128 * 9 - 64) / full, 1, 0.01);
}

TEST(Matmul, WithoutTilesItIsARoofline) {
  backends::DeviceProfile device = round_device();
  // 2 x 1000^3 flops at 100 Tflop/s take 20 us; 1e9 bytes at 1 TB/s take 1 ms.
  EXPECT_NEAR(matmul_seconds(device, {1, 1000, 1000, 1000}, DType::float16, 0), 20e-6, 1e-12);
  EXPECT_NEAR(matmul_seconds(device, {1, 1000, 1000, 1000}, DType::float32, 0), 200e-6, 1e-12);
  EXPECT_NEAR(matmul_seconds(device, {1, 1, 1, 1}, DType::float16, 1e9), 1e-3, 1e-12);
  device.matmul.type_share[DType::float16] = 0.5;
  EXPECT_NEAR(matmul_seconds(device, {1, 1000, 1000, 1000}, DType::float16, 0), 40e-6, 1e-12);
}

TEST(Matmul, WavesByHand) {
  backends::DeviceProfile device = round_device();
  device.matmul.tiles = {{100, 100, 1.0}};
  device.matmul.wave_seconds = 1e-6;
  // 20 x 10 tiles on 100 multiprocessors: two waves, each of 2 x 100 x 100 x 50 flops at 1 Tflop/s plus 1 us.
  EXPECT_NEAR(matmul_seconds(device, {1, 2000, 1000, 50}, DType::float16, 0), 2 * (1e-6 + 1e-6), 1e-12);
  EXPECT_NEAR(matmul_seconds(device, {1, 2001, 1000, 50}, DType::float16, 0), 3 * (1e-6 + 1e-6), 1e-12);
  device.matmul.wave_overlap = 0.5;  // 2.1 waves of work, 3 whole ones
  EXPECT_NEAR(matmul_seconds(device, {1, 2001, 1000, 50}, DType::float16, 0), 2.55 * (1e-6 + 1e-6), 1e-12);
}

TEST(Matmul, FewTilesSplitK) {
  backends::DeviceProfile device = round_device();
  device.matmul.tiles = {{100, 100, 1.0}};
  device.matmul.split_seconds = 1e-6;
  // One tile, k 4000: in 12 parts; partial results of 12 x 8 x 100 x 100 bytes at 1 TB/s. 16 parts would have
  // less than 256 of k each.
  EXPECT_NEAR(matmul_seconds(device, {1, 100, 100, 4000}, DType::float16, 0), 80e-6 / 12 + 1e-6 + 0.96e-6,
              1e-12);
  device.matmul.cache_bandwidth = 8e12;  // where parts meet; 200 x 4000 x 2 bytes of 12 tiles take 2.4 us
  EXPECT_NEAR(matmul_seconds(device, {1, 100, 100, 4000}, DType::float16, 0),
              fourth_power_sum(80e-6, 2.4e-6) / 12 + 1e-6 + 0.12e-6, 1e-12);
}

TEST(Matmul, TilesReadFromTheCacheAndAreWritten) {
  backends::DeviceProfile device = round_device();
  device.matmul.tiles = {{128, 256, 1.0}};
  device.matmul.cache_bandwidth = 1e12;
  // 100 tiles on 100 multiprocessors: 384 x 64 x 2 bytes of each at 1 TB/s, beside 2 x 128 x 256 x 64 flops
  // at 1 Tflop/s.
  const double wave = fourth_power_sum(4.9152e-6, 4.194304e-6);
  EXPECT_NEAR(matmul_seconds(device, {1, 1280, 2560, 64}, DType::float16, 0), wave, 1e-12);
  device.matmul.tile_seconds = 3e-6;
  EXPECT_NEAR(matmul_seconds(device, {1, 1280, 2560, 64}, DType::float16, 0), wave + 3e-6, 1e-12);
  device.matmul.tiles = {{128, 128, 1.0}};  // half as large
  EXPECT_NEAR(matmul_seconds(device, {1, 1280, 1280, 64}, DType::float16, 0),
              fourth_power_sum(256 * 64 * 2e-12 * 100, 2.097152e-6) + 1.5e-6, 1e-12);
}

TEST(KernelSeconds, ProductsFindTheirShape) {
  TensorType x{{4, 512, 1024}, DType::float16}, w{{1024, 2048}, DType::float16},
      y{{4, 512, 2048}, DType::float16};
  double bytes = static_cast<double>(x.bytes() + w.bytes() + y.bytes());
  double launch = a100().launch_latency;
  EXPECT_DOUBLE_EQ(seconds(a100(), op_of("matmul", Family::matmul), {x, w}, {y}),
                   launch + matmul_seconds(a100(), {1, 2048, 2048, 1024}, DType::float16, bytes));
  EXPECT_DOUBLE_EQ(seconds(a100(), op_of("matmul_weight_grad", Family::matmul), {x, y}, {w}),
                   launch + matmul_seconds(a100(), {1, 1024, 2048, 2048}, DType::float16, bytes));
  TensorType q{{4, 16, 512, 64}, DType::float16}, k{{4, 16, 64, 512}, DType::float16},
      p{{4, 16, 512, 512}, DType::float16};
  bytes = static_cast<double>(q.bytes() + k.bytes() + p.bytes());
  EXPECT_DOUBLE_EQ(seconds(a100(), op_of("batch_matmul", Family::matmul), {q, k}, {p}),
                   launch + matmul_seconds(a100(), {64, 512, 512, 64}, DType::float16, bytes));
}

TEST(KernelSeconds, BackwardProductsHaveSharesOfTheirOwn) {
  backends::DeviceProfile device = round_device();
  device.op_share = {{"matmul_input_grad", 0.5}, {"matmul_weight_grad", 0.25}};
  TensorType x{{1000, 1000}, DType::float16};
  double alone = matmul_seconds(device, {1, 1000, 1000, 1000}, DType::float16, 6e6);
  ir::OpDef matmul = op_of("matmul", Family::matmul);
  EXPECT_DOUBLE_EQ(seconds(device, matmul, {x, x}, {x}), alone);
  EXPECT_DOUBLE_EQ(seconds(device, matmul, {x, x}, {x}, {{"transpose_b", false}}), alone);
  EXPECT_DOUBLE_EQ(seconds(device, matmul, {x, x}, {x}, {{"transpose_b", true}}), alone / 0.5);
  EXPECT_DOUBLE_EQ(seconds(device, op_of("matmul_weight_grad", Family::matmul), {x, x}, {x}), alone / 0.25);
  device.op_share["matmul"] = 0.8;
  const TensorType row{{1000}, DType::float16};
  EXPECT_NEAR(seconds(device, op_of("matmul_bias", Family::matmul), {x, x, row}, {x}), alone / 0.8,
              1e-3 * alone);
  EXPECT_NEAR(seconds(device, op_of("matmul_bias_grad", Family::matmul), {x, x}, {x, row}), alone / 0.25,
              1e-3 * alone);
}

TEST(KernelSeconds, OddRowsIn16BitsHaveAShare) {
  backends::DeviceProfile device = round_device();
  device.matmul.odd_share = 0.5;
  const ir::OpDef forward = op_of("matmul", Family::matmul);
  const auto slower = [&](const ir::OpDef& def, const TensorType& a, const TensorType& b,
                          const TensorType& out) {
    backends::DeviceProfile even = device;
    even.matmul.odd_share = 1;
    return seconds(device, def, {a, b}, {out}) / seconds(even, def, {a, b}, {out});
  };
  const DType half = DType::float16;
  const TensorType x{{512, 1000}, half}, w{{1000, 501}, half}, y{{512, 501}, half};
  EXPECT_DOUBLE_EQ(slower(forward, x, w, y), 2);
  EXPECT_DOUBLE_EQ(slower(op_of("matmul_weight_grad", Family::matmul), x, y, w), 2);
  EXPECT_DOUBLE_EQ(slower(forward, y, {{501, 1000}, half}, x), 2);  // the input's gradient
  EXPECT_DOUBLE_EQ(slower(forward, {{511, 1000}, half}, {{1000, 500}, half}, {{511, 500}, half}), 1);
  EXPECT_DOUBLE_EQ(slower(forward, {{512, 1000}, DType::float32}, {{1000, 501}, DType::float32},
                          {{512, 501}, DType::float32}),
                   1);
  EXPECT_DOUBLE_EQ(slower(forward, {{1, 1000}, half}, {{1000, 501}, half}, {{1, 501}, half}), 2);
}

TEST(KernelSeconds, OddRowsHaveAComputeRateByLayout) {
  backends::DeviceProfile device = round_device();
  const DType half = DType::float16;
  const ir::Types inputs{{{512, 1000}, half}, {{1000, 501}, half}}, outputs{{{512, 501}, half}};
  const ir::OpDef gradient = op_of("matmul_weight_grad", Family::matmul);
  const double before = seconds(device, gradient, inputs, outputs);
  device.op_share["odd_matmul"] = 0.25;
  EXPECT_EQ(seconds(device, gradient, inputs, outputs), before);
  device.op_share["odd_matmul_weight_grad"] = 0.5;
  EXPECT_NEAR(seconds(device, gradient, inputs, outputs) / before, 2, 0.03);
}

TEST(KernelSeconds, SustainedRateBoundsProductsIn16Bits) {
  backends::DeviceProfile device = round_device();
  const ir::OpDef& product = ir::op("matmul");
  const auto time = [&](DType type) {
    const TensorType square{{4096, 4096}, type};
    return seconds(device, product, {square, square}, {square}, ir::complete(product, {}));
  };
  const double flops = 2.0 * 4096 * 4096 * 4096;
  const double fresh = time(DType::float16), full = time(DType::float32);
  device.sustained_flops = 2 * flops / fresh;
  EXPECT_EQ(time(DType::float16), fresh);
  device.sustained_flops = flops / fresh / 2;
  EXPECT_NEAR(time(DType::float16) / fresh, 2, 0.01);
  EXPECT_EQ(time(DType::float32), full);
}

TEST(KernelSeconds, OpsOfSeveralKernelsTakeMore) {
  backends::DeviceProfile device = round_device();
  const ir::OpDef relu = op_of("relu", Family::memory);
  const TensorType x{{1000, 1000}, DType::float16};
  const double one = seconds(device, relu, {x}, {x});
  device.op_seconds["relu"] = 3e-6;
  EXPECT_NEAR(seconds(device, relu, {x}, {x}) - one, 3e-6, 1e-12);
}

TEST(KernelSeconds, OthersGoByBytes) {
  backends::DeviceProfile device = round_device();
  device.kernel_floor = 2e-6;
  device.launch_latency = 1e-6;
  TensorType x{{1000, 1000}, DType::float16};
  EXPECT_NEAR(seconds(device, op_of("add", Family::memory), {x, x}, {x}), 3e-6 + 6e-6, 1e-12);
  device.memory_efficiency = {{1e6, 1e8}, {0.5, 0.5}};
  device.op_share["add"] = 0.5;
  EXPECT_NEAR(seconds(device, op_of("add", Family::memory), {x, x}, {x}), 3e-6 + 24e-6, 1e-12);
}

TEST(KernelSeconds, ViewsAndEmptyKernelsTakeNothing) {
  TensorType x{{8, 8}, DType::float32}, none{{0, 8}, DType::float32};
  EXPECT_EQ(seconds(a100(), op_of("reshape", Family::none), {x}, {x}), 0);
  EXPECT_EQ(seconds(a100(), op_of("relu", Family::memory), {none}, {none}), 0);
  EXPECT_EQ(seconds(a100(), op_of("matmul", Family::matmul), {none, x}, {none}), 0);
  // A sum over nothing still writes zeros.
  EXPECT_GT(seconds(a100(), op_of("matmul", Family::matmul), {{{8, 0}, DType::float32}, none}, {x}), 0);
}

TEST(KernelSeconds, AttentionBySequenceHeadAndMask) {
  backends::DeviceProfile device = round_device();
  device.attention.forward = {{512, 2048}, {0.25, 0.5}};
  device.attention.backward = {{512, 2048}, {0.2, 0.4}};
  device.attention.head_share = {{64, 128}, {0.8, 1}};
  ir::OpDef forward = op_of("scaled_dot_product_attention", Family::attention);
  forward.work = [](const ir::Types&, const ir::Types&, const ir::Attrs&) { return ir::Work{1e9, 0}; };
  ir::OpDef backward = forward;
  backward.name += "_grad";
  TensorType x{{1, 16, 2048, 128}, DType::float16}, small{{1, 16, 2048, 64}, DType::float16};
  ir::Attrs causal{{"causal", true}}, full{{"causal", false}};
  EXPECT_NEAR(seconds(device, forward, {x, x, x}, {x}, full), 1e9 / 50e12, 1e-12);
  EXPECT_NEAR(seconds(device, forward, {x, x, x}, {x}, causal), 1e9 / 25e12, 1e-12);
  EXPECT_NEAR(seconds(device, forward, {small, small, small}, {small}, full), 1e9 / 40e12, 1e-12);
  EXPECT_NEAR(seconds(device, backward, {x, x, x, x}, {x}, full), 1e9 / 40e12, 1e-12);
  backends::DeviceProfile slow = device;
  slow.attention.causal_backward = {{512, 2048}, {0.2, 0.1}};
  EXPECT_NEAR(seconds(slow, backward, {x, x, x, x}, {x}, causal), 1e9 / 10e12, 1e-12);
  EXPECT_NEAR(seconds(slow, backward, {x, x, x, x}, {x}, full), 1e9 / 40e12, 1e-12);
  // Tiles of 128 queries go through 384 + 128 keys, at the rate of 512.
  const ir::Attrs window{{"causal", true}, {"window", int64_t{384}}};
  EXPECT_NEAR(seconds(device, forward, {x, x, x}, {x}, window), 1e9 * (512.0 / 384) / 25e12, 1e-12);
  // A window of nearly all is never slower than none: the causal kernel's work is more by this.
  const ir::Attrs wide{{"causal", true}, {"window", int64_t{2047}}};
  const double more = 0.5 / (2047.0 / 2048 * (1 - 2047.0 / 4096));
  EXPECT_NEAR(seconds(device, forward, {x, x, x}, {x}, wide), 1e9 * more / 25e12, 1e-12);
}

// A sequence of documents takes the time of that many sequences.
TEST(KernelSeconds, DocumentsRunLikeShorterSequences) {
  const backends::DeviceProfile h100 = backends::load_device("h100-sxm");
  const ir::OpDef& def = ir::op("scaled_dot_product_attention");
  const auto with = [&](int64_t batch, int64_t tokens, int64_t document, int64_t window) {
    const TensorType x{{batch, 16, tokens, 128}, DType::bfloat16};
    const ir::Attrs attrs = ir::complete(def, {{"causal", true}, {"document", document}, {"window", window}});
    return seconds(h100, def, {x, x, x}, def.infer({x, x, x}, attrs), attrs);
  };
  EXPECT_DOUBLE_EQ(with(1, 16384, 2048, 0), with(8, 2048, 0, 0));
  EXPECT_DOUBLE_EQ(with(1, 16384, 2048, 512), with(8, 2048, 0, 512));
  EXPECT_DOUBLE_EQ(with(1, 16384, 20000, 0), with(1, 16384, 0, 0));
  EXPECT_LT(with(1, 16384, 2048, 0), 0.25 * with(1, 16384, 0, 0));
  // Of 16 tokens, 112 are missing to a tile.
  EXPECT_GT(with(1, 16384, 16, 0), 1.5 * with(1024, 16, 0, 0));
}

// No product: bound by memory, however large the window.
TEST(KernelSeconds, DepthwiseConvolutionsTakeTheTimeOfTheirBytes) {
  const backends::DeviceProfile v100 = backends::load_device("v100-sxm2-16g");
  const ir::OpDef& def = ir::op("conv2d");
  const TensorType x{{64, 256, 28, 28}, DType::float32};
  const auto with = [&](int64_t groups, int64_t window) {
    const TensorType weight{{256, 256 / groups, window, window}, DType::float32};
    const ir::Attrs attrs = ir::complete(def, {{"groups", groups}, {"padding", window / 2}});
    return seconds(v100, def, {x, weight}, {x}, attrs);
  };
  const double bytes = 2.0 * static_cast<double>(x.bytes());
  EXPECT_NEAR(with(256, 3) * v100.memory_bandwidth / bytes, 1.2, 0.2);
  EXPECT_NEAR(with(256, 5) / with(256, 3), 1, 0.2);
  EXPECT_GT(with(128, 3), 2 * with(256, 3));  // two channels a group: small products
}

TEST(KernelSeconds, ConvolutionsByFlopsOrBytes) {
  backends::DeviceProfile device = round_device();
  device.convolution_efficiency = {{1e8, 1e10}, {0.25, 0.5}};
  device.op_share["conv2d_weight_grad"] = 0.5;
  TensorType x{{1, 8, 16, 16}, DType::float16};
  ir::OpDef forward = op_of("conv2d", Family::convolution),
            backward = op_of("conv2d_weight_grad", Family::convolution);
  forward.work = backward.work = [](const auto&, const auto&, const auto&) { return ir::Work{1e10, 1e6}; };
  EXPECT_NEAR(seconds(device, forward, {x, x}, {x}), 200e-6, 1e-12);
  EXPECT_NEAR(seconds(device, backward, {x, x}, {x}), 400e-6, 1e-12);
  forward.work = [](const auto&, const auto&, const auto&) { return ir::Work{1e8, 1e9}; };
  EXPECT_NEAR(seconds(device, forward, {x, x}, {x}), 1e-3, 1e-12);
}

}  // namespace
}  // namespace boxcar::sim
