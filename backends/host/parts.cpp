#include "backends/host/parts.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <cstring>

#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

template <typename T>
double load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

template <typename T>
void store_as(std::byte* at, double value) {
  const T rounded = static_cast<T>(value);
  std::memcpy(at, &rounded, sizeof(T));
}

[[noreturn]] void no_type(ir::DType dtype) {
  throw Error::fault("a tensor's part", fmt::format("cannot be of type {}", ir::to_text(dtype)));
}

void check_size(std::span<const sbp::Range> ranges, ir::DType dtype, size_t bytes) {
  int64_t elements = 1;
  for (const sbp::Range& range : ranges) elements *= range.size();
  const auto expected = static_cast<size_t>(elements * ir::size_of(dtype));
  if (bytes != expected)
    throw Error::fault("a tensor's part", fmt::format("has {} bytes, expected {}", bytes, expected));
}

}  // namespace

double load_element(ir::DType dtype, const std::byte* at) {
  switch (dtype) {
    case ir::DType::float64:
      return load_as<double>(at);
    case ir::DType::float32:
      return load_as<float>(at);
    case ir::DType::float16:
      return load_as<Eigen::half>(at);
    case ir::DType::bfloat16:
      return load_as<Eigen::bfloat16>(at);
    case ir::DType::int64:
      return load_as<int64_t>(at);
    case ir::DType::int32:
      return load_as<int32_t>(at);
    default:
      no_type(dtype);
  }
}

void store_element(ir::DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case ir::DType::float64:
      return store_as<double>(at, value);
    case ir::DType::float32:
      return store_as<float>(at, value);
    case ir::DType::float16:
      return store_as<Eigen::half>(at, value);
    case ir::DType::bfloat16:
      return store_as<Eigen::bfloat16>(at, value);
    case ir::DType::int64:
      return store_as<int64_t>(at, value);
    case ir::DType::int32:
      return store_as<int32_t>(at, value);
    default:
      no_type(dtype);
  }
}

std::vector<sbp::Range> all_of(const ir::Shape& shape) {
  std::vector<sbp::Range> ranges;
  for (const int64_t extent : shape) ranges.push_back({0, extent});
  return ranges;
}

void for_rows(const ir::Shape& whole, std::span<const sbp::Range> ranges,
              const std::function<void(int64_t whole, int64_t part, int64_t count)>& visit) {
  int64_t rows = 1;
  for (const sbp::Range& range : ranges) rows *= range.size();
  if (rows == 0) return;
  const int64_t count = ranges.empty() ? 1 : ranges.back().size();
  rows /= count;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t flat = 0, stride = 1, rest = row;
    for (size_t axis = whole.size(); axis-- > 0;) {
      int64_t index = ranges[axis].begin;
      if (axis + 1 < whole.size()) {
        index += rest % ranges[axis].size();
        rest /= ranges[axis].size();
      }
      flat += index * stride;
      stride *= whole[axis];
    }
    visit(flat, row * count, count);
  }
}

void take_part(const StoredTensor& whole, std::span<const sbp::Range> ranges, ir::DType to,
               std::span<std::byte> part) {
  check_size(ranges, to, part.size());
  const ir::DType from = whole.type.dtype;
  const int64_t size = ir::size_of(from), to_size = ir::size_of(to);
  for_rows(whole.type.shape, ranges, [&](int64_t w, int64_t p, int64_t count) {
    const std::byte* source = whole.bytes.data() + w * size;
    std::byte* target = part.data() + p * to_size;
    if (from == to) {
      std::memcpy(target, source, static_cast<size_t>(count * size));
    } else {
      for (int64_t i = 0; i < count; ++i)
        store_element(to, target + i * to_size, load_element(from, source + i * size));
    }
  });
}

void put_part(StoredTensor& whole, std::span<const sbp::Range> ranges, std::span<const std::byte> part) {
  check_size(ranges, whole.type.dtype, part.size());
  const int64_t size = ir::size_of(whole.type.dtype);
  for_rows(whole.type.shape, ranges, [&](int64_t w, int64_t p, int64_t count) {
    std::memcpy(whole.bytes.data() + w * size, part.data() + p * size, static_cast<size_t>(count * size));
  });
}

}  // namespace boxcar::backends::host
