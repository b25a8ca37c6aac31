#include "planner/gradients_first.h"

#include <gtest/gtest.h>

#include <map>

#include "planner/laid_out.h"
#include "planner/training_graph.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

// Backward compute acts between the producer of a tensor-parallel collective's input and the first reader of
// its result.
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
    if (collective.kind != ir::ActorKind::collective || p.phase_of(collective).name != "B0") continue;
    const int producer = at(p.registers, collective.inputs[0].reg).producer;
    for (size_t a = static_cast<size_t>(producer) + 1; a < p.actors.size(); ++a) {
      const ir::Actor& actor = p.actors[a];
      if (actor.queue != at(p.actors, producer).queue || actor.phase != collective.phase) continue;
      if (reads(actor, collective.outputs)) break;
      ++beside;
    }
  }
  return beside;
}

TEST(GradientsFirst, NothingRunsBesideTheCollectivesOfTheBackwardPass) {
  for (ir::Recompute recompute : {ir::Recompute::none, ir::Recompute::full}) {
    EXPECT_GE(acts_beside_collectives(true, recompute),
              4);  // a product for each of two collectives in two layers
    EXPECT_EQ(acts_beside_collectives(false, recompute), 0);
  }
}

ResolvedJob sequence_parallel_job(bool overlap_tp) {
  Job job = small_job(1, 2, 1, 1, 1);
  job.parallel.sequence_parallel = true;
  job.parallel.overlap_tp = overlap_tp;
  return resolve(job);
}

// The acts around the products of fc1 and qkv, in program order; before a gather, the kernel that it waits
// for.
std::string acts_of_products(const ir::Plan& plan) {
  const ir::Program& p = plan.programs[0];
  std::string text;
  for (const ir::Actor& actor : p.actors) {
    const bool gather = actor.name.ends_with(".all_gather.2");
    const bool product = actor.name.ends_with("fc1.grad_x") || actor.name.ends_with("fc1.grad_w") ||
                         actor.name.ends_with("qkv.grad_x") || actor.name.ends_with("qkv.grad_w");
    if (!actor.name.starts_with("h0.") ||
        (!gather && !product && !actor.name.ends_with("grad.reduce_scatter")))
      continue;
    if (gather) {
      const int waits_for = at(p.registers, actor.inputs.back().reg).producer;
      text += at(p.actors, waits_for).name + " > ";
    }
    text += actor.name + "\n";
  }
  return text;
}

// The gather runs beside grad_x, not earlier; the reduce-scatter runs beside grad_w.
TEST(GradientsFirst, SequenceParallelismCommunicatesBesideProducts) {
  const ir::Plan plan = compile(sequence_parallel_job(true));
  verify(plan);
  EXPECT_EQ(acts_of_products(plan),
            "h0.mlp.fc1.bias.grad.sum > h0.ln2.all_gather.2\n"
            "h0.mlp.fc1.grad_x\n"
            "h0.ln2.grad.reduce_scatter\n"
            "h0.mlp.fc1.grad_w\n"
            "h0.attn.qkv.bias.grad.sum > h0.ln1.all_gather.2\n"
            "h0.attn.qkv.grad_x\n"
            "h0.ln1.grad.reduce_scatter\n"
            "h0.attn.qkv.grad_w\n");
}

TEST(GradientsFirst, WithoutOverlapTheGatherWaitsForTheKernelBeforeItsReader) {
  const ir::Plan plan = compile(sequence_parallel_job(false));
  verify(plan);
  EXPECT_EQ(acts_of_products(plan),
            "h0.mlp.fc1.bias.grad.sum > h0.ln2.all_gather.2\n"
            "h0.mlp.fc1.grad_w\n"
            "h0.mlp.fc1.grad_x\n"
            "h0.ln2.grad.reduce_scatter\n"
            "h0.attn.qkv.bias.grad.sum > h0.ln1.all_gather.2\n"
            "h0.attn.qkv.grad_w\n"
            "h0.attn.qkv.grad_x\n"
            "h0.ln1.grad.reduce_scatter\n");
}

// The flag sets the order in time and no layout.
TEST(GradientsFirst, LayoutsDoNotChange) {
  std::vector<Job> jobs(6, small_job(2, 2, 1, 2, 2));
  jobs[1].parallel.sequence_parallel = true;
  jobs[2].parallel.sequence_parallel = true, jobs[2].train.recompute = ir::Recompute::full;
  jobs[3].parallel.sequence_parallel = true, jobs[3].parallel.zero = 3;
  jobs[4].gpus = 8, jobs[4].parallel.cp = 2;
  jobs[5] = small_job(1, 4, 1, 2, 1);  // activations that outweigh parameters
  jobs[5].parallel.sequence_parallel = true, jobs[5].model->seq = 256, jobs[5].train.flash = true;
  for (Job& job : jobs) {
    std::map<std::string, std::pair<std::vector<sbp::NdSbp>, std::vector<sbp::NdSbp>>> layouts[2];
    std::map<std::string, sbp::NdSbp> stored[2];
    for (bool overlap : {false, true}) {
      job.parallel.overlap_tp = overlap;
      const LaidOut laid = lay_out(resolve(job));
      for (size_t o = 0; o < laid.graph.ops.size(); ++o)
        layouts[overlap][laid.graph.ops[o].name] = {laid.layouts.ops[o].inputs, laid.layouts.ops[o].outputs};
      for (size_t t = 0; t < laid.graph.tensors.size(); ++t)
        stored[overlap][laid.graph.tensors[t].name] = laid.layouts.stored[t];
    }
    EXPECT_EQ(layouts[0], layouts[1]);
    EXPECT_EQ(stored[0], stored[1]);
  }
}

// The same ops on the same operands, each after its inputs.
TEST(GradientsFirst, OnlyTheOrderChanges) {
  const ir::Graph graph = training_graph(resolve(small_job(1, 2, 1, 2, 2)));
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
