#include "sim/rings.h"

#include <algorithm>
#include <utility>

#include "sbp/at.h"

namespace boxcar::sim {

void KernelRings::add(KernelRing ring) {
  const auto index = static_cast<int>(rings.size());
  at(of_actor, ring.kernel) = index;
  for (const size_t exchange : ring.exchanges) at(of_actor, exchange) = index;
  rings.push_back(std::move(ring));
}

double shown_share(double exchanges, double others) {
  return exchanges > 0 ? std::max(0.0, 1 - others / exchanges) : 1;
}

bool is_exchange(const ir::Actor& actor, sbp::Collective collective) {
  return actor.kind == ir::ActorKind::collective && actor.comm >= 0 && actor.collective == collective;
}

bool reads_from(const ir::Program& program, const ir::Actor& actor, size_t producer) {
  return std::any_of(actor.inputs.begin(), actor.inputs.end(), [&](const ir::Input& input) {
    return input.program < 0 && at(program.registers, input.reg).producer == static_cast<int>(producer);
  });
}

}  // namespace boxcar::sim
