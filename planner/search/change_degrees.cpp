#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "planner/search/refine.h"

namespace boxcar::search {
namespace {

constexpr size_t pipelines_split = 3;       // tried with backward passes in two parts; twice as many if short
constexpr size_t pipelines_estimated = 24;  // the best of them are tried
constexpr size_t most_kinds = 8;            // tried of kinds of degrees that were not
constexpr int most_changed = 48;            // jobs tried that differ from the best in one thing

// The most layers of a stage.
int most_layers(const planner::Job& job) {
  const std::vector<int>& stages = job.parallel.stage_layers;
  return *std::max_element(stages.begin(), stages.end());
}

class DegreeChanges {
 public:
  explicit DegreeChanges(const Refinement& of)
      : attempts_(of.attempts),
        points_(of.points),
        candidates_(of.candidates),
        options_(of.options),
        fixed_(of.fixed) {}

  void make() {
    recompute_otherwise();
    if (least_bytes_) return;
    other_kinds();
    split_backward();
    change_a_little();
  }

 private:
  void recompute_otherwise() {
    std::optional<JobKey> before;
    for (int round = 0; round < 2 && !attempts_.asked_to_stop() && !attempts_.best().empty(); ++round) {
      const Candidate best = attempts_.best().front();
      if (before == key_of(best.job)) break;  // all changes were tried
      before = key_of(best.job);
      if (const Move* move = move_of(options_, least_bytes_ ? "recompute-more" : "recompute-less"))
        least_bytes_ ? recompute_more(best, move) : recompute_less(best, move);
    }
  }

  // Recomputes only as many layers as memory requires, now that a plan gives the free memory.
  void recompute_less(Candidate known, const Move* move) {
    for (int tries = 0; tries < 3 && !attempts_.asked_to_stop() && !known.stage_bytes.empty(); ++tries) {
      std::optional<Candidate> fewest = points_.with_fewest_recomputed(known);
      if (!fewest || key_of(fewest->job) == key_of(known.job) || attempts_.is_known(fewest->job)) return;
      fewest->move = move;
      const Attempt attempt = attempts_.attempt(attempts_.begin(*fewest));
      known = std::move(*fewest);
      known.stage_bytes = attempt.stage_bytes;
    }
  }

  // For the least memory: recomputes as many layers as the time allows.
  void recompute_more(const Candidate& start, const Move* move) {
    if (fixed_.is_pinned("recompute") || fixed_.is_pinned("recompute_layers")) return;
    if (start.job.train.recompute == ir::Recompute::full) return;
    int least = 0, most = most_layers(start.job);
    while (least < most && !attempts_.asked_to_stop()) {
      const int middle = (least + most + 1) / 2;
      Candidate more = with_whole_layers_recomputed(start, middle);
      more.move = move;
      const Attempt attempt = attempts_.attempt(attempts_.begin(std::move(more)));
      if (attempt.too_slow)
        most = middle - 1;
      else
        least = middle;
    }
  }

  Candidate with_whole_layers_recomputed(const Candidate& known, int layers) {
    Candidate candidate = anew(known);
    ir::TrainOptions& train = candidate.job.train;
    if (train.recompute == ir::Recompute::selective) train.recompute_others = train.recompute;
    train.recompute = ir::Recompute::full;
    train.recompute_layers = {layers};
    if (const auto estimate = points_.one(candidate.job)) {
      candidate.estimated_seconds = estimate->estimated_seconds;
      candidate.estimated_bytes = estimate->estimated_bytes;
    }
    return candidate;
  }

  // Estimates of short steps err alike for plans of a kind. So the best of each kind of which none was
  // simulated is tried.
  void other_kinds() {
    const Move* const move = move_of(options_, "other-kinds");
    if (!move || attempts_.best().empty() || !is_short(attempts_.best().front().job)) return;
    const auto kind = [](const Candidate& c) {
      const planner::Hints& h = c.job.parallel;
      return std::tuple(h.tp > 1, h.pp > 1, h.virtual_stages > 1, h.zero);
    };
    std::set<decltype(kind(candidates_.front()))> done;
    for (const Candidate& c : candidates_)
      if (c.tried) done.insert(kind(c));
    const double most = (1 + near_best) * attempts_.value(attempts_.best().front());
    size_t left = most_kinds;
    for (const Candidate& c : candidates_) {
      if (left == 0 || attempts_.asked_to_stop()) return;
      if (estimated(options_.goal, c) > most || is_over(c.estimated_seconds, options_)) continue;
      if (!done.insert(kind(c)).second || attempts_.is_known(c.job)) continue;
      Candidate other = anew(c);
      other.move = move;
      attempts_.attempt_within(other, attempts_.begin(other));
      --left;
    }
  }

