#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "planner/search/refine.h"

namespace boxcar::search {
namespace {

constexpr size_t pipelines_split = 2;  // tried with backward passes in two parts; three times where short
constexpr int most_changed = 48;       // tried of what differs from the best in one thing

// Of a stage.
int most_layers(const planner::Job& job) {
  const std::vector<int>& stages = job.parallel.stage_layers;
  return *std::max_element(stages.begin(), stages.end());
}

class Changes {
 public:
  explicit Changes(const Refinement& of)
      : attempts_(of.attempts),
        points_(of.points),
        candidates_(of.candidates),
        options_(of.options),
        fixed_(of.fixed) {}

  void make() {
    recompute_otherwise();
    if (least_bytes_) return;
    split_backward();
    change_a_little();
  }

 private:
  void recompute_otherwise() {
    std::optional<JobKey> before;
    for (int round = 0; round < 2 && !attempts_.asked_to_stop() && !attempts_.best().empty(); ++round) {
      const Candidate best = attempts_.best().front();
      if (before == key_of(best.job)) break;  // all of it was tried
      before = key_of(best.job);
      if (least_bytes_)
        recompute_more(best);
      else
        recompute_less(best);
    }
  }

  // Only as many layers computed again as memory asks for, now that a plan says how much there is.
  void recompute_less(Candidate known) {
    for (int tries = 0; tries < 3 && !attempts_.asked_to_stop() && !known.stage_bytes.empty(); ++tries) {
      std::optional<Candidate> fewest = points_.with_fewest_again(known);
      if (!fewest || key_of(fewest->job) == key_of(known.job) || attempts_.is_known(fewest->job)) return;
      const Attempt attempt = attempts_.attempt(attempts_.begin(*fewest));
      known = std::move(*fewest);
      known.stage_bytes = attempt.stage_bytes;
    }
  }

  // For the least memory: as many layers as the time lets be computed again.
  void recompute_more(const Candidate& start) {
    if (fixed_.is_pinned("recompute") || fixed_.is_pinned("recompute_layers")) return;
    if (start.job.train.recompute == ir::Recompute::full) return;
    int least = 0, most = most_layers(start.job);
    while (least < most && !attempts_.asked_to_stop()) {
      const int middle = (least + most + 1) / 2;
      const Attempt attempt = attempts_.attempt(attempts_.begin(with_whole_layers_again(start, middle)));
      if (attempt.too_slow)
        most = middle - 1;
      else
        least = middle;
    }
  }

