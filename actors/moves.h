// Copies between a tensor and a buffer that holds parts of tensors one after the other.
//
//   [4, 6] of 4 bytes each, part [2, 5) of axis 1, to byte 16 of the buffer:
//     {.tensor = 8, .buffer = 16, .rows = 4, .bytes = 12, .stride = 24}
#pragma once

#include <cstdint>
#include <vector>

#include "backends/device.h"
#include "sbp/sbp.h"

namespace boxcar::actors {

// `rows` pieces of `bytes`, `stride` apart in the tensor, one after the other in the buffer.
struct Move {
  int operand = 0;
  int64_t tensor = 0, buffer = 0;  // byte offsets
  int64_t rows = 1, bytes = 0, stride = 0;
};

inline void pack(backends::Queue& queue, const Move& move, std::byte* buffer, const std::byte* tensor) {
  if (move.rows * move.bytes == 0) return;
  queue.copy(buffer + move.buffer, tensor + move.tensor, {move.rows, move.bytes, move.stride, move.bytes});
}
inline void unpack(backends::Queue& queue, const Move& move, std::byte* tensor, const std::byte* buffer) {
  if (move.rows * move.bytes == 0) return;
  queue.copy(tensor + move.tensor, buffer + move.buffer, {move.rows, move.bytes, move.bytes, move.stride});
}

// `bytes`, rounded up to the alignment of pieces of a device's memory.
constexpr int64_t aligned(int64_t bytes) { return (bytes + 511) / 512 * 512; }

// Part [begin, end) along an axis; a negative axis: the whole tensor.
Move part_of(const sbp::Shape& shape, int64_t element_bytes, int64_t axis, int64_t begin, int64_t end);
// A block of a tensor, row-major in the buffer. One range per axis.
std::vector<Move> block_of(const sbp::Shape& shape, int64_t element_bytes,
                           const std::vector<sbp::Range>& block);

}  // namespace boxcar::actors
