#include "backends/cpu/broadcast_rows.h"

#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {
namespace {

bool joins(const Axes& axes, size_t outer, int64_t extent, const std::vector<int64_t>& inner) {
  for (size_t i = 0; i < inner.size(); ++i) {
    if (axes.steps[i][outer] != inner[i] * extent) return false;
  }
  return true;
}

}  // namespace

Axes join(const Axes& axes) {
  Axes joined{{}, std::vector<std::vector<int64_t>>(axes.steps.size())};
  for (size_t axis = 0; axis < axes.extents.size(); ++axis) {
    const int64_t extent = axes.extents[axis];
    if (extent == 1) continue;
    std::vector<int64_t> steps;
    for (const auto& own : axes.steps) steps.push_back(own[axis]);
    const bool grows = !joined.extents.empty() && joins(joined, joined.extents.size() - 1, extent, steps);
    if (grows) {
      joined.extents.back() *= extent;
    } else {
      joined.extents.push_back(extent);
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      if (grows) joined.steps[i].pop_back();
      joined.steps[i].push_back(steps[i]);
    }
  }
  if (joined.extents.empty()) {
    joined.extents.push_back(1);
    for (auto& own : joined.steps) own.push_back(1);
  }
  return joined;
}

Inner take_inner(Axes& axes) {
  Inner inner{axes.extents.back(), {}};
  axes.extents.pop_back();
  for (auto& own : axes.steps) {
    inner.steps.push_back(own.back());
    own.pop_back();
  }
  return inner;
}

std::vector<int64_t> stretched_steps(const ir::Shape& own, const ir::Shape& result) {
  const std::vector<int64_t> packed = strides(own);
  std::vector<int64_t> steps(result.size(), 0);
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != 1) steps[result.size() - own.size() + i] = packed[i];
  }
  return steps;
}

BroadcastRows::BroadcastRows(const ir::Shape& result, const std::vector<ir::Shape>& operands) {
  Axes axes{result, {}};
  for (const ir::Shape& operand : operands) axes.steps.push_back(stretched_steps(operand, result));
  outer_ = join(axes);
  Inner inner = take_inner(outer_);
  width_ = inner.extent;
  inner_ = std::move(inner.steps);
}

}  // namespace boxcar::backends::cpu
