// Loops give the same bits with every vector width of this processor.
#include "backends/cpu/vectors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/cpu/fast_math.h"

namespace boxcar::backends::cpu {
namespace {

struct Results {
  std::vector<float> values = std::vector<float>(4000);
  float sum = 0;
  bool operator==(const Results&) const = default;
};

Results run(Vectors vectors) {
  std::vector<float> x(4000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.0123F * static_cast<float>(i) - 20;
  Results results;
  results.sum = on(
      vectors,
      [](int64_t count, float* __restrict to, const float* __restrict from) {
        float sum = 0;
        for (int64_t b = 0; b < count; b += 16)
          for (int64_t i = b; i < b + 16; ++i) to[i] = from[i] * fast_gelu_slope(from[i]) + fast_exp(from[i]);
        for (int64_t i = 0; i < count; ++i) sum += to[i] * from[i];
        return sum;
      },
      static_cast<int64_t>(x.size()), results.values.data(), static_cast<const float*>(x.data()));
  return results;
}

TEST(Vectors, GiveTheSameBits) {
  const Results baseline = run(Vectors::baseline);
  EXPECT_NE(baseline.sum, 0);
  for (const Vectors vectors : {Vectors::avx2, Vectors::avx512}) {
    if (vectors > widest_vectors) continue;
    EXPECT_EQ(run(vectors), baseline) << static_cast<int>(vectors);
  }
}

}  // namespace
}  // namespace boxcar::backends::cpu
