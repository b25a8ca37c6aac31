// The functions that arise when the nodes of a problem are eliminated one by one, as tables of numbers.
//
//   nodes a {0, 5}, b {0, 1}; edge {{9, 2}, {0, 1}}; a goes first: f(b) = min over a of a + edge = {5, 2}
//   then b: min over b of b + f(b) = {0 + 5, 1 + 2} = 3: the least value
//
// A node's bucket holds all functions that have it and whose other nodes come later. Their sum, minimised
// over the node, is a function of those others. If its table would be too large, the bucket is cut into
// parts, each minimised by itself. The sum of the parts' minima is a lower bound (mini-buckets: Dechter and
// Rish 2003). Before that, costs of only the node are shifted between the parts so that all agree on the
// least cost of each choice. This keeps the sum and raises the bound.
#pragma once

#include <vector>

#include "planner/solve/assignment.h"
#include "planner/solve/order.h"

namespace boxcar::search {

class Tables {
 public:
  // `problem` has at most one edge for each pair of nodes. It and `order` outlive the tables. The value is
  // weights x cost over coordinates that add up.
  Tables(const Assignment& problem, const Order& order, const Cost& weights, const Effort& effort);

  // A lower bound of the value without functions only of kept nodes; the least value if nothing was cut.
  double root() const { return root_; }
  // A lower bound of the value with these choices of kept nodes.
  double given(const std::vector<int>& choice) const;
  // The choices of all other nodes that attain the bound, if nothing was cut.
  void trace(std::vector<int>& choice) const;
  bool cut() const { return cut_; }

  // By choice of the node at `position`, given choices of all later ones: how much it raises the lower bound.
  // `choice` is by node.
  void lifts(int position, const std::vector<int>& choice, std::vector<double>& out) const;

 private:
  struct Function {
    std::vector<int> scope;      // nodes, by position
    std::vector<size_t> stride;  // of each; the first is 1
    std::vector<double> values;
    bool forbids = false;  // some value is infinite
    size_t index(const std::vector<int>& choice) const;
    size_t stride_of(int node) const;
  };
  struct Bucket {
    std::vector<int> holds, gives;  // functions
    double constant = 0;            // its value if no node is left
  };

  void add(Function function);
  Function filled(std::vector<int> scope, double value) const;
  void eliminate(int position);
  std::vector<std::vector<int>> parts(const Bucket& bucket, int node) const;
  std::vector<int> scope_of(const std::vector<int>& part, int node) const;
  std::vector<int> masks(const std::vector<int>& scope) const;
  template <typename Take>
  void sums(const std::vector<int>& part, int node, const std::vector<int>& scope, Take take) const;
  std::vector<std::vector<double>> shifts(const std::vector<std::vector<int>>& parts, int node) const;

  const Assignment& problem_;
  const Order& order_;
  double most_;
  std::vector<Function> functions_;
  std::vector<Bucket> buckets_;  // by position
  double root_ = 0;              // all constants together
  bool cut_ = false;
};

}  // namespace boxcar::search
