#include "backends/measure/group_bench.h"

#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "backends/measure/bench.h"
#include "sbp/at.h"

namespace boxcar::measure {
namespace {

using sbp::Collective;

constexpr int rounds = 8, calls = 20;

// Seconds of one call of every member, repeated; float32.
double collective_seconds(backends::Backend& backend, Collective collective, int ranks, int64_t bytes) {
  std::vector<int> group(static_cast<size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  const int64_t count = bytes / 4;
  const std::vector<int64_t> parts(group.size(), count / ranks);
  std::vector<double> results(rounds);
  on_threads(ranks, [&](int rank) {
    try {
      const auto queue = backend.device(rank).queue(ir::QueueKind::network);
      const auto all = backend.communicator("all", group, rank, *queue);
      const void* const in = backend.device(rank).arena();
      void* const out = backend.device(rank).arena() + bytes;
      const auto call = [&] {
        if (collective == Collective::all_reduce)
          all->all_reduce(in, out, count, ir::DType::float32, sbp::Reduction::sum);
        if (collective == Collective::reduce_scatter)
          all->reduce_scatter(in, out, parts, ir::DType::float32, sbp::Reduction::sum);
        if (collective == Collective::all_gather) all->all_gather(in, out, parts, ir::DType::float32);
        if (collective == Collective::all_to_all) all->all_to_all(in, parts, out, parts, ir::DType::float32);
      };
      for (int round = 0; round < rounds; ++round) {
        call();
        all->barrier();
        queue->finish();
        const auto begin = queue->timed_mark();
        const double start = wall_seconds();
        for (int i = 0; i < calls; ++i) call();
        const auto end = queue->timed_mark();
        queue->finish();
        const double spent = end ? end->seconds_since(*begin) : wall_seconds() - start;
        if (rank == 0) at(results, round) = spent / calls;
      }
      all->barrier();
      queue->finish();
    } catch (const std::exception& error) {
      backend.abort(error.what());
      throw;
    }
  });
  return typical(results);
}

}  // namespace

void on_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::exception_ptr first;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      try {
        work(t);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

std::vector<GroupSample> measure_groups(const MakeBackend& make, const std::vector<int>& ranks,
                                        const std::vector<int64_t>& bytes) {
  std::vector<GroupSample> samples;
  for (const int count : ranks)
    for (const int64_t size : bytes) {
      const auto backend = make(count);
      for (int d = 0; d < count; ++d) backend->device(d).reserve(2 * size);
      for (auto collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                              Collective::all_to_all})
        samples.push_back({collective, count, size, collective_seconds(*backend, collective, count, size)});
    }
  return samples;
}

}  // namespace boxcar::measure
