#include "planner/search/graphs.h"

#include <algorithm>
#include <utility>

#include "planner/training_graph.h"

namespace boxcar::search {

struct Graphs::Known {
  ir::models::Transformer model;  // as it is built
  ir::TrainOptions options;
  int64_t batch = 0;
  int stages = 0;
  std::vector<int> stage_layers;
  std::once_flag once = {};  // what follows is made by whoever is first to ask
  ir::Graph graph = {};
  std::vector<planner::Replica> replicas = {};

  bool is_for(const Known& other) const {
    return batch == other.batch && stages == other.stages && stage_layers == other.stage_layers &&
           model == other.model && options == other.options;
  }
};

std::shared_ptr<Graphs::Known> Graphs::of(const planner::Job& job) {
  const planner::Hints& h = job.parallel;
  const std::shared_ptr<Known> wanted(
      new Known{planner::padded_model(job), job.train, int64_t{h.micro_batch} * h.dp, h.pp, h.stage_layers});
  // What it is padded to says nothing more once it is.
  wanted->model.vocab = ir::models::padded_vocab(wanted->model);
  wanted->model.pad_vocab_to = 1;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k->is_for(*wanted); });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return known_.front();
  }
  ++made_;
  known_.push_front(wanted);
  if (known_.size() > most_) known_.pop_back();
  return wanted;
}

int Graphs::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

planner::LaidOut Graphs::lay_out(const planner::Job& job, const planner::Choose& choose) {
  const std::shared_ptr<Known> known = of(job);
  std::call_once(known->once, [&] {
    known->replicas.clear();
    known->graph = planner::training_graph(job, known->replicas);
  });
  planner::LaidOut laid = planner::lay_out(known->graph, job.parallel, job.train.micro_batches, choose);
  laid.replicas = known->replicas;
  return laid;
}

}  // namespace boxcar::search
