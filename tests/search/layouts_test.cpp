// Layouts of real training graphs: the problem against brute force, and blocks against the whole.
#include "planner/estimate/layouts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "ir/passes/passes.h"
#include "planner/estimate/layout_request.h"
#include "planner/planner.h"
#include "sbp/at.h"
#include "search/problems.h"

namespace boxcar::search {
namespace {

using ir::DType;
using planner::Mesh;

const backends::Cluster& cluster() {
  static const backends::Cluster eight = backends::load_cluster("dgx-a100-80g", 8);
  return eight;
}

// A step of a graph with a loss, in half precision, on one mesh.
struct Step {
  ir::Graph graph;
  Mesh mesh;
  planner::Hints hints = {};
  LayoutSpace space = {};
  LayoutCosts costs{cluster(), mesh};

  LayoutGraph layouts() { return LayoutGraph(graph, hints, mesh, 1, space, costs); }
};

ir::Graph training(ir::Builder& b, ir::TensorId y, int layers = 0) {
  b.op1("reduce_mean", {y}, {{"axes", std::vector<int64_t>{0, 1}}}, "loss");
  ir::Graph forward = b.finish();
  forward.layers = layers;
  const ir::TensorId loss = ir::find_tensor(forward, "loss");
  ir::TrainOptions options;
  options.precision = ir::Precision::fp32;
  options.optimizer = ir::Optimizer::sgd;
  options.clip_norm = 0;
  return ir::training_step(std::move(forward), loss, options);
}

ir::Graph products(int64_t batch, std::vector<int64_t> widths) {
  ir::Builder b("products");
  ir::TensorId x = b.input("x", {{batch, widths[0]}, DType::float32});
  for (size_t i = 1; i < widths.size(); ++i)
    x = b.op1("matmul",
              {x, b.parameter(fmt::format("w{}", i), {{widths[i - 1], widths[i]}, DType::float32})});
  return training(b, x);
}

ir::Graph mlp(int64_t batch, int64_t hidden) {
  ir::Builder b("mlp");
  const ir::TensorId x = b.input("x", {{batch, hidden}, DType::float32});
  const ir::TensorId up = b.op1("matmul", {x, b.parameter("up", {{hidden, 4 * hidden}, DType::float32})});
  const ir::TensorId act = b.op1("gelu", {up});
  const ir::TensorId down =
      b.op1("matmul", {act, b.parameter("down", {{4 * hidden, hidden}, DType::float32})});
  return training(b, b.op1("add", {down, x}));
}

// Cost of a step by definition: all ops have given signatures, and whatever these leave open is minimised.
class ByDefinition {
 public:
  explicit ByDefinition(Step& step) : step_(step), graph_(step.graph), choice_(graph_.ops.size(), nullptr) {
    for (ir::OpId o = 0; o < static_cast<ir::OpId>(graph_.ops.size()); ++o) {
      const ir::Op& op = at(graph_.ops, o);
      if (!ir::has_op(op.type)) continue;
      if (op.phase == ir::Phase::update) {
        updates_.push_back(o);
        continue;
      }
      ops_.push_back(o);
      for (ir::TensorId t : op.inputs) last_[t] = ops_.size() - 1;
      for (ir::TensorId t : op.outputs) last_[t] = ops_.size() - 1;
    }
    for (ir::OpId o : updates_)  // a gradient's place is known once its state's is
      last_[at(graph_.ops, o).inputs[0]] = ops_.size() - 1;
  }

  // Cost with the found signatures.
  double of(const planner::Layouts& layouts) {
    double sum = 0;
    for (size_t n = 0; n < ops_.size(); ++n) {
      for (const OpChoice& choice : choices(n))
        if (choice.layout.signatures == at(layouts.ops, ops_[n]).signatures) at(choice_, ops_[n]) = &choice;
      sum += at(choice_, ops_[n])->seconds + ended(n);
    }
    return sum;
  }

  // The least cost over all signatures if below `bound`; otherwise `bound`.
  double below(double bound) {
    best_ = bound;
    rest_.assign(ops_.size() + 1, 0);
    for (size_t n = ops_.size(); n-- > 0;) {
      double least = infinity;
      for (const OpChoice& choice : choices(n)) least = std::min(least, choice.seconds);
      rest_[n] = rest_[n + 1] + least;
    }
    follow(0, 0);
    return best_;
  }

 private:
  const std::vector<OpChoice>& choices(size_t n) {
    return step_.costs.choices(graph_, at(graph_.ops, ops_[n]));
  }

  void follow(size_t n, double sum) {
    if (sum + rest_[n] >= best_) return;
    if (n == ops_.size()) {
      best_ = sum;
      return;
    }
    for (const OpChoice& choice : choices(n)) {
      at(choice_, ops_[n]) = &choice;
      follow(n + 1, sum + choice.seconds + ended(n));
    }
  }