  // Tries backward passes in two parts in pipelines with up to two virtual stages. Their costs are measured
  // only for these, because twice as many small plans would take too long. First come the fastest simulated
  // ones, then those that could be fastest, of which the fastest by estimate are tried.
  void split_backward() {
    const Move* const move = move_of(options_, "split-backward");
    if (!move || attempts_.asked_to_stop() || attempts_.best().empty() || fixed_.is_pinned("schedule"))
      return;
    const auto is_whole = [](const Candidate& c) {
      return c.job.parallel.pp > 1 && c.job.parallel.virtual_stages <= 2;
    };
    const auto hoped = [&](const Candidate& c) {
      return value_of(options_.goal, c.job, (c.seconds > 0 ? c.seconds : c.estimated_seconds) - c.split_saves,
                      0);
    };
    std::vector<Candidate> some;
    for (const std::vector<Candidate>* list : {&attempts_.best(), &candidates_})
      std::copy_if(list->begin(), list->end(), std::back_inserter(some), is_whole);
    if (some.empty()) return;
    std::stable_sort(some.begin() + (some.front().seconds > 0 ? 1 : 0), some.end(),
                     [&](const Candidate& a, const Candidate& b) { return hoped(a) < hoped(b); });
    std::set<std::tuple<Degrees, int, int>> done;
    std::set<JobKey> jobs;
    std::vector<std::vector<Candidate>> splits;  // by degrees, micro-batch and virtual stages
    for (const Candidate& whole : some) {
      if (splits.size() == pipelines_estimated || attempts_.asked_to_stop() ||
          (!done.empty() && hoped(whole) >= attempts_.value(attempts_.best().front())))
        break;
      const planner::Hints& h = whole.job.parallel;
      if (!done.emplace(degrees_of(whole.job), h.micro_batch, h.virtual_stages).second) continue;
      splits.emplace_back();
      for (planner::Job& job : with_split_backward(whole.job, fixed_)) {
        auto made = split(whole, std::move(job), move);
        if (made && !is_hopeless(*made) && jobs.insert(key_of(made->job)).second)
          splits.back().push_back(std::move(*made));
      }
      if (splits.back().empty()) splits.pop_back();
    }
    const auto least = [&](const std::vector<Candidate>& of) {
      double value = infinity;
      for (const Candidate& c : of)
        if (c.estimated_bytes <= static_cast<double>(attempts_.limit()))
          value = std::min(value, estimated(options_.goal, c));
      return value;
    };
    if (splits.empty()) return;
    std::stable_sort(splits.begin() + 1, splits.end(),
                     [&](const auto& x, const auto& y) { return least(x) < least(y); });
    const size_t most = is_short(splits.front().front().job) ? 2 * pipelines_split : pipelines_split;
    // Pipelines of two virtual stages, which have one schedule, leave the others their places.
    size_t plain = 0, v_shaped = 0;
    std::erase_if(splits, [&](const std::vector<Candidate>& of) {
      return ++(of.front().job.parallel.virtual_stages == 2 ? v_shaped : plain) > most;
    });
    for (std::vector<Candidate>& both : splits) try_splits(std::move(both));
  }

  // Whether its estimate is too slow to be the best. Estimates of long steps are near enough to tell.
  bool is_hopeless(const Candidate& candidate) const {
    const Candidate& best = attempts_.best().front();
    return !is_short(best.job) && best.seconds > 0 &&
           estimated(options_.goal, candidate) > (1 + time_error) * attempts_.value(best);
  }

  // Nothing if the layers cannot be cut for it.
  std::optional<Candidate> split(const Candidate& whole, planner::Job job, const Move* move) {
    Candidate made = anew(whole);
    const bool cuts = job.parallel.stage_layers.empty();
    if (const auto estimate = cuts ? points_.cut(job) : points_.one(job)) {
      job = estimate->job;
      made.estimated_seconds = estimate->estimated_seconds;
      made.estimated_bytes = estimate->estimated_bytes;
    } else if (cuts) {
      return std::nullopt;
    }
    made.job = std::move(job);
    change_by_estimates(made);
    if (!whole.job.train.recompute_layers.empty())
      if (auto fewest = points_.with_fewest_recomputed(made)) made = std::move(*fewest);
    made.move = move;
    return made;
  }

