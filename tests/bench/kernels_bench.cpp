// Memory-bound kernels of the CPU at the shapes of GPT-2 small with 4 x 1,024 tokens, in bytes of all
// operands per second, compared with memcpy (read and written) in the same run.
//
//   build/tests/bench/kernels_bench
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>

#include "backends/cpu/convert.h"
#include "backends/cpu/cpu_device.h"

namespace boxcar::backends::cpu {
namespace {

using ir::DType;
using ir::Shape;

void memcpy_bytes(benchmark::State& state) {
  const std::vector<std::byte> from(size_t{64} << 20, std::byte{1});
  std::vector<std::byte> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * from.size()));
}
BENCHMARK(memcpy_bytes)->Unit(benchmark::kMillisecond);

// Positive, to serve as second moments; integers from 0 to 999, to serve as labels.
std::vector<std::byte> draw(const ir::TensorType& type) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  std::uniform_real_distribution<double> real(0.01, 1);
  HostTensor tensor = zeros(type);
  for (double& x : tensor.data)
    x = is_float(type.dtype) ? real(random) : static_cast<double>(random() % 1000);
  store(tensor, bytes.data());
  return bytes;
}

void run(benchmark::State& state, const char* op, const ir::Types& inputs, const ir::Attrs& given) {
  const ir::OpDef& def = ir::op(op);
  const ir::Attrs attrs = ir::complete(def, given);
  const Call call{op, inputs, def.infer(inputs, attrs), attrs};
  std::vector<std::vector<std::byte>> memory;
  std::vector<const void*> from;
  std::vector<void*> to;
  int64_t bytes = 0;
  for (const ir::TensorType& type : call.inputs) from.push_back(memory.emplace_back(draw(type)).data());
  for (const ir::TensorType& type : call.outputs)
    to.push_back(memory.emplace_back(static_cast<size_t>(type.bytes())).data());
  for (const auto& tensor : memory) bytes += static_cast<int64_t>(tensor.size());
  CpuDevice device;
  const auto queue = device.queue(ir::QueueKind::compute);
  const auto kernel = device.prepare(call, *queue);
  for (auto _ : state) kernel->run(from, to, {.step = 1});
  state.SetBytesProcessed(state.iterations() * bytes);
}

struct Case {
  const char* op;
  std::vector<Shape> shapes;
  ir::Attrs attrs = {};
  size_t labels = 0;  // number of trailing operands that are int64
};

const Shape kRows = {4096, 768}, kWide = {4096, 3072}, kRow = {768}, kScores = {12, 1024, 1024};
const Shape kLogits = {1024, 50257}, kTokens = {1024}, kBlock = {2304, 3072};

const Case kCases[] = {
    {"add", {kRows, kRows}},
    {"add", {kRows, kRow}},
    {"layer_norm", {kRows, kRow, kRow}},
    {"layer_norm_grad", {kRows, kRows, kRow, {4096}, {4096}}},
    {"rms_norm", {kRows, kRow}},
    {"rms_norm_grad", {kRows, kRows, kRow, {4096}}},
    {"gelu", {kWide}},
    {"gelu_grad", {kWide, kWide}},
    {"bias_gelu", {kWide, {3072}}},
    {"tanh", {kWide}},
    {"swiglu", {kWide, kWide}},
    {"fused", {kWide, {3072}, kWide}, {{"program", "add(0, 1); gelu(3); mul(4, 2)"}}},
    {"fused_grad", {kWide, kWide, {3072}, kWide}, {{"program", "add(0, 1); gelu(3); mul(4, 2)"}}},
    {"softmax", {kScores}},
    {"softmax_grad", {kScores, kScores}},
    {"scale_mask_softmax", {kScores}, {{"scale", 0.125}, {"causal", true}}},
    {"cross_entropy", {kLogits, kTokens}, {}, 1},
    {"cross_entropy_grad", {kTokens, kLogits, kTokens, kTokens, kTokens}, {}, 1},
    {"dropout", {kRows}, {{"p", 0.1}}},
    {"bias_dropout_add", {kRows, kRow, kRows}, {{"p", 0.1}}},
    {"bias_dropout_add", {kRows, kRow, kRows}},
    {"adam", {kBlock, kBlock, kBlock, kBlock}},
    {"sgd", {kBlock, kBlock}},
    {"square_sum", {kBlock}},
    {"all_finite", {kBlock}},
    {"reduce_sum", {kRows}, {{"axes", std::vector<int64_t>{0}}}},
    {"reduce_sum", {kRows}, {{"axes", std::vector<int64_t>{1}}}},
    {"transpose", {{4, 1024, 12, 64}}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}},
    {"transpose", {kRows}},
    {"embedding", {{50257, 768}, {4096}}, {}, 1},
    {"embedding_grad", {kRows, {4096}}, {{"rows", int64_t{50257}}}, 1},
    {"cast", {kBlock}, {{"to", "bfloat16"}}},
    {"accumulate", {kBlock}},
};

void add_cases(DType dtype) {
  for (const Case& c : kCases) {
    ir::Types inputs;
    for (size_t i = 0; i < c.shapes.size(); ++i)
      inputs.push_back({c.shapes[i], i + c.labels >= c.shapes.size() ? DType::int64 : dtype});
    const std::string name = std::string(c.op) + " " + ir::to_text(inputs.front()) +
                             (c.attrs.empty() ? "" : " " + ir::to_text(c.attrs));
    benchmark::RegisterBenchmark(name.c_str(), [&c, inputs](benchmark::State& state) {
      run(state, c.op, inputs, c.attrs);
    })->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace boxcar::backends::cpu

int main(int argc, char** argv) {
  boxcar::backends::cpu::add_cases(boxcar::ir::DType::float32);
  boxcar::backends::cpu::add_cases(boxcar::ir::DType::bfloat16);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
