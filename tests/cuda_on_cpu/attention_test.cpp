// Attention uses cuDNN's graphs if available, in slices if its scores would take much memory, and equals the
// reference. Otherwise it uses our kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/reference.h"
#include "backends/cuda/cuda_device.h"
#include "support/error_of.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

using cpu::HostTensor;
using cpu::Tensors;
using ir::DType;

struct Row {
  const char* name;
  ir::Shape q, k, v;
  ir::Attrs attrs;
  bool by_cudnn = true;
};
const ir::Attrs causal = {{"causal", true}};
const Row rows[] = {
    {"plain", {2, 3, 20, 8}, {2, 3, 28, 8}, {2, 3, 28, 16}, {}},
    {"causal", {2, 2, 36, 16}, {2, 2, 36, 16}, {2, 2, 36, 16}, causal},
    {"grouped", {2, 6, 12, 16}, {2, 2, 20, 16}, {2, 2, 20, 8}, {{"causal", true}, {"scale", 0.5}}},
    {"one_key_head", {3, 4, 16, 8}, {3, 1, 16, 8}, {3, 1, 16, 8}, causal},
    {"ahead", {1, 2, 12, 8}, {1, 2, 36, 8}, {1, 2, 36, 8}, {{"causal", true}, {"offset", int64_t{20}}}},
    {"all_seen", {1, 2, 12, 8}, {1, 2, 20, 8}, {1, 2, 20, 8}, {{"causal", true}, {"offset", int64_t{19}}}},
    {"window",
     {1, 2, 12, 8},
     {1, 2, 12, 8},
     {1, 2, 12, 8},
     {{"causal", true}, {"window", int64_t{5}}},
     false},
    {"narrow", {1, 2, 12, 6}, {1, 2, 12, 6}, {1, 2, 12, 6}, causal, false},
    {"dropped", {1, 2, 12, 8}, {1, 2, 12, 8}, {1, 2, 12, 8}, {{"p", 0.25}, {"op", int64_t{5}}}, false},
    {"part_of_a_group",
     {1, 2, 12, 8},
     {1, 2, 12, 8},
     {1, 2, 12, 8},
     {{"group", int64_t{3}}, {"head_offset", int64_t{2}}},
     false},
};

HostTensor drawn(const ir::TensorType& type, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor x = cpu::zeros(type);
  for (double& value : x.data) value = static_cast<double>(random() % 17) / 8 - 1;
  return x;
}

class AttentionTest : public testing::TestWithParam<Row> {
 protected:
  Tensors run(const Call& call, const Tensors& inputs, Libraries& libraries) {
    const auto owned = device_.queue(ir::QueueKind::compute);
    auto& queue = dynamic_cast<CudaQueue&>(*owned);
    const auto kernel = make_kernel(call, queue, libraries);
    std::vector<std::vector<std::byte>> memory;  // the device's is the host's
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const HostTensor& x : inputs) {
      cpu::store(x, memory.emplace_back(static_cast<size_t>(x.type.bytes())).data());
      from.push_back(memory.back().data());
    }
    for (const ir::TensorType& type : call.outputs)
      to.push_back(memory.emplace_back(static_cast<size_t>(type.bytes()), std::byte{0x5a}).data());
    kernel->run(from, to, {});
    queue.finish();
    Tensors outputs;
    for (size_t i = 0; i < to.size(); ++i)
      outputs.push_back(cpu::load(call.outputs[i], static_cast<const std::byte*>(to[i])));
    return outputs;
  }

  // Relative to a tensor's largest element: values between two products are rounded to the tensors' type.
  void expect_near(const Tensors& got, const Tensors& want, DType type) {
    for (size_t i = 0; i < want.size(); ++i) {
      double most = 1;
      for (const double x : want[i].data) most = std::max(most, std::abs(x));
      for (size_t e = 0; e < want[i].data.size(); ++e)
        ASSERT_NEAR(got[i].data[e], want[i].data[e], most * (type == DType::float16 ? 0x1p-9 : 0x1p-6))
            << "output " << i << ", element " << e;
    }
  }

  cpu::Waits waits_{nullptr};
  Recorder recorder_{waits_, [] {}};
  CudaDevice device_{0, waits_, [] {}, recorder_};
};

