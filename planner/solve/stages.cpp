#include "planner/solve/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

constexpr double none = std::numeric_limits<double>::infinity();

// A cut of a suffix of the chain: its first stage and the point of the state after that.
struct Point {
  double slowest = 0, sum = 0;
  int cut = -1;  // the first stage
  int next = 0;  // point of the state after it
};

// One option of one range of blocks on one mesh.
struct Cut {
  StagePlan::Stage stage;
  int devices = 0;  // in units
};

void insert(std::vector<Point>& front, const Point& point) {
  for (const Point& p : front) {
    if (p.slowest <= point.slowest && p.sum <= point.sum) return;
  }
  std::erase_if(front, [&](const Point& p) { return point.slowest <= p.slowest && point.sum <= p.sum; });
  front.push_back(point);
}

class Cutter {
 public:
  explicit Cutter(const StageProblem& problem) : problem_(problem), blocks_(problem.blocks) {
    int unit = problem.devices;
    for (int devices : problem.meshes) unit = std::gcd(unit, devices);
    units_ = problem.devices / unit;
    int smallest = units_ + 1;
    for (int devices : problem.meshes) smallest = std::min(smallest, devices / unit);
    stages_ = std::min(blocks_, units_ / smallest);
    if (problem.most_stages > 0) stages_ = std::min(stages_, problem.most_stages);
    for (int q = 0; q < stages_; ++q) least_in_flight_ = std::min(least_in_flight_, in_flight(q));
    read_options(unit);
    bound();
  }

  StagePlan run() {
    double least = step(slowest_[index(blocks_, units_)], sum_[index(blocks_, units_)]);
    if (least == none) return {};
    for (double factor : {1.02, 1.1, 1.5, 3.0, none}) {
      StagePlan plan = search(factor == none ? none : least * factor);
      if (!plan.stages.empty()) return plan;
    }
    return {};
  }

 private:
  size_t index(int block, int units) const {
    return static_cast<size_t>(block) * static_cast<size_t>(units_ + 1) + static_cast<size_t>(units);
  }

  int in_flight(int after) const {
    return problem_.in_flight ? problem_.in_flight(after) : std::min(after + 1, problem_.micro_batches);
  }
  bool fits(const StageOption& option, int in_flight) const {
    return option.bytes + option.bytes_in_flight * in_flight <= problem_.memory;
  }
  double step(double slowest, double sum) const {
    if (sum == none) return none;
    return problem_.step ? problem_.step(slowest, sum) : (problem_.micro_batches - 1) * slowest + sum;
  }

  void read_options(int unit) {
    cuts_.resize(static_cast<size_t>(blocks_));
    for (int first = 0; first < blocks_; ++first) {
      for (int last = first + 1; last <= blocks_; ++last) {
        for (int mesh = 0; mesh < static_cast<int>(problem_.meshes.size()); ++mesh) {
          if (at(problem_.meshes, mesh) > problem_.devices) continue;
          for (const StageOption& option : problem_.options(first, last, mesh)) {
            if (!fits(option, least_in_flight_)) continue;
            at(cuts_, first).push_back({{first, last, mesh, option}, at(problem_.meshes, mesh) / unit});
          }
        }
      }
    }
  }

  // By blocks before and units for them: the least slowest stage and, separately, the least sum.
  void bound() {
    slowest_.assign(index(blocks_, units_) + 1, none);
    sum_ = slowest_;
    for (int units = 0; units <= units_; ++units) slowest_[index(0, units)] = sum_[index(0, units)] = 0;
    for (int first = 0; first < blocks_; ++first) {
      for (const Cut& cut : at(cuts_, first)) {
        const StageOption& option = cut.stage.option;
        for (int units = cut.devices; units <= units_; ++units) {
          size_t from = index(first, units - cut.devices), to = index(cut.stage.last, units);
          slowest_[to] = std::min(slowest_[to], std::max(slowest_[from], option.seconds));
          sum_[to] = std::min(sum_[to], sum_[from] + option.seconds + option.once);
        }
      }
    }
  }

  double bound_of(int first, int units, double slowest, double sum) const {
    size_t before = index(first, units_ - units);
    return step(std::max(slowest, slowest_[before]), sum + sum_[before]);
  }

