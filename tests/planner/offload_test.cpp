// Activations on the host between passes: memory, and the time of copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sim/simulate.h"
#include "small_jobs.h"
#include "support/error_of.h"

namespace boxcar::planner {
namespace {

// A layer leaves about 100 MB, and its forward pass takes about 1 ms.
Job offloading_job(double pcie_bandwidth, bool offloads = true) {
  Job job = small_job(1, 1, 1, 8, 3);
  job.model->hidden = job.model->ffn = 1024, job.model->heads = 8, job.model->seq = 2048;
  job.train.precision = ir::Precision::bf16, job.train.flash = true;
  job.cluster = backends::load_cluster("dgx-a100-80g", 1);
  job.cluster.node.pcie_bandwidth = pcie_bandwidth, job.cluster.node.host_per_op = 0;
  job.parallel.offload_activations = offloads;
  return job;
}

ir::Plan plan_of(const Job& job) { return compile(resolve(job)); }

double step_seconds(const Job& job) { return sim::simulate(plan_of(job), job.cluster).step_seconds; }

// Bytes of a step's copies on a queue.
double copied_bytes(const ir::Plan& plan, const std::string& queue) {
  double bytes = 0;
  const ir::Program& program = plan.programs[0];
  for (size_t a = 0; a < program.actors.size(); ++a)
    if (const ir::Actor& actor = program.actors[a]; at(program.queues, actor.queue).name == queue)
      bytes += static_cast<double>(actor.comm_bytes) * program.acts_per_step(static_cast<int>(a));
  return bytes;
}

TEST(Offload, CopiesThatTakeNoTimeChangeNoTime) {
  const double plain = step_seconds(offloading_job(0, false)), copied = step_seconds(offloading_job(0));
  EXPECT_NEAR(copied, plain, 1e-9 * plain);
}

// A copy that the next layer covers costs nothing. If copies are slower than kernels, both directions are
// in turn all that a step does, apart from the first and last layers.
TEST(Offload, AStepTakesAsLongAsItsKernelsOrItsCopies) {
  const double plain = step_seconds(offloading_job(0, false));
  const ir::Plan plan = plan_of(offloading_job(1e12));
  const double out = copied_bytes(plan, "offload"), in = copied_bytes(plan, "fetch");
  EXPECT_EQ(out, in);
  EXPECT_LT(step_seconds(offloading_job(1e12)), 1.01 * plain);
  const double slow = 1e8, copies = (out + in) / slow, seconds = step_seconds(offloading_job(slow));
  EXPECT_GT(copies, 10 * plain);
  EXPECT_GT(seconds, copies);
  EXPECT_LT(seconds, copies + plain);
}

TEST(Offload, ADeviceHoldsTwoLayers) {
  const auto activations = [](int layers, bool offloads) {
    Job job = offloading_job(0, offloads);
    job.model->layers = layers;
    const MemoryUse use = memory_use(plan_of(job))[0];
    return at(use.by_kind, ir::MemoryKind::activations);
  };
  const int64_t layer = activations(9, false) - activations(8, false);
  EXPECT_EQ(activations(9, true), activations(8, true));
  EXPECT_LT(activations(8, true), 4 * layer);
  const ir::Plan plan = plan_of(offloading_job(0));
  EXPECT_GE(plan.programs[0].host_bytes, 7 * layer * 9 / 10);
}

// Of each parameter, 12 bytes of master weight and moments, 4 of its gradient and 2 of the new weight; and
// the time to read and write them.
TEST(Offload, TheHostHoldsAndUpdatesStates) {
  const auto plan = [](bool offloads) {
    Job job = offloading_job(0, false);
    job.parallel.offload_optimizer = offloads, job.train.clip_norm = 0;
    return plan_of(job);
  };
  const ir::Plan device = plan(false), host = plan(true);
  const double parameters = device.facts.at("parameters");
  EXPECT_NEAR(static_cast<double>(host.programs[0].host_bytes), 18 * parameters, 0.01 * 18 * parameters);
  const int64_t optimizer = at(memory_use(host)[0].by_kind, ir::MemoryKind::optimizer);
  EXPECT_EQ(optimizer, 0);
  EXPECT_LT(memory_use(host)[0].total, memory_use(device)[0].total - static_cast<int64_t>(11 * parameters));
  Job job = offloading_job(0, false);
  job.cluster.node.host_bandwidth = 1e9;  // slow, so that the update is most of the step
  job.parallel.offload_optimizer = true, job.train.clip_norm = 0;
  const double bytes = 4 * parameters * (4 + 3) + 6 * parameters;  // adam, then a cast to 16 bits
  EXPECT_NEAR(step_seconds(job), bytes / 1e9, 0.1 * bytes / 1e9);
  EXPECT_GT(bytes / 1e9, 5 * step_seconds(offloading_job(0, false)));
  job.cluster.node.host_bandwidth = 0;
  EXPECT_EQ(support::error_of([&] { step_seconds(job); }),
            "node.host_bandwidth: it is not known how fast the memory of dgx-a100-80g's hosts is, which "
            "offload_optimizer and servers use (give it)");
}

// All tensors of an update go in one copy, which all of them wait for. This must not be walked through anew
// for each.
TEST(Offload, OneCopyOfManyTensorsIsProvedSoon) {
  Job job = offloading_job(0, false);
  job.model->layers = 48, job.parallel.dp = job.gpus = 2, job.global_batch = 2, job.parallel.zero = 3;
  job.parallel.offload_optimizer = job.parallel.fused_optimizer = true;
  const ir::Plan plan = plan_of(job);
  EXPECT_NO_THROW(verify(plan));
  size_t most = 0;
  for (const ir::Actor& actor : plan.programs[0].actors)
    if (actor.is(ir::OpKind::copy)) most = std::max(most, actor.inputs.size());
  EXPECT_GT(most, 500);
}

// One slot on the host for each micro-batch in flight.
TEST(Offload, TheHostHoldsMicroBatchesInFlight) {
  Job job = offloading_job(0);
  job.parallel.pp = 4, job.gpus = 4, job.global_batch = 8;
  const ir::Plan plan = plan_of(job);
  for (size_t p = 0; p < plan.programs.size(); ++p)
    for (const ir::Register& reg : plan.programs[p].registers)
      EXPECT_TRUE(reg.host_bytes == 0 || reg.count == 4 - static_cast<int>(p)) << reg.name;
}

}  // namespace
}  // namespace boxcar::planner