  // Cost of the tensors whose readers all have their signature once op n has.
  double ended(size_t n) {
    double sum = 0;
    for (const auto& [t, last] : last_)
      if (last == n && sum < infinity) sum += tensor_cost(t);
    return sum;
  }

  double boxed(ir::TensorId t, const sbp::NdSbp& from, const sbp::NdSbp& to) {
    const Boxing boxing = step_.costs.boxing(graph_.tensor(t).type, from, to);
    return boxing.compute + boxing.communication;
  }

  // Every layout without partial entries in which no part is empty.
  std::vector<sbp::NdSbp> whole_layouts(ir::TensorId t) const {
    std::vector<sbp::NdSbp> all{{}};
    const sbp::Shape& shape = graph_.tensor(t).type.shape;
    for (size_t d = 0; d < step_.mesh.dims(); ++d) {
      std::vector<sbp::NdSbp> wider;
      for (sbp::NdSbp layout : all) {
        layout.push_back(sbp::Sbp::B());
        wider.push_back(layout);
        for (size_t a = 0; a < shape.size(); ++a) {
          layout.back() = sbp::Sbp::S(static_cast<int>(a));
          int64_t parts = 1;
          for (size_t e = 0; e <= d; ++e) parts *= layout[e] == layout.back() ? step_.mesh.extents[e] : 1;
          if (shape[a] >= parts) wider.push_back(layout);
        }
      }
      all = std::move(wider);
    }
    return all;
  }

  // By phase: the layouts in which operands are read.
  std::map<ir::Phase, std::vector<sbp::NdSbp>> reads(ir::TensorId t) const {
    std::map<ir::Phase, std::vector<sbp::NdSbp>> all;
    for (ir::OpId o : ops_) {
      const ir::Op& op = at(graph_.ops, o);
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] == t) all[op.phase].push_back(at(choice_, o)->layout.inputs[i]);
    }
    return all;
  }

  // Cost of a phase's readers, from the kept layout and one copy.
  double phase_cost(ir::TensorId t, const sbp::NdSbp& kept, const std::vector<sbp::NdSbp>& wanted) {
    double least = infinity;
    std::vector<sbp::NdSbp> copies = whole_layouts(t);
    copies.push_back(kept);
    for (const sbp::NdSbp& copy : copies) {
      double sum = boxed(t, kept, copy);
      for (const sbp::NdSbp& want : wanted)
        if (want != copy) sum += boxed(t, kept, want);
      least = std::min(least, sum);
    }
    return least;
  }

  double tensor_cost(ir::TensorId t) {
    const auto wanted = reads(t);
    size_t readers = 0;
    for (const auto& [phase, layouts] : wanted) readers += layouts.size();
    const ir::Op& producer = at(graph_.ops, graph_.tensor(t).producer);
    if (producer.type == "parameter") return state_cost(t, wanted);
    std::vector<sbp::NdSbp> kept = whole_layouts(t);
    const sbp::NdSbp* made = nullptr;
    if (ir::has_op(producer.type)) {
      made = &at(at(choice_, graph_.tensor(t).producer)->layout.outputs, graph_.tensor(t).output);
      if (readers < 2) kept.clear();
      kept.push_back(*made);
    }
    double least = infinity;
    for (const sbp::NdSbp& layout : kept) {
      double sum = made ? boxed(t, *made, layout) : 0;
      for (const auto& [phase, layouts] : wanted) sum += phase_cost(t, layout, layouts);
      least = std::min(least, sum);
    }
    return least;
  }

  // Read in its own layout, or as slices where it is whole; its gradient ends there, and it is updated.
  double state_cost(ir::TensorId t, const std::map<ir::Phase, std::vector<sbp::NdSbp>>& wanted) {
    const ir::Op& update = at(graph_.ops, update_of(t));
    const ir::TensorId gradient = update.inputs[1];
    const sbp::NdSbp& made =
        at(at(choice_, graph_.tensor(gradient).producer)->layout.outputs, graph_.tensor(gradient).output);
    double least = infinity;
    for (const sbp::NdSbp& layout : whole_layouts(t)) {
      const ir::TensorType local = step_.costs.local(graph_.tensor(t).type, layout);
      double sum = step_.costs.kernel(update.type, {local, local}, {local});
      const double bytes = std::min(25.0 * 0x1p20, gradient_bytes());
      const Boxing boxing = step_.costs.boxing_in_bucket(graph_.tensor(gradient).type, made, layout, bytes);
      sum += boxing.compute + boxing.communication;
      for (const auto& [phase, layouts] : wanted)
        for (const sbp::NdSbp& want : layouts)
          sum += is_slice(layout, want) ? boxed(t, layout, want) : infinity;
      least = std::min(least, sum);
    }
    return least;
  }

