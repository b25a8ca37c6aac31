#include "backends/host/parts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

StoredTensor counted(ir::Shape shape, ir::DType dtype) {
  StoredTensor tensor{{std::move(shape), dtype}, {}};
  const int64_t size = ir::size_of(dtype);
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  for (int64_t i = 0; i < tensor.type.elements(); ++i)
    store_element(dtype, tensor.bytes.data() + i * size, static_cast<double>(i));
  return tensor;
}

TEST(Parts, OfATensorPutTogetherAreTheTensor) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    ir::Shape shape;
    std::vector<int64_t> cuts;
    for (int axis = 0, rank = static_cast<int>(random() % 4); axis < rank; ++axis) {
      shape.push_back(1 + static_cast<int64_t>(random() % 5));
      cuts.push_back(1 + static_cast<int64_t>(random() % 3));
    }
    const StoredTensor whole = counted(shape, ir::DType::float32);
    StoredTensor copy = whole;
    std::fill(copy.bytes.begin(), copy.bytes.end(), std::byte{0xff});
    int64_t parts = 1;
    for (int64_t c : cuts) parts *= c;
    for (int64_t p = 0; p < parts; ++p) {
      std::vector<sbp::Range> ranges;
      int64_t rest = p, elements = 1;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        ranges.push_back(sbp::part_range(shape[axis], cuts[axis], rest % cuts[axis]));
        rest /= cuts[axis];
        elements *= ranges.back().size();
      }
      std::vector<std::byte> bytes(static_cast<size_t>(elements) * sizeof(float));
      take_part(whole, ranges, ir::DType::float32, bytes);
      put_part(copy, ranges, bytes);
    }
    EXPECT_EQ(copy.bytes, whole.bytes) << ir::to_text(whole.type);
  }
}

TEST(Parts, AreRoundedToTheirType) {
  const StoredTensor whole = counted({2, 3}, ir::DType::float32);
  const std::vector<sbp::Range> ranges = {{1, 2}, {1, 3}};
  std::vector<std::byte> bytes(4);
  take_part(whole, ranges, ir::DType::bfloat16, bytes);
  EXPECT_EQ(load_element(ir::DType::bfloat16, bytes.data()), 4);
  EXPECT_EQ(load_element(ir::DType::bfloat16, bytes.data() + 2), 5);
}

TEST(Parts, OfAnotherSizeAreRefused) {
  const StoredTensor whole = counted({4}, ir::DType::float32);
  const std::vector<sbp::Range> ranges = {{0, 2}};
  std::vector<std::byte> bytes(4);
  try {
    take_part(whole, ranges, ir::DType::float32, bytes);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a tensor's part: has 4 bytes, expected 8");
  }
}

}  // namespace
}  // namespace boxcar::backends::host
