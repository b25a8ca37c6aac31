#include "cli/cpu_samples.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "cli/cpu_steps.h"
#include "cli/parts.h"
#include "ir/op.h"
#include "ir/plan.h"

namespace boxcar::cli {
namespace {

using backends::Call;
using backends::Device;
using Clock = std::chrono::steady_clock;

constexpr int64_t footprint = 32 << 20;  // bytes that a kernel's calls go through before operands come again
constexpr int64_t most_bytes = 96 << 20;
constexpr double turn_seconds = 0.6e-3;  // at least, of each of the turns
constexpr int turns = 8;

double wall_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Of the calling thread alone: what else the machine does is not counted.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Half of the turns are faster. What disturbs a turn disturbs training too.
double typical(std::vector<double> seconds) {
  const auto half = static_cast<int64_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), seconds.begin() + half, seconds.end());
  return seconds[static_cast<size_t>(half)];
}

// Seconds of one of many calls, by `clock`.
template <typename Clock, typename Work>
double seconds_of(Clock clock, Work work) {
  work();
  std::vector<double> results;
  for (int turn = 0; turn < turns; ++turn) {
    const double start = clock();
    double spent = 0;
    int64_t calls = 0;
    do {
      work();
      ++calls;
      spent = clock() - start;
    } while (spent < turn_seconds);
    results.push_back(spent / static_cast<double>(calls));
  }
  return typical(results);
}

int64_t aligned(int64_t bytes) { return (bytes + 511) / 512 * 512; }

// --- kernels

// Runs calls on one device, whose memory is filled with small positive numbers.
class Bench {
 public:
  Bench() : backend_(backends::cpu::make_cpu_backend(1)), queue_(device().queue(ir::QueueKind::compute)) {
    device().reserve(most_bytes);
  }

  Device& device() { return backend_->device(0); }
  backends::Queue& queue() { return *queue_; }

  // Negative for a call that does not fit.
  double seconds(const Sampled& sampled) {
    const Call& call = sampled.call;
    int64_t bytes = 0;
    for (const ir::Types* types : {&call.inputs, &call.outputs})
      for (const ir::TensorType& type : *types) bytes += aligned(type.bytes());
    if (2 * bytes > most_bytes) return -1;
    const int64_t sets = std::clamp<int64_t>(footprint / std::max<int64_t>(bytes, 1), 1, 1024);
    std::vector<std::vector<const void*>> inputs;
    std::vector<std::vector<void*>> outputs;
    std::byte* next = device().arena();
    for (int64_t set = 0; set < sets; ++set) {
      inputs.emplace_back();
      outputs.emplace_back();
      for (const ir::TensorType& type : call.inputs) inputs.back().push_back(place(type, next));
      for (const ir::TensorType& type : call.outputs) {
        outputs.back().push_back(next);
        next += aligned(type.bytes());
      }
    }
    const auto kernel = device().prepare(call, *queue_);
    std::map<size_t, std::unique_ptr<backends::Kernel>> sums;  // by output
    for (size_t o = 0; o < call.outputs.size(); ++o)
      if (sampled.adds[o]) sums[o] = sum_of(call.outputs[o]);
    size_t set = 0;
    backends::Moment moment;  // a step of its own for every call: other elements are dropped
    return seconds_of(thread_seconds, [&] {
      kernel->run(inputs[set], outputs[set], moment);
      ++moment.step;
      for (const auto& [o, sum] : sums) {
        void* output = outputs[set][o];
        const void* terms[] = {output, output};
        sum->run(terms, {&output, 1}, {});
      }
      queue_->finish();
      set = (set + 1) % inputs.size();
    });
  }

 private:
  std::byte* place(const ir::TensorType& type, std::byte*& next) {
    std::byte* at = next;
    next += aligned(type.bytes());
    const int64_t size = ir::size_of(type.dtype);
    const int64_t drawn = std::min<int64_t>(type.elements(), 997);
    std::minstd_rand random(1);
    for (int64_t i = 0; i < drawn; ++i) {
      const auto value = static_cast<double>(1 + random() % 63);
      if (size == 1)
        at[i] = std::byte{1};  // a mask
      else
        store_element(type.dtype, at + i * size, ir::is_float(type.dtype) ? value / 64 : value);
    }
    for (int64_t i = drawn; i < type.elements(); i += drawn)
      std::memcpy(at + i * size, at, static_cast<size_t>(std::min(drawn, type.elements() - i) * size));
    return at;
  }
  // What the runtime adds an act's result up with.
  std::unique_ptr<backends::Kernel> sum_of(const ir::TensorType& type) {
    return device().prepare({"add", {type, type}, {type}, ir::complete(ir::op("add"), {})}, *queue_);
  }

  std::unique_ptr<backends::Backend> backend_;
  std::unique_ptr<backends::Queue> queue_;
};

Sampled call_of(const char* op, ir::Types inputs) {
  const ir::Attrs attrs = ir::complete(ir::op(op), {});
  const ir::Types outputs = ir::op(op).infer(inputs, attrs);
  return {{op, std::move(inputs), outputs, attrs}, std::vector<bool>(outputs.size())};
}