  static bool is_slice(const sbp::NdSbp& from, const sbp::NdSbp& want) {
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] != want[d] && !(from[d].is_broadcast() && want[d].is_split())) return false;
    return true;
  }

  ir::OpId update_of(ir::TensorId t) const {
    for (ir::OpId o : updates_)
      if (at(graph_.ops, o).inputs[0] == t) return o;
    return -1;
  }
  double gradient_bytes() const {
    double bytes = 0;
    for (ir::OpId o : updates_)
      bytes += static_cast<double>(graph_.tensor(at(graph_.ops, o).inputs[1]).type.bytes());
    return bytes;
  }

  Step& step_;
  const ir::Graph& graph_;
  std::vector<ir::OpId> ops_, updates_;
  std::map<ir::TensorId, size_t> last_;  // by tensor: the op of ops_ after which it is settled
  std::vector<const OpChoice*> choice_;  // by op
  std::vector<double> rest_;             // by place in ops_: a lower bound of the kernels from there on
  double best_ = 0;
};

void expect_the_least_of_all(Step step) {
  const LayoutGraph graph = step.layouts();
  const FoundLayouts found = find_layouts_at_once(graph, {});
  ASSERT_TRUE(found.optimal());
  ByDefinition definition(step);
  EXPECT_NEAR(definition.of(found.layouts), found.value, 1e-9 * found.value);
  const double bound = found.value * (1 - 1e-9);
  EXPECT_EQ(definition.below(bound), bound);
}

TEST(Layouts, OfAProductAreTheLeastOfAll) {
  for (const int64_t batch : {8, 512, 65536})
    for (const int64_t wide : {64, 4096}) {
      SCOPED_TRACE(fmt::format("{} x 1024 x {}", batch, wide));
      expect_the_least_of_all({products(batch, {1024, wide}), {{"tp"}, {4}}});
    }
}

TEST(Layouts, OfTwoProductsAreTheLeastOfAll) {
  expect_the_least_of_all({products(65536, {512, 512, 512}), {{"tp"}, {2}}});
  expect_the_least_of_all({products(64, {8192, 8192, 8192}), {{"tp"}, {8}}});
  expect_the_least_of_all({products(4096, {4096, 16384, 4096}), {{"tp"}, {8}}});
}

TEST(Layouts, OfAProductOnAGridAreTheLeastOfAll) {
  expect_the_least_of_all({products(4096, {2048, 4096}), {{"dp", "tp"}, {2, 2}}});
  expect_the_least_of_all({products(64, {1024, 8192}), {{"dp", "tp"}, {2, 4}}});
}

// With a price on bytes: fewer of them, and no layout with as few is faster.
TEST(Layouts, WithinALimitOfMemoryAreTheFastestOfTheirs) {
  Step step{mlp(65536, 2048), {{"tp"}, {8}}};
  const LayoutGraph graph = step.layouts();
  const Assignment problem = graph.part(graph.all_ops()).problem;
  const FoundLayouts fastest = find_layouts(graph, {});
  const double least = solve(problem, {.weights = {0, 0, 0, 1}}).value;
  ASSERT_LT(least, 0.99 * fastest.cost[memory]);
  const double limit = (least + fastest.cost[memory]) / 2;
  const FoundLayouts found = find_layouts_within(graph, {}, limit);
  ASSERT_TRUE(found.found);
  EXPECT_LE(found.cost[memory], limit);
  EXPECT_GT(found.weights.memory, 0);
  const auto seconds = [](const Cost& cost) { return cost[kernels] + cost[collectives] + cost[states]; };
  Objective objective{.weights = {1, 1, 1}};
  objective.limits[memory] = found.cost[memory] * (1 + 1e-12);
  const Answer limited = solve(problem, objective);
  EXPECT_GE(seconds(limited.cost), seconds(found.cost) * (1 - 1e-9));
  EXPECT_GT(seconds(found.cost), seconds(fastest.cost));
}

TEST(Layouts, LongOfAFeedForwardBlockAreTheLeastOfAll) {
  expect_the_least_of_all({mlp(4096, 4096), {{"tp"}, {8}}});
  expect_the_least_of_all({mlp(32, 4096), {{"tp"}, {4}}});
}

