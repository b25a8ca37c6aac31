// The real NCCL called as the backend calls it, by a group of one: its library takes the table's functions,
// configuration and types, and its calls are on the stream. A second member would need a second GPU. Skipped
// if there is no GPU or no NCCL.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/nccl_communicator.h"
#include "gpu.h"
#include "support/error_of.h"

namespace boxcar::tests {
namespace {

using backends::Communicator;
using ir::DType;

class OwnStream : public backends::cuda::NcclStream {
 public:
  OwnStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&token_, 8), cudaSuccess);
  }
  ~OwnStream() override {
    cudaFree(token_);
    cudaStreamDestroy(stream_);
  }
  void* handle() override {
    cudaSetDevice(0);
    return stream_;
  }
  std::function<bool()> probe() override {
    return [stream = stream_] { return cudaStreamQuery(stream) == cudaSuccess; };
  }
  void* token() override { return token_; }

 private:
  cudaStream_t stream_ = nullptr;
  void* token_ = nullptr;
};

TEST(GpuNccl, AGroupOfOneKeepsItsNumbers) {
  std::string why;
  if (!gpus(1, why)) GTEST_SKIP() << why;
  std::optional<backends::cuda::NcclApi> api;
  const std::string missing = support::error_of([&] { api = backends::cuda::load_nccl(); }, Exit::cannot_run);
  if (!api) GTEST_SKIP() << missing;

  backends::cpu::Waits waits(nullptr);
  backends::cpu::Mailboxes mailboxes;
  backends::cuda::NcclGroups groups(*api, waits, mailboxes, nullptr, 60);
  constexpr int64_t count = 1000;
  constexpr size_t bytes = count * 8;
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64}) {
    SCOPED_TRACE(ir::to_text(dtype));
    auto owned = std::make_unique<OwnStream>();
    OwnStream& stream = *owned;
    const auto own = static_cast<cudaStream_t>(stream.handle());
    const std::array group{0};
    const std::unique_ptr<Communicator> communicator =
        groups.communicator("dp.0", group, 0, std::move(owned), [](int) { return 0; });
    void *in = nullptr, *out = nullptr;
    ASSERT_EQ(cudaMalloc(&in, bytes), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&out, bytes), cudaSuccess);
    std::vector<unsigned char> given(bytes), got(bytes);
    for (size_t i = 0; i < bytes; ++i) given[i] = static_cast<unsigned char>(i % 29);  // no NaN in any type
    ASSERT_EQ(cudaMemcpyAsync(in, given.data(), bytes, cudaMemcpyDefault, own), cudaSuccess);
    const size_t used = static_cast<size_t>(count * ir::size_of(dtype));
    const std::array<int64_t, 1> counts{count};
    const auto keeps = [&](const char* what, const std::function<void()>& call) {
      SCOPED_TRACE(what);
      ASSERT_EQ(cudaMemsetAsync(out, 0xff, bytes, own), cudaSuccess);
      call();
      ASSERT_EQ(cudaMemcpyAsync(got.data(), out, bytes, cudaMemcpyDefault, own), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(own), cudaSuccess);
      groups.check();
      EXPECT_EQ(std::memcmp(got.data(), given.data(), used), 0);
    };
    communicator->connect(true);
    keeps("all_reduce", [&] { communicator->all_reduce(in, out, count, dtype, sbp::Reduction::sum); });
    keeps("maximum", [&] { communicator->all_reduce(in, out, count, dtype, sbp::Reduction::max); });
    keeps("reduce_scatter",
          [&] { communicator->reduce_scatter(in, out, counts, dtype, sbp::Reduction::sum); });
    keeps("all_gather", [&] { communicator->all_gather(in, out, counts, dtype); });
    keeps("all_to_all", [&] { communicator->all_to_all(in, counts, out, counts, dtype); });
    keeps("broadcast", [&] { communicator->broadcast(in, out, count, dtype); });
    communicator->barrier();
    EXPECT_EQ(cudaStreamSynchronize(own), cudaSuccess);
    groups.check();
    cudaFree(in), cudaFree(out);
  }
}

}  // namespace
}  // namespace boxcar::tests
