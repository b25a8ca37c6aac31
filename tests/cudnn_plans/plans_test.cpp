// The real cuDNN, from 9.8 on, plans for GPUs that are only described to it. The tests show without a GPU
// that it has engines for our graphs, with kernels that it compiles for them; they do not show the results of
// these.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/dnn.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

struct Gpu {
  const char* name;
  int architecture, processors, shared_memory, l2;
};
const Gpu gpus[] = {{"A100", 800, 108, 166'912, 41'943'040}, {"H200", 900, 132, 232'448, 62'914'560}};

std::string description(const Gpu& g) {
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":80000000000,"smClockRateKHz":1500000,"memClockRateKHz":2000000,)"
      R"("cudaDeviceId":0,"driverVer":13000,"deviceName":"{}","deviceVer":{},"multiProcessorCount":{},)"
      R"("maxSharedMemoryPerBlockOptin":{},"l2CacheSize":{}}})",
      g.name, g.architecture, g.processors, g.shared_memory, g.l2);
}

class CudnnPlans : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver) GTEST_SKIP() << "CUDA's driver is here: it would have to load kernels for GPUs that are not";
    static void* const stand_in = dlopen(BOXCAR_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(stand_in, nullptr) << dlerror();
    try {
      dnn_ = std::make_unique<Dnn>(description(GetParam()));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    if (dnn_->version() < Dnn::least_attention_version)
      GTEST_SKIP() << "cuDNN " << dnn_->version() << " is too old";
  }
  std::unique_ptr<Dnn> dnn_;
};

// Each shape in every pass and type.
template <size_t count, typename Visit>
void each_pass(const ConvolutionShape (&shapes)[count], const Visit& visit) {
  for (ConvolutionShape shape : shapes)
    for (const ConvolutionKind kind :
         {ConvolutionKind::forward, ConvolutionKind::input_grad, ConvolutionKind::weight_grad})
      for (const Type type : {Type::float32, Type::bfloat16, Type::float16}) {
        SCOPED_TRACE(fmt::format("{} x {}, kind {}, type {}", shape.x[1], shape.x[2], static_cast<int>(kind),
                                 static_cast<int>(type)));
        shape.kind = kind, shape.type = type;
        visit(shape);
      }
}

TEST_P(CudnnPlans, Convolutions) {
  const ConvolutionShape shapes[] = {
      {.x = {64, 3, 224, 224}, .weight = {64, 3, 7, 7}, .y = {64, 64, 112, 112}, .stride = 2, .padding = 3},
      {.x = {64, 64, 56, 56}, .weight = {64, 64, 3, 3}, .y = {64, 64, 56, 56}, .stride = 1, .padding = 1},
      {.x = {64, 256, 56, 56}, .weight = {512, 256, 1, 1}, .y = {64, 512, 28, 28}, .stride = 2, .padding = 0},
      {.x = {5, 6, 9, 11},
       .weight = {4, 3, 3, 3},
       .y = {5, 4, 5, 6},
       .stride = 2,
       .padding = 1},  // two groups
  };
  each_pass(shapes, [&](const ConvolutionShape& shape) {
    EXPECT_LE(dnn_->convolution(shape)->workspace(), Dnn::most_workspace);
  });
}

// With channels last the operands stay as they are, but for weights, which are turned around.
TEST_P(CudnnPlans, ConvolutionsOfImagesWithChannelsLast) {
  const ConvolutionShape shapes[] = {
      {.x = {64, 3, 224, 224}, .weight = {64, 3, 7, 7}, .y = {64, 64, 112, 112}, .stride = 2, .padding = 3},
      {.x = {64, 64, 56, 56}, .weight = {64, 64, 3, 3}, .y = {64, 64, 56, 56}, .stride = 1, .padding = 1},
      {.x = {64, 256, 56, 56}, .weight = {512, 256, 1, 1}, .y = {64, 512, 28, 28}, .stride = 2, .padding = 0},
      {.x = {64, 512, 7, 7}, .weight = {512, 512, 3, 3}, .y = {64, 512, 7, 7}, .stride = 1, .padding = 1},
      {.x = {5, 6, 9, 11}, .weight = {4, 6, 3, 3}, .y = {5, 4, 5, 6}, .stride = 2, .padding = 1},
  };
  each_pass(shapes, [&](ConvolutionShape shape) {
    shape.channels_last = true;
    const int64_t workspace = dnn_->convolution(shape)->workspace();
    EXPECT_LE(workspace, Dnn::most_workspace);
    shape.channels_last = false;
    const bool on_tensor_cores = shape.type != Type::float32 && shape.x[1] % 8 == 0;
    if (on_tensor_cores && shape.x[2] > 7 && shape.kind != ConvolutionKind::weight_grad) {
      EXPECT_LT(workspace, dnn_->convolution(shape)->workspace());
    }
  });
}

