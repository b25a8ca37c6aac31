// Every kernel of the CPU device against the reference kernels, on the registry's samples: in every float
// type and mixtures of two, on the parts that layouts leave to a device, empty ones too, and at some moment
// of training. A new op is covered by its row.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/convert.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels.h"
#include "law1.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

using ir::DType;

// Relative to the result, or to 1 where that is less.
double tolerance(DType dtype) {
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

bool near(double got, double want, DType dtype) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return true;
  return std::abs(got - want) <= tolerance(dtype) * std::max(1.0, std::abs(want));
}

// The first element that is not near, in words.
std::string difference(const HostTensor& got, const HostTensor& want) {
  for (size_t i = 0; i < want.data.size(); ++i) {
    if (!near(got.data[i], want.data[i], want.type.dtype))
      return fmt::format("element {} is {}, expected {}", i, got.data[i], want.data[i]);
  }
  return {};
}

// A tensor's bytes on the device; null where it has none. New memory is not zero.
class Buffer {
 public:
  explicit Buffer(const ir::TensorType& type)
      : type_(type), bytes_(static_cast<size_t>(type.bytes()), std::byte{0x5a}) {}
  explicit Buffer(const HostTensor& tensor) : Buffer(tensor.type) { store(tensor, data()); }
  void* data() { return bytes_.empty() ? nullptr : bytes_.data(); }
  HostTensor tensor() { return load(type_, data()); }

 private:
  ir::TensorType type_;
  std::vector<std::byte> bytes_;
};

std::string describe(const Call& call) {
  std::vector<std::string> types;
  for (const ir::TensorType& type : call.inputs) types.push_back(to_text(type));
  return fmt::format("{}({}) {}", call.op, fmt::join(types, ", "), ir::to_text(call.attrs));
}

std::vector<HostTensor> draw_inputs(const Call& call, const std::vector<ir::Domain>& domains, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ir::Domain domain = i < domains.size() ? domains[i] : ir::Domain{};
    const auto steps = static_cast<uint64_t>((domain.high - domain.low) / domain.step) + 1;
    inputs.push_back(zeros(call.inputs[i]));
    for (double& x : inputs.back().data)
      x = domain.low + domain.step * static_cast<double>(random() % std::max<uint64_t>(steps, 1));
    inputs.back() = Buffer(inputs.back()).tensor();
  }
  return inputs;
}

class KernelTest : public testing::TestWithParam<std::string> {
 protected:
  // Runs the device's kernel twice, with outputs of their own and, where the op updates state, in place.
  void check(const Call& call, const std::vector<ir::Domain>& domains) {
    const Tensors inputs = draw_inputs(call, domains, 1);
    const Tensors want = reference(call, inputs);
    const auto queue = device_.queue(ir::QueueKind::compute);
    const auto kernel = device_.prepare(call, *queue);
    for (const bool in_place : {false, true}) {
      std::vector<Buffer> in(inputs.begin(), inputs.end()), out(call.outputs.begin(), call.outputs.end());
      std::vector<const void*> from;
      std::vector<void*> to;
      for (Buffer& buffer : in) from.push_back(buffer.data());
      std::vector<Buffer*> written;
      for (size_t i = 0; i < out.size(); ++i) {
        const int state = in_place ? state_operand(call, i) : -1;
        written.push_back(state < 0 ? &out[i] : &in[static_cast<size_t>(state)]);
        to.push_back(written.back()->data());
      }
      kernel->run(from, to, moment_);
      queue->finish();
      for (size_t i = 0; i < out.size(); ++i) {
        const std::string found = difference(written[i]->tensor(), want[i]);
        ASSERT_TRUE(found.empty()) << describe(call) << (in_place ? " in place" : "") << ": output " << i
                                   << ": " << found;
      }
    }
  }

  // Checks the sample with float32 replaced by `dtype` in all operands, in one, in all but one.
  void check_types(const ir::OpDef& def, const ir::Sample& sample, DType dtype) {
    std::vector<std::vector<bool>> choices = {std::vector<bool>(sample.inputs.size(), true)};
    for (size_t i = 0; i < sample.inputs.size() && size_of(dtype) == 2; ++i) {
      choices.emplace_back(sample.inputs.size(), false)[i] = true;
      choices.emplace_back(sample.inputs.size(), true)[i] = false;
    }
    for (const std::vector<bool>& choice : choices) {
      ir::Sample typed = sample;
      for (size_t i = 0; i < choice.size(); ++i) {
        if (choice[i] && sample.inputs[i].dtype == DType::float32) typed.inputs[i].dtype = dtype;
      }
      check_sample(def, typed);
      if (HasFatalFailure()) return;
    }
  }

  // Nothing to check where the op refuses these types together.
  void check_sample(const ir::OpDef& def, const ir::Sample& sample) {
    Call call{def.name, sample.inputs, {}, ir::complete(def, sample.attrs)};
    try {
      call.outputs = def.infer(call.inputs, call.attrs);
    } catch (const Error&) {
      return;
    }
    check(call, sample.domains);
  }

