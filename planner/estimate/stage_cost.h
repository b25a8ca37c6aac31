// The costs of one stage of a compiled probe (estimate.h), from its program and the times of its acts.
//
//   const Experts experts = experts_in(laid);
//   const auto elsewhere = read_elsewhere(plan);            // by program and register
//   StageCost cost = stage_cost(plan, 0, framework, times, elsewhere[0], experts);
//   note_slower(plan.programs[0], slow_seconds, 1.2, cost);  // acts on devices that are 1.2 times as slow
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"
#include "planner/estimate/estimate.h"
#include "planner/laid_out.h"

namespace boxcar::search {

// By name of an experts' parameter, which is also that of its registers: whether ranks of context parallelism
// each make the gradients of different experts.
using Experts = std::map<std::string, bool>;

Experts experts_in(const planner::LaidOut& laid);

// By program and register: whether other programs read it.
std::vector<std::vector<bool>> read_elsewhere(const ir::Plan& plan);

// By act, in s: on the cluster; if kernels are launched in time; only the launches, on the host; and if
// kernels are launched in time and no other group's traffic shares the NICs, which is the least that an act
// takes.
struct ActTimes {
  std::vector<double> seconds, alone, launches, least;
};

// `read_elsewhere`: of this program.
StageCost stage_cost(const ir::Plan& plan, int program_at, const backends::Framework& framework,
                     const ActTimes& times, const std::vector<bool>& read_elsewhere, const Experts& experts);

// Notes how the cost grows with kernels. `seconds`: times of acts if kernels take `times` as long.
void note_slower(const ir::Program& program, const std::vector<double>& seconds, double times,
                 StageCost& cost);

}  // namespace boxcar::search
