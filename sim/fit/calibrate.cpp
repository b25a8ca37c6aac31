#include "sim/fit/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/models/collective_time.h"
#include "sim/simulate.h"

namespace boxcar::fit {
namespace {

using backends::Cluster;
using backends::CollectiveModel;

constexpr double wide = 10;            // a constant is at most this many times the described value, or that
                                       // part
constexpr double probe = 1.2;          // factor on a constant, to find measurements that depend on it
constexpr double least_effect = 0.05;  // of a relative change of a constant on that of a measurement
constexpr double least_apart = 0.15;   // of its effects: the part that no other constant explains
constexpr double outlier = 0.1;
// A described value is assumed right within a factor of 1.6, a measurement within 3 %.
constexpr double doubt = 0.5, noise = 0.03;
constexpr double first_step = 0.25, last_step = 0.002;  // of the search, in logarithms

// Multiplies the latencies of every algorithm, of those inside a node or of those between nodes.
class Slower {
 public:
  static constexpr bool reads = false;
  Slower(bool between_nodes, double factor) : between_nodes_(between_nodes), factor_(factor) {}
  void number(const std::string& key, double, double, double& value) {
    const bool latency = key == "base" || key == "hop" || key == "net_hop";
    if (latency && in_net_ == between_nodes_) value *= factor_;
  }
  void whole(const std::string&, auto, auto, auto&) {}
  void line(const std::string&, bool, const auto& work) { work(); }
  void inside(const std::string&, bool, const auto& work) {  // the mapping `net`
    in_net_ = true;
    work();
    in_net_ = false;
  }

 private:
  bool between_nodes_, in_net_ = false;
  double factor_;
};

void latency_in_node(CollectiveModel& m, double factor) {
  Slower slower(false, factor);
  visit(slower, m);
}

void latency_between(Cluster& cluster, double factor) {
  cluster.node.nic_latency *= factor;
  Slower slower(true, factor);
  CollectiveModel& m = cluster.collective;
  visit(slower, m);
}

double largest(const backends::Curve& curve) { return *std::max_element(curve.y.begin(), curve.y.end()); }

struct Constant {
  const char* name;
  bool of_network, of_device;
  double (*value)(const Cluster&);  // null: a factor on several
  void (*times)(Cluster&, double factor);
  double (*most)(const Cluster&);  // the largest factor
};

double any(const Cluster&) { return wide; }

const Constant constants[] = {
    {"node.link_bandwidth", true, false, [](const Cluster& c) { return c.node.link_bandwidth; },
     [](Cluster& c, double f) { c.node.link_bandwidth *= f; }, any},
    {"latencies of collectives in a node", true, false, nullptr,
     [](Cluster& c, double f) { latency_in_node(c.collective, f); }, any},
    {"node.nic_bandwidth", true, false, [](const Cluster& c) { return c.node.nic_bandwidth; },
     [](Cluster& c, double f) { c.node.nic_bandwidth *= f; }, any},
    {"latencies of collectives between nodes", true, false, nullptr, latency_between, any},
    {"under_load", false, true, [](const Cluster& c) { return c.device->under_load; },
     [](Cluster& c, double f) { c.device->under_load *= f; },
     [](const Cluster& c) { return std::max(1.0, 1 / c.device->under_load); }},
    {"memory_efficiency", false, true, nullptr,
     [](Cluster& c, double f) {
       for (double& share : c.device->memory_efficiency.y) share *= f;
     },
     [](const Cluster& c) {
       return c.device->memory_efficiency.y.empty() ? 1 : 1 / largest(c.device->memory_efficiency);
     }},
    {"node.host_speed", false, false, [](const Cluster& c) { return c.node.host_speed; },
     [](Cluster& c, double f) { c.node.host_speed *= f; }, any},
};
constexpr size_t count = std::size(constants);

using Factors = std::vector<double>;  // by constant, as logarithms

void put(Cluster& cluster, const Factors& factors) {
  for (size_t c = 0; c < count; ++c)
    if (factors[c] != 0) constants[c].times(cluster, std::exp(factors[c]));
}

// One measurement and its predicted time.
struct Row {
  double measured = 0;
  size_t group = 0;
  std::function<double(const Factors&)> seconds;
};

class Fit {
 public:
  Fit(const Cluster& described, std::vector<FittedConstant>& found, Factors& factors)
      : described_(described), found_(found), factors_(factors) {}

  void run(const std::vector<Row>& rows, std::vector<size_t> candidates,
           const std::function<void(double)>& told) {
    if (rows.empty()) return;
    rows_ = &rows;
    const std::vector<size_t> chosen = determined(candidates);
    if (!chosen.empty()) search(chosen, told);
    for (const size_t c : chosen) {
      Factors without = factors_;
      without[c] = 0;
      found_[c].error_without = error(rows, without);
    }
  }

