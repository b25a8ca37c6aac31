#include "actors/moves.h"

#include "sbp/at.h"

namespace boxcar::actors {

Move part_of(const sbp::Shape& shape, int64_t element_bytes, int64_t axis, int64_t begin, int64_t end) {
  int64_t outer = 1, inner = element_bytes;
  const auto rank = static_cast<int64_t>(shape.size());
  for (int64_t a = 0; a < rank; ++a) {
    if (a < axis) outer *= at(shape, a);
    if (a > axis) inner *= at(shape, a);
  }
  if (axis < 0) return {0, 0, 0, 1, inner, inner};
  return {0, begin * inner, 0, outer, (end - begin) * inner, at(shape, axis) * inner};
}

// The last axis that is not whole is cut into rows of one stride. Every place along the axes before it has a
// move.
std::vector<Move> block_of(const sbp::Shape& shape, int64_t element_bytes,
                           const std::vector<sbp::Range>& block) {
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank + 1, element_bytes);
  for (size_t a = rank; a-- > 0;) strides[a] = strides[a + 1] * shape[a];
  size_t cut = rank;  // axes from here on are whole
  while (cut > 0 && block[cut - 1] == sbp::Range{0, shape[cut - 1]}) --cut;
  if (cut == 0) return {part_of(shape, element_bytes, -1, 0, 0)};
  Move row;
  row.tensor = block[cut - 1].begin * strides[cut];
  row.bytes = block[cut - 1].size() * strides[cut];
  row.stride = strides[cut - 1];
  if (cut >= 2) {
    row.rows = block[cut - 2].size();
    row.tensor += block[cut - 2].begin * strides[cut - 1];
  }
  std::vector<Move> moves;
  const size_t outer = cut >= 2 ? cut - 2 : 0;
  int64_t places = 1;
  for (size_t a = 0; a < outer; ++a) places *= block[a].size();
  for (int64_t place = 0; place < places; ++place) {
    Move move = row;
    int64_t rest = place;
    for (size_t a = outer; a-- > 0;) {
      move.tensor += (block[a].begin + rest % block[a].size()) * strides[a + 1];
      rest /= block[a].size();
    }
    move.buffer = place * row.rows * row.bytes;
    moves.push_back(move);
  }
  return moves;
}

}  // namespace boxcar::actors
