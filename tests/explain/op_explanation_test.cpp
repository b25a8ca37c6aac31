#include "sim/explain/op_explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/machines/named_constants.h"
#include "ir/op.h"
#include "planner/planner.h"

namespace boxcar::explain {
namespace {

// On dp 2, tp 2.
planner::Job small_job() {
  planner::Job job;
  job.model->layers = 2;
  job.model->hidden = 256;
  job.model->heads = 4;
  job.model->seq = 64;
  job.model->vocab = 512;
  job.cluster = backends::load_cluster("dgx-a100-80g");
  job.parallel.dp = job.parallel.tp = 2;
  job.gpus = 4;
  job.global_batch = 8;
  return planner::resolve(job);
}

// With its constant times the reported factor, the next signature takes less than the chosen one; times the
// factor's root it does not.
TEST(ExplainOp, TellsTheFactorAtWhichTheNextWins) {
  const planner::Job job = small_job();
  const planner::LaidOut laid = planner::lay_out(planner::resolve(job));
  const auto gain = [&](const std::string& op, size_t d, const std::string& constant, double times) {
    backends::Cluster cluster = job.cluster;
    EXPECT_TRUE(backends::scale(cluster, constant, times));
    const DimensionExplanation was = explain_op(laid, job.cluster, op).dimensions[d];
    const auto next = std::find_if(was.signatures.begin(), was.signatures.end(),
                                   [](const SignatureCost& c) { return !c.chosen; });
    double chosen_seconds = 0, next_seconds = 0;
    const OpExplanation changed = explain_op(laid, cluster, op);
    for (const SignatureCost& c : changed.dimensions[d].signatures) {
      if (c.chosen) chosen_seconds = c.kernel + c.boxing;
      if (c.signature == next->signature) next_seconds = c.kernel + c.boxing;
    }
    return chosen_seconds - next_seconds;
  };
  int told = 0;
  for (const ir::Op& op : laid.graph.ops) {
    if (!ir::has_op(op.type)) continue;
    const OpExplanation e = explain_op(laid, job.cluster, op.name);
    for (size_t d = 0; d < e.dimensions.size(); ++d) {
      const DimensionExplanation& dimension = e.dimensions[d];
      if (dimension.constant.empty() || std::abs(std::log(dimension.times)) < 0.05) continue;
      EXPECT_GT(gain(op.name, d, dimension.constant, dimension.times), 0) << op.name;
      EXPECT_LE(gain(op.name, d, dimension.constant, std::sqrt(dimension.times)), 0) << op.name;
      ++told;
    }
  }
  EXPECT_GT(told, 5);
}

// Reports one kernel, a device's part, whichever dimension is asked for.
TEST(ExplainOp, TellsOfOneKernel) {
  const planner::Job job = small_job();
  const planner::LaidOut laid = planner::lay_out(planner::resolve(job));
  const auto kernel = [](const DimensionExplanation& d) {
    return std::find_if(d.signatures.begin(), d.signatures.end(),
                        [](const SignatureCost& c) { return c.chosen; })
        ->kernel;
  };
  for (const ir::Op& op : laid.graph.ops) {
    if (!ir::has_op(op.type)) continue;
    const OpExplanation e = explain_op(laid, job.cluster, op.name);
    ASSERT_EQ(e.dimensions.size(), 2);
    EXPECT_EQ(kernel(e.dimensions[0]), kernel(e.dimensions[1])) << op.name;
  }
}

// The degrees decided here; the time models would choose otherwise.
TEST(ExplainOp, SaysWhereDegreesDecided) {
  const planner::Job job = small_job();
  const planner::LaidOut laid = planner::lay_out(planner::resolve(job));
  const size_t dp = 0;
  std::vector<sbp::Signature> own;
  for (size_t o = 0; o < laid.graph.ops.size(); ++o)
    if (laid.graph.ops[o].name == "h0.mlp.fc1") own = laid.layouts.ops[o].signatures;
  StepWith step;
  step.seconds = [&](size_t, const std::vector<sbp::Signature>& signatures, const backends::Cluster&, bool) {
    return signatures[dp] == own[dp] ? 1.0 : 0.9;
  };
  const DimensionExplanation told = explain_op(laid, job.cluster, "h0.mlp.fc1", step).dimensions[dp];
  EXPECT_TRUE(told.decided.ends_with(
      ", with which the step would take 100 ms less by the time models: degrees decided"))
      << told.decided;
  EXPECT_TRUE(told.would_change.empty());
}

}  // namespace
}  // namespace boxcar::explain