  // For short steps: the best by estimate of what the changes around a plan lead to, from it and from the
  // other levels of ZeRO. Layers were cut, and states sharded, for whole backward passes.
  void change_by_estimates(Candidate& candidate) {
    if (!is_short(candidate.job)) return;
    std::vector<Candidate> starts{candidate};
    const Around around{candidate.job, candidates_, fixed_};
    if (const Move* shard = move_of(options_, "shard-states"); shard && shard->applies(around))
      for (planner::Job& job : proposals(*shard, around))
        add_like(candidate, std::move(job), infinity, starts);
    for (Candidate& start : starts) {
      climb(start);
      if (estimated(options_.goal, start) < estimated(options_.goal, candidate)) candidate = start;
    }
  }

  // Takes the best of what the changes around a plan propose, as long as that lowers the estimate.
  void climb(Candidate& candidate) {
    for (std::vector<Candidate> better{candidate}; !better.empty();) {
      candidate = better.back();
      better.clear();
      const Around around{candidate.job, candidates_, fixed_};
      double least = estimated(options_.goal, candidate);
      for (const Move* move : moves_of(options_, MoveGroup::change, around))
        for (planner::Job& job : proposals(*move, around)) {
          add_like(candidate, std::move(job), least, better);
          if (!better.empty()) least = estimated(options_.goal, better.back());
        }
    }
  }

  // Adds the candidate with this job, if the job fits by its estimate and is better than `least`.
  void add_like(const Candidate& candidate, planner::Job job, double least, std::vector<Candidate>& to) {
    const auto estimate = points_.one(job);
    if (!estimate || estimate->estimated_bytes > static_cast<double>(attempts_.limit()) ||
        estimated(options_.goal, *estimate) >= least)
      return;
    to.push_back(candidate);
    to.back().job = std::move(job);
    to.back().estimated_seconds = estimate->estimated_seconds;
    to.back().estimated_bytes = estimate->estimated_bytes;
  }

  // In the order of their second parts; if one does not fit, the next needs even more memory.
  void try_splits(std::vector<Candidate> candidates) {
    std::vector<Making> makings;
    for (const Candidate& c : candidates) makings.push_back(attempts_.begin(c));
    bool over = false;
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (over)
        attempts_.leave(std::move(makings[c]));
      else
        over = attempts_.attempt_within(candidates[c], std::move(makings[c]), 2).excess > 0;
    }
  }

  // Tries all jobs that differ from the best in one thing for which estimates are poor, and continues from
  // the result while that helps. Then does the same from the best of other degrees that are nearly equal.
  void change_a_little() {
    std::set<JobKey> starts;
    for (int left = most_changed; left > 0 && !attempts_.asked_to_stop();) {
      const std::vector<Candidate> some = attempts_.hopeful(near_best, most_of_degrees);
      const auto start = std::find_if(
          some.begin(), some.end(), [&](const Candidate& c) { return starts.insert(key_of(c.job)).second; });
      if (start == some.end()) return;
      std::vector<Making> others;
      const Around around{start->job, candidates_, fixed_};
      for (const Move* move : moves_of(options_, MoveGroup::change, around))
        for (planner::Job& job : proposals(*move, around)) {
          std::optional<Candidate> other = changed(*start, std::move(job));
          if (!other || left-- <= 0) continue;
          other->move = move;
          others.push_back(attempts_.begin(std::move(*other)));
        }
      for (Making& other : others) attempts_.attempt(std::move(other));
    }
  }

  // Nothing if it was tried or has no chance by estimate.
  std::optional<Candidate> changed(const Candidate& start, planner::Job job) {
    if (attempts_.is_known(job) || !changed_.insert(key_of(job)).second) return {};
    const auto estimate = points_.one(job);
    const double best = std::max(attempts_.value(start), estimated(options_.goal, start));
    if (!estimate || estimate->estimated_bytes > static_cast<double>(attempts_.limit())) return {};
    if (estimated(options_.goal, *estimate) > (1 + near_best) * best) return {};
    Candidate other = anew(start);
    other.job = std::move(job);
    other.estimated_seconds = estimate->estimated_seconds;
    other.estimated_bytes = estimate->estimated_bytes;
    return other;
  }

  Attempts& attempts_;
  Candidates& points_;
  const std::vector<Candidate>& candidates_;
  const SearchOptions& options_;
  const Fixed& fixed_;
  const bool least_bytes_ = options_.goal == Goal::memory;
  std::set<JobKey> changed_;
};

}  // namespace

void change_degrees(const Refinement& of) { DegreeChanges(of).make(); }

}  // namespace boxcar::search
