#include "planner/estimate/layouts.h"

#include <algorithm>
#include <set>

#include "planner/solve/blocks.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

using Item = LayoutPart::Item;
using Kind = LayoutPart::Item::Kind;

Cost cost_weights(const LayoutWeights& weights) {
  Cost cost{};
  cost[kernels] = cost[collectives] = 1;
  cost[states] = weights.states;
  cost[memory] = weights.memory;
  return cost;
}

// Consecutive layers whose problems repeat every `period` layers, in `count` blocks.
struct Run {
  size_t first = 0, period = 1, count = 0;
  size_t layers() const { return period * count; }
  size_t block(size_t place) const { return first + place * period; }  // its first layer
};

// A run's tables over the tensors into its first layer and out of its last, one for each joint choice of the
// tensors that all its layers share. If these would be too large, one layer stands for all, and its nodes are
// in the problem itself.
struct Bridge {
  Run run;
  LayoutPart layer;          // the first block
  std::vector<int> in, out;  // its nodes
  std::vector<int> tables;   // none: one layer stands for all
};

// Only one block of a run is solved, and its tables hold numbers; fronts take several times as much.
Effort for_layers(Effort effort) {
  effort.table *= 4;
  return effort;
}

class Composed {
 public:
  Composed(const LayoutGraph& graph, const LayoutWeights& weights, double most_joint, const Effort& effort)
      : graph_(graph),
        weights_(cost_weights(weights)),
        most_joint_(most_joint),
        effort_(effort),
        chains_({1, 0}, unlimited(), for_layers(effort)) {
    for (size_t l = 0; l < graph.layers().size(); ++l) keys_.push_back(graph.key(l));
  }

  FoundLayouts run() {
    std::vector<ir::OpId> rest;
    const auto& layers = graph_.layers();
    bool below_is_rest = false;  // the tensors into a run have their nodes there
    for (size_t l = 0; l < layers.size();) {
      if (effort_.look) effort_.look();
      const Run run = run_from(l);
      if (below_is_rest && run.count > 2 && bridge(run)) {
        l += run.layers();
        below_is_rest = false;
        continue;
      }
      below_is_rest = true;
      rest.insert(rest.end(), layers[l].begin(), layers[l].end());
      ++l;
    }
    std::sort(rest.begin(), rest.end());
    return solve_rest(rest);
  }

 private:
  // The shortest period with which a block occurs more than twice.
  Run run_from(size_t first) const {
    const size_t layers = graph_.layers().size();
    for (size_t period = 1; period <= longest_period; ++period) {
      Run run{first, period, 1};
      const auto repeats = [&](size_t layer) {
        return layer + period < layers && !keys_[layer].empty() && keys_[layer] == keys_[layer + period];
      };
      for (size_t equal = 0; repeats(first + equal); ++equal) run.count = 1 + (equal + 1) / period;
      if (run.count > 2) return run;
    }
    return {first, 1, 1};
  }

  std::vector<ir::OpId> ops_of(const Run& run, size_t place) const {
    std::vector<ir::OpId> ops;
    for (size_t l = run.block(place); l < run.block(place + 1); ++l)
      ops.insert(ops.end(), graph_.layers()[l].begin(), graph_.layers()[l].end());
    std::sort(ops.begin(), ops.end());
    return ops;
  }

  // Tensors that a block has in common with layers that are not neighbours.
  std::vector<ir::TensorId> common(const Run& run) const {
    std::set<ir::TensorId> all;
    for (size_t l = run.first; l < run.block(1); ++l)
      all.insert(graph_.common(l).begin(), graph_.common(l).end());
    return {all.begin(), all.end()};
  }

  const std::vector<ir::TensorId>& below(const Run& run) const { return graph_.between(run.first - 1); }
  const std::vector<ir::TensorId>& above(const Run& run, size_t place) const {
    return graph_.between(run.block(place + 1) - 1);
  }

