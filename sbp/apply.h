// Carries out a route on plain host arrays. Tests compare it with the identity, and backends' collectives
// with it.
//
//   Held held = lay_out({1, 2, 3, 4}, {{4}, {Sbp::P()}, Placement::line(2)}, seed);   // two partials
//   held = apply(box(from, to), from, held);
//   assemble(to, held) == {1, 2, 3, 4}
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

// Pieces by device: one under a layout, any number between the two steps of a transfer by roots.
using Held = std::map<int, std::vector<Piece>>;

// Splits a global tensor, row-major. Partials are drawn from `seed`: small integers that sum to the value, or
// one value that counts among smaller (greater) ones; copies of a partial differ.
Held lay_out(const std::vector<double>& global, const Layout& layout, uint64_t seed);

// Puts the global tensor together again. Throws Error (fault) where copies differ or a piece does not match
// the layout.
std::vector<double> assemble(const Layout& layout, const Held& held);

// Slices of its own block that each device keeps in a step without a collective: none where another device's
// copy counts instead. Elements that no slice writes are the identity of the step's reduction.
std::vector<Slice> kept_slices(const Step& step, const Layout& before);
// Whether results of a step begin with the identity of its reduction: where slices add to it, or where a
// partial layout has elements that no slice writes.
bool begins_with_identity(const Step& step, const Layout& before);

// Throw Error (fault) where a step needs data that no member of its group has.
Held apply(const Step& step, const Layout& before, const Held& held);
Held apply(const Route& route, const Layout& from, Held held);

double identity(Reduction reduction);  // 0, -infinity, infinity
double combine(Reduction reduction, double a, double b);

}  // namespace boxcar::sbp
