#include "planner/checkpoint_bytes.h"

#include "planner/training_graph.h"

namespace boxcar::planner {
int64_t checkpoint_bytes(const ResolvedJob& job) {
  GraphInputs inputs = graph_inputs(job);
  if (inputs.model.transformer()) inputs.model->pad_vocab_to = 1;
  const ir::Graph graph = training_graph(inputs);
  int64_t bytes = 0;
  for (const ir::Op& op : graph.ops)  // a replica of a state on another stage is not written
    if (op.is(ir::OpKind::parameter) && op.replica_of.empty())
      bytes += graph.tensor(op.outputs[0]).type.bytes();
  return bytes;
}

}  // namespace boxcar::planner
