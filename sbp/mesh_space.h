// States on the routes along one mesh: layouts with an explicit order of splits, and counts of elements.
//
//   (S(0,inner), B, S(0)) on mesh 2x3x4:  entry {S(0), B, S(0)}, order {{2, 0}}: dimension 2 splits first
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "sbp/at.h"
#include "sbp/sbp.h"

namespace boxcar::sbp {

using Dims = std::vector<int>;  // mesh dimensions

// A layout with an explicit order of splits. Mesh dimensions of extent 1 are B.
struct State {
  NdSbp entry;              // kind, axis and reduction; inner is not used
  std::vector<Dims> order;  // per tensor axis: the mesh dimensions that split it, first to last
  friend bool operator==(const State&, const State&) = default;
};

State state_of(const Shape& shape, const Shape& mesh, const NdSbp& layout);
NdSbp layout_of(const State& state);

// Tensor and mesh extents, and numbers that follow only from them.
struct Space {
  const Shape& shape;
  const Shape& mesh;

  int64_t extent(int d) const { return at(mesh, d); }
  int64_t size(const Dims& dims) const {
    int64_t product = 1;
    for (const int d : dims) product *= extent(d);
    return product;
  }
  int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }

  // For each k: how many indices of `axis` lie in part k of `dims`, which are consecutive in `order`.
  std::vector<int64_t> part_sizes(int axis, const Dims& order, const Dims& dims) const;

  // The elements that are in the same part before and after `dims` change from splitting one axis to another.
  int64_t staying(int axis, const Dims& order, int axis2, const Dims& order2, const Dims& dims) const;
};

}  // namespace boxcar::sbp
