// all_reduce among virtual devices of one process, each on its own thread, by bytes of a device's tensor:
// bytes_per_second is those bytes over the time of a call. For comparison, a member's own work in such a
// call: it adds up its part of all tensors, and copies the other parts.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/cpu_reduce.h"

namespace boxcar::backends::cpu {
namespace {

std::unique_ptr<Backend> backend;

void make_devices(const benchmark::State& state) { backend = make_cpu_backend(state.threads()); }
void end_devices(const benchmark::State&) { backend.reset(); }

// Each benchmark thread is a member; all make the same number of calls.
void all_reduce(benchmark::State& state) {
  const int64_t count = state.range(0) / 4;
  std::vector<int> group(static_cast<size_t>(state.threads()));
  std::iota(group.begin(), group.end(), 0);
  const auto queue = backend->device(state.thread_index()).queue(ir::QueueKind::network);
  const auto all = backend->communicator("all", group, state.thread_index(), *queue);
  const std::vector<float> in(static_cast<size_t>(count), 1.0f);
  std::vector<float> out(in.size());
  for (auto _ : state) {
    all->all_reduce(in.data(), out.data(), count, ir::DType::float32, sbp::Reduction::sum);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void one_member_alone(benchmark::State& state) {
  const size_t members = static_cast<size_t>(state.range(1));
  const size_t count = static_cast<size_t>(state.range(0)) / 4, part = count / members;
  const std::vector<std::vector<float>> in(members, std::vector<float>(count, 1.0f));
  std::vector<float> out(count);
  std::vector<const void*> parts;
  for (const auto& tensor : in) parts.push_back(tensor.data());
  for (auto _ : state) {
    reduce(parts, out.data(), static_cast<int64_t>(part), ir::DType::float32, sbp::Reduction::sum);
    std::memcpy(out.data() + part, in[0].data() + part, (count - part) * 4);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t bytes : {16, 4 << 10, 64 << 10, 1 << 20, 16 << 20}) benchmark->Arg(bytes);
}
BENCHMARK(all_reduce)
    ->Apply(sizes)
    ->Threads(2)
    ->Threads(4)
    ->UseRealTime()
    ->Setup(make_devices)
    ->Teardown(end_devices);
BENCHMARK(one_member_alone)->ArgsProduct({{4 << 10, 64 << 10, 1 << 20, 16 << 20}, {2, 4}});

}  // namespace
}  // namespace boxcar::backends::cpu

BENCHMARK_MAIN();
