// Layouts found for small jobs: steps give the single device's results, and blocks cost what one problem
// does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <random>

#include "planner/estimate/layout_request.h"
#include "planner/estimate/layouts.h"
#include "planner/law4.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "planner/small_jobs.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

using planner::Job;
using planner::Mesh;

struct Point {
  const char* name;
  std::function<void(Job&)> change;
};
std::ostream& operator<<(std::ostream& out, const Point& point) { return out << point.name; }

Job small(const Point& point) {
  Job job = planner::small_job(1, 1, 1, 2, 1);
  job.gpus = job.parallel.dp = 0;
  job.global_batch = 0;
  point.change(job);
  planner::Hints& h = job.parallel;
  job.gpus = std::max(h.dp, 1) * h.tp * h.pp * h.cp;
  if (job.global_batch > 1) job.model->dropout = 0;  // otherwise micro-batches differ
  job.global_batch = std::max<int64_t>(job.global_batch, 1) * std::max(h.dp, 1) * h.micro_batch;
  job.cluster = backends::load_cluster("dgx-a100-80g", job.gpus);
  return planner::resolve(job);
}

void llama(Job& j) {
  j.model->family = "llama", j.model->bias = j.model->tied = false, j.model->dropout = 0,
  j.model->kv_heads = 2, j.model->ffn = 24;
}

void t5(Job& j) {
  j.model->family = "t5", j.model->tied = true, j.model->layers = 4, j.model->decoder_layers = 2;
}

const Point points[] = {
    {"tp", [](Job& j) { j.parallel.tp = 4; }},
    {"tp_many_samples", [](Job& j) { j.parallel.tp = 2, j.parallel.micro_batch = 4; }},
    {"dp", [](Job& j) { j.parallel.dp = 4; }},
    {"dp_micro_batches", [](Job& j) { j.parallel.dp = 2, j.global_batch = 3; }},
    {"dp_tp", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2; }},
    {"pp_tp", [](Job& j) { j.parallel.pp = 2, j.parallel.tp = 2, j.global_batch = 2; }},
    {"zero1", [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 1; }},
    {"zero1_tp", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 1; }},
    {"zero2", [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 2, j.global_batch = 2; }},
    {"zero2_tp", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 2; }},
    {"zero3", [](Job& j) { j.parallel.dp = 4, j.parallel.zero = 3; }},
    {"dp_cp_tp", [](Job& j) { j.parallel.dp = 2, j.parallel.cp = 2, j.parallel.tp = 2; }},
    {"ep_tp", [](Job& j) { j.model->experts = 2, j.parallel.dp = j.parallel.ep = 2, j.parallel.tp = 2; }},
    {"ep_cp_tp",
     [](Job& j) {
       j.model->experts = 2, j.parallel.dp = j.parallel.ep = 2, j.parallel.cp = 2, j.parallel.tp = 2;
     }},
    {"ep_dp", [](Job& j) { j.model->experts = 2, j.parallel.dp = 4, j.parallel.ep = 2; }},
    {"zero3_tp", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 3; }},
    {"fp32", [](Job& j) { j.parallel.tp = 2, j.train.precision = ir::Precision::fp32; }},
    {"full_recompute", [](Job& j) { j.parallel.tp = 2, j.train.recompute = ir::Recompute::full; }},
    {"llama", [](Job& j) { llama(j), j.parallel.tp = 2, j.train.flash = true; }},
    {"t5", [](Job& j) { t5(j), j.parallel.tp = 2; }},
    {"llama_pp", [](Job& j) { llama(j), j.parallel.tp = 2, j.parallel.pp = 2; }},
};

class FoundLayoutsOf : public testing::TestWithParam<Point> {};

TEST_P(FoundLayoutsOf, AStepIsTheSingleDevices) {
  const Job job = small(GetParam());
  FoundLayouts found;
  planner::expect_law_4(job, chooser(job, {}, &found));
  EXPECT_TRUE(found.optimal());
  planner::expect_law_4(job, chooser(job, {.partial = false}, nullptr));
}

