// Order of the axes of images: x[n, c, h, w], or with the attribute `channels_last` x[n, h, w, c], the order
// that tensor cores read. Weights are [o, c, kh, kw] in both.
//
//   image_axes({{"channels_last", true}})   // {.channel = 3, .height = 1, .width = 2}
#pragma once

#include "ir/types.h"

namespace boxcar::ir {

struct ImageAxes {
  size_t channel = 1, height = 2, width = 3;

  Shape shape(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return channel == 1 ? Shape{n, c, h, w} : Shape{n, h, w, c};
  }
  // The shape with channels first.
  Shape channels_first(const Shape& image) const {
    return {image[0], image[channel], image[height], image[width]};
  }
};

inline ImageAxes image_axes(const Attrs& attrs) {
  return attr_bool(attrs, "channels_last") ? ImageAxes{3, 1, 2} : ImageAxes{};
}
// Channel axis of a normalisation's input, of any rank from 2.
inline size_t channel_axis(const Shape& x, const Attrs& attrs) {
  return attr_bool(attrs, "channels_last") ? x.size() - 1 : 1;
}

}  // namespace boxcar::ir