TEST_P(CudnnPlans, BatchNorms) {
  const auto plans = [&](const BatchNormShape& shape) {
    const auto forward = dnn_->batch_norm(shape), gradient = dnn_->batch_norm_grad(shape);
    EXPECT_EQ(forward == nullptr, gradient == nullptr);
    return forward && gradient && forward->workspace() < 1 << 20 && gradient->workspace() < 1 << 20;
  };
  for (const Type type : {Type::float32, Type::bfloat16, Type::float16})
    for (const Type scale : {Type::float32, type}) {
      SCOPED_TRACE(fmt::format("type {}, scales {}", static_cast<int>(type), static_cast<int>(scale)));
      BatchNormShape shape{.images = 64,
                           .channels = 64,
                           .height = 56,
                           .width = 56,
                           .eps = 1e-5,
                           .type = type,
                           .scale_type = scale};
      EXPECT_TRUE(plans(shape));
      shape.channels = 2048, shape.height = shape.width = 7;
      EXPECT_TRUE(plans(shape));
      shape.channels = 6;
      EXPECT_FALSE(plans(shape));
    }
}

// As kernels ask for it: key heads are a batch, the query heads of each its heads.
TEST_P(CudnnPlans, Attention) {
  const AttentionShape shapes[] = {
      {.batch = 16 * 12,
       .heads = 1,
       .queries = 1024,
       .keys = 1024,
       .width = 64,
       .value_width = 64,
       .causal = true},
      {.batch = 8, .heads = 4, .queries = 4096, .keys = 4096, .width = 64, .value_width = 64, .causal = true},
      {.batch = 8,
       .heads = 8,
       .queries = 2048,
       .keys = 2048,
       .width = 128,
       .value_width = 128,
       .causal = true},
      {.batch = 24, .heads = 1, .queries = 512, .keys = 512, .width = 64, .value_width = 64},
      {.batch = 4, .heads = 2, .queries = 200, .keys = 333, .width = 80, .value_width = 80},
      {.batch = 4,
       .queries = 256,
       .keys = 1024,
       .width = 64,
       .value_width = 64,
       .causal = true,
       .offset = 768},
      {.batch = 4,
       .queries = 256,
       .keys = 1024,
       .width = 64,
       .value_width = 64,
       .causal = true,
       .offset = -256},
  };
  for (AttentionShape shape : shapes)
    for (const Type type : {Type::bfloat16, Type::float16}) {
      if (type == Type::float16 && shape.width != 128) continue;  // compiling takes a second each
      SCOPED_TRACE(fmt::format("{} of {} x {}, {} wide, offset {}, type {}", shape.batch, shape.queries,
                               shape.keys, shape.width, shape.offset, static_cast<int>(type)));
      shape.type = type, shape.scale = 0.125;
      const auto forward = dnn_->attention(shape), repeating = dnn_->attention_grad(shape, true),
                 adding = dnn_->attention_grad(shape, false);
      ASSERT_TRUE(forward && repeating && adding);
      const int64_t scores = shape.batch * shape.heads * shape.queries * shape.keys;
      EXPECT_LT(forward->workspace(), scores);
      EXPECT_GE(repeating->workspace(), 2 * scores);
      EXPECT_LT(adding->workspace(), repeating->workspace());
    }
}

TEST_P(CudnnPlans, NoneForWidthsThatTensorCoresDoNotTake) {
  const AttentionShape shape{.batch = 4, .queries = 64, .keys = 64, .width = 6, .value_width = 6};
  EXPECT_EQ(dnn_->attention(shape), nullptr);
  EXPECT_EQ(dnn_->attention_grad(shape, true), nullptr);
}

TEST_P(CudnnPlans, DoNotRunWithoutTheirGpu) {
  const auto plan = dnn_->attention({.queries = 64, .keys = 64, .width = 64, .value_width = 64});
  try {
    plan->run({}, nullptr, nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cuDNN: attention was planned for a GPU that is not here");
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, testing::ValuesIn(gpus),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CudnnDescriptions, AreRefusedWhereTheyAreNone) {
  try {
    Dnn("{}");
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_TRUE(
        what.find("does not take the description of a GPU: CUDNN_STATUS_BAD_PARAM") != std::string::npos ||
        what.find("is not found") != std::string::npos || what.find("was not there") != std::string::npos ||
        what.find("older than 9.8") != std::string::npos)
        << what;
  }
}

}  // namespace
}  // namespace boxcar::backends::cuda
