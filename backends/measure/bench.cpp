#include "backends/measure/bench.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "backends/host/parts.h"
#include "ir/op.h"
#include "sbp/at.h"

namespace boxcar::measure {
namespace {

using backends::Call;

constexpr double turn_seconds = 0.6e-3;  // at least, of each of the turns
constexpr int turns = 8;
constexpr double long_seconds = 0.25;  // calls that take as long are not repeated
constexpr int64_t most_calls = 256;    // in a turn: more would fill the stream, and the host would wait

int64_t aligned(int64_t bytes) { return (bytes + 511) / 512 * 512; }

// Processor time of the calling thread alone, without other work of the machine.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double typical(std::vector<double> seconds) {
  const auto half = static_cast<int64_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), seconds.begin() + half, seconds.end());
  return at(seconds, half);
}

double seconds_of(const std::function<double()>& clock, const std::function<void()>& work) {
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

Sampled call_of(const char* op, ir::Types inputs, const ir::Attrs& given) {
  const ir::Attrs attrs = ir::complete(ir::op(op), given);
  const ir::Types outputs = ir::op(op).infer(inputs, attrs);
  return {{op, std::move(inputs), outputs, attrs}, std::vector<bool>(outputs.size())};
}

struct Bench::Sets {
  std::unique_ptr<backends::Kernel> kernel;
  std::map<size_t, std::unique_ptr<backends::Kernel>> sums;  // by output: the runtime's sum
  std::vector<std::vector<const void*>> inputs;
  std::vector<std::vector<void*>> outputs;
  size_t next = 0;
  backends::Moment moment;  // a step of its own for every call: other elements are dropped

  void run() {
    kernel->run(inputs[next], outputs[next], moment);
    ++moment.step;
    for (const auto& [o, sum] : sums) {
      void* output = outputs[next][o];
      const void* terms[] = {output, output};
      sum->run(terms, {&output, 1}, {});
    }
    next = (next + 1) % inputs.size();
  }
};

Bench::Bench(backends::Backend& backend, int64_t memory, int64_t footprint)
    : backend_(backend),
      queue_(backend.device(0).queue(ir::QueueKind::compute)),
      memory_(memory),
      footprint_(footprint),
      keeps_time_(queue_->timed_mark() != nullptr) {
  device().reserve(memory_);
  if (!keeps_time_) return;
  turn([] {}, 1, 1);
  fill_seconds_ = turn([this] { queue_->fill_zero(device().arena(), footprint_); }, 1, 0);
}

double Bench::seconds(const Sampled& sampled) {
  const std::unique_ptr<Sets> sets = place(sampled);
  if (!sets) return -1;
  return time([&] { sets->run(); });
}

double Bench::launch_seconds() {
  if (!keeps_time_) return 0;
  const auto sets = place(call_of("add", {{{64}, ir::DType::float32}, {{64}, ir::DType::float32}}));
  std::vector<double> results;
  for (int t = 0; t <= turns; ++t) {
    double host = 0;
    turn([&] { sets->run(); }, most_calls, 0, &host);
    if (t > 0) results.push_back(host / most_calls);
  }
  return typical(results);
}

double Bench::load_share(const Sampled& sampled, double for_seconds) {
  const std::unique_ptr<Sets> sets = place(sampled);
  if (!sets || !keeps_time_) return 1;
  const auto work = [&] { sets->run(); };
  const double fresh = time(work);
  const auto calls = std::clamp<int64_t>(static_cast<int64_t>(0.02 / fresh), 1, most_calls);
  double loaded = fresh;
  for (double spent = 0; spent < for_seconds; spent += loaded * static_cast<double>(calls))
    loaded = turn(work, calls, 0);
  return std::clamp(fresh / loaded, 0.1, 1.0);
}

double Bench::copy_bandwidth(int64_t bytes) {
  int64_t at = 0;
  const double seconds = time([&] {
    std::byte* from = device().arena() + at;
    queue_->copy(from + bytes, from, {1, bytes, bytes, bytes});
    at = (at + 2 * bytes) % (memory_ - 2 * bytes);
  });
  return static_cast<double>(bytes) / seconds;
}

double Bench::upload_bandwidth(int64_t bytes) {
  const std::vector<std::byte> from(static_cast<size_t>(bytes));
  const double seconds =
      seconds_of(wall_seconds, [&] { device().from_host(device().arena(), from.data(), bytes); });
  return static_cast<double>(bytes) / seconds;
}

std::unique_ptr<Bench::Sets> Bench::place(const Sampled& sampled) {
  const Call& call = sampled.call;
  int64_t bytes = 0;
  for (const ir::Types* types : {&call.inputs, &call.outputs})
    for (const ir::TensorType& type : *types) bytes += aligned(type.bytes());
  if (2 * bytes > memory_) return nullptr;
  auto sets = std::make_unique<Sets>();
  const int64_t count = std::clamp<int64_t>(footprint_ / std::max<int64_t>(bytes, 1), 1, 1024);
  std::byte* next = device().arena();
  for (int64_t set = 0; set < count; ++set) {
    sets->inputs.emplace_back();
    sets->outputs.emplace_back();
    for (const ir::TensorType& type : call.inputs) sets->inputs.back().push_back(fill(type, next));
    for (const ir::TensorType& type : call.outputs) {
      sets->outputs.back().push_back(next);
      next += aligned(type.bytes());
    }
  }
  queue_->finish();
  sets->kernel = device().prepare(call, *queue_);
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    const ir::TensorType& type = call.outputs[o];
    if (sampled.adds[o])
      sets->sums[o] =
          device().prepare({"add", {type, type}, {type}, ir::complete(ir::op("add"), {})}, *queue_);
  }
  return sets;
}

