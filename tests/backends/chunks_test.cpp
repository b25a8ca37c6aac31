// Reading and writing arrays of every element type in chunks.
#include "backends/cpu/chunks.h"

#include <gtest/gtest.h>

#include <bit>

namespace boxcar::backends::cpu {
namespace {

using ir::DType;

Call call_of(DType dtype, int64_t count) {
  const ir::TensorType type{{count}, dtype};
  return {"identity", {type}, {type}, {}};
}

template <class T>
float read(T element, DType dtype) {
  const void* inputs[] = {&element};
  return In<float>(call_of(dtype, 1), 0).element({inputs, {}, {}}, 0);
}

template <class T>
T write(float value, DType dtype) {
  T element{};
  void* outputs[] = {&element};
  Out<float>(call_of(dtype, 1), 0).put(static_cast<double>(value), {{}, outputs, {}}, 0);
  return element;
}

float half(uint32_t bits) {
  return static_cast<float>(Half(Eigen::half_impl::raw_uint16_to_half(static_cast<uint16_t>(bits))));
}

bool same(float a, float b) {
  return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
}

TEST(Chunks, ReadEveryHalf) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto raw = static_cast<uint16_t>(bits);
    const Half half = Eigen::half_impl::raw_uint16_to_half(raw);
    ASSERT_TRUE(same(read(half, DType::float16), static_cast<float>(half))) << bits;
    const Bfloat16 bfloat = Eigen::bfloat16_impl::raw_uint16_to_bfloat16(raw);
    ASSERT_TRUE(same(read(bfloat, DType::bfloat16), static_cast<float>(bfloat))) << bits;
  }
}

// Around every 16-bit number: itself, the midpoint to the next, and slightly to both sides of that.
TEST(Chunks, RoundToTheNearestHalf) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = half(bits), high = bits == 0x7bff ? 65536.0F : half(bits + 1);
    const float middle = (low + high) / 2;
    for (const float x : {low, middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      ASSERT_EQ(write<Half>(x, DType::float16).x, static_cast<Half>(x).x) << x;
      ASSERT_EQ(write<Half>(-x, DType::float16).x, static_cast<Half>(-x).x) << -x;
    }
  }
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    for (const uint32_t more : {0U, 0x7fffU, 0x8000U, 0x8001U}) {
      const auto x = std::bit_cast<float>((bits << 16) + more);
      ASSERT_EQ(write<Bfloat16>(x, DType::bfloat16).value, static_cast<Bfloat16>(x).value) << x;
    }
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(write<Half>(NAN, DType::float16))));
  EXPECT_TRUE(std::isnan(static_cast<float>(write<Bfloat16>(NAN, DType::bfloat16))));
  EXPECT_EQ(static_cast<float>(write<Half>(INFINITY, DType::float16)), INFINITY);
  EXPECT_EQ(static_cast<float>(write<Bfloat16>(-INFINITY, DType::bfloat16)), -INFINITY);
}

// Zeros follow a chunk's end, at any address.
TEST(Chunks, PadWithZeros) {
  const std::vector<float> array(40, 7.0F);
  const In<float> in(call_of(DType::float32, 40), 0);
  Chunk<float> buffer;
  for (int64_t at = 0; at < 20; ++at) {
    const void* inputs[] = {array.data()};
    const float* loaded = in.load({inputs, {}, {}}, at, 19, buffer);
    EXPECT_EQ(std::count(loaded, loaded + 19, 7.0F), 19);
    EXPECT_EQ(std::count(loaded + 19, loaded + 32, 0.0F), 13);
  }
}

// The same numbers at another address give the same bits.
TEST(Chunks, SumsDoNotDependOnAddresses) {
  std::vector<float> array(1100), moved(1101);
  for (size_t i = 0; i < array.size(); ++i) array[i] = moved[i + 1] = 1.0F / static_cast<float>(i + 3);
  const In<float> in(call_of(DType::float32, 1100), 0);
  const auto sum = [&](const float* data) {
    const void* inputs[] = {data};
    return row_sum({inputs, {}, {}}, in, 0, 1100, [](float x) { return x; });
  };
  EXPECT_EQ(sum(array.data()), sum(moved.data() + 1));
  double exact = 0;
  for (const float x : array) exact += static_cast<double>(x);
  EXPECT_NEAR(sum(array.data()), exact, 1e-6);
}

TEST(Chunks, FindTheLargest) {
  std::vector<float> values(37, -3.0F);
  const auto largest = [&](int64_t count) {
    return max_of(
        count, [](float x) { return x; }, values.data());
  };
  EXPECT_EQ(largest(0), -INFINITY);
  EXPECT_EQ(largest(37), -3.0F);
  values[36] = 2;
  EXPECT_EQ(largest(37), 2.0F);
  EXPECT_EQ(largest(36), -3.0F);
}

}  // namespace
}  // namespace boxcar::backends::cpu
