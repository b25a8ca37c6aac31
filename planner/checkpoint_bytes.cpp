#include "planner/checkpoint_bytes.h"

#include <algorithm>
#include <vector>

#include "planner/tied.h"
#include "planner/training_graph.h"

namespace boxcar::planner {
namespace {

// A replica of a tied parameter on another stage, or a moment of one.
bool is_replica(const std::string& name, const std::vector<Replica>& replicas) {
  return std::any_of(replicas.begin(), replicas.end(), [&](const Replica& pair) {
    return name == pair.replica || name.starts_with(pair.replica + ".");
  });
}

}  // namespace

int64_t checkpoint_bytes(const ResolvedJob& job) {
  std::vector<Replica> replicas;
  const ir::Graph graph = training_graph(job, replicas);
  int64_t bytes = 0;
  for (const ir::Op& op : graph.ops) {
    if (!op.is(ir::OpKind::parameter)) continue;
    const ir::Tensor& tensor = graph.tensor(op.outputs[0]);
    if (!is_replica(tensor.name, replicas)) bytes += tensor.type.bytes();
  }
  return bytes;
}

}  // namespace boxcar::planner
