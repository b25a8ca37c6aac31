#include "planner/gradients_first.h"

#include <gtest/gtest.h>

#include "planner/training_graph.h"
#include "planner/verify.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

// Compute acts of the backward pass between the one whose result a collective of tensor parallelism takes and
// the first that reads what it gives.
int acts_beside_collectives(bool overlap_tp, ir::Recompute recompute) {
  Job job = small_job(1, 2, 1, 2, 2);
  job.parallel.overlap_tp = overlap_tp;
  job.train.recompute = recompute;
  const ir::Plan plan = compile(resolve(job));
  verify(plan);
  const ir::Program& p = plan.programs[0];
  const auto reads = [&](const ir::Actor& actor, const std::vector<int>& registers) {
    return std::any_of(actor.inputs.begin(), actor.inputs.end(), [&](const ir::Input& input) {
      return std::find(registers.begin(), registers.end(), input.reg) != registers.end();
    });
  };
  int beside = 0;
  for (const ir::Actor& collective : p.actors) {
    if (collective.kind != ir::ActorKind::collective ||
        p.phases[static_cast<size_t>(collective.phase)] != "B0")
      continue;
    const int producer = p.registers[static_cast<size_t>(collective.inputs[0].reg)].producer;
    for (size_t a = static_cast<size_t>(producer) + 1; a < p.actors.size(); ++a) {
      const ir::Actor& actor = p.actors[a];
      if (actor.queue != p.actors[static_cast<size_t>(producer)].queue || actor.phase != collective.phase)
        continue;
      if (reads(actor, collective.outputs)) break;
      ++beside;
    }
  }
  return beside;
}

TEST(GradientsFirst, nothing_runs_beside_the_collectives_of_the_backward_pass) {
  for (ir::Recompute recompute : {ir::Recompute::none, ir::Recompute::full}) {
    EXPECT_GE(acts_beside_collectives(true, recompute),
              4);  // a product for each of two collectives of two layers
    EXPECT_EQ(acts_beside_collectives(false, recompute), 0);
  }
}

// The same ops on the same operands, each after what it reads.
TEST(GradientsFirst, only_the_order_changes) {
  std::vector<Replica> replicas;
  const ir::Graph graph = training_graph(resolve(small_job(1, 2, 1, 2, 2)), replicas);
  ir::Graph first = graph;
  gradients_first(first);
  for (size_t o = 0; o < first.ops.size(); ++o) {
    for (ir::TensorId t : first.ops[o].outputs) EXPECT_EQ(first.tensor(t).producer, static_cast<ir::OpId>(o));
    for (ir::TensorId t : first.ops[o].inputs) EXPECT_LT(first.tensor(t).producer, static_cast<ir::OpId>(o));
  }
  const auto lines = [](const ir::Graph& g) {
    std::vector<std::string> names;
    for (const ir::Op& op : g.ops) {
      std::string line = op.name;
      for (ir::TensorId t : op.inputs) line += " " + g.tensor(t).name;
      names.push_back(line);
    }
    return names;
  };
  const std::vector<std::string> before = lines(graph), after = lines(first);
  EXPECT_NE(after, before);
  EXPECT_TRUE(std::is_permutation(after.begin(), after.end(), before.begin(), before.end()));
  gradients_first(first);
  EXPECT_EQ(lines(first), after);
}

}  // namespace
}  // namespace boxcar::planner
