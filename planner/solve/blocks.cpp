#include "planner/solve/blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/solve/fronts.h"
#include "planner/solve/order.h"
#include "planner/solve/reduce.h"
#include "planner/solve/tables.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

std::vector<int> boundary(const Block& block) {
  std::vector<int> nodes = block.in;
  nodes.insert(nodes.end(), block.out.begin(), block.out.end());
  return nodes;
}

void check_boundary(const Block& block) {
  std::vector<int> nodes = boundary(block);
  int count = static_cast<int>(block.problem.nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    bool known = nodes[i] >= 0 && nodes[i] < count;
    bool twice = std::count(nodes.begin(), nodes.end(), nodes[i]) > 1;
    if (!known || twice) {
      throw Error::input("search",
                         fmt::format("boundary node {} {}", nodes[i],
                                     twice ? "is named twice" : fmt::format("is none of {}", count)));
    }
  }
}

double joint_choices(const Assignment& problem, const std::vector<int>& nodes) {
  double joint = 1;
  for (int node : nodes) joint *= problem.choices(node);
  return joint;
}

double largest_table(const Block& block, const Order& order) {
  return std::max(order.largest, joint_choices(block.problem, boundary(block)));
}

Assignment without_cost_of_in(const Block& block) {
  Assignment problem = block.problem;
  for (int node : block.in) std::fill(at(problem.nodes, node).begin(), at(problem.nodes, node).end(), Cost{});
  return problem;
}

// Whether a cost is one number, so that a front is one number too.
bool is_number(const Space& space, const Cost& limits) {
  return space.sums == 1 && space.maxima == 0 && limits == unlimited();
}

double least(const Front& front) { return front.empty() ? infinity : front[0][0]; }
Front front_of(double value) { return value < infinity ? Front{{value}} : Front{}; }

BoundaryTable product_of_numbers(const BoundaryTable& a, const BoundaryTable& b) {
  std::vector<double> behind;
  for (const Front& front : b.fronts) behind.push_back(least(front));
  BoundaryTable product{a.rows, b.columns, {}, 0};
  std::vector<double> row(static_cast<size_t>(b.columns));
  for (int r = 0; r < a.rows; ++r) {
    std::fill(row.begin(), row.end(), infinity);
    for (int middle = 0; middle < a.columns; ++middle) {
      const double before = least(a.at(r, middle));
      if (before == infinity) continue;
      const double* from = &behind[static_cast<size_t>(middle) * row.size()];
      for (size_t c = 0; c < row.size(); ++c) row[c] = std::min(row[c], before + from[c]);
    }
    for (const double value : row) product.fronts.push_back(front_of(value));
  }
  return product;
}

// The middle choices between a row and a column, in order of the fastest sum.
std::vector<int> quick_first(const BoundaryTable& a, const BoundaryTable& b, int row, int column) {
  std::vector<std::pair<double, int>> order;
  for (int middle = 0; middle < a.columns; ++middle) {
    const Front &before = a.at(row, middle), &behind = b.at(middle, column);
    if (!before.empty() && !behind.empty()) order.push_back({before[0][0] + behind[0][0], middle});
  }
  std::sort(order.begin(), order.end());
  std::vector<int> middles;
  for (const auto& [seconds, middle] : order) middles.push_back(middle);
  return middles;
}

BoundaryTable product_of_fronts(const Space& space, const Cost& limits, const Effort& effort,
                                const BoundaryTable& a, const BoundaryTable& b) {
  BoundaryTable product{a.rows, b.columns, {}, 0};
  for (int row = 0; row < a.rows; ++row) {
    if (effort.look) effort.look();
    for (int column = 0; column < b.columns; ++column) {
      Sums sums(space, limits);
      for (int middle : quick_first(a, b, row, column)) {
        const Front& behind = b.at(middle, column);
        sums.add(a.at(row, middle), behind.data(), behind.size());
      }
      Front points = sums.take();
      product.slack = std::max(product.slack, thin(space, points, static_cast<size_t>(effort.points)));
      product.fronts.push_back(std::move(points));
    }
  }
  product.slack += a.slack + b.slack;
  return product;
}

}  // namespace

// A block with its inner nodes eliminated.
struct Chains::Solved {
  Solved(const Block& block, const Cost& limits, const Effort& effort)
      : in(block.in),
        out(block.out),
        reduced(reduce(without_cost_of_in(block), boundary(block))),
        order(order_of(reduced.problem, boundary(block), effort.table)) {
    const double largest = largest_table(block, order);
    if (largest > static_cast<double>(effort.table)) {
      throw Error::cannot_run("search", fmt::format("a block needs a table of {:.3g} entries, {} are allowed",
                                                    largest, effort.table));
    }
    if (is_number(block.problem.space, limits))
      tables = std::make_unique<Tables>(reduced.problem, order, Cost{1}, effort);
    else
      fronts = std::make_unique<Fronts>(
          reduced.problem, order, limits,
          Fronts::Most{effort.points, std::numeric_limits<int64_t>::max(), effort.look});
  }