// Chains of layers, one product of a square matrix in each.
class Chain {
 public:
  ir::TensorId product(ir::TensorId x) {
    b_.set_layer(layer_, fmt::format("h{}", layer_));
    ++layer_;
    return b_.op1("matmul", {x, b_.parameter("w", {{width, width}, DType::float32})});
  }
  ir::TensorId input() { return b_.input("x", {{64, width}, DType::float32}); }
  ir::TensorId add(ir::TensorId a, ir::TensorId b) { return b_.op1("add", {a, b}); }
  ir::TensorId gelu(ir::TensorId x) { return b_.op1("gelu", {x}); }
  ir::Graph finish(ir::TensorId y) {
    b_.set_layer(layer_, "");
    return training(b_, y, layer_);
  }

 private:
  static constexpr int64_t width = 4096;
  ir::Builder b_{"chain"};
  int layer_ = 0;
};

// Returns the number of nodes solved as blocks.
int expect_blocks_cost_what_one_problem_does(Step step) {
  const LayoutGraph graph = step.layouts();
  const FoundLayouts blocks = find_layouts(graph, {}), whole = find_layouts_at_once(graph, {});
  EXPECT_TRUE(blocks.optimal() && whole.optimal());
  EXPECT_NEAR(blocks.value, whole.value, 1e-9 * whole.value);
  EXPECT_NEAR(blocks.cost[kernels] + blocks.cost[collectives] + blocks.cost[states], blocks.value,
              1e-9 * blocks.value);
  return blocks.solved;
}

TEST(Layouts, OfRunsSideBySide) {
  std::vector<int> solved;
  for (const int layers : {5, 8}) {
    Chain c;
    ir::TensorId x = c.input();
    for (int l = 0; l < layers; ++l) x = c.product(x);
    for (int l = 0; l < layers; ++l) x = c.gelu(c.product(x));
    solved.push_back(expect_blocks_cost_what_one_problem_does({c.finish(x), {{"tp"}, {4}}}));
  }
  EXPECT_EQ(solved[0], solved[1]);
}

// Enough layers that tables for each layout of that tensor pay off.
TEST(Layouts, OfLayersThatReadOneTensor) {
  std::vector<int> solved;
  for (const int layers : {24, 33}) {
    Chain c;
    const ir::TensorId made = c.product(c.input());
    ir::TensorId x = made;
    for (int l = 0; l < layers; ++l) x = c.product(c.add(x, made));
    solved.push_back(expect_blocks_cost_what_one_problem_does({c.finish(x), {{"tp"}, {4}}}));
  }
  EXPECT_EQ(solved[0], solved[1]);
}

// A layer whose table would be too large represents all of its run.
TEST(Layouts, OfLayersWithoutTablesAreAlike) {
  Chain c;
  ir::TensorId x = c.input();
  for (int l = 0; l < 6; ++l) x = c.gelu(c.product(x));
  Step step{c.finish(x), {{"tp"}, {4}}};
  const LayoutGraph graph = step.layouts();
  const FoundLayouts alike = find_layouts(graph, {}, most_joint, {.table = 8});
  const FoundLayouts whole = find_layouts_at_once(graph, {});
  ASSERT_TRUE(alike.found && alike.alike && !find_layouts(graph, {}).alike);
  EXPECT_GE(alike.value, whole.value * (1 - 1e-9));
  EXPECT_NEAR(alike.cost[kernels] + alike.cost[collectives] + alike.cost[states], alike.value,
              1e-9 * alike.value);
}

// Each layer's result goes to the next layer and to a distant one.
TEST(Layouts, OfSkips) {
  Chain c;
  std::vector<ir::TensorId> down{c.product(c.input())};
  for (int l = 0; l < 5; ++l) down.push_back(c.product(down.back()));
  ir::TensorId x = down.back();
  for (; !down.empty(); down.pop_back()) x = c.product(c.add(x, down.back()));
  expect_blocks_cost_what_one_problem_does({c.finish(x), {{"tp"}, {4}}});
}

// Eight groups of a node share its only NIC: each has an eighth of it.
TEST(Layouts, GroupsThatReachOtherNodesShareNics) {
  const backends::Cluster cluster = backends::load_cluster("p3-16xlarge", 16);
  const ir::TensorType type{{64, 1024, 1024}, DType::float32};
  const auto reduce = [&](const Mesh& mesh, const sbp::NdSbp& from) {
    LayoutCosts costs(cluster, mesh);
    return costs.boxing(type, from, sbp::NdSbp(mesh.dims(), sbp::Sbp::B())).communication;
  };
  const Mesh apart{{"dp"}, {2}, {8}};  // one device of each node
  const double alone = reduce(apart, {sbp::Sbp::P()});
  const double together = reduce({{"dp", "tp"}, {2, 8}}, {sbp::Sbp::P(), sbp::Sbp::B()});
  EXPECT_NEAR(together / alone, 8, 0.1);
}

}  // namespace
}  // namespace boxcar::search
