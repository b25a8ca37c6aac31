// Every kernel of the CPU device against the reference kernels (kernel_cases.h), and its errors.
#include <algorithm>
#include <memory>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels.h"
#include "backends/kernel_cases.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

using ir::DType;

class KernelTest : public tests::KernelCases {
 protected:
  Device& device() override { return device_; }
  void* memory(int64_t bytes) override {
    memory_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes)));
    return memory_.back().get();
  }
  void forget() override { memory_.clear(); }
  double tolerance(DType dtype) const override {
    switch (dtype) {
      case DType::float64:
        return 1e-12;
      case DType::float32:
        return 1e-5;
      case DType::bfloat16:
        return 0x1p-7;  // two units in the last place
      case DType::float16:
        return 0x1p-10;
      default:
        return 0;  // integers and booleans
    }
  }

 private:
  CpuDevice device_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

TEST_P(KernelTest, EqualsTheReferenceInEveryType) { every_type(GetParam()); }
TEST_P(KernelTest, EqualsTheReferenceOnParts) { parts(GetParam()); }
TEST_P(KernelTest, EqualsTheReferenceOnLongAxes) { long_axes(GetParam()); }

std::string name_of(const testing::TestParamInfo<std::string>& param) { return param.param; }

INSTANTIATE_TEST_SUITE_P(Registry, KernelTest, testing::ValuesIn(tests::KernelCases::ops()), name_of);

class LargeKernelTest : public KernelTest {};

TEST_P(LargeKernelTest, EqualsTheReferenceInBlocks) { blocks(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Registry, LargeKernelTest, testing::ValuesIn(tests::KernelCases::ops_in_blocks()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Convolutions, LargeKernelTest,
                         testing::Values("conv2d", "conv2d_input_grad", "conv2d_weight_grad"), name_of);

TEST(Kernels, HaveTheirOps) {
  for (const auto& entry : fast_kernels()) EXPECT_TRUE(ir::has_op(entry.first)) << entry.first;
}

ir::Attrs attrs_of(std::string_view op, ir::Attrs attrs) { return ir::complete(ir::op(op), attrs); }

TEST(Kernels, CountOnFromTheirAttributes) {
  const Moment moment{.step = 3, .micro_batch = 2, .micro_batches = 4, .seed = 11, .learning_rate = 0.25};
  const ir::TensorType x{{4}, DType::float32};
  const ir::Attrs drop =
      attrs_at({"dropout", {x}, {x}, attrs_of("dropout", {{"p", 0.5}, {"seed", int64_t{1}}})}, moment);
  EXPECT_EQ(ir::to_text(drop), "{micro_batch=2, op=0, p=0.5, seed=12, shape=[], starts=[], step=3}");
  const ir::Attrs adam = attrs_at({"adam", {x, x, x, x}, {x, x, x}, attrs_of("adam", {})}, moment);
  EXPECT_EQ(ir::to_text(adam), "{beta1=0.9, beta2=0.999, eps=1e-08, lr=0.25, step=4, weight_decay=0.0}");
  const ir::Attrs fused = attrs_at(
      {"fused_grad", {x, x}, {x}, attrs_of("fused_grad", {{"program", "dropout(0) {p=0.5}; relu(1)"}})},
      moment);
  EXPECT_EQ(ir::to_text(fused), "{program=\"dropout(0) {micro_batch=2, p=0.5, seed=11, step=3}; relu(1)\"}");
  const Moment plain{.step = 3};
  EXPECT_EQ(ir::attr_float(attrs_at({"sgd", {x, x}, {x}, attrs_of("sgd", {})}, plain), "lr"), 0.01);
}

std::string message(const Call& call) {
  CpuDevice device;
  try {
    device.prepare(call, *device.queue(ir::QueueKind::compute));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::fault);
    return error.what();
  }
  return {};
}

TEST(Kernels, SayWhatIsMissing) {
  const ir::TensorType x{{4}, DType::float8};
  EXPECT_EQ(message({"relu", {x}, {x}, {}}), "relu: no kernel on the CPU for float8[4]");
  EXPECT_EQ(message({"unheard_of", {}, {}, {}}), "unheard_of: has no kernel on the CPU");
}

TEST(CpuDevice, ReservesOnceWhatThereIs) {
  CpuDevice device;
  try {
    device.reserve(int64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::cannot_run);
    EXPECT_STREQ(
        error.what(),
        "cpu: no memory for a device's 1152921504606846976 bytes; use fewer devices on this machine, "
        "smaller micro-batches or recomputation");
  }
  device.reserve(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device.arena()) % 512, 0u);
  EXPECT_TRUE(
      std::all_of(device.arena(), device.arena() + 1000, [](std::byte b) { return b == std::byte{}; }));
  try {
    device.reserve(1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cpu: memory is reserved once, and has been");
  }
  CpuDevice empty;
  empty.reserve(0);
}

TEST(CpuDevice, CopiesBlocks) {
  CpuDevice device;
  const auto queue = device.queue(ir::QueueKind::copy_in);
  const std::string from = "abcdefghijkl";
  std::string to = "............";
  queue->copy(to.data() + 1, from.data(), {.rows = 3, .bytes = 2, .from_stride = 4, .to_stride = 3});
  EXPECT_EQ(to, ".ab.ef.ij...");
  queue->copy(to.data(), from.data(), {.rows = 2, .bytes = 3, .from_stride = 3, .to_stride = 3});
  EXPECT_EQ(to, "abcdef.ij...");
  queue->fill_zero(to.data() + 1, 2);
  EXPECT_EQ(to, std::string("a\0\0def.ij...", 12));
  queue->copy(nullptr, nullptr, {.rows = 2, .bytes = 0});
  queue->fill_zero(nullptr, 0);
  queue->finish();
  device.from_host(to.data(), from.data() + 6, 3);
  device.to_host(to.data() + 9, from.data() + 3, 3);
  EXPECT_EQ(to, "ghidef.ijdef");
}

}  // namespace
}  // namespace boxcar::backends::cpu
