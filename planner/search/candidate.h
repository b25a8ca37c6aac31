// A job that could be the answer, with the results of its estimate, its plan and its simulation.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/estimate/graphs.h"
#include "planner/estimate/layout_request.h"
#include "planner/search/dimensions.h"
#include "planner/search/options.h"
#include "planner/search/plan_slots.h"

namespace boxcar::search {

struct Move;

struct Candidate {
  planner::Job job;  // resolved; its gpus and cluster are those that it uses
  double estimated_seconds = 0, estimated_bytes = 0;
  int fullest_stage = 0;      // by its plan if there is one, else by estimate
  double split_saves = 0;     // at most, if backward passes are in two parts (step_estimate.h)
  double least_seconds = 0;   // no such step takes less (lower_bound.h), with the degrees' layouts
  double kernel_seconds = 0;  // the same of only its kernels
  bool tried = false;         // of a point: its plan was simulated, or does not fit, or cannot be made
  double seconds = 0;         // simulated
  std::any record = {};       // of that simulation, from the oracle
  int64_t peak_bytes = 0;     // of the plan, on its fullest device
  std::vector<double> stage_bytes = {};  // the same of each stage; empty: no plan was made
  // The simulated plan, only for the best of a search; others' plans are not kept.
  std::shared_ptr<ir::Plan> plan = nullptr;
  // Set if the layout of every op was chosen; else the hints decide.
  std::optional<LayoutRequest> layouts = {};
  FoundLayouts found = {};
  // If the slots of transfers were chosen: the counts that differ from the schedule's.
  PlanSlots slots = {};
  const Move* move = nullptr;  // the move that proposed it (moves.h); null: it is a point

  // The function that lays out its job's graph. It gives the layouts found, or finds them if they are not
  // known yet.
  planner::Choose choose(FoundLayouts* found = nullptr, const std::function<void()>& look = {}) const;
};

// The plan of a candidate. `found`, which may be null, gets its layouts, if known.
ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found = nullptr);
// The same with a training graph that may be known. `look` is called between steps and inside long ones. An
// exception from it ends the work.
ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found, Graphs& graphs,
                 const std::function<void()>& look = {});

// Seconds that a stage takes on average by found layouts: kernels, and the collectives between them. They
// bound a step from below, but for collectives beside kernels. 0: no layouts were found.
double layout_seconds(const FoundLayouts& found, const planner::Job& job);

// Sets the candidate's peak, its fullest stage and the bytes of each stage, by its plan.
void note_memory(const ir::Plan& plan, Candidate& candidate);

// A copy to be changed and tried, without anything known of its plan.
Candidate anew(Candidate candidate);

// The searched part of a job: jobs with equal keys are the same point.
struct JobKey {
  int gpus = 0;
  std::vector<Value> values;             // of the dimensions except recomputation
  std::vector<ir::Recompute> recompute;  // by layer
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
};
JobKey key_of(const planner::Job& job);

// Dimensions that distinguish plans if only a few of each kind are tried. Slow devices under different stages
// count too, because a pipeline then has room for other plans.
using Degrees = std::vector<Value>;
Degrees degrees_of(const planner::Job& job);

// Whether compiling and simulating it takes only some ms.
bool is_short(const planner::Job& job);

// The price of a step on all of the job's GPUs, in the currency of the cluster's price_per_gpu_hour.
double price_of(const planner::Job& job, double step_seconds);

// The value to minimise: seconds, bytes or a price.
double value_of(Goal goal, const planner::Job& job, double seconds, double bytes);
inline double estimated(Goal goal, const Candidate& c) {
  return value_of(goal, c.job, c.estimated_seconds, c.estimated_bytes);
}
inline double simulated(Goal goal, const Candidate& c) {
  return value_of(goal, c.job, c.seconds, static_cast<double>(c.peak_bytes));
}

}  // namespace boxcar::search