// No single mesh dimension can improve while the others keep their found layouts.
TEST_P(FoundLayoutsOf, SoIsItWhereEachDimensionWasOpenInTurn) {
  const Job job = small(GetParam());
  const Mesh mesh = planner::mesh_of(job.parallel);
  FoundLayouts one, each;
  planner::lay_out(planner::resolve(job), chooser(job, {}, &one));
  planner::expect_law_4(job, chooser(job, {.open = Open::each}, &each));
  EXPECT_LE(each.value, one.value);
  EXPECT_LE(each.lower, each.value);
  EXPECT_EQ(each.apart, mesh.dims() > 1);
  EXPECT_EQ(one.dimension.has_value(), mesh.dims() > 1);
  for (size_t d = 0; d < mesh.dims(); ++d) {
    SCOPED_TRACE(mesh.names[d]);
    FoundLayouts again;
    planner::lay_out(planner::resolve(job), chooser(job, {.dimension = d, .as = each.layouts}, &again));
    EXPECT_LE(again.value, each.value * (1 + 1e-9));
    EXPECT_GE(again.value, each.value * (1 - 1e-4));
    EXPECT_GE(again.value, each.lower);
  }
}

// A choice of finite cost: the best after only few signatures of each op, including the all-B one, are kept
// and costs are drawn.
std::vector<int> draw_choice(const ir::Graph& graph, const LayoutPart& part, std::mt19937& random) {
  Assignment problem = part.problem;
  for (size_t n = 0; n < part.items.size(); ++n)
    for (size_t c = 0; c < problem.nodes[n].size(); ++c) {
      const bool op = part.items[n].kind == LayoutPart::Item::Kind::op &&
                      at(graph.ops, part.items[n].id).type != "accumulate";
      const double left = 4.0 / static_cast<double>(problem.nodes[n].size());
      const bool goes = op && c > 0 && std::uniform_real_distribution(0.0, 1.0)(random) > left;
      problem.nodes[n][c][kernels] += goes ? infinity : std::uniform_real_distribution(0.0, 1.0)(random);
    }
  const Answer answer = solve(problem, {.weights = {1, 1, 1}});
  EXPECT_TRUE(answer.found);
  return answer.choice;
}

// Random layouts of the space, with every mesh dimension open, or two of three.
TEST_P(FoundLayoutsOf, SoIsItInLayoutsThatAreDrawn) {
  const Job job = small(GetParam());
  const Mesh mesh = planner::mesh_of(job.parallel);
  LayoutCosts costs(job.cluster, mesh);
  for (unsigned seed = 0; seed < (mesh.dims() > 1 ? 1 : 4); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    planner::expect_law_4(job, [&](const ir::Graph& graph, const planner::Hints& hints, const Mesh&) {
      LayoutSpace space;
      space.closed = {mesh.dims() > 2};
      const LayoutGraph layouts(graph, hints, mesh, job.train.micro_batches, space, costs);
      const LayoutPart part = layouts.part(layouts.all_ops());
      std::mt19937 random(seed);
      planner::Layouts drawn = layouts.none();
      layouts.take(part, draw_choice(graph, part, random), drawn);
      return drawn;
    });
  }
}

// As blocks and as one problem: the same optimum. Returns the number of nodes solved as blocks.
int solved_in_blocks(const Job& job) {
  FoundLayouts one;
  const planner::LaidOut laid = planner::lay_out(planner::resolve(job), chooser(job, {}, &one));
  LayoutCosts costs(job.cluster, laid.mesh);
  LayoutSpace space;
  for (size_t d = 0; d < laid.mesh.dims(); ++d) space.closed.push_back(one.dimension.value_or(d) != d);
  const LayoutGraph graph(laid.graph, job.parallel, laid.mesh, job.train.micro_batches, space, costs);
  const FoundLayouts blocks = find_layouts(graph, {.memory = 1e-12});
  const FoundLayouts whole = find_layouts_at_once(graph, {.memory = 1e-12});
  EXPECT_TRUE(blocks.optimal() && whole.optimal());
  EXPECT_NEAR(blocks.value, whole.value, 1e-9 * whole.value);
  EXPECT_NEAR(
      blocks.cost[kernels] + blocks.cost[collectives] + blocks.cost[states] + 1e-12 * blocks.cost[memory],
      blocks.value, 1e-9 * blocks.value);
  return blocks.solved;
}