  static double error(const std::vector<Row>& rows, const Factors& factors) {
    double sum = 0;
    for (const Row& row : rows) sum += std::abs(row.seconds(factors) / row.measured - 1);
    return sum / static_cast<double>(rows.size());
  }

 private:
  double most(size_t c) const { return std::log(std::min(wide, constants[c].most(described_))); }
  double least() const { return -std::log(wide); }

  // By row: its relative change with a constant.
  std::vector<double> effects(size_t c) const {
    Factors up = factors_, down = factors_;
    up[c] = std::min(up[c] + std::log(probe), most(c));
    down[c] = std::max(down[c] - std::log(probe), least());
    std::vector<double> all;
    for (const Row& row : *rows_)
      all.push_back(std::log(row.seconds(up) / row.seconds(down)) / (up[c] - down[c]));
    return all;
  }

  // The constants that these rows tell apart, the one with the largest effects first.
  std::vector<size_t> determined(std::vector<size_t> candidates) {
    std::map<size_t, std::vector<double>>
        left;  // the part of their effects that the chosen ones do not explain
    std::map<size_t, double> whole;
    const auto size = [](const std::vector<double>& v) {
      return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    };
    for (const size_t c : candidates) {
      const std::vector<double> effect = effects(c);
      const bool any_effect =
          std::any_of(effect.begin(), effect.end(), [](double e) { return std::abs(e) >= least_effect; });
      if (!any_effect) {
        found_[c].why_not = "no measurement depends on it";
        continue;
      }
      whole[c] = size(effect);
      left[c] = effect;
    }
    std::vector<size_t> chosen;
    std::string names;
    while (!left.empty()) {
      const auto next = std::max_element(left.begin(), left.end(), [&](const auto& a, const auto& b) {
        return size(a.second) < size(b.second);
      });
      const size_t c = next->first;
      std::vector<double> direction = next->second;
      const double length = size(direction);
      left.erase(next);
      if (length < least_apart * whole[c]) {
        found_[c].why_not = "the measurements cannot tell it from " + names;
        continue;
      }
      chosen.push_back(c);
      found_[c].why_not.clear();
      names += (names.empty() ? "" : " and ") + std::string(constants[c].name);
      for (double& x : direction) x /= length;
      for (auto& [other, effect] : left) {
        const double along = std::inner_product(effect.begin(), effect.end(), direction.begin(), 0.0);
        for (size_t r = 0; r < effect.size(); ++r) effect[r] -= along * direction[r];
      }
    }
    return chosen;
  }

  // Rows of a group count together as one, so that a long table does not decide alone. A constant that
  // changes no measurement much stays near its described value.
  double loss(const Factors& factors) const {
    std::map<size_t, std::pair<double, double>> groups;
    for (const Row& row : *rows_) {
      const double off = std::abs(std::log(row.seconds(factors) / row.measured));
      auto& [sum, n] = groups[row.group];
      sum += off < outlier ? off * off / 2 : outlier * (off - outlier / 2);
      ++n;
    }
    double all = 0;
    for (const auto& [group, sum] : groups) all += sum.first / sum.second;
    for (const double factor : factors)
      all += std::pow(factor * noise / doubt, 2) / (2 * static_cast<double>(rows_->size()));
    return all;
  }

  // Hooke and Jeeves: each constant up or down by a step; then further in the direction that helped; then
  // smaller steps.
  void search(const std::vector<size_t>& chosen, const std::function<void(double)>& told) {
    const auto inside = [&](Factors at) {
      for (const size_t c : chosen) at[c] = std::clamp(at[c], least(), most(c));
      return at;
    };
    double best = loss(factors_);
    const auto around = [&](Factors at, double value, double step) {
      for (const size_t c : chosen)
        for (const double by : {step, -step}) {
          Factors next = at;
          next[c] += by;
          next = inside(next);
          if (next == at) continue;
          if (const double there = loss(next); there < value) {
            at = next, value = there;
            break;
          }
        }
      return std::pair(at, value);
    };
    for (double step = first_step; step > last_step;) {
      told(step);
      auto [next, value] = around(factors_, best, step);
      if (!(value < best)) {
        step /= 2;
        continue;
      }
      while (value < best) {
        Factors further = next;
        for (const size_t c : chosen) further[c] += next[c] - factors_[c];
        factors_ = next, best = value;
        further = inside(further);
        std::tie(next, value) = around(further, loss(further), step);
      }
    }
    for (const size_t c : chosen)
      found_[c].at_bound = factors_[c] >= most(c) - last_step || factors_[c] <= least() + last_step;
  }