std::vector<Sampled> lone_calls(std::set<std::string>& known) {
  std::vector<Sampled> list = part_calls(known);
  for (int64_t elements = 64; elements <= 4 << 20; elements *= 4)  // bandwidth by bytes
    list.push_back(call_of("add", {{{elements}, ir::DType::float32}, {{elements}, ir::DType::float32}}));
  for (ir::DType type : {ir::DType::float32, ir::DType::float64, ir::DType::bfloat16, ir::DType::float16})
    for (int64_t size : {16, 32, 64, 256, 512})
      list.push_back(call_of("matmul", {{{size, size}, type}, {{size, size}, type}}));
  return list;
}

// --- acts and messages, as the runtime has them

// Seconds of one of the acts of a plan, of which each takes its turn: `queues` of them on as many threads.
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
  return seconds_of(wall_seconds, [&] { run.steps(steps, 0); }) / (steps * queues);
}

// --- threads together

int cores_there() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Runs work(thread) on so many threads at once.
template <typename Work>
void on_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

// What all cores get done at once, in what one of them gets done alone: hardware threads share a core, cores
// share a budget of power.
double measure_cores() {
  const Sampled product =
      call_of("matmul", {{{256, 256}, ir::DType::float32}, {{256, 256}, ir::DType::float32}});
  const auto calls_on = [&](int threads) {
    std::atomic<int> ready{0};
    std::atomic<int64_t> calls{0};
    on_threads(threads, [&](int) {
      const auto backend = backends::cpu::make_cpu_backend(1);
      const auto queue = backend->device(0).queue(ir::QueueKind::compute);
      const auto kernel = backend->device(0).prepare(product.call, *queue);
      const std::vector<float> a(256 * 256, 1.0F), b(256 * 256, 1.0F);
      std::vector<float> c(256 * 256);
      const void* inputs[] = {a.data(), b.data()};
      void* output = c.data();
      for (++ready; ready < threads;) std::this_thread::yield();
      int64_t done = 0;
      for (const double start = wall_seconds(); wall_seconds() - start < 0.1; ++done)
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

// One call of every member, over and over.
double collective_seconds(sbp::Collective collective, int ranks, int64_t bytes) {
  const auto backend = backends::cpu::make_cpu_backend(ranks);
  std::vector<int> group(static_cast<size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  const int64_t count = bytes / 4;
  const std::vector<int64_t> parts(group.size(), count / ranks);
  constexpr int calls = 20;
  std::vector<double> results;
  for (int turn = 0; turn < turns; ++turn) {
    std::atomic<double> seconds{0};
    on_threads(ranks, [&](int rank) {
      const auto queue = backend->device(rank).queue(ir::QueueKind::network);
      const auto all = backend->communicator("all", group, rank, *queue);
      const std::vector<float> in(static_cast<size_t>(count), 1.0F);
      std::vector<float> out(in.size());
      const auto call = [&] {
        if (collective == sbp::Collective::all_reduce)
          all->all_reduce(in.data(), out.data(), count, ir::DType::float32, sbp::Reduction::sum);
        if (collective == sbp::Collective::reduce_scatter)
          all->reduce_scatter(in.data(), out.data(), parts, ir::DType::float32, sbp::Reduction::sum);
        if (collective == sbp::Collective::all_gather)
          all->all_gather(in.data(), out.data(), parts, ir::DType::float32);
        if (collective == sbp::Collective::all_to_all)
          all->all_to_all(in.data(), parts, out.data(), parts, ir::DType::float32);
      };
      call();
      all->barrier();
      const double start = wall_seconds();
      for (int i = 0; i < calls; ++i) call();
      if (rank == 0) seconds = (wall_seconds() - start) / calls;
    });
    results.push_back(seconds);
  }
  return typical(results);
}

std::vector<GroupSample> measure_groups() {
  std::vector<GroupSample> samples;
  for (auto collective : {sbp::Collective::all_reduce, sbp::Collective::reduce_scatter,
                          sbp::Collective::all_gather, sbp::Collective::all_to_all})
    for (int ranks : {2, 4})
      for (int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20})
        samples.push_back({collective, ranks, bytes, collective_seconds(collective, ranks, bytes)});
  return samples;
}

double measure_copy(Bench& bench) {
  constexpr int64_t bytes = 1 << 20;
  int64_t at = 0;
  const double seconds = seconds_of(thread_seconds, [&] {
    std::byte* from = bench.device().arena() + at;
    bench.queue().copy(from + bytes, from, {1, bytes, bytes, bytes});
    bench.queue().finish();
    at = (at + 2 * bytes) % (2 * footprint);
  });
  return static_cast<double>(bytes) / seconds;
}

}  // namespace

Samples measure_cpu(const std::function<void(const std::string&)>& progress) {
  Samples samples;
  samples.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  std::set<std::string> known;
  samples.kernels = measure_steps(known, progress);
  const std::vector<Sampled> calls = lone_calls(known);
  Bench bench;
  for (size_t i = 0; i < calls.size(); ++i) {
    progress(fmt::format("measuring kernels, {} of {}: {}", i + 1, calls.size(), calls[i].call.op));
    const double seconds = bench.seconds(calls[i]);
    if (seconds > 0) samples.kernels.push_back({calls[i].call, seconds});
  }
  progress("measuring acts and messages");
  samples.act_seconds = act_seconds(1);
  samples.message_seconds = std::max(act_seconds(cores_there() + 2) - samples.act_seconds, 0.0);
  progress("measuring copies and collectives");
  samples.copy_bandwidth = measure_copy(bench);
  samples.groups = measure_groups();
  progress("measuring cores");
  samples.cores = measure_cores();
  return samples;
}

}  // namespace boxcar::cli
