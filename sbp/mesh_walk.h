// Walks from one state of a mesh to another by collectives along mesh dimensions.
//
//   Walk walk(space, state_of(P(sum)));
//   walk.to(state_of(S(0)))    one reduce_scatter
//
// Every step is legal on its own: splits are added at and removed from the end of their axis's order, so that
// a group always works on one block. The order of the attempts is fixed: local slices, reduce_scatter,
// all_to_all, all_reduce, all_gather, fills. A walk can fail and need not be the cheapest; mesh_route()
// chooses.
#pragma once

#include <utility>

#include "sbp/at.h"
#include "sbp/mesh_route.h"
#include "sbp/mesh_space.h"

namespace boxcar::sbp {

class Walk {
 public:
  Walk(const Space& space, State from) : space_(space), now_(std::move(from)) {}

  bool to(const State& goal);  // false: not reached
  MeshRoute take() && { return std::move(route_); }
  int64_t moved() const { return route_.elements_moved; }

 private:
  Sbp& entry(int d) { return at(now_.entry, d); }
  Dims& order(int axis) { return at(now_.order, axis); }
  int dims() const { return static_cast<int>(now_.entry.size()); }
  int axes() const { return static_cast<int>(now_.order.size()); }

  template <typename Predicate>
  Dims next(const State& goal, int axis, Predicate wanted);
  Dims end(const State& goal, int axis, Sbp wanted);
  bool reducible(int d);
  int64_t copies(const Dims& dims);
  void split(int axis, const Dims& dims);
  void join(int axis, const Dims& dims, Sbp to);
  void emit(MeshStep step, Dims dims, int64_t moved);

  bool slice(const State& goal);
  bool scatter(const State& goal);
  bool scatter(int axis, const Dims& dims);
  bool exchange(const State& goal);
  bool reduce(const State& goal);
  bool gather(const State& goal);
  bool fill(const State& goal);
  bool fill(const State& goal, Sbp target);

  const Space& space_;
  State now_;
  MeshRoute route_;
};

}  // namespace boxcar::sbp
