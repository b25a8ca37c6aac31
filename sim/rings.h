// Kernels that run in parts, each while the next part is in flight between the ranks of a group.
//
//   in the plan                           in a ring of c ranks
//   gather x, kernel over all of x        c kernels over a part each, beside c - 1 exchanges
//   kernel, reduce and scatter its y      the same, with the parts of y
//
// Both move the same bytes over the same links and compute the same. In a ring the exchanges are exposed as
// far as they take longer than the kernels beside them: over all parts but a rank's own.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/plan.h"

namespace boxcar::sim {

struct KernelRing {
  size_t kernel = 0;              // actor
  std::vector<size_t> exchanges;  // the gathers and reduce-scatters that run beside it
  int comm = -1;                  // of all of these
};

// The rings of a program. of_actor: the ring of an actor, -1: none. An actor is in one ring at most.
struct KernelRings {
  explicit KernelRings(const ir::Program& program) : of_actor(program.actors.size(), -1) {}
  void add(KernelRing ring);

  std::vector<KernelRing> rings;
  std::vector<int> of_actor;
};

// Seconds of a ring's kernels: over a rank's own part, and over all others together.
struct PartSeconds {
  double own = 0, others = 0;
};

// The share of the exchanges' seconds that the kernels over the other parts do not hide. In [0, 1].
double shown_share(double exchanges, double others);

// Whether an actor is this collective of a group, and whether it reads a result of the actor `producer`.
bool is_exchange(const ir::Actor& actor, sbp::Collective collective);
bool reads_from(const ir::Program& program, const ir::Actor& actor, size_t producer);

}  // namespace boxcar::sim
