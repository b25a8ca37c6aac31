// Every layout of a small tensor, for tests that check a property of all of them.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "sbp/boxing.h"

namespace boxcar::sbp {

inline Layout layout(Shape shape, const char* sbp, const char* placement) {
  return {std::move(shape), parse_nd_sbp(sbp), parse_placement(placement)};
}

// Each layout once: B, S of each axis in each order of nesting, and P of `reductions`, per mesh dimension.
inline std::vector<NdSbp> all_layouts(size_t rank, size_t mesh_dims,
                                      const std::vector<Reduction>& reductions) {
  std::vector<Sbp> entries{Sbp::B()};
  for (const Reduction reduction : reductions) entries.push_back(Sbp::P(reduction));
  for (size_t axis = 0; axis < rank; ++axis)
    for (size_t inner = 0; inner < mesh_dims; ++inner)
      entries.push_back(Sbp::S(static_cast<int>(axis), static_cast<int>(inner)));
  std::set<NdSbp> layouts{{}};
  for (size_t d = 0; d < mesh_dims; ++d) {
    std::set<NdSbp> longer;
    for (const NdSbp& layout : layouts)
      for (const Sbp entry : entries) {
        longer.insert(layout);
        NdSbp next = layout;
        next.push_back(entry);
        longer.insert(next);
      }
    layouts = std::move(longer);
  }
  std::set<NdSbp> result;
  for (const NdSbp& layout : layouts)
    if (layout.size() == mesh_dims) result.insert(canonical(layout));
  return {result.begin(), result.end()};
}

inline std::vector<double> counting(const Shape& shape) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  std::vector<double> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
  return values;
}

inline std::string to_text(const Route& route) {
  std::string text;
  for (const Step& step : route.steps) {
    if (!text.empty()) text += "; ";
    text += std::string(to_text(step.collective)) + " -> " + to_text(step.result);
  }
  return text;
}

}  // namespace boxcar::sbp
