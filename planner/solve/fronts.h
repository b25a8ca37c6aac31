// The functions that arise when nodes are eliminated one by one, as tables of fronts: tables.h with fronts in
// place of numbers and union in place of the minimum.
//
//   a {(1 s, 9 B), (4 s, 2 B)}, b the same, no edge: {(2, 18), (5, 11), (8, 4)}
//
// Only costs are kept. The choice of a point is found by combining again at one place.
#pragma once

#include <functional>
#include <vector>

#include "planner/solve/assignment.h"
#include "planner/solve/order.h"

namespace boxcar::search {

class Fronts {
 public:
  // `order` leaves out the nodes that are kept; it and `problem`, which has one edge at most for each pair,
  // outlive this. Costs above `limits` are left out; no front has more points than `most`, see thin().
  struct Most {
    int points = 256;
    int64_t sums = 0;                 // of pairs of points
    std::function<void()> look = {};  // see Effort
  };
  Fronts(const Assignment& problem, const Order& order, const Cost& limits, const Most& most);

  // False if it took too many sums; then there are no fronts.
  bool ended() const { return left_ >= 0; }

  // The front over all choices of the other nodes, given the kept nodes' choices in `choice` (by node); and
  // the slack (see thin()) up to which it is complete.
  struct Points {
    Front points;
    double slack = 0;
  };
  Points front(const std::vector<int>& choice) const;
  // Fills in the other nodes' choice for a point of that front.
  void trace(std::vector<int>& choice, const Cost& point) const;

 private:
  struct Function {
    std::vector<int> scope;
    std::vector<size_t> stride;
    std::vector<size_t> begin;  // by entry, and one past the end
    Front points;
    size_t index(const std::vector<int>& choice) const;
  };
  struct Bucket {
    std::vector<int> holds;
    int gives = -1;
  };

  Function empty(std::vector<int> scope) const;
  void place(Function function);
  void eliminate(int position);
  struct Spent {
    double slack = 0;
    int64_t sums = 0;
  };
  Spent combine(const std::vector<int>& functions, const std::vector<int>& choice,
                std::vector<Front>& steps) const;
  void add_last(const std::vector<int>& functions, const std::vector<int>& choice,
                const std::vector<Front>& steps, Sums& sums) const;
  double least_of(const std::vector<int>& functions, int node, std::vector<int>& choice) const;
  bool follow(const std::vector<int>& functions, const std::vector<int>& choice, const Cost& point,
              std::vector<Cost>& target) const;

  const Assignment& problem_;
  const Order& order_;
  Cost limits_;
  size_t most_;
  int64_t left_;  // sums
  std::vector<Function> functions_;
  std::vector<Bucket> buckets_;  // by position
  std::vector<int> last_;        // functions only of kept nodes
  double slack_ = 0;             // of all buckets together
};

}  // namespace boxcar::search
