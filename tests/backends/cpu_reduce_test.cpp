#include "backends/cpu/cpu_reduce.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

constexpr sbp::Reduction sum = sbp::Reduction::sum, max = sbp::Reduction::max, min = sbp::Reduction::min;

template <typename T>
std::vector<T> reduced(const std::vector<std::vector<T>>& parts, ir::DType dtype, sbp::Reduction reduction) {
  std::vector<const void*> addresses;
  for (const std::vector<T>& part : parts) addresses.push_back(part.data());
  std::vector<T> out(parts[0].size());
  reduce(addresses, out.data(), static_cast<int64_t>(out.size()), dtype, reduction);
  return out;
}

// Parts longer than the buffer, compared with one sum per element in the expected type.
template <typename Stored, typename Wide>
void expect_sums_in_order(ir::DType dtype) {
  std::mt19937 random(5);
  std::vector<std::vector<Stored>> parts(7, std::vector<Stored>(5000));
  for (auto& part : parts) {
    for (Stored& x : part) x = static_cast<Stored>(std::uniform_real_distribution<Wide>(-1, 1)(random));
  }
  const std::vector<Stored> out = reduced(parts, dtype, sum);
  for (size_t i = 0; i < out.size(); ++i) {
    Wide expected = static_cast<Wide>(parts[0][i]);
    for (size_t p = 1; p < parts.size(); ++p) expected += static_cast<Wide>(parts[p][i]);
    EXPECT_EQ(out[i], static_cast<Stored>(expected)) << i;
  }
}

TEST(CpuReduce, AddsInTheOrderOfThePartsAndRoundsOnce) {
  expect_sums_in_order<double, double>(ir::DType::float64);
  expect_sums_in_order<float, float>(ir::DType::float32);
  expect_sums_in_order<Eigen::half, float>(ir::DType::float16);
  expect_sums_in_order<Eigen::bfloat16, float>(ir::DType::bfloat16);
}

// 256 + 1 is 256 in bfloat16, which has eight bits; the sum of all four holds both ones.
TEST(CpuReduce, SixteenBitsAreNotRoundedInBetween) {
  using T = Eigen::bfloat16;
  const std::vector<std::vector<T>> parts = {{T(256)}, {T(1)}, {T(1)}};
  EXPECT_EQ(static_cast<float>(reduced(parts, ir::DType::bfloat16, sum)[0]), 258);
}

TEST(CpuReduce, WholeNumbersWrapWhereTheSumDoesNotFit) {
  EXPECT_EQ(reduced<int8_t>({{100, -7}, {100, 3}}, ir::DType::int8, sum), (std::vector<int8_t>{-56, -4}));
  const int64_t large = (int64_t{1} << 53) + 1;  // not representable as double
  EXPECT_EQ(reduced<int64_t>({{large}, {2}}, ir::DType::int64, sum), (std::vector<int64_t>{large + 2}));
  EXPECT_EQ(reduced<int32_t>({{3, -9}, {-4, 2}}, ir::DType::int32, max), (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(reduced<int32_t>({{3, -9}, {-4, 2}}, ir::DType::int32, min), (std::vector<int32_t>{-4, -9}));
}

TEST(CpuReduce, BooleansAreOneIfAnyOrAllAre) {
  const std::vector<std::vector<uint8_t>> parts = {{0, 0, 1, 1}, {0, 1, 0, 1}};
  EXPECT_EQ(reduced(parts, ir::DType::boolean, max), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(reduced(parts, ir::DType::boolean, min), (std::vector<uint8_t>{0, 0, 0, 1}));
}

TEST(CpuReduce, ANanIsTheResultWhereverItStands) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (sbp::Reduction reduction : {sum, max, min}) {
    const auto out =
        reduced<float>({{nan, 1, 1, 1}, {1, nan, 1, 1}, {1, 1, nan, 1}}, ir::DType::float32, reduction);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(at(out, i))) << i;
    EXPECT_EQ(out[3], reduction == sum ? 3 : 1);
  }
}

TEST(CpuReduce, TheResultMayTakeThePlaceOfAPart) {
  std::vector<float> a(5000, 1), b(5000, 2), c(5000, 3);
  const void* parts[] = {a.data(), b.data(), c.data()};
  reduce(parts, b.data(), 5000, ir::DType::float32, sum);
  EXPECT_EQ(b, std::vector<float>(5000, 6));
}

TEST(CpuReduce, RefusesWhatHasNoReduction) {
  const auto refusal = [](ir::DType dtype, sbp::Reduction reduction) -> std::string {
    try {
      check_reduction(dtype, reduction);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(ir::DType::boolean, sum), "there is no sum of boolean");
  EXPECT_EQ(refusal(ir::DType::boolean, max), "");
  EXPECT_EQ(refusal(ir::DType::float8, min), "there is no min of float8");
}

}  // namespace
}  // namespace boxcar::backends::cpu
