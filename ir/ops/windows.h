// Windows of convolutions and pools: how many fit, and when a spatial dimension may be split.
//
//   out_extent({3, 2, 1}, 7) == 4      kernel 3, stride 2, padding 1: windows at -1, 1, 3, 5
//
// A spatial dimension may be split if every part holds exactly the windows of its part of the output, without
// a halo. So there must be no padding, and the parts of the input must begin where the parts of the output
// do. With kernel = stride = 2, 8 rows can be split over 2 devices, 6 cannot (3 rows each, but 2 and 1
// windows).
#pragma once

#include "ir/ops/nn_rows.h"

namespace boxcar::ir {

struct Window {
  int64_t kernel = 1, stride = 1, padding = 0;
};

// 0 for an empty part. REQUIRES: extent + 2 padding >= kernel, or extent == 0.
int64_t out_extent(Window window, int64_t extent);
bool splits_exactly(Window window, int64_t extent, int64_t parts);

// Windows do not overlap: each element is in one at most.
inline bool disjoint(Window window) { return window.stride >= window.kernel; }

// Throws unless the windows are valid on a spatial axis of images.
void check_window(std::string_view op, std::string_view operand, const TensorType& x, Window window,
                  size_t axis, const Attrs& attrs);

// Sets "input_size" for a part of a gradient whose input 0 is split along a spatial axis.
Attrs localize_size(const Attrs& attrs, const sbp::Signature& signature, int64_t parts, int64_t index);

// Adds the same examples of images `x` with channels last.
template <class Example>
void add_channels_last(std::vector<Example>& examples) {
  const size_t count = examples.size();
  for (size_t i = 0; i < count; ++i) {
    Example e = examples[i];
    const Shape s = e.x.shape;
    e.x.shape = {s[0], s[2], s[3], s[1]};
    e.attrs["channels_last"] = true;
    examples.push_back(std::move(e));
  }
}

}  // namespace boxcar::ir
