#include "planner/search/layouts.h"

#include <algorithm>

#include "planner/search/blocks.h"

namespace boxcar::search {
namespace {

using Item = LayoutPart::Item;
using Kind = LayoutPart::Item::Kind;

size_t at(int index) { return static_cast<size_t>(index); }

Cost cost_weights(const LayoutWeights& weights) {
  Cost cost{};
  cost[kernels] = cost[collectives] = 1;
  cost[states] = weights.states;
  cost[memory] = weights.memory;
  return cost;
}

// Layers in a row with equal problems.
struct Run {
  size_t first = 0, count = 0;
};

// A run's tables over what goes in below its first layer and out above its last, one for each joint choice of
// the tensors that all of its layers share; or where that would be too large, one layer that stands for all,
// whose nodes are in the problem itself.
struct Bridge {
  Run run;
  LayoutPart layer;          // of the first
  std::vector<int> in, out;  // its nodes
  std::vector<int> tables;   // none: one stands for all
};

// A layer's tables hold numbers, and are made once for all layers.
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
        chains_({1, 0}, unlimited(), for_layers(effort)) {}

  FoundLayouts run() {
    std::vector<ir::OpId> rest;
    const auto& layers = graph_.layers();
    for (size_t l = 0; l < layers.size();) {
      if (effort_.look) effort_.look();
      const size_t count = equal_layers(l);
      if (count > 2 && bridge({l, count})) {
        l += count;
        continue;
      }
      rest.insert(rest.end(), layers[l].begin(), layers[l].end());
      ++l;
    }
    std::sort(rest.begin(), rest.end());
    return solve_rest(rest);
  }

 private:
  size_t equal_layers(size_t first) const {
    const std::string key = graph_.key(first);
    if (key.empty() || first == 0) return 1;
    size_t count = 1;
    while (first + count < graph_.layers().size() && graph_.key(first + count) == key) ++count;
    return count;
  }

  bool bridge(const Run& run) {
    const auto &below = graph_.between(run.first - 1), &above = graph_.between(run.first);
    Bridge b;
    b.run = run;
    if (below.size() != above.size()) return false;
    for (size_t i = 0; i < below.size(); ++i)
      if (graph_.layouts(below[i]) != graph_.layouts(above[i])) return false;
    b.layer = graph_.part(graph_.layers()[run.first]);
    for (ir::TensorId t : below) b.in.push_back(b.layer.node.at({Kind::kept, t, -1, 0}));
    for (ir::TensorId t : above) b.out.push_back(b.layer.node.at({Kind::kept, t, -1, 0}));
    const auto& common = graph_.common(run.first);
    double joint = 1;
    for (const auto* some : {&below, &above, &common}) joint *= static_cast<double>(joint_choices(*some));
    const Block block = weighed({b.layer.problem, b.in, b.out}, weights_);
    if (!common.empty() && (joint > most_joint_ || !chains_.fits(block))) return false;
    solved_ += static_cast<int>(b.layer.items.size());
    for (int64_t choice = 0; joint <= most_joint_ && choice < joint_choices(common); ++choice) {
      Block given = block;
      int64_t left = choice;
      for (size_t i = common.size(); i-- > 0;) {
        std::vector<Cost>& node = given.problem.nodes[at(b.layer.node.at({Kind::kept, common[i], -1, 0}))];
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

  // The layers that are left, and an edge for each run, between two nodes that have the joint choices.
  FoundLayouts solve_rest(const std::vector<ir::OpId>& rest) {
    LayoutPart part = graph_.part(rest);
    Assignment problem = weighed({part.problem, {}, {}}, weights_).problem;
    std::vector<std::pair<int, int>> ends;  // of each bridge; the first node of one that stands for all
    for (const Bridge& b : bridges_) {
      if (b.tables.empty()) {
        ends.emplace_back(add_for_all(part, problem, b), 0);
        continue;
      }
      std::vector<ir::TensorId> below = graph_.between(b.run.first - 1);
      const auto& common = graph_.common(b.run.first);
      below.insert(below.end(), common.begin(), common.end());
      const int in = add_joint(part, problem, below);
      const int out = add_joint(part, problem, graph_.between(b.run.first + b.run.count - 1));
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
        cross(bridges_[b], answer.choice[at(ends[b].first)], answer.choice[at(ends[b].second)], found);
    return found;
  }

  // One layer of a run, at the cost of all of them, whose tensors below and above are those around the run in
  // one layout. Returns its first node.
  int add_for_all(const LayoutPart& part, Assignment& problem, const Bridge& b) const {
    const auto first = static_cast<int>(problem.nodes.size());
    const auto times = static_cast<double>(b.run.count);
    Assignment layer = weighed({b.layer.problem, b.in, b.out}, weights_).problem;
    for (int node : b.in) std::fill(layer.nodes[at(node)].begin(), layer.nodes[at(node)].end(), Cost{});
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
    const auto &below = graph_.between(b.run.first - 1),
               &above = graph_.between(b.run.first + b.run.count - 1);
    for (size_t i = 0; i < below.size(); ++i) {
      equal(first + b.in[i], first + b.out[i]);
      equal(part.node.at({Kind::kept, below[i], -1, 0}), first + b.in[i]);
      equal(part.node.at({Kind::kept, above[i], -1, 0}), first + b.out[i]);
    }
    return first;
  }

  // A node whose choices are those of several tensors together, the last fastest.
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

  // What the layers of a run chose.
  void cross(const Bridge& b, int in, int out, FoundLayouts& found) const {
    const auto given = static_cast<int>(b.tables.size());
    const int table = b.tables[at(in % given)], row = in / given;
    size_t layer = 0;
    for (const Chains::Copy& copy : chains_.trace(table, row, out, chains_.table(table).at(row, out)[0]))
      take_layer(b, layer++, copy.choice, found);
  }

  // What the layer at a place in a run chose.
  void take_layer(const Bridge& b, size_t place, const std::vector<int>& choice, FoundLayouts& found) const {
    graph_.take(place == 0 ? b.layer : graph_.items(graph_.layers()[b.run.first + place]), choice,
                found.layouts);
    Assignment own = b.layer.problem;
    for (int node : b.in)
      for (Cost& cost : own.nodes[at(node)]) cost = {};
    found.cost = own.space.add(found.cost, cost_of(own, choice));
  }

  const LayoutGraph& graph_;
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

FoundLayouts find_layouts_within(const LayoutGraph& graph, LayoutWeights weights, double bytes,
                                 const Effort& effort) {
  FoundLayouts found = find_layouts(graph, weights, most_joint, effort);
  const double seconds = found.cost[kernels] + found.cost[collectives] + found.cost[states];
  double price = 0.05 * seconds / std::max(1.0, found.cost[memory]);  // all bytes together: of the step
  for (int step = 0; step < 6 && found.found && found.cost[memory] > bytes; ++step, price *= 2) {
    weights.memory = price;
    found = find_layouts(graph, weights, most_joint, effort);
  }
  return found;
}

FoundLayouts find_layouts_at_once(const LayoutGraph& graph, const LayoutWeights& weights) {
  const LayoutPart part = graph.part(graph.all_ops());
  const Answer answer = solve(part.problem, {.weights = cost_weights(weights)});
  FoundLayouts found{
      answer.found, {}, answer.cost, answer.value, answer.lower, static_cast<int>(part.items.size()),
      false,        {}};
  if (!answer.found) return found;
  found.layouts = graph.none();
  graph.take(part, answer.choice, found.layouts);
  return found;
}

}  // namespace boxcar::search