// Equal layers are solved once: more layers add no nodes. A decoder's are so only where there are many.
TEST_P(FoundLayoutsOf, ManyLayersCostWhatOneProblemSays) {
  std::vector<int> solved;
  for (const int more : {0, 4})
    solved.push_back(solved_in_blocks(small({"", [&](Job& j) {
                                               GetParam().change(j);
                                               const bool decoder = j.model->decoder_layers > 0;
                                               j.model->layers = (decoder ? 22 : 5) + more;
                                               if (decoder)
                                                 j.model->layers += j.model->decoder_layers = 22 + more;
                                             }})));
  EXPECT_EQ(solved[0], solved[1]);
}

TEST(Layouts, OfLayersThatTakeTurnsAreSolvedOnce) {
  std::vector<int> solved;
  for (const int layers : {10, 14})
    solved.push_back(solved_in_blocks(small({"", [&](Job& j) {
                                               j.model->layers = layers, j.model->experts = 2,
                                               j.model->expert_every = 2, j.parallel.tp = 2;
                                             }})));
  EXPECT_EQ(solved[0], solved[1]);
}

// One layer represents all: no better than separate layers, the same cost as the layers that it represents,
// and a valid plan.
TEST(Layouts, OfEqualLayersThatAreAlike) {
  const Job job = small({"", [](Job& j) { j.model->layers = 6, j.parallel.tp = 4; }});
  const Mesh mesh = planner::mesh_of(job.parallel);
  FoundLayouts alike;
  planner::expect_law_4(job, [&](const ir::Graph& graph, const planner::Hints& hints, const Mesh&) {
    LayoutCosts costs(job.cluster, mesh);
    LayoutSpace space;
    space.closed = {false};
    const LayoutGraph layouts(graph, hints, mesh, 1, space, costs);
    const FoundLayouts own = find_layouts(layouts, {});
    alike = find_layouts(layouts, {}, 1);
    EXPECT_FALSE(own.alike);
    EXPECT_GE(alike.value, own.value * (1 - 1e-9));
    EXPECT_LE(alike.value, own.value * 1.2);
    return alike.layouts;
  });
  EXPECT_TRUE(alike.alike);
  EXPECT_TRUE(alike.optimal());
  EXPECT_NEAR(alike.cost[kernels] + alike.cost[collectives] + alike.cost[states], alike.value,
              1e-9 * alike.value);
}

// Both dimensions of a two-dimensional mesh open: a step computes the single device's, and takes less than
// with one open, and, here only slightly, than with one after the other.
TEST(Layouts, LongOfBothDimensionsAreFasterThanOfOne) {
  const Job job = small({"", [](Job& j) {
                           j.model->layers = 1, j.parallel.dp = 2, j.parallel.tp = 2;
                           j.model->hidden = 64, j.model->dropout = 0;
                         }});
  FoundLayouts one, each, both;
  planner::expect_law_4(job, chooser(job, {}, &one));
  planner::lay_out(planner::resolve(job), chooser(job, {.open = Open::each}, &each));
  planner::expect_law_4(job, chooser(job, {.open = Open::both}, &both));
  EXPECT_TRUE(one.optimal() && both.optimal());
  EXPECT_LT(both.value, 0.97 * one.value);
  EXPECT_LE(both.value, each.value * (1 + 1e-9));
  EXPECT_LT(each.value, 1.03 * both.value);
}

INSTANTIATE_TEST_SUITE_P(Jobs, FoundLayoutsOf, testing::ValuesIn(points),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::search
