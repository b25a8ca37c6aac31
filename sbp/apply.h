// Carries out a route on plain host arrays. Tests compare it with the identity, and compare backends'
// collectives with it.
//
//   Held held = lay_out({1, 2, 3, 4}, {{4}, {Sbp::P()}, Placement::line(2)}, seed);   // two partials
//   held = apply(box(from, to), from, held);
//   assemble(to, held) == {1, 2, 3, 4}
//
// Every collective touches only data of the members of its groups, as a real one would.
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
// the value on one device and smaller (greater) values on the others. Copies of a partial differ.
Held lay_out(const std::vector<double>& global, const Layout& layout, uint64_t seed);

// Assembles the global tensor. Throws Error (fault) if copies differ or a piece does not match the layout.
std::vector<double> assemble(const Layout& layout, const Held& held);

// Slices of its own block that each device keeps in a step without a collective; none if another device's
// copy is used instead. Elements that no slice writes are the identity of the step's reduction.
std::vector<Slice> kept_slices(const Step& step, const Layout& before);
// Whether results of a step begin with the identity of its reduction: if slices add to it, or if a partial
// layout has elements that no slice writes.
bool begins_with_identity(const Step& step, const Layout& before);

// Throw Error (fault) if a step needs data that no member of its group has.
Held apply(const Step& step, const Layout& before, const Held& held);
Held apply(const Route& route, const Layout& from, Held held);

double identity(Reduction reduction);  // 0, -infinity, infinity
double combine(Reduction reduction, double a, double b);

}  // namespace boxcar::sbp
