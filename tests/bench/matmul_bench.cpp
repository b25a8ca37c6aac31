// The float32 matrix product of the CPU backend compared with OpenBLAS, one thread each, in turns.
//
//   build/tests/bench/matmul_bench
//
// For each shape m x n x k: both libraries' billions of operations per second (an addition and a
// multiplication are two), best of many turns in thread time, and their ratio. The budget (docs/design.md) is
// 0.8. OpenBLAS is loaded at run time if installed (Debian: libopenblas0-pthread).
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backends/cpu/product.h"

namespace {

using boxcar::backends::cpu::matrix;

constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;

struct OpenBlas {
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                int a_step, const float* b, int b_step, float beta, float* c, int c_step) = nullptr;

  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) return;
    reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))(1);
    sgemm = reinterpret_cast<decltype(sgemm)>(dlsym(library, "cblas_sgemm"));
  }
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds per call, over enough calls for the clock's resolution.
template <class Call>
double seconds_of(Call call) {
  const double start = thread_seconds();
  int64_t calls = 0;
  double spent = 0;
  do {
    call();
    ++calls;
    spent = thread_seconds() - start;
  } while (spent < 2e-3);
  return spent / static_cast<double>(calls);
}

struct Shape {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
};

std::vector<float> draw(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

void run(benchmark::State& state, const Shape& x, const OpenBlas& blas) {
  const std::vector<float> a = draw(x.m * x.k), b = draw(x.k * x.n);
  std::vector<float> c(static_cast<size_t>(x.m * x.n));
  const auto ours = [&] {
    boxcar::backends::cpu::product<float>(matrix(a.data(), x.m, x.k, x.transpose_a),
                                          matrix(b.data(), x.k, x.n, x.transpose_b),
                                          matrix(c.data(), x.m, x.n));
  };
  const auto theirs = [&] {
    const int m = static_cast<int>(x.m), n = static_cast<int>(x.n), k = static_cast<int>(x.k);
    blas.sgemm(kRowMajor, x.transpose_a ? kTransposed : kPlain, x.transpose_b ? kTransposed : kPlain, m, n, k,
               1, a.data(), x.transpose_a ? m : k, b.data(), x.transpose_b ? k : n, 0, c.data(), n);
  };
  double our_best = INFINITY, their_best = INFINITY;
  for (auto _ : state) {
    const double seconds = seconds_of(ours);
    state.SetIterationTime(seconds);
    our_best = std::min(our_best, seconds);
    if (blas.sgemm) their_best = std::min(their_best, seconds_of(theirs));
  }
  const double operations = 2e-9 * static_cast<double>(x.m * x.n) * static_cast<double>(x.k);
  state.counters["gflops"] = operations / our_best;
  if (!blas.sgemm) return;
  state.counters["openblas_gflops"] = operations / their_best;
  state.counters["ratio"] = their_best / our_best;
}

constexpr Shape kShapes[] = {
    {64, 64, 64},
    {128, 128, 128},
    {256, 256, 256},
    {512, 512, 512},
    {768, 768, 768},
    {1024, 1024, 1024},
    // GPT-2 small on 1,024 tokens: attention's input, forward, of its input and of its weight; MLP; scores
    {1024, 2304, 768},
    {1024, 768, 2304, false, true},
    {768, 2304, 1024, true, false},
    {1024, 3072, 768},
    {1024, 768, 3072},
    {1024, 1024, 64, false, true},
    {1024, 64, 1024},
    // a model for one processor: hidden 128, 256 tokens
    {256, 384, 128},
    {256, 512, 128},
    {256, 128, 512},
    {128, 128, 32, false, true},
    {128, 32, 128},
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const OpenBlas blas;
  if (!blas.sgemm) fmt::print(stderr, "no libopenblas.so.0: nothing to compare with\n");
  for (const Shape& x : kShapes) {
    const std::string name = fmt::format("product/{}x{}x{}{}{}", x.m, x.n, x.k, x.transpose_a ? "/at" : "",
                                         x.transpose_b ? "/bt" : "");
    benchmark::RegisterBenchmark(name.c_str(), [&x, &blas](benchmark::State& state) { run(state, x, blas); })
        ->UseManualTime()
        ->Iterations(40)
        ->Unit(benchmark::kMicrosecond);
  }
  fmt::print("products for {}\n", [] {
    const auto units = boxcar::backends::cpu::product_units();
    return units.units[units.count - 1].name;
  }());
  benchmark::RunSpecifiedBenchmarks();
}
