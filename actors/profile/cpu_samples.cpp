#include "actors/profile/cpu_samples.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "actors/profile/cpu_steps.h"
#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/measure/bench.h"
#include "backends/measure/group_bench.h"
#include "ir/op.h"
#include "ir/plan.h"

namespace boxcar::profile {
namespace {

constexpr int64_t footprint = 32 << 20;  // bytes that a kernel's calls use before operands repeat
constexpr int64_t most_bytes = 96 << 20;
constexpr int turns = 8;

std::vector<measure::Sampled> lone_calls(std::set<std::string>& known) {
  std::vector<measure::Sampled> list = part_calls(known);
  for (int64_t elements = 64; elements <= 4 << 20; elements *= 4)  // bandwidth by bytes
    list.push_back(
        measure::call_of("add", {{{elements}, ir::DType::float32}, {{elements}, ir::DType::float32}}));
  for (ir::DType type : {ir::DType::float32, ir::DType::float64, ir::DType::bfloat16, ir::DType::float16})
    for (int64_t size : {16, 32, 64, 256, 512})
      list.push_back(measure::call_of("matmul", {{{size, size}, type}, {{size, size}, type}}));
  return list;
}

// --- acts and messages, as in the runtime

// Seconds of one act of a plan whose acts alternate between `queues` queues on as many threads.
double act_seconds(int queues) {
  std::string text = fmt::format(
      "plan ring\ndevices 1\nmicro_batches 1\nclass 0: p\n\nprogram p\n  arena {}\n  phases F\n  schedule "
      "F\n",
      512 * queues);
  for (int q = 0; q < queues; ++q) text += fmt::format("  queue q{}: host\n", q);
  for (int q = 0; q < queues; ++q)
    text += fmt::format("  %x{0}: int8[1] x1 workspace bytes 512{1} @{2}\n", q,
                        q + 1 == queues ? " initial 1" : "", 512 * q);
  for (int q = 0; q < queues; ++q)
    text += fmt::format("  a{0} load(%x{1}) -> %x{0} on q{0} in F\n", q, (q + queues - 1) % queues);
  const ir::Plan plan = ir::parse_plan(text);
  ir::check(plan);
  const auto backend = backends::cpu::make_cpu_backend(1);
  actors::Runtime run(plan, *backend, {});
  constexpr int steps = 200;
  return measure::seconds_of(measure::wall_seconds, [&] { run.steps(steps, 0); }) / (steps * queues);
}

// --- threads together

int cores_there() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// The rate of all cores at once, relative to that of one core alone. Hardware threads share a core, and cores
// share a power budget.
double measure_cores() {
  const measure::Sampled product =
      measure::call_of("matmul", {{{256, 256}, ir::DType::float32}, {{256, 256}, ir::DType::float32}});
  const auto calls_on = [&](int threads) {
    std::atomic<int> ready{0};
    std::atomic<int64_t> calls{0};
    measure::on_threads(threads, [&](int) {
      const auto backend = backends::cpu::make_cpu_backend(1);
      const auto queue = backend->device(0).queue(ir::QueueKind::compute);
      const auto kernel = backend->device(0).prepare(product.call, *queue);
      const std::vector<float> a(256 * 256, 1.0F), b(256 * 256, 1.0F);
      std::vector<float> c(256 * 256);
      const void* inputs[] = {a.data(), b.data()};
      void* output = c.data();
      for (++ready; ready < threads;) std::this_thread::yield();
      int64_t done = 0;
      for (const double start = measure::wall_seconds(); measure::wall_seconds() - start < 0.1; ++done)
        kernel->run(inputs, {&output, 1}, {});
      calls += done;
    });
    return static_cast<double>(calls);
  };
  std::vector<double> ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double one = calls_on(1);
    ratios.push_back(calls_on(cores_there()) / one);
  }
  std::nth_element(ratios.begin(), ratios.begin() + turns / 2, ratios.end());
  return std::clamp(ratios[turns / 2], 0.1, static_cast<double>(cores_there()));
}

}  // namespace

measure::Samples measure_cpu(const std::function<void(const std::string&)>& progress) {
  measure::Samples samples;
  samples.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  std::set<std::string> known;
  samples.kernels = measure_steps(known, progress);
  const std::vector<measure::Sampled> calls = lone_calls(known);
  const auto devices = backends::cpu::make_cpu_backend(1);
  measure::Bench bench(*devices, most_bytes, footprint);
  for (size_t i = 0; i < calls.size(); ++i) {
    progress(fmt::format("measuring kernels, {} of {}: {}", i + 1, calls.size(), calls[i].call.op));
    const double seconds = bench.seconds(calls[i]);
    if (seconds > 0) samples.kernels.push_back({calls[i].call, seconds});
  }
  progress("measuring acts and messages");
  samples.act_seconds = act_seconds(1);
  samples.message_seconds = std::max(act_seconds(cores_there() + 2) - samples.act_seconds, 0.0);
  progress("measuring copies and collectives");
  samples.copy_bandwidth = bench.copy_bandwidth(1 << 20);
  samples.groups = measure::measure_groups([](int ranks) { return backends::cpu::make_cpu_backend(ranks); },
                                           {2, 4}, {1 << 10, 1 << 20});
  progress("measuring cores");
  samples.cores = measure_cores();
  return samples;
}

}  // namespace boxcar::profile
