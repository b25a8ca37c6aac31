// Problems for tests and benchmarks of the search, with random costs, and answers by brute force.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/solve/assignment.h"

namespace boxcar::search {

// A graph's nodes and edges, as in the training steps of some models.
struct Shape {
  int nodes = 0;
  std::vector<std::pair<int, int>> edges;
};
Shape random_shape(std::mt19937& random, int nodes, int edges);  // parallel edges too
// A pre-norm transformer: per layer 11 forward ops, 11 backward ops that read the forward outputs, and the
// updates of 4 weights.
Shape transformer_shape(int layers);
Shape conv_shape(int blocks);  // residual blocks of three convolutions with their backward pass
Shape expert_shape(int layers, int experts);  // a router, experts beside one another, their sum
Shape skip_shape(int depth);                  // a U-Net: each level reads the one across

struct Drawn {
  Space space = {};
  int least_choices = 1, most_choices = 4;
  int forbidden = 10;  // percent of edge entries
  bool whole = false;  // small whole numbers, so that there are ties
};
// `choices`: the number per node; drawn if empty.
Assignment draw(std::mt19937& random, const Shape& shape, const Drawn& drawn,
                const std::vector<int>& choices = {});

// Calls see(choice) for every choice of all nodes.
template <typename See>
void for_every_choice(const Assignment& problem, See see) {
  std::vector<int> choice(problem.nodes.size());
  for (const auto& node : problem.nodes) {
    if (node.empty()) return;
  }
  for (;;) {
    see(std::as_const(choice));
    size_t n = 0;
    while (n < choice.size() && ++choice[n] == problem.choices(static_cast<int>(n))) choice[n++] = 0;
    if (n == choice.size()) return;
  }
}

}  // namespace boxcar::search
