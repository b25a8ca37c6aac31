#include "sim/product_rings.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
#include "planner/planner.h"
#include "sbp/at.h"
#include "sim/models/kernel_time.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

constexpr int ranks = 4;

planner::Job job_of(bool overlaps) {
  planner::Job job;
  job.model = ir::models::default_model("llama");
  job.model->layers = 1, job.model->hidden = 4096, job.model->heads = 32, job.model->seq = 4096,
  job.model->vocab = 32000, job.model->flash = true;
  job.cluster = backends::load_cluster("dgx-h100", ranks);
  job.gpus = ranks, job.global_batch = 2;
  job.train.precision = ir::Precision::bf16;
  job.parallel.tp = ranks, job.parallel.dp = job.parallel.pp = 1, job.parallel.micro_batch = 2;
  job.parallel.sequence_parallel = true, job.parallel.overlap_tp = overlaps;
  return job;
}

// The exchange of each product of a plan that has one.
std::map<std::string, std::string> exchanges_of(const ir::Program& program) {
  KernelRings rings(program);
  add_product_rings(program, rings);
  std::map<std::string, std::string> found;
  for (const KernelRing& ring : rings.rings)
    found[program.actors[ring.kernel].name] = program.actors[ring.exchanges.at(0)].name;
  return found;
}

TEST(ProductRings, AreOfProductsThatWaitForTheirExchangeAlone) {
  const ir::Plan plan = planner::compile(planner::resolve(job_of(true)));
  const auto found = exchanges_of(plan.programs[0]);
  EXPECT_EQ(found.at("h0.attn.qkv"), "h0.ln1.all_gather");
  EXPECT_EQ(found.at("h0.attn.proj"), "h0.attn.proj.reduce_scatter");
  EXPECT_EQ(found.at("h0.mlp.fc1"), "h0.ln2.all_gather");
  EXPECT_EQ(found.at("h0.mlp.fc2"), "h0.mlp.fc2.reduce_scatter");
  // Its reduce-scatter runs beside the gradient of the weight.
  for (const auto& [product, exchange] : found) {
    EXPECT_NE(exchange, "h0.ln2.grad.reduce_scatter") << product;
    EXPECT_EQ(product.find("weight"), std::string::npos) << product;
  }
}

TEST(ProductRings, TakeTheTimeOfTheirChunksAndOfWhatTheseDoNotHide) {
  const planner::ResolvedJob job = planner::resolve(job_of(true));
  const ir::Plan plan = planner::compile(job);
  const ir::Program& program = plan.programs[0];
  backends::Cluster cluster = job->cluster;
  const std::vector<double> alone = act_seconds(plan, cluster, 0);
  cluster.framework->products_in_chunks = true;
  const std::vector<double> chunked = act_seconds(plan, cluster, 0);
  KernelRings rings(program);
  add_product_rings(program, rings);
  ASSERT_GE(rings.rings.size(), 4u);
  for (const KernelRing& ring : rings.rings) {
    const size_t kernel = ring.kernel, exchange = ring.exchanges.at(0);
    EXPECT_GE(chunked[kernel], alone[kernel] * (1 - 1e-9)) << program.actors[kernel].name;
    const bool scatters = program.actors[exchange].collective == sbp::Collective::reduce_scatter;
    ir::TensorType chunk = at(program.registers, program.actors[kernel].outputs.at(0)).type;
    chunk.shape.at(1) /= ranks;
    const double sum = scatters ? chunk_sum_seconds(cluster.device, ranks, chunk) : 0;
    const double others = (chunked[kernel] - sum) * (ranks - 1) / ranks;
    EXPECT_NEAR(chunked[exchange], std::max(0.0, alone[exchange] - others), 1e-6)
        << program.actors[exchange].name;
  }
  for (size_t a = 0; a < alone.size(); ++a) {
    if (rings.of_actor[a] >= 0) continue;
    EXPECT_EQ(chunked[a], alone[a]) << program.actors[a].name;
  }
}

TEST(ProductRings, ChunksAreRowsOfOperandAndResult) {
  const ir::TensorType x{{2, 4096, 512}, ir::DType::bfloat16}, w{{512, 64}, ir::DType::bfloat16},
      y{{2, 4096, 64}, ir::DType::bfloat16}, bias{{64}, ir::DType::bfloat16};
  ir::Types inputs{x, w, y, bias}, outputs{y};
  take_chunk(4, inputs, outputs);
  EXPECT_EQ(inputs[0].shape, (ir::Shape{2, 1024, 512}));
  EXPECT_EQ(inputs[1].shape, w.shape);
  EXPECT_EQ(inputs[2].shape, (ir::Shape{2, 1024, 64}));
  EXPECT_EQ(inputs[3].shape, bias.shape);
  EXPECT_EQ(outputs[0].shape, (ir::Shape{2, 1024, 64}));
}

}  // namespace
}  // namespace boxcar::sim
