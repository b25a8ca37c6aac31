// Loops compiled for several vector widths. The widest one that this processor supports runs.
//
//   on_vectors([](int64_t count, float* __restrict y, const float* __restrict x) {
//     for (int64_t i = 0; i < count; ++i) y[i] = 2 * x[i];
//   }, count, y, x);
//
// Functions that the loop calls become part of it, so they should be small and inline. Each width gives the
// same bits: in this folder only products are contracted to fused multiply-adds (backends/CMakeLists.txt).
#pragma once

namespace boxcar::backends::cpu {

enum class Vectors { baseline, avx2, avx512 };

// The widest of this processor.
inline Vectors find_vectors() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return Vectors::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::avx2;
#endif
  return Vectors::baseline;
}

inline const Vectors widest_vectors = find_vectors();

#ifdef __x86_64__
template <class Loop, class... X>
[[gnu::target("avx2"), gnu::flatten]] auto on_avx2(Loop loop, X... x) {
  return loop(x...);
}
template <class Loop, class... X>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq"), gnu::flatten]] auto on_avx512(Loop loop, X... x) {
  return loop(x...);
}
#endif

// Runs loop(x...) with the vectors that this processor has.
template <class Loop, class... X>
auto on([[maybe_unused]] Vectors vectors, Loop loop, X... x) {
#ifdef __x86_64__
  if (vectors == Vectors::avx512) return on_avx512(loop, x...);
  if (vectors == Vectors::avx2) return on_avx2(loop, x...);
#endif
  return loop(x...);
}

template <class Loop, class... X>
auto on_vectors(Loop loop, X... x) {
  return on(widest_vectors, loop, x...);
}

}  // namespace boxcar::backends::cpu