  bool bridge(const Run& run) {
    const auto &below = this->below(run), &above = this->above(run, 0);
    Bridge b;
    b.run = run;
    if (below.size() != above.size()) return false;
    for (size_t i = 0; i < below.size(); ++i)
      if (graph_.layouts(below[i]) != graph_.layouts(above[i])) return false;
    b.layer = graph_.part(ops_of(run, 0));
    for (ir::TensorId t : below) b.in.push_back(b.layer.node.at({Kind::kept, t, -1, 0}));
    for (ir::TensorId t : above) b.out.push_back(b.layer.node.at({Kind::kept, t, -1, 0}));
    const std::vector<ir::TensorId> common = this->common(run);
    double joint = 1;
    for (const auto* some : {&below, &above, &common}) joint *= static_cast<double>(joint_choices(*some));
    const Block block = weighed({b.layer.problem, b.in, b.out}, weights_);
    const bool small = joint <= most_joint_, tables = small && chains_.fits(block);
    const bool worth = tables && static_cast<int64_t>(run.count) >= blocks_per_table * joint_choices(common);
    if (!common.empty() && small && !worth) return false;
    solved_ += static_cast<int>(b.layer.items.size());
    for (int64_t choice = 0; tables && choice < joint_choices(common); ++choice) {
      Block given = block;
      int64_t left = choice;
      for (size_t i = common.size(); i-- > 0;) {
        std::vector<Cost>& node = at(given.problem.nodes, b.layer.node.at({Kind::kept, common[i], -1, 0}));
        for (size_t c = 0; c < node.size(); ++c)
          if (c != static_cast<size_t>(left) % node.size()) node[c][0] = infinity;
        left /= std::ssize(node);
      }
      b.tables.push_back(chains_.power(chains_.add(given), static_cast<int>(run.count)));
    }
    bridges_.push_back(std::move(b));
    return true;
  }

  int64_t joint_choices(const std::vector<ir::TensorId>& tensors) const {
    int64_t count = 1;
    for (ir::TensorId t : tensors) count *= std::ssize(graph_.layouts(t));
    return count;
  }

  // Solves the remaining layers, with an edge for each run between two nodes that have the joint choices.
  FoundLayouts solve_rest(const std::vector<ir::OpId>& rest) {
    LayoutPart part = graph_.part(rest);
    Assignment problem = weighed({part.problem, {}, {}}, weights_).problem;
    std::vector<std::pair<int, int>> ends;  // of each bridge; if one layer stands for all, its first node
    for (const Bridge& b : bridges_) {
      if (b.tables.empty()) {
        ends.emplace_back(add_for_all(part, problem, b), 0);
        continue;
      }
      std::vector<ir::TensorId> below = this->below(b.run);
      for (ir::TensorId t : common(b.run)) below.push_back(t);
      const int in = add_joint(part, problem, below);
      const int out = add_joint(part, problem, above(b.run, b.run.count - 1));
      Assignment::Edge edge{in, out, {}};
      for (int row = 0; row < chains_.table(b.tables[0]).rows; ++row)
        for (int number : b.tables)
          for (int column = 0; column < chains_.table(number).columns; ++column) {
            const Front& front = chains_.table(number).at(row, column);
            edge.costs.push_back({front.empty() ? infinity : front[0][0]});
          }
      problem.edges.push_back(std::move(edge));
      ends.emplace_back(in, out);
    }
    solved_ += static_cast<int>(problem.nodes.size());
    const Answer answer = solve(problem, {}, effort_);
    FoundLayouts found;
    found.found = answer.found;
    found.value = answer.value;
    found.lower = answer.lower;
    found.solved = solved_;
    if (!answer.found) return found;
    found.layouts = graph_.none();
    std::vector<int> choice(answer.choice.begin(),
                            answer.choice.begin() + static_cast<std::ptrdiff_t>(part.items.size()));
    graph_.take(part, choice, found.layouts);
    found.cost = cost_of(part.problem, choice);
    for (size_t b = 0; b < bridges_.size(); ++b) {
      if (!bridges_[b].tables.empty()) continue;
      found.alike = true;
      const auto first = answer.choice.begin() + ends[b].first;
      const std::vector<int> own(first, first + static_cast<std::ptrdiff_t>(bridges_[b].layer.items.size()));
      for (size_t l = 0; l < bridges_[b].run.count; ++l) take_layer(bridges_[b], l, own, found);
    }
    for (size_t b = 0; b < bridges_.size(); ++b)
      if (!bridges_[b].tables.empty())
        cross(bridges_[b], at(answer.choice, ends[b].first), at(answer.choice, ends[b].second), found);
    return found;
  }

  // Adds one layer of a run at the cost of all of them. Its tensors below and above are those around the run,
  // with equal layouts. Returns its first node.
  int add_for_all(const LayoutPart& part, Assignment& problem, const Bridge& b) const {
    const auto first = static_cast<int>(problem.nodes.size());
    const auto times = static_cast<double>(b.run.count);
    Assignment layer = weighed({b.layer.problem, b.in, b.out}, weights_).problem;
    for (int node : b.in) std::fill(at(layer.nodes, node).begin(), at(layer.nodes, node).end(), Cost{});
    for (std::vector<Cost>& node : layer.nodes) {
      for (Cost& cost : node) cost[0] *= times;
      problem.nodes.push_back(std::move(node));
    }
    for (Assignment::Edge& edge : layer.edges) {
      for (Cost& cost : edge.costs) cost[0] *= times;
      problem.edges.push_back({first + edge.a, first + edge.b, std::move(edge.costs)});
    }
    const auto equal = [&](int one, int other) {
      Assignment::Edge edge{one, other, {}};
      const int choices = problem.choices(one);
      for (int a = 0; a < choices; ++a)
        for (int c = 0; c < choices; ++c) edge.costs.push_back({a == c ? 0 : infinity});
      problem.edges.push_back(std::move(edge));
    };
    const auto &below = this->below(b.run), &above = this->above(b.run, b.run.count - 1);
    for (size_t i = 0; i < below.size(); ++i) {
      equal(first + b.in[i], first + b.out[i]);
      equal(part.node.at({Kind::kept, below[i], -1, 0}), first + b.in[i]);
      equal(part.node.at({Kind::kept, above[i], -1, 0}), first + b.out[i]);
    }
    for (ir::TensorId t : common(b.run))
      equal(part.node.at({Kind::kept, t, -1, 0}), first + b.layer.node.at({Kind::kept, t, -1, 0}));
    return first;
  }