// A few numbers from the host; the rest is copied from those, twice as much each time.
std::byte* Bench::fill(const ir::TensorType& type, std::byte*& next) {
  std::byte* const begin = next;
  next += aligned(type.bytes());
  const int64_t size = ir::size_of(type.dtype);
  const int64_t drawn = std::min<int64_t>(type.elements(), 997);
  if (drawn == 0) return begin;
  std::vector<std::byte> values(static_cast<size_t>(drawn * size));
  std::minstd_rand random(1);
  for (int64_t i = 0; i < drawn; ++i) {
    const auto value = static_cast<double>(1 + random() % 63);
    if (size == 1)
      at(values, i) = std::byte{1};  // a mask
    else
      backends::host::store_element(type.dtype, values.data() + i * size,
                                    ir::is_float(type.dtype) ? value / 64 : value);
  }
  device().from_host(begin, values.data(), drawn * size);
  for (int64_t there = drawn * size; there < type.bytes();) {
    const int64_t more = std::min(there, type.bytes() - there);
    queue_->copy(begin + there, begin, {1, more, more, more});
    there += more;
  }
  return begin;
}

double Bench::time(const std::function<void()>& work) {
  if (keeps_time_) return time_on_device(work);
  return seconds_of(thread_seconds, [&] {
    work();
    queue_->finish();
  });
}

double Bench::time_on_device(const std::function<void()>& work) {
  turn(work, 1, 0);  // one-time work
  const double once = turn(work, 1, 1);
  if (once > long_seconds) return once;
  const auto calls = static_cast<int64_t>(
      std::clamp(std::ceil(turn_seconds / std::max(once, 1e-9)), 1.0, static_cast<double>(most_calls)));
  double host = 0;
  turn(work, calls, 0, &host);
  // While the device fills memory the host launches all of a turn, in half of that time if it can.
  const auto delay = static_cast<int64_t>(std::clamp(std::ceil(2 * host / fill_seconds_), 1.0, 1000.0));
  std::vector<double> results;
  for (int t = 0; t < turns; ++t) results.push_back(turn(work, calls, delay));
  return typical(results);
}

double Bench::turn(const std::function<void()>& work, int64_t calls, int64_t delay, double* host) {
  // Fills unused memory behind all operands if there is room.
  for (int64_t i = 0; i < delay; ++i) queue_->fill_zero(device().arena() + memory_ - footprint_, footprint_);
  const auto begin = queue_->timed_mark();
  const double start = wall_seconds();
  for (int64_t i = 0; i < calls; ++i) work();
  if (host) *host = wall_seconds() - start;
  const auto end = queue_->timed_mark();
  queue_->finish();
  return end->seconds_since(*begin) / static_cast<double>(calls);
}

}  // namespace boxcar::measure
