// The oracle of the search's tests: the simulator itself.
#pragma once

#include "planner/search/search.h"
#include "sim/simulate.h"

namespace boxcar::search {

inline Oracle oracle() {
  return {sim::act_seconds,
          [](const ir::Plan& plan, const backends::Cluster& cluster, const std::function<void()>& look)
              -> Oracle::Step { return {sim::simulate(plan, cluster, {.look = look}).step_seconds}; }};
}

}  // namespace boxcar::search