  // Adds a node whose choices are the joint choices of several tensors, the last fastest.
  int add_joint(const LayoutPart& part, Assignment& problem, const std::vector<ir::TensorId>& tensors) const {
    const int64_t count = joint_choices(tensors);
    const int node = static_cast<int>(problem.nodes.size());
    problem.nodes.emplace_back(static_cast<size_t>(count));
    int64_t stride = count;
    for (ir::TensorId t : tensors) {
      const auto own = static_cast<int64_t>(graph_.layouts(t).size());
      stride /= own;
      Assignment::Edge edge{part.node.at({Kind::kept, t, -1, 0}), node, {}};
      for (int64_t c = 0; c < own; ++c)
        for (int64_t joint = 0; joint < count; ++joint) {
          Cost cost{};
          cost[0] = joint / stride % own == c ? 0 : infinity;
          edge.costs.push_back(cost);
        }
      problem.edges.push_back(std::move(edge));
    }
    return node;
  }

  // Takes the choices of all blocks of a run.
  void cross(const Bridge& b, int in, int out, FoundLayouts& found) const {
    const auto given = static_cast<int>(b.tables.size());
    const int table = at(b.tables, in % given), row = in / given;
    size_t layer = 0;
    for (const Chains::Copy& copy : chains_.trace(table, row, out, chains_.table(table).at(row, out)[0]))
      take_layer(b, layer++, copy.choice, found);
  }

  // Takes the choice of the block at a place in a run.
  void take_layer(const Bridge& b, size_t place, const std::vector<int>& choice, FoundLayouts& found) const {
    graph_.take(place == 0 ? b.layer : graph_.items(ops_of(b.run, place)), choice, found.layouts);
    Assignment own = b.layer.problem;
    for (int node : b.in)
      for (Cost& cost : at(own.nodes, node)) cost = {};
    found.cost = own.space.add(found.cost, cost_of(own, choice));
  }

  static constexpr size_t longest_period = 4;
  static constexpr int64_t blocks_per_table = 4;  // solved at once in the time of one block's table

  const LayoutGraph& graph_;
  std::vector<std::string> keys_;  // by layer
  Cost weights_;
  double most_joint_;
  const Effort& effort_;
  Chains chains_;
  std::vector<Bridge> bridges_;
  int solved_ = 0;
};

}  // namespace

FoundLayouts find_layouts(const LayoutGraph& graph, const LayoutWeights& weights, double joint,
                          const Effort& effort) {
  FoundLayouts found = Composed(graph, weights, joint, effort).run();
  found.weights = weights;
  return found;
}

double next_price(const FoundLayouts& found) {
  if (found.weights.memory > 0) return 2 * found.weights.memory;
  const double seconds = found.cost[kernels] + found.cost[collectives] + found.cost[states];
  return 0.05 * seconds / std::max(1.0, found.cost[memory]);
}

FoundLayouts find_layouts_within(const LayoutGraph& graph, LayoutWeights weights, double bytes,
                                 const Effort& effort) {
  FoundLayouts found = find_layouts(graph, weights, most_joint, effort);
  for (int step = 0; step < 6 && found.found && found.cost[memory] > bytes; ++step) {
    weights.memory = next_price(found);
    found = find_layouts(graph, weights, most_joint, effort);
  }
  return found;
}

FoundLayouts find_layouts_at_once(const LayoutGraph& graph, const LayoutWeights& weights) {
  const LayoutPart part = graph.part(graph.all_ops());
  const Answer answer = solve(part.problem, {.weights = cost_weights(weights)});
  FoundLayouts found{answer.found, {},
                     answer.cost,  answer.value,
                     answer.lower, static_cast<int>(part.items.size()),
                     false,        {},
                     false,        {}};
  if (!answer.found) return found;
  found.layouts = graph.none();
  graph.take(part, answer.choice, found.layouts);
  return found;
}

}  // namespace boxcar::search
