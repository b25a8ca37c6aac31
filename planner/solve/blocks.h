// Repeating graphs. A block is solved once, as a table over the choices at its two boundaries; n copies in a
// row are the n-th power of the table.
//
//   block: in x {two choices}, out y {the same two}, edge x-y {{1, 3}, {5, 2}}
//   table {{1, 3}, {5, 2}}: from choice 0 to 0 at 1 s, to 1 at 3 s, ...
//   two copies: {{min(1 + 1, 3 + 5), min(1 + 3, 3 + 2)}, {min(5 + 1, 2 + 5), min(5 + 3, 2 + 2)}} = {{2, 4},
//   {6, 4}}
//
// Entries are fronts; products are (min, +) products of them. By halving, n copies take about 2 log n
// products, so the work grows with the number of different blocks. Only writing the choices of all copies
// grows with n. Exact, except for the slack of tables whose fronts were thinned.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planner/solve/assignment.h"
#include "sbp/at.h"

namespace boxcar::search {

// in[i] of a copy is out[i] of the previous copy. It has the same number of choices, and its own cost is
// counted there, so costs of nodes `in` are taken as 0. An edge between two nodes of `out` belongs to the
// block. There should be none between two of `in`.
struct Block {
  Assignment problem;
  std::vector<int> in, out;  // different nodes
};

// The block with one coordinate, weights x cost over the coordinates that add up. Its tables are exact
// without thinning, so they give bounds for thinned ones: with weights {1, w}, least entry of the chain
// - w x limit is a lower bound of the first coordinate under a limit of the second, for any w >= 0.
Block weighed(const Block& block, const Cost& weights);

// By joint choice at each boundary, the last node's choice fastest: {2, 1} of nodes with 4 and 3 choices is
// 7.
struct BoundaryTable {
  int rows = 0, columns = 0;
  std::vector<Front> fronts;  // row by row
  double slack = 0;           // of every front; see thin()

  const Front& at(int row, int column) const {
    return fronts[static_cast<size_t>(row) * static_cast<size_t>(columns) + static_cast<size_t>(column)];
  }
};

// Tables of blocks and of rows of blocks, each made once. Not safe for use by several threads.
class Chains {
 public:
  // Costs above `limits` are left out.
  explicit Chains(const Space& space, const Cost& limits = unlimited(), const Effort& effort = {});
  ~Chains();

  // Each returns the number of a table. Errors: input, as solve, and if boundaries do not fit; cannot_run if
  // a table would be larger than the effort, see fits().
  int add(const Block& block);
  bool fits(const Block& block) const;
  int then(int first, int second);
  int power(int table, int n);  // n > 0

  const BoundaryTable& table(int number) const { return at(tables_, number)->table; }
  int tables() const { return static_cast<int>(tables_.size()); }

  // The blocks of a table in order, each with the choice of all its nodes, for a point of
  // table(number).at(row, column).
  struct Copy {
    int block = 0;  // number of its table
    std::vector<int> choice;
  };
  std::vector<Copy> trace(int number, int row, int column, const Cost& point) const;

 private:
  struct Solved;
  struct Made {
    BoundaryTable table;
    std::unique_ptr<Solved> solved;  // of a block
    int first = -1, second = -1;     // else of two tables
  };

  int keep(Made made);
  void trace(int number, int row, int column, const Cost& point, std::vector<Copy>& copies) const;

  Space space_;
  Cost limits_;
  Effort effort_;
  std::deque<std::unique_ptr<Made>> tables_;
  std::map<std::pair<int, int>, int> products_, powers_;
};

}  // namespace boxcar::search
