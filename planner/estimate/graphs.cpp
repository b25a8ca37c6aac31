#include "planner/estimate/graphs.h"

#include <algorithm>
#include <utility>

namespace boxcar::search {

struct Graphs::Known {
  planner::GraphInputs inputs;
  std::once_flag once = {};  // the first user makes the members below
  ir::Graph training = {};
};

std::shared_ptr<Graphs::Known> Graphs::of(planner::GraphInputs inputs) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k->inputs == inputs; });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return known_.front();
  }
  ++made_;
  known_.push_front(std::shared_ptr<Known>(new Known{std::move(inputs)}));
  if (known_.size() > most_) known_.pop_back();
  return known_.front();
}

int Graphs::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

planner::LaidOut Graphs::lay_out(const planner::ResolvedJob& job, const planner::Choose& choose) {
  const std::shared_ptr<Known> known = of(planner::graph_inputs(job));
  std::call_once(known->once, [&] { known->training = planner::training_graph(known->inputs); });
  return planner::lay_out(known->training, job->parallel, job->train.micro_batches, choose);
}

}  // namespace boxcar::search
