#include "sim/campaign/weeks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <random>
#include <vector>

namespace boxcar::campaign {
namespace {

constexpr double week = 7 * 86400;
constexpr double never = std::numeric_limits<double>::infinity();

// Steps that were kept, by week.
class Kept {
 public:
  Kept(double begin, int weeks) : begin_(begin), by_week_(static_cast<size_t>(weeks)) {}
  double end() const { return begin_ + week * static_cast<double>(by_week_.size()); }

  // `steps` at the time `first`, and again every `cycle` s, `count` times in all.
  void add(double first, double cycle, double count, double steps) {
    for (double k = 0; k < count;) {
      const double w = std::floor((first + k * cycle - begin_) / week);
      if (w >= static_cast<double>(by_week_.size())) return;
      const double in_week = std::floor((begin_ + (w + 1) * week - first) / cycle) + 1;  // before its end
      const double next = std::clamp(in_week, k + 1, count);
      if (w >= 0) by_week_[static_cast<size_t>(w)] += (next - k) * steps;
      k = next;
    }
  }

  std::vector<double> sorted() const {
    std::vector<double> all = by_week_;
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  double begin_;
  std::vector<double> by_week_;
};

class Drawing {
 public:
  Drawing(const Fleet& fleet, int64_t interval, int weeks, uint64_t seed)
      : fleet_(fleet),
        interval_(static_cast<double>(interval)),
        begin_(week + 4 * fleet.repair_seconds),
        kept_(begin_, weeks),
        random_(seed) {}

  Weeks run() {
    while (now_ < kept_.end()) {
      while (!back_.empty() && back_.top() <= now_) back_.pop();
      const int nodes = nodes_in_use();
      if (nodes == 0) {
        count(back_.top(), weeks_.waiting);
        continue;
      }
      fails_ = now_ + draw(nodes);
      if (nodes < fleet_.nodes) fewer_since_ = now_;
      if (go_to(now_ + fleet_.run.restart_seconds, weeks_.restarting)) live(nodes);
      if (nodes < fleet_.nodes) add_time(fewer_since_, now_, weeks_.on_fewer);
    }
    return result();
  }

 private:
  int there() const { return fleet_.nodes + fleet_.spares - static_cast<int>(back_.size()); }

  double step_on(int nodes) const {
    return nodes == fleet_.nodes ? fleet_.run.step_seconds : fleet_.step_seconds_on.at(nodes);
  }

  // The nodes of the fastest plan; 0: too few for any.
  int nodes_in_use() const {
    if (there() >= fleet_.nodes) return fleet_.nodes;
    int best = 0;
    for (const auto& [nodes, seconds] : fleet_.step_seconds_on)
      if (nodes <= there() && (best == 0 || seconds < step_on(best))) best = nodes;
    return best;
  }

  double draw(int nodes) {
    std::exponential_distribution<double> failures(nodes / (fleet_.nodes * fleet_.run.mtbf_seconds));
    return failures(random_);
  }

  // The time in which a plan with a shorter step has its nodes, if no more of them fail.
  double faster_plan(int nodes) const {
    if (nodes == fleet_.nodes) return never;
    auto back = back_;
    for (int more = there(); !back.empty(); back.pop()) {
      ++more;
      const bool faster =
          std::any_of(fleet_.step_seconds_on.begin(), fleet_.step_seconds_on.end(),
                      [&](const auto& plan) { return plan.first <= more && plan.second < step_on(nodes); });
      if (more >= fleet_.nodes || faster) return back.top();
    }
    return never;
  }

  // Steps from a restart to a failure, to a faster plan or to the end of all weeks.
  void live(int nodes) {
    const double work = interval_ * step_on(nodes), written = fleet_.run.checkpoint_seconds;
    const double cycle = fleet_.beside ? std::max(work, written) : work + written;
    const double first = now_ + work + written;  // when the first checkpoint is whole
    const auto checkpoints_by = [&](double time) {
      return time < first ? 0 : std::floor((time - first) / cycle) + 1;
    };
    const double faster = faster_plan(nodes);
    const double change =
        faster == never ? never : first + std::max(0.0, std::ceil((faster - first) / cycle)) * cycle;
    const double end = std::min({fails_, change, kept_.end()});
    kept_.add(first, cycle, checkpoints_by(end), interval_);
    if (end == fails_) fail();
    now_ = end;
  }

  void fail() {
    if (fails_ >= begin_) ++weeks_.failures;
    back_.push(fails_ + fleet_.repair_seconds);
  }

  // False if a failure comes first.
  bool go_to(double time, double& share) {
    const bool failed = fails_ < time;
    if (failed) fail();
    count(failed ? fails_ : time, share);
    return !failed;
  }

  void add_time(double from, double to, double& share) const {
    share += std::max(0.0, std::min(to, kept_.end()) - std::max(from, begin_));
  }

  void count(double until, double& share) {
    add_time(now_, until, share);
    now_ = until;
  }

  Weeks result() {
    const std::vector<double> steps = kept_.sorted();
    const auto goodput = [&](double kept) { return kept * fleet_.run.step_seconds / week; };
    const auto count = static_cast<double>(steps.size());
    double all = 0;
    for (const double one : steps) all += one;
    weeks_.goodput = goodput(all / count);
    weeks_.low = goodput(steps[static_cast<size_t>(0.05 * count)]);
    weeks_.high = goodput(steps[static_cast<size_t>(0.95 * (count - 1))]);
    for (double Weeks::*share : {&Weeks::waiting, &Weeks::on_fewer, &Weeks::restarting})
      weeks_.*share /= kept_.end() - begin_;
    weeks_.failures /= count;
    return weeks_;
  }

  const Fleet& fleet_;
  const double interval_;
  const double begin_;  // of the weeks that count: before it, node failures and returns reach their balance
  Kept kept_;
  std::mt19937_64 random_;
  double now_ = 0, fails_ = never, fewer_since_ = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> back_;  // when nodes are repaired
  Weeks weeks_;
};

}  // namespace

Weeks drawn_weeks(const Fleet& fleet, int64_t interval, int weeks, uint64_t seed) {
  return Drawing(fleet, interval, weeks, seed).run();
}

int64_t interval_of(const Fleet& fleet) {
  if (!fleet.beside) return best_interval(fleet.run);
  const double steps = std::ceil(fleet.run.checkpoint_seconds / fleet.run.step_seconds);
  return std::clamp<int64_t>(static_cast<int64_t>(steps), 1, fleet.run.steps);
}

int most_away(const Fleet& fleet) {
  const double mean = fleet.repair_seconds / fleet.run.mtbf_seconds;
  int away = 0;
  for (double probability = std::exp(-mean), sum = probability; sum < 0.999 && away < fleet.nodes;
       sum += probability)
    probability *= mean / ++away;
  return away;
}

}  // namespace boxcar::campaign