  // Costs of the block, given the kept nodes' choices.
  Fronts::Points front(const std::vector<int>& choice) const {
    if (fronts) return fronts->front(choice);
    return {front_of(tables->given(choice)), 0};
  }
  void trace(std::vector<int>& choice, const Cost& point) const {
    if (fronts)
      fronts->trace(choice, point);
    else
      tables->trace(choice);
  }

  std::vector<int> choice(int row, int column) const {
    std::vector<int> choice(reduced.problem.nodes.size());
    set(in, row, choice);
    set(out, column, choice);
    return choice;
  }
  void set(const std::vector<int>& nodes, int joint, std::vector<int>& choice) const {
    for (size_t i = nodes.size(); i-- > 0;) {
      at(choice, nodes[i]) = joint % reduced.problem.choices(nodes[i]);
      joint /= reduced.problem.choices(nodes[i]);
    }
  }

  std::vector<int> in, out;
  Reduced reduced;
  Order order;
  std::unique_ptr<Fronts> fronts;
  std::unique_ptr<Tables> tables;  // in place of fronts if a cost is one number
};

Block weighed(const Block& block, const Cost& weights) {
  Block one = block;
  const Space& space = block.problem.space;
  auto weigh = [&](std::vector<Cost>& costs) {
    for (Cost& cost : costs) {
      double sum = is_forbidden(space, cost) ? infinity : 0;
      for (int k = 0; k < space.sums && sum < infinity; ++k) sum += at(weights, k) * at(cost, k);
      cost = {sum};
    }
  };
  for (auto& node : one.problem.nodes) weigh(node);
  for (auto& edge : one.problem.edges) weigh(edge.costs);
  one.problem.space = {1, 0};
  return one;
}

Chains::Chains(const Space& space, const Cost& limits, const Effort& effort)
    : space_(space), limits_(limits), effort_(effort) {}
Chains::~Chains() = default;

int Chains::keep(Made made) {
  tables_.push_back(std::make_unique<Made>(std::move(made)));
  return tables() - 1;
}

int Chains::add(const Block& block) {
  check(block.problem);
  check_boundary(block);
  Made made;
  made.solved = std::make_unique<Solved>(block, limits_, effort_);
  BoundaryTable& table = made.table;
  table.rows = static_cast<int>(joint_choices(block.problem, block.in));
  table.columns = static_cast<int>(joint_choices(block.problem, block.out));
  for (int row = 0; row < table.rows; ++row) {
    if (effort_.look) effort_.look();
    for (int column = 0; column < table.columns; ++column) {
      auto [points, slack] = made.solved->front(made.solved->choice(row, column));
      table.slack = std::max(table.slack, slack);
      table.fronts.push_back(std::move(points));
    }
  }
  return keep(std::move(made));
}

bool Chains::fits(const Block& block) const {
  const std::vector<int> kept = boundary(block);
  const Order order = order_of(reduce(without_cost_of_in(block), kept).problem, kept, effort_.table);
  return largest_table(block, order) <= static_cast<double>(effort_.table);
}

int Chains::then(int first, int second) {
  auto found = products_.find({first, second});
  if (found != products_.end()) return found->second;
  const BoundaryTable &a = table(first), &b = table(second);
  if (a.columns != b.rows) {
    throw Error::input("search",
                       fmt::format("a boundary of {} choices does not fit one of {}", a.columns, b.rows));
  }
  if (effort_.look) effort_.look();
  Made made;
  made.first = first, made.second = second;
  made.table = is_number(space_, limits_) ? product_of_numbers(a, b)
                                          : product_of_fronts(space_, limits_, effort_, a, b);
  return products_[{first, second}] = keep(std::move(made));
}

int Chains::power(int table, int n) {
  if (n < 1) throw Error::input("search", fmt::format("{} copies of a block", n));
  if (n == 1) return table;
  auto found = powers_.find({table, n});
  if (found != powers_.end()) return found->second;
  int made = then(power(table, (n + 1) / 2), power(table, n / 2));
  return powers_[{table, n}] = made;
}

std::vector<Chains::Copy> Chains::trace(int number, int row, int column, const Cost& point) const {
  std::vector<Copy> copies;
  trace(number, row, column, point, copies);
  return copies;
}

void Chains::trace(int number, int row, int column, const Cost& point, std::vector<Copy>& copies) const {
  const Made& made = *at(tables_, number);
  if (made.solved) {
    std::vector<int> choice = made.solved->choice(row, column);
    made.solved->trace(choice, point);
    copies.push_back({number, made.solved->reduced.restore(choice)});
    return;
  }
  const BoundaryTable &a = table(made.first), &b = table(made.second);
  for (int middle = 0; middle < a.columns; ++middle) {
    for (const Cost& p : a.at(row, middle)) {
      for (const Cost& q : b.at(middle, column)) {
        if (space_.add(p, q) != point) continue;
        trace(made.first, row, middle, p, copies);
        trace(made.second, middle, column, q, copies);
        return;
      }
    }
  }
  throw Error::fault("search", "a point of a chain cannot be traced back");
}

}  // namespace boxcar::search
