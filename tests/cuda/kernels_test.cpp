// Every kernel of the CUDA device compared with the reference kernels, on the CPU's list of cases. Skipped if
// there is no GPU.
#include <sanitizer/asan_interface.h>

#include <utility>

#include "backends/cuda/kernel_table.h"
#include "backends/kernel_cases.h"
#include "gpu.h"

namespace boxcar::tests {
namespace {

using ir::DType;

constexpr int64_t arena = int64_t{256} << 20;

class GpuKernels : public KernelCases {
 protected:
  static void SetUpTestSuite() {
    backend_ = gpus(1, why_).release();
    if (!backend_) return;
    backend_->device(0).reserve(arena);
    ASAN_POISON_MEMORY_REGION(backend_->device(0).arena(), arena);
  }
  static void TearDownTestSuite() { delete std::exchange(backend_, nullptr); }
  void SetUp() override {
    if (!backend_) GTEST_SKIP() << why_;
  }

  backends::Device& device() override { return backend_->device(0); }
  // Where the device's memory is the host's, the address sanitizer guards all memory around it.
  void* memory(int64_t bytes) override {
    std::byte* const at = device().arena() + used_;
    used_ += (bytes + 511) / 512 * 512 + 512;
    EXPECT_LE(used_, arena);
    ASAN_UNPOISON_MEMORY_REGION(at, static_cast<size_t>(bytes));
    return at;
  }
  void forget() override {
    ASAN_POISON_MEMORY_REGION(device().arena(), static_cast<size_t>(used_));
    used_ = 0;
  }
  // float32 sums are accumulated in float32.
  double tolerance(DType dtype) const override {
    switch (dtype) {
      case DType::float64:
        return 1e-11;
      case DType::float32:
        return 1e-4;
      case DType::bfloat16:
        return 0x1p-6;
      case DType::float16:
        return 0x1p-9;
      default:
        return 0;
    }
  }

 private:
  static inline backends::Backend* backend_ = nullptr;
  static inline std::string why_;
  int64_t used_ = 0;
};

TEST_P(GpuKernels, EqualTheReferenceInEveryType) { every_type(GetParam()); }
TEST_P(GpuKernels, EqualTheReferenceOnParts) { parts(GetParam()); }
TEST_P(GpuKernels, EqualTheReferenceOnLongAxes) { long_axes(GetParam()); }
TEST_P(GpuKernels, EqualTheReferenceOnWholeVectors) { whole_vectors(GetParam(), {16, 264}); }
TEST_P(GpuKernels, EqualTheReferenceOnMoreVectors) { whole_vectors(GetParam(), {8, 88, 1000}); }
TEST_P(GpuKernels, EqualTheReferenceInBlocks) { blocks(GetParam()); }

std::string name_of(const testing::TestParamInfo<std::string>& param) { return param.param; }
INSTANTIATE_TEST_SUITE_P(Registry, GpuKernels, testing::ValuesIn(KernelCases::ops()), name_of);

TEST(GpuOps, EachHasAKernel) {
  for (const ir::OpDef& def : ir::all_ops())
    EXPECT_TRUE(backends::cuda::kernels().contains(def.name)) << def.name;
}

}  // namespace
}  // namespace boxcar::tests