  const Cluster& described_;
  std::vector<FittedConstant>& found_;
  Factors& factors_;
  const std::vector<Row>* rows_ = nullptr;
};

// The places of a test's ranks: the first devices of each node.
std::vector<Row> rows_of(const CollectiveTest& test, const Cluster& described, size_t group) {
  const int on_node = test.ranks / test.nodes;
  if (on_node > described.node.gpus)
    throw Error::input(test.where, fmt::format("{} ranks on a host, a node of {} has {} GPUs", on_node,
                                               described.name, described.node.gpus));
  Cluster cluster = described;
  cluster.nodes = test.nodes;
  if (test.nodes > 1 && cluster.node.nics == 0)
    throw Error::input(test.where,
                       fmt::format("{} hosts, but nodes of {} have no NICs", test.nodes, described.name));
  std::vector<int> devices;
  for (int r = 0; r < test.ranks; ++r) devices.push_back(r / on_node * cluster.node.gpus + r % on_node);
  const sim::Span span = sim::span_of(cluster, devices);
  std::vector<Row> rows;
  for (const CollectiveTest::Row& row : test.rows)
    rows.push_back({row.seconds, group, [=, collective = test.collective](const Factors& factors) {
                      Cluster changed = cluster;
                      put(changed, factors);
                      return sim::collective_time(changed, collective, row.bytes, span).seconds();
                    }});
  return rows;
}

Row row_of(const MeasuredStep& step, size_t group) {
  try {
    const planner::ResolvedJob job = step.job();
    const ir::Plan plan = planner::compile(job);
    planner::verify(plan, job->cluster.device->memory_bytes);
    return {step.seconds, group, [plan, described = job->cluster](const Factors& factors) {
              Cluster changed = described;
              put(changed, factors);
              return sim::simulate(plan, changed).step_seconds;
            }};
  } catch (const Error& e) {
    const std::string what = e.what();
    throw Error(e.code(), "", what.starts_with(step.where) ? what : step.where + ": " + what);
  }
}

}  // namespace

Calibration calibrate(const Cluster& described, const Measurements& measured,
                      const std::function<void(const std::string&)>& step) {
  Calibration result{described, {}, {}, false};
  for (const Constant& c : constants)
    result.constants.push_back({c.name, c.value ? c.value(described) : 1, 0, c.value == nullptr, 0, false,
                                c.of_network ? "no collective was measured" : "no step was measured"});

  std::vector<Row> collectives, steps;
  for (const CollectiveTest& test : measured.tests) {
    const std::string name =
        fmt::format("{}, {} x {} GPUs", sbp::to_text(test.collective), test.nodes, test.ranks / test.nodes);
    for (Row& row : rows_of(test, described, result.groups.size())) collectives.push_back(std::move(row));
    result.groups.push_back({name, test.rows.size(), 0, 0});
  }
  for (const MeasuredStep& one : measured.steps) {
    step("compiling " + one.where);
    steps.push_back(row_of(one, result.groups.size()));
  }
  if (!steps.empty()) result.groups.push_back({"training steps", steps.size(), 0, 0});

  Factors factors(count, 0.0);
  Fit fit(described, result.constants, factors);
  std::vector<size_t> network, rest;
  for (size_t c = 0; c < count; ++c)
    if (constants[c].of_network) network.push_back(c);
  const auto told = [&](const char* what) {
    return [&step, what](double size) { step(fmt::format("fitting {}, to {:.1f} %", what, 100 * size)); };
  };
  fit.run(collectives, network, told("collectives"));
  for (size_t c = 0; c < count; ++c)
    if (!result.constants[c].why_not.empty() && (constants[c].value || !constants[c].of_network))
      rest.push_back(c);
  fit.run(steps, rest, told("steps"));

  const Factors none(count, 0.0);
  for (size_t g = 0; g < result.groups.size(); ++g) {
    std::vector<Row> group;
    for (const auto* rows : {&collectives, &steps})
      std::copy_if(rows->begin(), rows->end(), std::back_inserter(group),
                   [&](const Row& row) { return row.group == g; });
    result.groups[g].before = Fit::error(group, none);
    result.groups[g].after = Fit::error(group, factors);
  }
  put(result.cluster, factors);
  for (size_t c = 0; c < count; ++c) {
    FittedConstant& constant = result.constants[c];
    constant.fitted = constants[c].value ? constants[c].value(result.cluster) : std::exp(factors[c]);
    result.device_changed = result.device_changed || (constants[c].of_device && factors[c] != 0);
  }
  return result;
}

}  // namespace boxcar::fit