// Gradients over all heads at once, over single key heads, and accumulated in memory.
TEST_P(AttentionTest, EqualsTheReference) {
  const Row& row = GetParam();
  const ir::OpDef &op = ir::op("scaled_dot_product_attention"),
                  &grad = ir::op("scaled_dot_product_attention_grad");
  Libraries whole(waits_, nullptr), sliced(waits_, nullptr), fast(waits_, std::make_shared<Algorithms>());
  sliced.most_scores = 1;
  for (const DType type : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(type == DType::float16 ? "float16" : "bfloat16");
    Tensors in;
    for (const ir::Shape& shape : {row.q, row.k, row.v}) in.push_back(drawn({shape, type}, in.size()));
    Call call{op.name, {in[0].type, in[1].type, in[2].type}, {}, ir::complete(op, row.attrs)};
    call.outputs = op.infer(call.inputs, call.attrs);
    const Tensors want = cpu::run_reference(op.name, in, call.attrs);
    const int before = cuda_on_cpu::tallied("attention");
    expect_near(run(call, in, whole), want, type);
    EXPECT_EQ(cuda_on_cpu::tallied("attention") - before, row.by_cudnn ? 1 : 0);

    const Tensors all = {drawn(want[0].type, 9), in[0], in[1], in[2], want[0], want[1]};
    Call back{grad.name, {}, {}, ir::complete(grad, row.attrs)};
    for (const HostTensor& x : all) back.inputs.push_back(x.type);
    back.outputs = grad.infer(back.inputs, back.attrs);
    const Tensors slopes = cpu::run_reference(grad.name, all, back.attrs);
    const int parts = static_cast<int>(row.k[0] * row.k[1]);
    for (const auto& [libraries, runs] : {std::pair{&whole, 1}, {&sliced, parts}, {&fast, 1}}) {
      const int so_far = cuda_on_cpu::tallied("gradient of attention");
      expect_near(run(back, all, *libraries), slopes, type);
      EXPECT_EQ(cuda_on_cpu::tallied("gradient of attention") - so_far, row.by_cudnn ? runs : 0);
    }
  }
}
// Without cuDNN attention runs, and convolutions report what they need.
TEST_P(AttentionTest, DoesWithoutCudnn) {
  cuda_on_cpu::Machine machine = cuda_on_cpu::pretended();
  const cuda_on_cpu::Machine before = machine;
  machine.cudnn = false;
  cuda_on_cpu::pretend(machine);
  const Row& row = GetParam();
  const ir::OpDef& op = ir::op("scaled_dot_product_attention");
  Libraries libraries(waits_, nullptr);
  Tensors in;
  for (const ir::Shape& shape : {row.q, row.k, row.v})
    in.push_back(drawn({shape, DType::bfloat16}, in.size()));
  Call call{op.name, {in[0].type, in[1].type, in[2].type}, {}, ir::complete(op, row.attrs)};
  call.outputs = op.infer(call.inputs, call.attrs);
  const int so_far = cuda_on_cpu::tallied("attention");
  expect_near(run(call, in, libraries), cpu::run_reference(op.name, in, call.attrs), DType::bfloat16);
  EXPECT_EQ(cuda_on_cpu::tallied("attention"), so_far);

  const ir::OpDef& conv = ir::op("conv2d");
  Call image{conv.name,
             {{{1, 3, 8, 8}, DType::float32}, {{4, 3, 3, 3}, DType::float32}},
             {},
             ir::complete(conv, {})};
  image.outputs = conv.infer(image.inputs, image.attrs);
  const auto queue = device_.queue(ir::QueueKind::compute);
  EXPECT_EQ(support::error_of([&] { make_kernel(image, dynamic_cast<CudaQueue&>(*queue), libraries); },
                              Exit::cannot_run),
            "libcudnn.so.0: does not start: not supported; convolutions on GPUs need it: install "
            "cuDNN, or name its folder in LD_LIBRARY_PATH");
  cuda_on_cpu::pretend(before);
}
INSTANTIATE_TEST_SUITE_P(Rows, AttentionTest, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::backends::cuda
