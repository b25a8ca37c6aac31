#include "backends/cpu/convert.h"

#include <fmt/format.h>

#include <array>

#include "backends/cpu/kernels.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

template <class T>
void read(const void* from, std::vector<double>& to) {
  const auto* elements = static_cast<const T*>(from);
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(elements[i]);
}

// 16-bit types are rounded from float, since their conversions begin there.
template <class T>
void write(const std::vector<double>& from, void* to) {
  using Between = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>, float, T>;
  auto* elements = static_cast<T*>(to);
  for (size_t i = 0; i < from.size(); ++i) elements[i] = static_cast<T>(static_cast<Between>(from[i]));
}

struct Row {
  ir::DType dtype;
  void (*read)(const void* from, std::vector<double>& to);
  void (*write)(const std::vector<double>& from, void* to);
};

template <class T>
constexpr Row row(ir::DType dtype) {
  return {dtype, read<T>, write<T>};
}

constexpr std::array kRows = {row<double>(ir::DType::float64), row<float>(ir::DType::float32),
                              row<Half>(ir::DType::float16),   row<Bfloat16>(ir::DType::bfloat16),
                              row<int64_t>(ir::DType::int64),  row<int32_t>(ir::DType::int32),
                              row<int8_t>(ir::DType::int8),    row<bool>(ir::DType::boolean)};

const Row* find(ir::DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

const Row& row_of(const ir::TensorType& type) {
  const Row* row = find(type.dtype);
  if (!row) throw Error::fault("cpu", fmt::format("no elements like those of {}", to_text(type)));
  return *row;
}

}  // namespace

HostTensor load(const ir::TensorType& type, const void* bytes) {
  HostTensor tensor = zeros(type);
  row_of(type).read(bytes, tensor.data);
  return tensor;
}

void store(const HostTensor& tensor, void* bytes) { row_of(tensor.type).write(tensor.data, bytes); }

bool is_stored(ir::DType dtype) { return find(dtype) != nullptr; }

}  // namespace boxcar::backends::cpu