  // What the last of `parts` devices is left with, for every way to split.
  void check_parts(const ir::OpDef& def, const ir::Sample& sample, int64_t parts) {
    const ir::Attrs attrs = ir::complete(def, sample.attrs);
    for (const sbp::Signature& signature : ir::signatures(def, sample.inputs, attrs, parts)) {
      ir::Sample part = sample;
      for (size_t i = 0; i < part.inputs.size(); ++i) {
        part.inputs[i].shape =
            sbp::local_shape(sample.inputs[i].shape, {signature.inputs[i]}, {parts}, parts - 1);
      }
      part.attrs = ir::localize(def, sample.inputs, attrs, signature, parts, parts - 1);
      check_sample(def, part);
      if (HasFatalFailure()) return;
    }
  }

 private:
  Tensors reference(const Call& call, const Tensors& inputs) const {
    return run_reference(call.op, inputs, attrs_at(call, moment_));
  }

  static int state_operand(const Call& call, size_t output) {
    const ir::OpDef& def = ir::op(call.op);
    const auto found = std::find(def.inputs.begin(), def.inputs.end(),
                                 def.outputs.at(std::min(output, def.outputs.size() - 1)));
    return found == def.inputs.end() ? -1 : static_cast<int>(found - def.inputs.begin());
  }

  CpuDevice device_;
  Moment moment_{.step = 3, .micro_batch = 2, .micro_batches = 4, .seed = 11, .learning_rate = 0.25};
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ir::OpDef& def : ir::all_ops()) all.push_back(def.name);
  return all;
}

TEST_P(KernelTest, EqualsTheReferenceInEveryType) {
  const ir::OpDef& def = ir::op(GetParam());
  for (const uint64_t seed : {1, 2, 3}) {
    for (const ir::Sample& sample : tests::draw_samples(def, seed)) {
      for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
        check_types(def, sample, dtype);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(KernelTest, EqualsTheReferenceOnParts) {
  const ir::OpDef& def = ir::op(GetParam());
  for (const ir::Sample& sample : tests::draw_samples(def, 4)) {
    check_parts(def, sample, 2);
    check_parts(def, sample, 16);  // the last part of most axes is empty
    if (HasFatalFailure()) return;
  }
}

// Samples with one extent in six that is longer than kernels take at once, and no multiple of anything; but
// for those that would take long.
TEST_P(KernelTest, EqualsTheReferenceOnLongAxes) {
  const ir::OpDef& def = ir::op(GetParam());
  for (int64_t longest = 0; longest < 6; ++longest) {
    int64_t calls = 0;
    const auto extent = [&]() -> int64_t { return calls++ % 6 == longest ? 523 : 2 + calls % 2; };
    for (const ir::Sample& sample : def.samples(extent)) {
      const auto is_large = [](const ir::TensorType& type) { return type.elements() > 200'000; };
      if (std::any_of(sample.inputs.begin(), sample.inputs.end(), is_large)) continue;
      for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
        check_types(def, sample, dtype);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, KernelTest, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& param) { return param.param; });

// Sizes at which products and attention work in more than one block. Values are small: sums stay exact.
struct Large {
  std::string op;
  std::vector<ir::Shape> inputs;
  ir::Attrs attrs = {};
  std::vector<ir::Domain> domains = {};
};

std::vector<Large> large_cases() {
  const ir::Attrs causal = {{"causal", true}}, ahead = {{"causal", true}, {"offset", int64_t{40}}};
  const ir::Attrs drop = {{"p", 0.25}, {"op", int64_t{5}}};
  const ir::Shape q = {1, 4, 100, 5}, k = {1, 2, 130, 5}, v = {1, 2, 130, 3}, out = {1, 4, 100, 3},
                  sums = {1, 4, 100};
  const std::vector<ir::Domain> unit(3, {-1, 1, 0.5});
  const std::vector<ir::Domain> grad = {{}, {-1, 1, 0.5}, {-1, 1, 0.5}, {}, {}, {4, 12, 1}};
  std::vector<Large> cases = {
      {"matmul", {{300, 40}, {40, 1030}}},
      {"matmul", {{2, 150, 300}, {70, 300}}, {{"transpose_b", true}}},
      {"matmul", {{30, 400}, {30, 20}}, {{"transpose_a", true}}},
      {"matmul_weight_grad", {{3, 100, 50}, {3, 100, 60}}},
  };
  for (const ir::Attrs& attrs : {ir::Attrs{}, causal, ahead, drop}) {
    cases.push_back({"scaled_dot_product_attention", {q, k, v}, attrs, unit});
    cases.push_back({"scaled_dot_product_attention_grad", {out, q, k, v, out, sums}, attrs, grad});
  }
  return cases;
}

class LargeKernelTest : public KernelTest {};

TEST_P(LargeKernelTest, EqualsTheReferenceInBlocks) {
  const ir::OpDef& def = ir::op(GetParam());
  for (const Large& large : large_cases()) {
    if (large.op != def.name) continue;
    ir::Sample sample{.attrs = large.attrs, .domains = large.domains};
    for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
      sample.inputs.clear();
      for (const ir::Shape& shape : large.inputs) sample.inputs.push_back({shape, dtype});
      if (large.inputs.size() == 6 && size_of(dtype) == 2) sample.inputs[5].dtype = DType::float32;  // sums
      check_sample(def, sample);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, LargeKernelTest,
                         testing::Values("matmul", "matmul_weight_grad", "scaled_dot_product_attention",
                                         "scaled_dot_product_attention_grad"),
                         [](const testing::TestParamInfo<std::string>& param) { return param.param; });

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