  // The best plan that takes at most `most`.
  StagePlan search(double most) {
    layers_.assign(1, std::vector<std::vector<Point>>(index(blocks_, units_) + 1));
    layers_[0][index(blocks_, 0)] = {Point{}};
    double best = most;
    int best_stages = 0, best_units = 0;
    for (int q = 1; q <= stages_; ++q) {
      layers_.emplace_back(index(blocks_, units_) + 1);
      if (!list_units(at(layers_, q - 1))) break;
      for (int first = 0; first < blocks_; ++first) extend(q, first, best);
      for (int units = 0; units <= units_; ++units) {
        for (const Point& point : at(layers_, q)[index(0, units)]) {
          double seconds = step(point.slowest, point.sum);
          bool better = seconds < best || (best_stages == 0 && seconds <= best);
          if (better) best = seconds, best_stages = q, best_units = units;
        }
      }
    }
    return best_stages == 0 ? StagePlan{} : plan(best_stages, best_units, best);
  }

  // By block: the units of states that have a point; false if none has.
  bool list_units(const std::vector<std::vector<Point>>& layer) {
    bool any = false;
    reached_.assign(static_cast<size_t>(blocks_ + 1), {});
    for (int block = 0; block <= blocks_; ++block) {
      for (int units = 0; units <= units_; ++units) {
        if (layer[index(block, units)].empty()) continue;
        at(reached_, block).push_back(units);
        any = true;
      }
    }
    return any;
  }

  void extend(int q, int first, double most) {
    const auto& behind = at(layers_, q - 1);
    for (size_t c = 0; c < at(cuts_, first).size(); ++c) {
      const Cut& cut = at(cuts_, first)[c];
      const StageOption& option = cut.stage.option;
      if (!fits(option, in_flight(q - 1))) continue;
      if (step(option.seconds, option.seconds + option.once) > most) continue;
      for (int units : at(reached_, cut.stage.last)) {
        if (units + cut.devices > units_) break;
        const std::vector<Point>& points = behind[index(cut.stage.last, units)];
        for (size_t p = 0; p < points.size(); ++p) {
          Point point{std::max(points[p].slowest, option.seconds),
                      points[p].sum + option.seconds + option.once, static_cast<int>(c), static_cast<int>(p)};
          if (bound_of(first, units + cut.devices, point.slowest, point.sum) > most) continue;
          insert(at(layers_, q)[index(first, units + cut.devices)], point);
        }
      }
    }
  }

  StagePlan plan(int stages, int units, double seconds) const {
    StagePlan plan;
    plan.seconds = seconds;
    const std::vector<Point>* points = &at(layers_, stages)[index(0, units)];
    auto best = std::find_if(points->begin(), points->end(),
                             [&](const Point& p) { return step(p.slowest, p.sum) == seconds; });
    Point point = *best;
    for (int q = stages, first = 0; q > 0; --q) {
      const Cut& cut = at(at(cuts_, first), point.cut);
      plan.stages.push_back(cut.stage);
      first = cut.stage.last;
      units -= cut.devices;
      point = at(at(layers_, q - 1)[index(first, units)], point.next);
    }
    return plan;
  }

  const StageProblem& problem_;
  int blocks_, units_ = 0, stages_ = 0;  // a unit is the largest number of devices that divides all meshes
  int least_in_flight_ = std::numeric_limits<int>::max();
  std::vector<std::vector<Cut>> cuts_;                   // by first block
  std::vector<double> slowest_, sum_;                    // bounds for the blocks before
  std::vector<std::vector<std::vector<Point>>> layers_;  // stages, state
  std::vector<std::vector<int>> reached_;                // of the previous layer
};

void check(const StageProblem& problem) {
  if (problem.blocks < 1 || problem.devices < 1 || problem.micro_batches < 1) {
    throw Error::input("search", fmt::format("{} blocks, {} devices, {} micro-batches: from 1 on each",
                                             problem.blocks, problem.devices, problem.micro_batches));
  }
  for (size_t m = 0; m < problem.meshes.size(); ++m) {
    if (problem.meshes[m] < 1) throw Error::input("search", fmt::format("mesh {} has no devices", m));
  }
}

}  // namespace

StagePlan cut_into_stages(const StageProblem& problem) {
  check(problem);
  return Cutter(problem).run();
}

}  // namespace boxcar::search
