// Collectives of a plan that carry slots between tokens and experts.
//
//   moe_dispatch | transpose | all_to_all | products of experts | transpose | all_to_all | moe_combine
//                              to experts                                     back
//   moe_combine_grad | transpose | all_to_all | ... | transpose | all_to_all | moe_dispatch_grad
#pragma once

#include <optional>

#include "ir/plan.h"
#include "sim/models/expert_exchange.h"

namespace boxcar::sim {

struct ExpertExchange {
  bool to_experts = false;  // otherwise back to the tokens
  ExpertChoice choice;
};

// Of a collective of `program`; none if it carries something else.
std::optional<ExpertExchange> expert_exchange(const ir::Program& program, const ir::Actor& actor);

}  // namespace boxcar::sim
