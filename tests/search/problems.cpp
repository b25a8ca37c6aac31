#include "search/problems.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::search {
namespace {

// Adds backward ops of nodes [0, n): one each, with edges reversed, and an edge from the forward op.
void add_backward(Shape& shape) {
  int n = shape.nodes;
  std::vector<std::pair<int, int>> forward = shape.edges;
  auto back = [&](int node) { return 2 * n - 1 - node; };
  for (int node = 0; node < n; ++node) shape.edges.push_back({node, back(node)});
  for (auto [a, b] : forward) shape.edges.push_back({back(b), back(a)});
  shape.nodes = 2 * n;
}

}  // namespace

Shape random_shape(std::mt19937& random, int nodes, int edges) {
  Shape shape{nodes, {}};
  std::uniform_int_distribution<int> any(0, nodes - 1);
  for (int e = 0; nodes > 1 && e < edges; ++e) {
    int a = any(random), b = any(random);
    if (a != b) shape.edges.push_back({a, b});
  }
  return shape;
}

Shape transformer_shape(int layers) {
  Shape shape;
  std::vector<int> weighted;
  int stream = shape.nodes++;
  for (int layer = 0; layer < layers; ++layer) {
    // norm, qkv, attention, projection, add, norm, up, gelu, down, add; a copy node before each norm
    for (bool mlp : {false, true}) {
      int first = shape.nodes;
      int ops = mlp ? 5 : 5;
      for (int op = 0; op < ops; ++op) {
        int node = shape.nodes++;
        shape.edges.push_back({op == 0 ? stream : node - 1, node});
      }
      weighted.push_back(first + 1);
      weighted.push_back(first + 3);
      int sum = first + ops - 1;
      shape.edges.push_back({stream, sum});
      stream = sum;
    }
  }
  int forward = shape.nodes;
  add_backward(shape);
  for (int node : weighted) {  // its gradient and its update
    int gradient = shape.nodes++, update = shape.nodes++;
    shape.edges.push_back({2 * forward - 1 - node, gradient});
    shape.edges.push_back({gradient, update});
    shape.edges.push_back({update, node});
  }
  return shape;
}

Shape conv_shape(int blocks) {
  Shape shape;
  int stream = shape.nodes++;
  for (int block = 0; block < blocks; ++block) {
    int first = shape.nodes;
    for (int op = 0; op < 4; ++op) {
      int node = shape.nodes++;
      shape.edges.push_back({op == 0 ? stream : node - 1, node});
    }
    if (block % 3 == 0) {  // the shortcut has its own convolution
      int shortcut = shape.nodes++;
      shape.edges.push_back({stream, shortcut});
      shape.edges.push_back({shortcut, first + 3});
    } else {
      shape.edges.push_back({stream, first + 3});
    }
    stream = first + 3;
  }
  add_backward(shape);
  return shape;
}

Shape expert_shape(int layers, int experts) {
  Shape shape;
  int stream = shape.nodes++;
  for (int layer = 0; layer < layers; ++layer) {
    int router = shape.nodes++;
    shape.edges.push_back({stream, router});
    std::vector<int> made;
    for (int e = 0; e < experts; ++e) {
      int up = shape.nodes++, down = shape.nodes++;
      shape.edges.push_back({router, up});
      shape.edges.push_back({stream, up});
      shape.edges.push_back({up, down});
      made.push_back(down);
    }
    int sum = shape.nodes++;
    for (int e : made) shape.edges.push_back({e, sum});
    shape.edges.push_back({stream, sum});
    stream = sum;
  }
  add_backward(shape);
  return shape;
}

Shape skip_shape(int depth) {
  Shape shape{2 * depth, {}};
  for (int n = 0; n + 1 < shape.nodes; ++n) shape.edges.push_back({n, n + 1});
  for (int level = 0; level + 1 < depth; ++level) shape.edges.push_back({level, shape.nodes - 1 - level});
  add_backward(shape);
  return shape;
}

Assignment draw(std::mt19937& random, const Shape& shape, const Drawn& drawn,
                const std::vector<int>& choices) {
  std::uniform_int_distribution<int> any(drawn.least_choices, drawn.most_choices), percent(0, 99),
      small(0, 6);
  std::uniform_real_distribution<double> real(0, 10);
  auto cost = [&](bool may_forbid) {
    Cost cost{};
    for (int k = 0; k < drawn.space.size(); ++k) at(cost, k) = drawn.whole ? small(random) : real(random);
    if (may_forbid && percent(random) < drawn.forbidden) cost[0] = infinity;
    return cost;
  };
  Assignment problem;
  problem.space = drawn.space;
  for (int n = 0; n < shape.nodes; ++n) {
    problem.nodes.emplace_back();
    for (int c = choices.empty() ? any(random) : at(choices, n); c > 0; --c)
      problem.nodes.back().push_back(cost(false));
  }
  for (auto [a, b] : shape.edges) {
    problem.edges.push_back({a, b, {}});
    size_t entries = at(problem.nodes, a).size() * at(problem.nodes, b).size();
    for (size_t i = 0; i < entries; ++i) problem.edges.back().costs.push_back(cost(true));
  }
  return problem;
}

}  // namespace boxcar::search
