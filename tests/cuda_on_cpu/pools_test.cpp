// Pools equal the reference, in vectors and element by element.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/convert.h"
#include "backends/cpu/reference.h"
#include "backends/cuda/cuda_device.h"

namespace boxcar::backends::cuda {
namespace {

using cpu::HostTensor;
using ir::DType;

struct Row {
  const char* name;
  DType type;
  bool channels_last;
  int64_t kernel, stride, padding, channels = 8;
};
const Row rows[] = {
    {"last", DType::bfloat16, true, 3, 2, 1, 24},
    {"last_float32", DType::float32, true, 2, 2, 0},
    {"last_apart", DType::float16, true, 2, 3, 0},
    {"first", DType::float16, false, 3, 1, 1},
    {"float64", DType::float64, true, 3, 2, 1},
    {"of_many_elements", DType::float32, true, 12, 1, 0},
    {"of_more_places_than_a_byte", DType::float32, true, 16, 1, 3},
    {"of_much_padding", DType::float32, true, 5, 1, 4},
};

class PoolTest : public testing::TestWithParam<Row> {
 protected:
  // Small whole numbers: sums are exact, and no window has two equal elements.
  static HostTensor drawn(const ir::TensorType& type, uint64_t seed) {
    HostTensor x = cpu::zeros(type);
    for (uint64_t i = seed; double& value : x.data) value = static_cast<double>(i++ * 37 % 251) - 125;
    return x;
  }

  void expect(const std::string& name, const cpu::Tensors& inputs, const ir::Attrs& attrs,
              Libraries& libraries) {
    SCOPED_TRACE(name);
    const ir::OpDef& op = ir::op(name);
    Call call{op.name, {}, {}, ir::complete(op, attrs)};
    std::vector<std::vector<std::byte>> memory;  // the device's is the host's
    std::vector<const void*> from;
    for (const HostTensor& x : inputs) {
      call.inputs.push_back(x.type);
      cpu::store(x, memory.emplace_back(static_cast<size_t>(x.type.bytes())).data());
      from.push_back(memory.back().data());
    }
    call.outputs = op.infer(call.inputs, call.attrs);
    std::vector<std::byte> y(static_cast<size_t>(call.outputs[0].bytes()), std::byte{0x5a});
    const auto owned = device_.queue(ir::QueueKind::compute);
    auto& queue = dynamic_cast<CudaQueue&>(*owned);
    make_kernel(call, queue, libraries)->run(from, std::vector<void*>{y.data()}, {});
    queue.finish();
    const HostTensor got = cpu::load(call.outputs[0], y.data()),
                     want = cpu::run_reference(op.name, inputs, call.attrs)[0];
    for (size_t e = 0; e < want.data.size(); ++e)
      ASSERT_NEAR(got.data[e], want.data[e], 0.5) << "element " << e;
  }

  // The first of equal elements of a window is its maximum.
  static HostTensor alike(const ir::TensorType& type) {
    HostTensor x = cpu::zeros(type);
    for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<double>(i / 5 % 2);
    return x;
  }

  void expect_all(const Row& row) {
    Libraries libraries(waits_, nullptr);
    const ir::Attrs attrs = {{"kernel", row.kernel},
                             {"stride", row.stride},
                             {"padding", row.padding},
                             {"channels_last", row.channels_last}};
    const ir::Shape shape =
        row.channels_last ? ir::Shape{2, 13, 14, row.channels} : ir::Shape{2, row.channels, 13, 14};
    const HostTensor x = drawn({shape, row.type}, 5);
    for (const std::string mode : {"max", "avg"}) {
      expect(mode + "_pool2d", {x}, attrs, libraries);
      const ir::OpDef& op = ir::op(mode + "_pool2d");
      const HostTensor dy = drawn(op.infer({x.type}, ir::complete(op, attrs))[0], 9);
      ir::Attrs back = attrs;
      if (mode == "avg") back["input_size"] = ir::Shape{13, 14};
      expect(mode + "_pool2d_grad", mode == "max" ? cpu::Tensors{dy, x} : cpu::Tensors{dy}, back, libraries);
      if (mode == "max") expect("max_pool2d_grad", {dy, alike(x.type)}, back, libraries);
    }
  }

  cpu::Waits waits_{nullptr};
  Recorder recorder_{waits_, [] {}};
  CudaDevice device_{0, waits_, [] {}, recorder_};
};

TEST_P(PoolTest, EqualsTheReference) { expect_all(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Pools, PoolTest, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::backends::cuda
