// Every kernel of the CUDA device against the reference kernels, on the list of cases of the CPU's. Skipped
// where there is no GPU.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

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
    if (backend_) backend_->device(0).reserve(arena);
  }
  static void TearDownTestSuite() { delete std::exchange(backend_, nullptr); }
  void SetUp() override {
    if (!backend_) GTEST_SKIP() << why_;
    const std::vector<std::string> without = backends::cuda::ops_without_kernel();
    if (std::count(without.begin(), without.end(), GetParam()) > 0)
      GTEST_SKIP() << GetParam() << " has no kernel on the CUDA backend";
  }

  backends::Device& device() override { return backend_->device(0); }
  void* memory(int64_t bytes) override {
    used_ += (bytes + 511) / 512 * 512;
    EXPECT_LE(used_, arena);
    return device().arena() + used_ - (bytes + 511) / 512 * 512;
  }
  void forget() override { used_ = 0; }
  // Sums of float32 are in float32.
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
TEST_P(GpuKernels, EqualTheReferenceInBlocks) { blocks(GetParam()); }

std::string name_of(const testing::TestParamInfo<std::string>& param) { return param.param; }
INSTANTIATE_TEST_SUITE_P(Registry, GpuKernels, testing::ValuesIn(KernelCases::ops()), name_of);

// docs/gpu.md names exactly the ops that have none.
TEST(GpuOps, those_without_a_kernel_are_written_down) {
  std::ifstream file(BOXCAR_SOURCE_DIR "/docs/gpu.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string begin = "No kernel yet: ";
  const size_t at = text.find(begin);
  ASSERT_NE(at, std::string::npos);
  std::istringstream words(text.substr(at + begin.size(), text.find('.', at) - at - begin.size()));
  std::set<std::string> written;
  for (std::string word; words >> word;) {
    std::erase_if(word, [](char c) { return c == '`' || c == ','; });
    written.insert(word);
  }
  const std::vector<std::string> without = backends::cuda::ops_without_kernel();
  EXPECT_EQ(written, std::set<std::string>(without.begin(), without.end()));
}

}  // namespace
}  // namespace boxcar::tests
