#include "planner/search/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>

#include "planner/laid_out.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Job;

// Of an estimate, at most: what is estimated to be slower than the best by more is not simulated.
constexpr double estimate_error = 0.03;
constexpr int alike = 3;  // of the same degrees that are simulated

class Search {
 public:
  Search(const Job& job, const SearchOptions& options, const Oracle& oracle)
      : job_(job), options_(options), oracle_(oracle) {
    job_.model = ir::models::complete(job_.model);
    if (job_.gpus == 0) job_.gpus = job_.cluster.devices();
    limit_ = options.memory_bytes > 0 ? options.memory_bytes : job_.cluster.device.memory_bytes;
    outcome_.smallest.estimated_bytes = std::numeric_limits<double>::infinity();
  }

  Outcome run() {
    each_point(job_, {options_.pinned, options_.ranges}, [&](const Job& point) { return add(point); });
    if (outcome_.points == 0)
      throw Error::input("parallel",
                         "no combination of degrees is legal for this model, batch and number of GPUs");
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.estimated_seconds < b.estimated_seconds;
    });
    std::map<std::array<int, 4>, int> simulated;
    for (const Candidate& candidate : candidates_) {
      if (static_cast<int>(outcome_.best.size()) >= options_.simulate || !outcome_.ended) break;
      if (!outcome_.best.empty() &&
          candidate.estimated_seconds > (1 + estimate_error) * outcome_.best.front().seconds)
        break;
      const planner::Hints& h = candidate.job.parallel;
      int& of_these = simulated[{h.dp, h.tp, h.pp, h.cp}];
      if (of_these < alike && simulate(candidate)) ++of_these;
    }
    for (int round = 0; round < 2 && outcome_.ended && !outcome_.best.empty(); ++round)
      recompute_less(outcome_.best.front());
    if (!layouts_asked()) lay_out_fastest();
    if (outcome_.best.empty() && refused_) throw *refused_;
    return std::move(outcome_);
  }

 private:
  bool asked_to_stop() {
    const double best = outcome_.best.empty() ? 0 : outcome_.best.front().seconds;
    if (options_.go_on && !options_.go_on({outcome_.points, static_cast<int>(outcome_.best.size()), best}))
      outcome_.ended = false;
    return !outcome_.ended;
  }

  // Whether it fits in memory, by estimate.
  bool add(const Job& point) {
    if (!outcome_.ended) return false;
    if (!measured_ || !same_cost(*measured_, point)) {
      if (asked_to_stop()) return false;
      measured_ = point;
      try {
        cost_ = measure(point, oracle_.act_seconds);
      } catch (const Error&) {
        cost_.reset();
      }
    }
    if (!cost_) return false;
    Job job = point;
    planner::Hints& h = job.parallel;
    job.train.micro_batches = planner::micro_batches(job);
    if (!h.stage_layers.empty()) return weigh(std::move(job));
    const auto layers = job.model.layers;
    h.stage_layers = planner::balanced_layers(layers, h.pp * h.virtual_stages);
    Job level = job;
    if (h.virtual_stages == 1 && h.pp > 1) level.parallel.stage_layers = level_layers(layers, h.pp, *cost_);
    const bool differs = level.parallel.stage_layers != h.stage_layers;
    const bool fits = weigh(std::move(job));
    return (differs && weigh(std::move(level))) || fits;
  }

  bool weigh(Job job) {
    ++outcome_.points;
    const Estimate e = estimate(job, *cost_);
    Candidate candidate{std::move(job), e.seconds, e.bytes, 0, 0};
    if (e.bytes < outcome_.smallest.estimated_bytes) outcome_.smallest = candidate;
    if (e.bytes > static_cast<double>(limit_)) {
      ++outcome_.over_memory;
      return false;
    }
    candidates_.push_back(std::move(candidate));
    return true;
  }

  // Into the list, if it is legal and fits. Where the memory of one that was estimated to fit is over,
  // nothing is lost: the next one is taken.
  bool simulate(Candidate candidate) {
    if (asked_to_stop()) return false;
    ++outcome_.compiled;
    try {
      candidate.job = planner::resolve(std::move(candidate.job));
      if (layouts_asked()) candidate.layouts = {options_.partial, options_.pins};
      planner::Choose choose;
      if (candidate.layouts) choose = chooser(candidate.job, *candidate.layouts, &candidate.found);
      const planner::LaidOut laid = planner::lay_out(candidate.job, choose);
      const ir::Plan plan = planner::compile(laid, candidate.job);
      candidate.found.layouts = {};
      if (candidate.layouts)
        candidate.layouts->weights = candidate.found.weights, candidate.layouts->memory = infinity;
      for (const planner::MemoryUse& use : planner::memory_use(plan))
        candidate.peak_bytes = std::max(candidate.peak_bytes, use.total);
      if (candidate.peak_bytes > limit_) {
        excess_ = candidate.peak_bytes - limit_;
        layouts_bytes_ = candidate.found.cost[memory];
        return false;
      }
      candidate.seconds = oracle_.step_seconds(plan, candidate.job.cluster);
    } catch (const Error& error) {
      if (layouts_asked() && error.where().starts_with("--pin")) refused_ = error;
      return false;
    }
    for (const Candidate& known : outcome_.best)  // the same layouts at other weights
      if (candidate.layouts && known.found.cost == candidate.found.cost &&
          known.seconds == candidate.seconds && known.peak_bytes == candidate.peak_bytes)
        return true;
    const auto place =
        std::upper_bound(outcome_.best.begin(), outcome_.best.end(), candidate,
                         [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    outcome_.best.insert(place, std::move(candidate));
    return true;
  }

  // Of what computes whole layers again: only as many of each stage's as memory asks for.
  void recompute_less(const Candidate& whole) {
    if (options_.pinned.count("recompute_layers") || whole.job.train.recompute != ir::Recompute::full) return;
    if (whole.job.train.recompute_layers >= 0) return;
    const auto& stages = whole.job.parallel.stage_layers;
    int least = 0, most = *std::max_element(stages.begin(), stages.end());
    const Candidate start = whole;
    while (least < most) {  // the fewest that fit
      const int middle = (least + most) / 2;
      Candidate fewer = start;
      fewer.job.train.recompute_layers = middle;
      fewer.peak_bytes = 0;
      if (asked_to_stop()) return;
      if (simulate(std::move(fewer)))
        most = middle;
      else
        least = middle + 1;
    }
  }

  bool layouts_asked() const { return !options_.partial || !options_.pins.empty(); }

  // The fastest again, with the layout of every op chosen: for collectives of states that count in full, and
  // for such that run beside other work; where other dimensions hold the samples these hardly differ. Where
  // they need too much memory, once more with as much less on every stage.
  void lay_out_fastest() {
    std::vector<Candidate> fastest = outcome_.best;
    if (fastest.size() > static_cast<size_t>(options_.lay_out))
      fastest.resize(static_cast<size_t>(options_.lay_out));
    for (Candidate& candidate : fastest) {
      const planner::Mesh mesh = planner::mesh_of(candidate.job.parallel);
      if (!has_free_dimension(mesh)) continue;
      candidate.peak_bytes = 0;
      for (const double states : mesh.dims() == 1 ? std::vector{1.0, 0.1} : std::vector{1.0}) {
        candidate.layouts = {true, {}, {states, 0}, infinity, {}};
        for (int tries = 0; tries < 3 && outcome_.ended; ++tries) {
          excess_ = 0;
          if (simulate(candidate) || excess_ == 0) break;
          candidate.layouts->memory =
              layouts_bytes_ - candidate.job.parallel.pp * static_cast<double>(excess_);
        }
      }
    }
  }

  Job job_;
  const SearchOptions& options_;
  const Oracle& oracle_;
  int64_t limit_ = 0;
  std::optional<Job> measured_;  // what cost_ is of
  std::optional<ModelCost> cost_;
  std::vector<Candidate> candidates_;
  std::optional<Error> refused_;  // for a pin
  int64_t excess_ = 0;            // bytes by which the last one that was compiled did not fit
  double layouts_bytes_ = 0;      // by the costs of its layouts
  Outcome outcome_;
};

}  // namespace

Outcome search(const Job& job, const SearchOptions& options, const Oracle& oracle) {
  return Search(job, options, oracle).run();
}

}  // namespace boxcar::search
