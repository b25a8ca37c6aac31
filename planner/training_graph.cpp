#include "planner/training_graph.h"

namespace boxcar::planner {

ir::models::Transformer padded_model(const Job& job) {
  ir::models::Transformer model = job.model;
  if (model.pad_vocab_to > 1) model.pad_vocab_to *= job.parallel.tp;  // 1: the model is not to depend on tp
  return model;
}

namespace {

ir::Graph forward_graph(const Job& job) {
  const int64_t batch = int64_t{job.parallel.micro_batch} * job.parallel.dp;
  return ir::models::build(padded_model(job), batch);
}

}  // namespace

ir::Graph training_graph(const Job& job, std::vector<Replica>& replicas) {
  const Hints& h = job.parallel;
  ir::Graph forward = forward_graph(job);
  replicas = replicate_shared_parameters(forward, h.stage_layers, h.pp);
  ir::TrainOptions options = job.train;
  options.whole_products = h.tp == 1;
  options.whole_classes = h.tp == 1 || h.gather_logits;
  options.stage_starts = stage_starts(h.stage_layers);
  for (const Replica& replica : replicas) options.copies[replica.replica] = replica.original;
  const ir::TensorId loss = ir::find_tensor(forward, "loss");
  ir::Graph graph = ir::training_step(std::move(forward), loss, options);
  merge_uses(graph);
  drop_replica_norms(graph, replicas);
  return graph;
}

}  // namespace boxcar::planner
