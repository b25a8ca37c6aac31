// Convolutions by shape: the profile's accuracy on rows of its table, and its closed forms by hand.
#include "sim/models/convolution_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "sim/models/kernel_time.h"
#include "support/samples.h"

namespace boxcar::sim {
namespace {

using ir::DType;
using Pass = ConvolutionPass;

constexpr Pass passes[] = {Pass::forward, Pass::input_grad, Pass::weight_grad};

// n, c, k, h, w, filter_h, filter_w, pad_h, pad_w, stride of a row.
ConvolutionShape shape_of(const std::vector<std::string>& row) {
  std::vector<int64_t> v;
  for (size_t i = 0; i < 10; ++i) v.push_back(std::stoll(row[i]));
  return {v[0],
          1,
          v[1],
          v[2],
          v[3],
          v[4],
          (v[3] + 2 * v[7] - v[5]) / v[9] + 1,
          (v[4] + 2 * v[8] - v[6]) / v[9] + 1,
          v[5],
          v[6],
          v[9]};
}

// A few 16-bit rows are 3 to 14 times slower than their neighbours, which a median hides.
std::string errors(const char* table, DType type) {
  const backends::DeviceProfile device = backends::load_device("v100-sxm2-16g");
  std::vector<double> found;
  for (const auto& row : support::samples(table)) {
    for (size_t p = 0; p < 3; ++p) {
      const std::string measured = row.size() > 10 + p ? row[10 + p] : "";
      if (measured.empty()) continue;
      const double predicted =
          device.launch_latency +
          convolution_seconds(device, device.convolution.at(type), shape_of(row), passes[p], type);
      found.push_back(std::fabs(predicted / (std::stod(measured) * 1e-3) - 1));
    }
  }
  std::sort(found.begin(), found.end());
  return fmt::format("{} passes, median {:.0f} %, 80 % within {:.0f} %", found.size(),
                     100 * found[found.size() / 2], 100 * found[found.size() * 4 / 5]);
}

TEST(Profiles, ConvolutionsOfAV100) {
  EXPECT_EQ(errors("conv_v100_float.csv", DType::float32), "84 passes, median 11 %, 80 % within 28 %");
  EXPECT_EQ(errors("conv_v100_half.csv", DType::float16), "84 passes, median 10 %, 80 % within 23 %");
}

// 100 Tflop/s in 16 bits, 10 in 32, 1 TB/s; one tile of 100 x 100, no overheads.
backends::DeviceProfile device_of_one_tile() {
  backends::DeviceProfile device;
  device.memory_bandwidth = 1e12;
  device.peak_flops = {{DType::float16, 100e12}, {DType::float32, 10e12}};
  device.multiprocessors = 100;
  backends::ConvolutionModel model;
  model.waves.tiles = {{100, 100, 1.0}};
  model.waves.split_seconds = 1;
  device.convolution = {{DType::float16, model}, {DType::float32, model}};
  return device;
}

double seconds(const backends::DeviceProfile& device, const ConvolutionShape& shape, Pass pass) {
  return convolution_seconds(device, device.convolution.at(DType::float16), shape, pass, DType::float16);
}

// 400 images of 50 x 50, 5 x 5 windows without padding: a million outputs of 100 channels over 100 x 25.
TEST(Convolution, ProductsByHand) {
  backends::DeviceProfile device = device_of_one_tile();
  device.memory_bandwidth = 1e15;
  const ConvolutionShape shape{400, 1, 100, 100, 54, 54, 50, 50, 5, 5, 1};
  const double forward = 2.0 * 1e6 * 100 * 2500 / 100e12;  // 10,000 tiles: 100 waves
  EXPECT_NEAR(seconds(device, shape, Pass::forward), forward, 1e-6 * forward);
  // 54 x 54 positions of 400 images: 11,664 tiles, 117 waves for 116.64.
  EXPECT_NEAR(seconds(device, shape, Pass::input_grad), 117 * forward / 100, 1e-6 * forward);
  // 100 x 2500 over a million: 25 tiles, a quarter of a wave, which costs a whole one.
  EXPECT_NEAR(seconds(device, shape, Pass::weight_grad), 4 * forward, 1e-6 * forward);
  backends::ConvolutionModel& model = device.convolution[DType::float16];
  model.input_grad = model.weight_grad = 0.5;
  EXPECT_NEAR(seconds(device, shape, Pass::input_grad), 2 * 117 * forward / 100, 1e-6 * forward);
  EXPECT_NEAR(seconds(device, shape, Pass::weight_grad), 8 * forward, 1e-6 * forward);
}

TEST(Convolution, FewTilesSplitTheSum) {
  backends::DeviceProfile device = device_of_one_tile();
  device.memory_bandwidth = 1e13;
  device.convolution[DType::float16].waves.split_seconds = 0;
  const ConvolutionShape shape{400, 1, 100, 100, 54, 54, 50, 50, 5, 5, 1};
  // 25 tiles in 4 parts are a whole wave of quarters; partial sums of 4 x 8 x 100 x 2500 bytes.
  EXPECT_NEAR(seconds(device, shape, Pass::weight_grad),
              2.0 * 100 * 100 * 1e6 / 4 / 1e12 + 4 * 8 * 250000 / 1e13, 1e-8);
}

TEST(Convolution, StridesSkipTheZerosOfTheInputGradient) {
  backends::DeviceProfile device = device_of_one_tile();
  device.memory_bandwidth = 1e15;
  const ConvolutionShape strided{400, 1, 100, 100, 100, 100, 50, 50, 2, 2, 2};
  // 4,000,000 positions, each reached from one of the four places of a window.
  const double plain = 2.0 * 4e6 * 100 * 100 / 100e12;
  EXPECT_NEAR(seconds(device, strided, Pass::input_grad), plain, 0.02 * plain);
  device.convolution[DType::float16].strided_input_grad = 0.5;
  EXPECT_NEAR(seconds(device, strided, Pass::input_grad), 2 * plain, 0.02 * plain);
}

TEST(Convolution, WindowsOfOneElementHaveSharesOfTheirOwn) {
  backends::DeviceProfile device = device_of_one_tile();
  device.memory_bandwidth = 1e15;
  const ConvolutionShape strided{400, 1, 100, 100, 100, 100, 50, 50, 1, 1, 2};
  // 1,000,000 positions that an output reaches; the others are zero.
  const double plain = 2.0 * 1e6 * 100 * 100 / 100e12;
  EXPECT_NEAR(seconds(device, strided, Pass::input_grad), plain, 0.02 * plain);
  backends::ConvolutionModel& model = device.convolution[DType::float16];
  model.weight_grad = model.strided_input_grad = 0.1;  // not for these
  model.pointwise_strided_input_grad = 0.5, model.input_grad_seconds = 3;
  EXPECT_NEAR(seconds(device, strided, Pass::input_grad), 3 + 2 * plain, 0.02 * plain);
  const double weight = seconds(device, strided, Pass::weight_grad);
  model.pointwise_weight_grad = 0.25;
  EXPECT_NEAR(seconds(device, strided, Pass::weight_grad), 4 * weight, 0.01 * weight);
}

TEST(Convolution, MemoryWhereThereIsLittleToCompute) {
  const ConvolutionShape shape{1000, 1, 100, 100, 100, 100, 100, 100, 1, 1, 1};
  backends::DeviceProfile device = device_of_one_tile();
  device.peak_flops[DType::float16] = 1e18;
  EXPECT_NEAR(seconds(device, shape, Pass::forward), 2 * (2e9 + 1e4) / 1e12, 1e-6);
}

TEST(Convolution, WinogradByHand) {
  backends::DeviceProfile device = device_of_one_tile();
  device.memory_bandwidth = 1e18;
  backends::ConvolutionModel& model = device.convolution[DType::float16];
  const ConvolutionShape shape{100, 1, 1000, 1000, 40, 40, 40, 40, 3, 3, 1};
  const double direct = 2.0 * 100 * 1600 * 1e6 * 9 / 100e12;
  EXPECT_NEAR(seconds(device, shape, Pass::forward), direct, 1e-3 * direct);
  model.winograd = 1;  // 36 products in place of 16 x 9
  EXPECT_NEAR(seconds(device, shape, Pass::forward), direct / 4, 1e-3 * direct);
  EXPECT_NEAR(seconds(device, shape, Pass::weight_grad), direct / 4, 1e-3 * direct);
  model.winograd = 0;
  model.winograd_fused = 1;  // 16 in place of 4 x 9, and blocks of 64 channels, of which 1,000 fill 15.6
  EXPECT_NEAR(seconds(device, shape, Pass::forward), direct * 16 / 36 * 1024 / 1000, 1e-3 * direct);
  EXPECT_NEAR(seconds(device, shape, Pass::weight_grad), direct, 1e-2 * direct);
  model.winograd = 1;
  const ConvolutionShape few{100, 1, 100, 100, 40, 40, 40, 40, 3, 3, 1};
  // 36 products of 100 x 100 over 10,000 tiles: 36 blocks, which take as long as a wave of 100.
  const double of_block = 2.0 * 100 * 100 * 1e4 / 1e12;
  EXPECT_NEAR(seconds(device, few, Pass::weight_grad), of_block, 1e-3 * of_block);
  const ConvolutionShape five{100, 1, 1000, 1000, 40, 40, 40, 40, 5, 5, 1};  // 36 in place of 4 x 25
  EXPECT_NEAR(seconds(device, five, Pass::forward), direct * 25 / 9 * 36 / 100, 1e-3 * direct);
  ConvolutionShape strided = shape;
  strided.stride = 2;
  EXPECT_NEAR(seconds(device, strided, Pass::forward), direct, 1e-3 * direct);
}

// The shape is the same from whichever op it is read.
TEST(Convolution, ShapesOfOps) {
  for (const bool last : {false, true}) {
    const ir::TensorType x{last ? ir::Shape{2, 9, 10, 6} : ir::Shape{2, 6, 9, 10}, DType::float16},
        weight{{4, 3, 3, 5}, DType::float16},
        y{last ? ir::Shape{2, 5, 4, 4} : ir::Shape{2, 4, 5, 4}, DType::float16};
    const ir::Attrs attrs{{"stride", int64_t{2}}, {"groups", int64_t{2}}, {"channels_last", last}};
    for (const ConvolutionShape& s : {convolution_shape(Pass::forward, {x, weight}, {y}, attrs),
                                      convolution_shape(Pass::input_grad, {y, weight}, {x}, attrs),
                                      convolution_shape(Pass::weight_grad, {y, x}, {weight}, attrs)}) {
      EXPECT_EQ(fmt::format("{} {} {} {} {} {} {} {} {} {} {}", s.batch, s.groups, s.from, s.to, s.rows,
                            s.columns, s.out_rows, s.out_columns, s.kernel_rows, s.kernel_columns, s.stride),
                "2 2 3 2 9 10 5 4 3 5 2");
    }
  }
}

double kernel(const backends::DeviceProfile& device, const char* op, ir::Types inputs,
              const ir::Types& outputs, ir::Attrs attrs = {}) {
  return kernel_seconds(device, ir::op(op), inputs, outputs, ir::complete(ir::op(op), std::move(attrs)));
}

// Three channels run without tensor cores, or as eight.
TEST(Convolution, ChannelsThat8DoesNotDivide) {
  backends::DeviceProfile device = device_of_one_tile();
  const ir::TensorType x{{1000, 3, 100, 100}, DType::float16}, weight{{96, 3, 10, 10}, DType::float16},
      y{{1000, 96, 91, 91}, DType::float16};
  ConvolutionShape shape{1000, 1, 3, 96, 100, 100, 91, 91, 10, 10, 1};
  EXPECT_DOUBLE_EQ(kernel(device, "conv2d", {x, weight}, {y}),
                   convolution_seconds(device, device.convolution.at(DType::float32), shape, Pass::forward,
                                       DType::float32));
  device.pads_channels = true;
  shape.from = 8;
  EXPECT_DOUBLE_EQ(kernel(device, "conv2d", {x, weight}, {y}), seconds(device, shape, Pass::forward));
}

// Bytes that a framework's 16-bit kernels save; a fused op counts its steps.
TEST(KernelSeconds, OpsOf16BitsMayMoveLess) {
  backends::Cluster cluster;
  cluster.device = device_of_one_tile();
  backends::Framework framework;
  framework.half_op_bytes = {{"relu", 0.5}, {"add_relu", 0.25}};
  backends::put_framework(cluster, framework);
  const ir::TensorType half{{1000, 1000}, DType::float16}, single{{1000, 1000}, DType::float32};
  EXPECT_NEAR(kernel(cluster.device, "relu", {half}, {half}), 2e-6, 1e-12);
  EXPECT_NEAR(kernel(cluster.device, "relu", {single}, {single}), 8e-6, 1e-12);
  const ir::Attrs sum{{"program", std::string("add(0, 1); relu(2)")}},
      other{{"program", std::string("add(0, 1); tanh(2)")}};
  EXPECT_NEAR(kernel(cluster.device, "fused", {half, half}, {half}, sum), 1.5e-6, 1e-12);
  EXPECT_NEAR(kernel(cluster.device, "fused", {half, half}, {half}, other), 6e-6, 1e-12);
}

}  // namespace
}  // namespace boxcar::sim
