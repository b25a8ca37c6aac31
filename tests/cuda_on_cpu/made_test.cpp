// Kernels as `boxcar train` reports them: the way of each op, and the reason if a faster one is not taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/cuda_device.h"
#include "backends/measure/bench.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

using ir::DType;
using testing::HasSubstr;

class CudaMade : public testing::Test {
 protected:
  ~CudaMade() override { cuda_on_cpu::pretend(before_); }
  // The way of one call.
  static Made made(const Call& call) {
    cpu::Waits waits(nullptr);
    Recorder recorder(waits, [] {});
    CudaDevice device(
        0, waits, [] {}, recorder);
    const auto queue = device.queue(ir::QueueKind::compute);
    device.prepare(call, *queue);
    EXPECT_EQ(device.made().size(), 1u);
    return *device.made().begin();
  }
  static Call attention(DType dtype, double p, int64_t width = 8) {
    const ir::TensorType heads{{2, 2, 4, width}, dtype};
    const Call call =
        measure::call_of("scaled_dot_product_attention", {heads, heads, heads}, {{"p", p}}).call;
    return call;
  }

 private:
  const cuda_on_cpu::Machine before_ = cuda_on_cpu::pretended();
};

TEST_F(CudaMade, Attention) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000});
  const std::string op = "scaled_dot_product_attention", own = "own kernels without tensor cores";
  EXPECT_EQ(made(attention(DType::bfloat16, 0)), (Made{op, "cuDNN", ""}));
  EXPECT_EQ(made(attention(DType::bfloat16, 0.1)),
            (Made{op, own, "it drops probabilities (--dropout 0, or --attention unfused)"}));
  EXPECT_EQ(made(attention(DType::float32, 0)),
            (Made{op, own, "its operands are float32 (--precision bf16)"}));
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000, .cudnn = false});
  EXPECT_THAT(made(attention(DType::bfloat16, 0)).why, HasSubstr("does not start"));
  EXPECT_THAT(made(attention(DType::bfloat16, 0)).why, HasSubstr("install cuDNN"));
}

TEST_F(CudaMade, ProductsAndOthers) {
  cuda_on_cpu::pretend({.gpus = 1, .driver = 13000});
  const auto product = [](DType dtype, int64_t width) {
    const ir::TensorType a{{4, 8}, dtype}, b{{8, width}, dtype}, bias{{width}, dtype};
    return measure::call_of("matmul_bias", {a, b, bias}).call;
  };
  EXPECT_EQ(made(product(DType::bfloat16, 16)), (Made{"matmul_bias", "cuBLASLt with an epilogue", ""}));
  EXPECT_EQ(made(product(DType::float32, 12)).why, "");
  EXPECT_EQ(made(product(DType::bfloat16, 12)).why,
            "rows of 12 elements are no multiple of 16 bytes (widths that 8 divides; --pad-vocab 64 for a "
            "vocabulary)");
  const ir::TensorType dy{{4, 16}, DType::bfloat16}, weight{{16, 12}, DType::bfloat16},
      h{{4, 12}, DType::bfloat16};
  EXPECT_EQ(made(measure::call_of("matmul_dgelu", {dy, weight, h}).call).why,
            made(product(DType::bfloat16, 12)).why);
  EXPECT_EQ(made(product(DType::float64, 16)),
            (Made{"matmul_bias", "cuBLASLt, then own kernels",
                  "cuBLASLt has no epilogues in float64 (--precision bf16)"}));
  EXPECT_EQ(made(measure::call_of("relu", {{{4}, DType::float32}}).call), (Made{"relu", "own kernels", ""}));
}

}  // namespace
}  // namespace boxcar::backends::cuda
