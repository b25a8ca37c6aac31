// Repeated searches in one process leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// jemalloc's, where the program has it.
extern "C" int mallctl(const char* name, void* old, size_t* old_size, void* next, size_t next_size)
    __attribute__((weak));

#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

struct Memory {
  double live = 0, resident = 0;  // bytes: allocated; resident
};

Memory memory_now() {
  Memory now;
  if (mallctl) {
    uint64_t epoch = 1;
    size_t size = sizeof epoch, live = 0;
    mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // of all arenas
    mallctl("epoch", &epoch, &size, &epoch, size);              // statistics are of now
    size = sizeof live;
    mallctl("stats.allocated", &live, &size, nullptr, 0);
    now.live = static_cast<double>(live);
  }
#ifdef __GLIBC__
  if (!mallctl) {
    const struct mallinfo2 all = mallinfo2();
    now.live = static_cast<double>(all.uordblks) + static_cast<double>(all.hblkhd);
    malloc_trim(0);
  }
#endif
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) now.resident = 1024 * std::stod(line.substr(6));
  return now;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The ratio of the largest to the smallest median of four quarters.
double spread(const std::vector<double>& values) {
  std::vector<double> medians;
  const auto quarter = static_cast<int64_t>(values.size() / 4);
  for (int64_t q = 0; q < 4; ++q)
    medians.push_back(median({values.begin() + q * quarter, values.begin() + (q + 1) * quarter}));
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  return *most / *least;
}

// After a tenth of the searches, memory is flat to 1 %.
void expect_flat(int searches) {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);  // otherwise resident memory depends on which thread allocated
#endif
  planner::Job job = small_gpt(2);
  job.model->layers = 2;
  std::vector<double> live, resident;
  int64_t points = 0;
  for (int i = 0; i < searches; ++i) {
    points = search(job, {.lay_out = 1, .simulate = 3, .threads = 2}, oracle()).points;
    if (i < searches / 10) continue;
    const Memory now = memory_now();
    live.push_back(now.live), resident.push_back(now.resident);
  }
  std::printf(
      "%d searches of %lld points: live MB %.3f to %.3f, spread %.2f %%; resident MB %.3f to %.3f, %.2f %%\n",
      searches, static_cast<long long>(points), live.front() / 1e6, live.back() / 1e6,
      100 * (spread(live) - 1), resident.front() / 1e6, resident.back() / 1e6, 100 * (spread(resident) - 1));
  EXPECT_LE(spread(live), 1.01);
  EXPECT_LE(spread(resident), 1.01);
}

TEST(SearchSoak, LeavesNoMemoryBehind) { expect_flat(20); }
TEST(SearchSoak, LongLeavesNoMemoryBehind) { expect_flat(1000); }

}  // namespace
}  // namespace boxcar::search
