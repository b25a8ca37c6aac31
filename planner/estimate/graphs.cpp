#include "planner/estimate/graphs.h"

#include <algorithm>
#include <utility>

namespace boxcar::search {

struct Graphs::Known {
  planner::GraphInputs inputs;
  std::once_flag once = {};
  ir::Graph training = {};                            // made once by the first user
  std::shared_ptr<const planner::LaidOut> last = {};  // with deduced layouts; guarded by Graphs::mutex_
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

const ir::Graph& Graphs::training(Known& known) {
  std::call_once(known.once, [&] { known.training = planner::training_graph(known.inputs); });
  return known.training;
}

planner::LaidOut Graphs::lay_out(const planner::ResolvedJob& job, const planner::Choose& choose) {
  const std::shared_ptr<Known> known = of(planner::graph_inputs(job));
  return planner::lay_out(training(*known), job->parallel, job->train.micro_batches, choose);
}

std::shared_ptr<const planner::LaidOut> Graphs::deduced(const planner::ResolvedJob& job) {
  const std::shared_ptr<Known> known = of(planner::graph_inputs(job));
  std::shared_ptr<const planner::LaidOut> last;
  {
    const std::lock_guard lock(mutex_);
    last = known->last;
  }
  const bool same = last && last->pipeline.micro_batches == job->train.micro_batches &&
                    planner::layout_hints(last->hints) == planner::layout_hints(job->parallel);
  if (same) return last;
  last = std::make_shared<planner::LaidOut>(
      planner::lay_out(training(*known), job->parallel, job->train.micro_batches));
  const std::lock_guard lock(mutex_);
  return known->last = last;
}

}  // namespace boxcar::search
