// States that routes along one mesh go through: layouts with the order of their splits spelt out, and counts.
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

// A layout with the order of splits spelt out. Mesh dimensions of extent 1 are B: they hold everything.
struct State {
  NdSbp entry;              // kind, axis and reduction; inner is not used
  std::vector<Dims> order;  // per tensor axis: the mesh dimensions that split it, first to last
  friend bool operator==(const State&, const State&) = default;
};

State state_of(const Shape& shape, const Shape& mesh, const NdSbp& layout);
NdSbp layout_of(const State& state);

// Tensor and mesh extents, and what follows from them alone.
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

  // How many indices of `axis` lie in part k of `dims`, which follow one another in `order`, for each k.
  std::vector<int64_t> part_sizes(int axis, const Dims& order, const Dims& dims) const;

  // The elements that are in the same part before and after `dims` change from splitting one axis to another.
  int64_t staying(int axis, const Dims& order, int axis2, const Dims& order2, const Dims& dims) const;
};

}  // namespace boxcar::sbp
