#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kTile = 32;

template <class T>
void copy_row(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t count) {
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else if (to_step == 1 && from_step == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
  }
}

// Source and destination are each contiguous along one of two axes. Copies through a tile that is read and
// written in whole lines of the cache.
template <class T>
void transpose_plane(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t columns,
                     int64_t rows) {
  T tile[kTile][kTile];
  for (int64_t j = 0; j < columns; j += kTile) {
    for (int64_t i = 0; i < rows; i += kTile) {
      const int64_t wide = std::min(kTile, columns - j), high = std::min(kTile, rows - i);
      for (int64_t k = 0; k < high; ++k) std::copy_n(from + (i + k) * from_step + j, wide, tile[k]);
      for (int64_t l = 0; l < wide; ++l) {
        for (int64_t k = 0; k < high; ++k) to[(j + l) * to_step + i + k] = tile[k][l];
      }
    }
  }
}

template <class T>
void copy_plane(const T* from, T* to, const Inner& column, const Inner& row) {
  if (column.steps[0] == 1 && row.steps[0] > 1 && row.steps[1] == 1)
    return transpose_plane(from, row.steps[0], to, column.steps[1], column.extent, row.extent);
  for (int64_t j = 0; j < column.extent; ++j) {
    copy_row(from + j * column.steps[0], row.steps[0], to + j * column.steps[1], row.steps[1], row.extent);
  }
}

template <class T>
void copy_all(const void* from, void* to, const Axes& outer, const Inner& column, const Inner& row) {
  each_offset(outer, [&](const int64_t* at) {
    copy_plane(static_cast<const T*>(from) + at[0], static_cast<T*>(to) + at[1], column, row);
  });
}

// Puts the axis along which the source is contiguous beside the innermost one.
void pair_up(Axes& axes) {
  const std::vector<int64_t>& from = axes.steps[0];
  const auto unit = std::find(from.begin(), from.end(), 1);
  if (unit == from.end() || unit + 1 >= from.end()) return;
  const auto at = unit - from.begin(), before = static_cast<std::ptrdiff_t>(from.size()) - 2;
  std::swap(axes.extents[static_cast<size_t>(at)], axes.extents[static_cast<size_t>(before)]);
  for (auto& own : axes.steps) std::swap(own[static_cast<size_t>(at)], own[static_cast<size_t>(before)]);
}

}  // namespace

StridedCopy::StridedCopy(const Axes& axes, int64_t element_bytes)
    : outer_(join(axes)), column_{1, {0, 0}}, bytes_(element_bytes) {
  pair_up(outer_);
  row_ = take_inner(outer_);
  if (!outer_.extents.empty()) column_ = take_inner(outer_);
}

void StridedCopy::run(const void* from, void* to) const {
  if (row_.extent == 0 || column_.extent == 0) return;
  switch (bytes_) {
    case 1:
      return copy_all<uint8_t>(from, to, outer_, column_, row_);
    case 2:
      return copy_all<uint16_t>(from, to, outer_, column_, row_);
    case 4:
      return copy_all<uint32_t>(from, to, outer_, column_, row_);
    default:
      return copy_all<uint64_t>(from, to, outer_, column_, row_);
  }
}

}  // namespace boxcar::backends::cpu