  Candidate with_whole_layers_again(const Candidate& known, int layers) {
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

  // Pipelines without virtual stages with backward passes in two parts: that is idle less, but hides less of
  // collectives, which estimates do not say. First the fastest of those simulated, then what could be
  // fastest.
  void split_backward() {
    if (attempts_.asked_to_stop() || attempts_.best().empty() || fixed_.is_pinned("schedule")) return;
    const auto is_whole = [](const Candidate& c) {
      return c.job.parallel.pp > 1 && c.job.parallel.virtual_stages == 1;
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
    std::set<Degrees> done;
    for (const Candidate& whole : some) {
      if (done.size() == (is_short(whole.job) ? 3 : 1) * pipelines_split) break;
      if (!done.empty() && hoped(whole) >= attempts_.value(attempts_.best().front())) break;
      if (!done.insert(degrees_of(whole.job)).second) continue;
      std::vector<std::pair<Candidate, Making>> both;
      for (const char* schedule : split_schedules(whole.job)) {
        Candidate split = anew(whole);
        split.job.parallel.schedule = schedule;
        if (!split.job.train.recompute_layers.empty())
          if (auto fewest = points_.with_fewest_again(split)) split = std::move(*fewest);
        both.emplace_back(split, attempts_.begin(split));
      }
      bool over = false;  // what splits more needs more memory
      for (auto& [split, making] : both) {
        if (over)
          attempts_.leave(std::move(making));
        else
          over = attempts_.attempt_within(split, std::move(making), 2).excess > 0;
      }
    }
  }

  // All that differ in one thing of which estimates know little from the best, and so while that helps from
  // what comes out; then from the best of other degrees that are nearly as good.
  void change_a_little() {
    std::set<JobKey> starts;
    for (int left = most_changed; left > 0 && !attempts_.asked_to_stop();) {
      const std::vector<Candidate> some = attempts_.hopeful(nearly, alike);
      const auto start = std::find_if(
          some.begin(), some.end(), [&](const Candidate& c) { return starts.insert(key_of(c.job)).second; });
      if (start == some.end()) return;
      std::vector<Making> others;
      for (planner::Job& job : changed_jobs(start->job))
        if (auto other = changed(*start, std::move(job)); other && left-- > 0)
          others.push_back(attempts_.begin(std::move(*other)));
      for (Making& other : others) attempts_.attempt(std::move(other));
    }
  }

  // With its states sharded less and more, of which it depends what hides behind kernels. Of the best where
  // its steps are short: with experts in larger and in smaller groups, and with a layer moved to a stage
  // beside.
  std::vector<planner::Job> changed_jobs(const planner::Job& job) const {
    const planner::Hints& h = job.parallel;
    std::vector<planner::Job> jobs;
    const auto add = [&](const char* key, int value) {
      if (!fixed_.is_free(key, value)) return;
      jobs.push_back(job);
      set_number(dimension(key), jobs.back(), value);
    };
    for (const int zero : {h.zero - 1, h.zero + 1})
      if (zero >= 0 && zero <= 3 && h.dp > 1) add("zero", zero);
    if (!is_short(job)) return jobs;
    for (const int ep : {1, h.ep / 2, 2 * h.ep})
      if (ep > 0 && ep != h.ep && h.dp % ep == 0 && job.model.experts > 0 && job.model.experts % ep == 0)
        add("ep", ep);
    if (h.pp == 1 || h.virtual_stages > 1) return jobs;
    if (auto elsewhere = on_other_stages(job)) jobs.push_back(std::move(*elsewhere));
    for (const char* schedule : split_schedules(job)) {
      if (h.schedule == schedule || fixed_.is_pinned("schedule")) continue;
      jobs.push_back(job);
      jobs.back().parallel.schedule = schedule;
    }
    if (fixed_.is_pinned("stage_layers")) return jobs;
    for (size_t s = 0; s + 1 < h.stage_layers.size(); ++s)
      for (const int more : {1, -1}) {
        planner::Job moved = job;
        int &one = moved.parallel.stage_layers[s], &next = moved.parallel.stage_layers[s + 1];
        one += more, next -= more;
        if (one > 0 && next > 0) jobs.push_back(std::move(moved));
      }
    return jobs;
  }

  // With slow devices under other stages, and layers cut for that.
  std::optional<planner::Job> on_other_stages(const planner::Job& job) const {
    const planner::Hints& h = job.parallel;
    for (const Candidate& c : candidates_) {
      const planner::Hints& other = c.job.parallel;
      if (other.stage_order == h.stage_order || other.dp != h.dp || other.tp != h.tp || other.pp != h.pp ||
          other.cp != h.cp || other.micro_batch != h.micro_batch || other.zero != h.zero)
        continue;
      planner::Job elsewhere = c.job;
      elsewhere.parallel.schedule = h.schedule;
      return elsewhere;
    }
    return {};
  }

  // Nothing where it was tried or has no chance by estimate.
  std::optional<Candidate> changed(const Candidate& start, planner::Job job) {
    if (attempts_.is_known(job) || !changed_.insert(key_of(job)).second) return {};
    const auto estimate = points_.one(job);
    // Of split backward passes estimates are too long, of both alike.
    const double best = std::max(attempts_.value(start), estimated(options_.goal, start));
    if (!estimate || estimate->estimated_bytes > static_cast<double>(attempts_.limit())) return {};
    if (estimated(options_.goal, *estimate) > (1 + nearly) * best) return {};
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

std::vector<const char*> split_schedules(const planner::Job& job) {
  if (job.train.micro_batches <= 2) return {"zb-h1"};
  return {"zb-h1", "zb-h2"};
}

void change_degrees(const Refinement& of) { Changes(of).make(); }

}  // namespace boxcar::search
