// Carries out a route on plain host arrays: what tests hold against the identity, and what a backend's
// collectives are held against.
//
//   Held held = lay_out({1, 2, 3, 4}, {{4}, {Sbp::P()}, Placement::line(2)}, seed);   // two arrays that sum
//   to 1..4 held = apply(box(from, to), from, held); assemble(to, held) == {1, 2, 3, 4}
//
// Every collective touches only what the members of its groups hold, as the real one would.
#pragma once

#include <map>
#include <vector>

#include "sbp/boxing.h"

namespace boxcar::sbp {

// A block in global coordinates and its values, row-major.
struct Piece {
  std::vector<Range> at;
  std::vector<double> values;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// What each device holds: one piece under a layout, any number between two steps that transfer by roots.
using Held = std::map<int, std::vector<Piece>>;

// Splits a global tensor, row-major. Partials are drawn from `seed`: small integers that sum to the value, or
// one value that counts among smaller (greater) ones; copies of a partial differ.
Held lay_out(const std::vector<double>& global, const Layout& layout, uint64_t seed);

// The global tensor again. Throws Error (fault) where copies differ, or where a piece is not what the layout
// says.
std::vector<double> assemble(const Layout& layout, const Held& held);

// What the devices keep in a step without collective, of the block that each holds before: nothing where it
// holds a copy that another one counts for. What no slice writes is the identity of the step's reduction.
std::vector<Slice> kept_slices(const Step& step, const Layout& before);
// Whether results of a step begin with the identity of its reduction: where slices add to what is there, or a
// partial layout has elements that none writes.
bool begins_with_identity(const Step& step, const Layout& before);

// Throw Error (fault) where a step needs what no member of its group has.
Held apply(const Step& step, const Layout& before, const Held& held);
Held apply(const Route& route, const Layout& from, Held held);

double identity(Reduction reduction);  // 0, -infinity, infinity
double combine(Reduction reduction, double a, double b);

}  // namespace boxcar::sbp
