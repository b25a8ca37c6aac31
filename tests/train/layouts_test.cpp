// Law 4 under layouts that no hint gives: uneven parts, weights split in two dimensions, random layouts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <random>

#include "law4.h"
#include "models.h"
#include "planner/training_graph.h"
#include "random_pins.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using planner::Hints;
using planner::Job;
using planner::LaidOut;
using planner::Mesh;

constexpr int64_t batch = 12;

ir::Graph graph_of(Job job, int micro_batches) {
  job.parallel.micro_batch = static_cast<int>(batch) / micro_batches;
  return planner::training_graph(planner::resolve(job));
}

planner::ResolvedJob alone_of(Job job, const ir::TrainOptions& options) {
  job.train = options;
  job.train.off = {"fuse_patterns", "fuse_elementwise"};
  return planner::resolve(job);
}

// --- uneven parts: hints on a graph that they do not divide

struct Row {
  const char* name;
  const char* family;
  int micro_batches;
  std::function<void(Job&, Hints&)> change;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

const Row rows[] = {
    {"rows_over_dp5", "gpt", 1, [](Job&, Hints& h) { h.dp = 5; }},
    {"rows_over_dp4_accumulation", "gpt", 2, [](Job&, Hints& h) { h.dp = 4; }},
    {"rows_over_dp5_zero1", "llama", 1, [](Job&, Hints& h) { h.dp = 5, h.zero = 1; }},
    {"rows_over_dp5_zero2", "gpt", 1, [](Job&, Hints& h) { h.dp = 5, h.zero = 2; }},
    {"rows_over_dp5_zero3", "gpt", 2, [](Job&, Hints& h) { h.dp = 5, h.zero = 3; }},
    {"heads_over_tp3", "gpt", 1, [](Job&, Hints& h) { h.tp = 3; }},
    {"ffn_over_tp3", "llama", 1, [](Job& j, Hints& h) { j.model->ffn = 22, h.tp = 3; }},
    {"sequence_over_cp3", "gpt", 1, [](Job&, Hints& h) { h.cp = 3; }},
    {"sequence_over_sp3", "llama", 1, [](Job&, Hints& h) { h.tp = 3, h.sequence_parallel = true; }},
    {"rows_and_heads", "gpt", 1, [](Job&, Hints& h) { h.dp = 5, h.tp = 3; }},
};

LaidOut lay_over(const Row& row, const ir::TrainOptions& options) {
  Job job = transformer(row.family, 0.1, batch);
  job.train = options;
  job.train.micro_batches = row.micro_batches;
  Hints hints = job.parallel;
  row.change(job, hints);
  const ir::Graph graph = graph_of(job, row.micro_batches);
  const Mesh mesh = planner::mesh_of(hints);
  LaidOut laid = planner::lay_out(graph, mesh, planner::pins_of(graph, hints, mesh), row.micro_batches);
  laid.hints = hints;
  return laid;
}

class UnevenLaw4 : public testing::TestWithParam<Row> {};

TEST_P(UnevenLaw4, TrainsAsOneDeviceDoes) {
  const Row& row = GetParam();
  Job alone = transformer(row.family, 0.1, batch);
  Hints unused;
  row.change(alone, unused);
  expect_law_4([&](const ir::TrainOptions& options) { return lay_over(row, options); },
               [&](const ir::TrainOptions& options) { return planner::lay_out(alone_of(alone, options)); },
               transformer_start(alone));
}
INSTANTIATE_TEST_SUITE_P(Plans, UnevenLaw4, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

// --- weights split by rows on one mesh dimension and by columns on the other

TEST(TwoDimensionalLaw4, TrainsAsOneDeviceDoes) {
  const Job gpt = transformer("gpt", 0.1, batch);
  const auto plan = [&](const ir::TrainOptions& options) {
    Job job = gpt;
    job.train = options;
    const ir::Graph graph = graph_of(job, 1);
    const Mesh mesh{{"rows", "tp"}, {2, 2}};
    Hints hints;
    hints.dp = 1;
    planner::Pins pins = planner::pins_of(graph, hints, mesh);
    for (const ir::Update& update : graph.updates) {
      if (graph.tensor(update.state).type.shape.size() != 2) continue;
      for (ir::TensorId t : {update.state, update.next}) {
        sbp::NdSbp& used = *at(pins.used, t);
        if (used[1].is_split()) used[0] = sbp::Sbp::S(1 - used[1].axis);
        at(pins.stored, t)[0] = used[0];
      }
      const ir::Op& op = at(graph.ops, graph.tensor(update.next).producer);
      at(pins.stored, op.inputs[1])[0] = (*at(pins.used, update.state))[0];
    }
    LaidOut laid = planner::lay_out(graph, mesh, pins, 1);
    const auto weight = static_cast<size_t>(ir::find_tensor(graph, "h0.mlp.fc1.weight"));
    EXPECT_EQ(sbp::to_text(laid.layouts.stored[weight]), "(S(0), S(1))");
    return laid;
  };
  expect_law_4(
      plan, [&](const ir::TrainOptions& options) { return planner::lay_out(alone_of(gpt, options)); },
      transformer_start(gpt));
}

// --- random layouts

LaidOut lay_at_random(ir::Graph graph, const Mesh& mesh, int seed, int micro_batches) {
  std::mt19937 random(static_cast<unsigned>(seed));
  planner::Pins pins = random_pins(graph, mesh, random);
  return planner::lay_out(std::move(graph), mesh, std::move(pins), micro_batches);
}

LaidOut lay_alone(ir::Graph graph, int micro_batches) {
  const planner::Pins pins{std::vector<planner::PartialSbp>(graph.tensors.size(), planner::PartialSbp(1)),
                           std::vector<std::optional<sbp::NdSbp>>(graph.tensors.size())};
  return planner::lay_out(std::move(graph), {{"dp"}, {1}}, pins, micro_batches);
}

ir::Graph step_of(const ir::Graph& forward, ir::TrainOptions options, int micro_batches) {
  options.micro_batches = micro_batches;
  return ir::training_step(forward, ir::find_tensor(forward, "loss"), options);
}

const Mesh meshes[] = {{{"x"}, {2}}, {{"x"}, {3}}, {{"x"}, {4}}, {{"x", "y"}, {2, 2}}, {{"x", "y"}, {2, 3}}};

class RandomLaw4 : public testing::TestWithParam<int> {
 protected:
  int seed = GetParam();
  const Mesh& mesh = meshes[static_cast<size_t>(seed) % std::size(meshes)];

  void expect_law_4_of(const ir::Graph& forward, int micro_batches, const Start& start) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_law_4(
        [&](const ir::TrainOptions& options) {
          return lay_at_random(step_of(forward, options, micro_batches), mesh, seed, micro_batches);
        },
        [&](const ir::TrainOptions& options) {
          return lay_alone(step_of(forward, options, micro_batches), micro_batches);
        },
        start);
  }
};

TEST_P(RandomLaw4, AnMlpTrainsAsOnOneDevice) { expect_law_4_of(mlp(7), 1 + seed % 2, graph_start(6)); }
TEST_P(RandomLaw4, AConvolutionNetTrainsAsOnOneDevice) {
  expect_law_4_of(convnet(6), 1 + seed % 2, graph_start(3 * 8 * 6));
}
TEST_P(RandomLaw4, ATransformerTrainsAsOnOneDevice) {
  const Job job = planner::resolve(transformer(seed % 2 == 0 ? "gpt" : "llama", 0.1, 5));
  expect_law_4_of(ir::models::build(job.model, 5), 1, transformer_start(job));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomLaw4, testing::Range(0, 10));
INSTANTIATE_TEST_SUITE_P(LongSeeds, RandomLaw4, testing::Range(10, 60));

}  // namespace
}  // namespace boxcar::tests
