#include "planner/training_graph.h"

#include <utility>

namespace boxcar::planner {

ir::models::Model padded_model(const Job& job) {
  ir::models::Model model = job.model;
  if (model.transformer() && model->pad_vocab_to > 1)  // 1: the model must not depend on tp
    model->pad_vocab_to *= job.parallel.tp;
  return model;
}

GraphInputs graph_inputs(const ResolvedJob& job) {
  const Hints& h = job->parallel;
  GraphInputs inputs{padded_model(job), int64_t{h.micro_batch} * h.dp, job->train, h.stage_layers,
                     part_places(h)};
  if (inputs.model.transformer()) {  // tables of equal sizes are equal inputs
    const int64_t padded = ir::models::padded_vocab(*inputs.model.transformer());
    inputs.model->pad_vocab_to = padded == inputs.model->vocab ? 1 : padded;
  }
  ir::TrainOptions& options = inputs.options;
  options.whole_products = !options.epilogues || h.tp == 1;
  options.whole_classes = !options.fused_loss || h.tp == 1 || h.gather_logits;
  options.stage_starts = stage_starts(h.stage_layers);
  return inputs;
}

ir::Graph training_graph(const GraphInputs& inputs) {
  ir::Graph forward = ir::models::build(inputs.model, inputs.batch);
  replicate_shared_parameters(forward, inputs.stage_layers, inputs.places);
  const ir::TensorId loss = ir::find_tensor(forward, ir::loss_name);
  ir::Graph graph = ir::training_step(std::move(forward), loss, inputs.options);
  merge_uses(graph, inputs.stage_layers);
  drop_replica_norms(graph);
  return graph;
}

ir::Graph training_graph(const ResolvedJob& job) { return training_graph(graph_inputs(job)); }

}  // namespace boxcar::planner
