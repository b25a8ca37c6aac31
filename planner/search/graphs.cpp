#include "planner/search/graphs.h"

#include <algorithm>
#include <utility>

#include "planner/training_graph.h"

namespace boxcar::search {

bool Graphs::Known::is_for(const Known& other) const {
  return batch == other.batch && stages == other.stages && stage_layers == other.stage_layers &&
         model == other.model && options == other.options;
}

const Graphs::Known& Graphs::of(const planner::Job& job) {
  const planner::Hints& h = job.parallel;
  Known wanted{planner::padded_model(job), job.train, int64_t{h.micro_batch} * h.dp, h.pp, h.stage_layers};
  // What it is padded to says nothing more once it is.
  wanted.model.vocab = ir::models::padded_vocab(wanted.model);
  wanted.model.pad_vocab_to = 1;
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.is_for(wanted); });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return known_.front();
  }
  wanted.graph = planner::training_graph(job, wanted.replicas);
  ++made_;
  known_.push_front(std::move(wanted));
  if (known_.size() > most_) known_.pop_back();
  return known_.front();
}

planner::LaidOut Graphs::lay_out(const planner::Job& job, const planner::Choose& choose) {
  const Known& known = of(job);
  planner::LaidOut laid = planner::lay_out(known.graph, job.parallel, job.train.micro_batches, choose);
  laid.replicas = known.replicas;
  return laid;
}

}  // namespace boxcar::search
