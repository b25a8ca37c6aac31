#include "ir/ops/windows.h"

#include <fmt/format.h>

#include <utility>

#include "ir/images.h"

namespace boxcar::ir {

int64_t out_extent(Window window, int64_t extent) {
  if (extent == 0) return 0;
  return (extent + 2 * window.padding - window.kernel) / window.stride + 1;
}

bool splits_exactly(Window window, int64_t extent, int64_t parts) {
  if (window.padding != 0 || extent < window.kernel) return false;
  const int64_t windows = out_extent(window, extent);
  for (int64_t i = 0; i < parts; ++i) {
    const sbp::Range in = sbp::part_range(extent, parts, i), out = sbp::part_range(windows, parts, i);
    if (in.size() != 0 && in.size() < window.kernel) return false;
    if (out_extent(window, in.size()) != out.size()) return false;
    if (out.size() != 0 && in.begin != out.begin * window.stride) return false;
  }
  return true;
}

void check_window(std::string_view op, std::string_view operand, const TensorType& x, Window window,
                  size_t axis, const Attrs& attrs) {
  if (window.kernel < 1) refuse_attr(op, "kernel", attrs, "at least 1");
  if (window.stride < 1) refuse_attr(op, "stride", attrs, "at least 1");
  if (window.padding < 0) refuse_attr(op, "padding", attrs, "at least 0");
  const int64_t extent = x.shape.at(axis);
  if (extent != 0 && extent + 2 * window.padding < window.kernel) {
    refuse(
        op, operand, x,
        fmt::format("axis {} to hold a kernel of {} with padding {}", axis, window.kernel, window.padding));
  }
}

Attrs localize_size(const Attrs& attrs, const sbp::Signature& signature, int64_t parts, int64_t index) {
  const sbp::Sbp dy = signature.inputs[0];
  const ImageAxes axes = image_axes(attrs);
  std::vector<int64_t> size = attr_ints(attrs, "input_size");
  for (const auto& [axis, extent] : {std::pair(axes.height, &size[0]), std::pair(axes.width, &size[1])})
    if (split_at(dy, static_cast<int64_t>(axis))) *extent = sbp::part_range(*extent, parts, index).size();
  return with(attrs, "input_size", size);
}

}  // namespace boxcar::ir
