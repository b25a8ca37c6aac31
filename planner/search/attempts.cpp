#include "planner/search/attempts.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "planner/search/plan_slots.h"

namespace boxcar::search {
namespace {

constexpr int most_acts = 4000;  // in the graph for the search of slots
constexpr int runners_up = 3;    // that reports name
constexpr double shown = 1e-3;   // share of a step, a price or a peak
// The most by which layouts' own seconds may exceed a step, since some collectives run beside kernels: 7 % in
// 584 plans of random jobs.
constexpr double most_beside_kernels = 0.1;

// Whether they are the same plan, found again, or the same layouts, at other weights.
bool is_same(const Candidate& a, const Candidate& b) {
  if (a.seconds != b.seconds || a.peak_bytes != b.peak_bytes ||
      a.layouts.has_value() != b.layouts.has_value())
    return false;
  if (b.layouts) return a.found.cost == b.found.cost;
  return key_of(a.job) == key_of(b.job) && a.slots.changes == b.slots.changes;
}

// The number of choices in a plan beyond its degrees: layouts and slots.
int refinements(const Candidate& c) { return (c.layouts ? 1 : 0) + (c.slots.changes.empty() ? 0 : 1); }

// Whether a refined plan of the same job is not better by an amount that a report would show.
bool gains_nothing(const Candidate& refined, const Candidate& plain, Goal goal) {
  return key_of(refined.job) == key_of(plain.job) && refinements(refined) > refinements(plain) &&
         simulated(goal, refined) > (1 - shown) * simulated(goal, plain) &&
         static_cast<double>(refined.peak_bytes) > (1 - shown) * static_cast<double>(plain.peak_bytes);
}

// Adds its lifetime to the move's seconds.
class Timed {
 public:
  explicit Timed(MoveUse& use) : use_(use) {}
  ~Timed() { use_.seconds += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timed(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  MoveUse& use_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Attempts::Attempts(const SearchOptions& options, const Oracle& oracle, Candidates& points, int64_t limit,
                   Outcome& outcome)
    : options_(options), oracle_(oracle), points_(points), limit_(limit), outcome_(outcome), look_([this] {
        if (asked_to_stop() && !outcome_.best.empty())
          throw Stopped{};  // the first is finished, since there may be no other
      }) {}

LayoutRequest Attempts::asked() const {
  return {options_.partial, options_.both ? Open::both : Open::one, options_.pins};
}

bool Attempts::asked_to_stop() {
  if (last_) return false;
  if (!outcome_.ended) return true;
  if (options_.plans > 0 && simulated_ >= options_.plans) outcome_.spent = true, outcome_.ended = false;
  const double best = outcome_.best.empty() ? 0 : outcome_.best.front().seconds;
  if (outcome_.ended && options_.go_on &&
      !options_.go_on({outcome_.points, outcome_.over_memory, static_cast<int>(outcome_.best.size()), best,
                       ending_seconds_}))
    outcome_.ended = false;
  return !outcome_.ended;
}

double Attempts::hopeless_seconds(const planner::Job& job) const {
  if (options_.goal == Goal::memory || outcome_.best.empty()) return infinity;
  return (1 + most_beside_kernels) * value(outcome_.best.front()) / value_of(options_.goal, job, 1, 0);
}

Making Attempts::begin(Candidate candidate) {
  const double most_seconds = hopeless_seconds(candidate.job);
  return {std::move(candidate), asked(), graphs_, most_seconds};
}

void Attempts::leave(Making making) {
  making.stop();
  left_.push_back(std::move(making));
}

Attempt Attempts::attempt(Making making) {
  Attempt attempt;
  if (asked_to_stop()) {
    leave(std::move(making));
    return attempt;
  }
  MoveUse& use = use_of(outcome_.moves, making.move());
  ++use.plans;
  const Timed timed(use);
  try {
    simulate(making.take(look_), attempt);
  } catch (const Stopped&) {
    leave(std::move(making));
  } catch (const Error& error) {
    attempt.error = error;
    ++outcome_.unmade[error.what()];
    if (!layouts_asked() || error.where().starts_with("--pin")) refused_ = error;
  }
  return attempt;
}

void Attempts::simulate(Made made, Attempt& attempt) {
  Candidate& candidate = made.candidate;
  ending_seconds_ = std::max(ending_seconds_, made.deaf_seconds);
  measured_any_ = true;
  solved_ = std::max(solved_, candidate.found.solved);
  // Compares with the best of now, as the plan may have been begun earlier with more threads.
  if (made.too_slow || layout_seconds(candidate.found, candidate.job) > hopeless_seconds(candidate.job)) {
    attempt.too_slow = true;
    return;
  }
  ++outcome_.compiled;
  attempt.stage_bytes = candidate.stage_bytes;
  if (candidate.peak_bytes > limit_) {
    attempt.excess = candidate.peak_bytes - limit_;
    if (candidate.found.found)
      attempt.layouts_bytes = candidate.found.cost[memory],
      attempt.layouts_price = next_price(candidate.found);
    note_smallest(candidate);
    return;
  }
  if (with_these_layouts(candidate) || (candidate.layouts && has_smaller(candidate))) {
    attempt.succeeded = true;
    return;
  }
  Oracle::Step step = oracle_.step(made.plan, candidate.job.cluster, look_);
  ++simulated_;
  attempt.seconds = candidate.seconds = step.seconds;
  candidate.record = std::move(step.record);
  candidate.plan = std::make_shared<ir::Plan>(std::move(made.plan));
  note_fastest(candidate);
  attempt.too_slow = options_.goal != Goal::time && candidate.seconds > options_.max_step_seconds;
  attempt.succeeded = !attempt.too_slow;
  if (attempt.succeeded) insert(std::move(candidate));
}

Attempt Attempts::attempt_within(Candidate candidate, Making making, int most_tries) {
  Attempt last = attempt(std::move(making));
  const Move* const move = move_of(options_, "make-it-fit");
  if (!move) return last;
  // Each try has to need less than half as many bytes too many as the one before it.
  int64_t bound = std::numeric_limits<int64_t>::max();
  for (int tries = 1; tries < most_tries && outcome_.ended && last.excess > 0 && last.excess < bound;
       ++tries) {
    bound = last.excess / 2;
    if (!candidate.job.train.recompute_layers.empty() && !candidate.layouts) {
      candidate.stage_bytes = last.stage_bytes;
      std::optional<Candidate> fewest = points_.with_fewest_recomputed(candidate);
      if (!fewest) break;
      candidate = std::move(*fewest);
    } else {
      if (last.layouts_bytes == 0) break;
      candidate = anew(std::move(candidate));
      if (!candidate.layouts) candidate.layouts = asked();
      candidate.layouts->weights.memory = last.layouts_price;
      candidate.layouts->memory =
          last.layouts_bytes - candidate.job.parallel.pp * static_cast<double>(last.excess);
    }
    candidate.move = move;
    last = attempt(begin(candidate));
  }
  return last;
}

void Attempts::attempt_laid_out(const std::vector<Candidate>& candidates) {
  std::vector<Making> makings;
  for (const Candidate& candidate : candidates) makings.push_back(begin(candidate));
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Attempt one = attempt_within(candidates[i], std::move(makings[i]));
    if (one.error) outcome_.no_layouts = one.error->what();
    if (one.excess > 0) outcome_.no_layouts = "what was found does not fit";
  }
}

void Attempts::take_fewest_slots(Candidate candidate) {
  try {
    const Timed timed(use_of(outcome_.moves, candidate.move));
    if (!candidate.plan)
      candidate.plan = std::make_shared<ir::Plan>(plan_of(candidate, nullptr, graphs_, look_));
    candidate.slots =
        fewest_slots(*candidate.plan, candidate.job.cluster, oracle_.act_seconds, most_acts, look_);
  } catch (const Stopped&) {
    return;
  }
  candidate.plan.reset();
  candidate.peak_bytes = 0;
  if (!candidate.slots.changes.empty()) attempt(begin(std::move(candidate)));
}

Attempt Attempts::attempt_at_the_end(const Candidate& candidate) {
  last_ = true;
  const Attempt one = attempt(begin(candidate));
  last_ = false;
  return one;
}

void Attempts::insert(Candidate candidate) {
  std::vector<Candidate>& best = outcome_.best;
  for (const Candidate& known : best)
    if (is_same(known, candidate)) return;
  const auto rank = [&](const Candidate& c) { return std::tuple(value(c), c.seconds, c.peak_bytes); };
  auto place = std::upper_bound(best.begin(), best.end(), candidate,
                                [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  // The plainer plan comes first if the other is not visibly better.
  const auto better = std::find_if(best.begin(), place, [&](const Candidate& known) {
    return gains_nothing(known, candidate, options_.goal);
  });
  place = better;
  for (auto known = place; known != best.end(); ++known)
    if (gains_nothing(candidate, *known, options_.goal)) place = known + 1;
  if (place == best.begin() && !best.empty())
    use_of(outcome_.moves, candidate.move).left *= value(candidate) / value(best.front());
  best.insert(place, std::move(candidate));
  for (size_t c = 1; c < best.size(); ++c) best[c].plan.reset();
}

void Attempts::prefer_faster_among_equal() {
  std::vector<Candidate>& best = outcome_.best;
  if (best.empty()) return;
  const auto last = std::find_if(best.begin(), best.end(), [&](const Candidate& c) {
    return (1 - shown) * value(c) > value(best.front());
  });
  const auto fastest = std::min_element(
      best.begin(), last, [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  if (fastest->seconds < (1 - shown) * best.front().seconds) std::rotate(best.begin(), fastest, fastest + 1);
}

bool Attempts::is_known(const planner::Job& job) const {
  return std::any_of(outcome_.best.begin(), outcome_.best.end(),
                     [&](const Candidate& c) { return key_of(c.job) == key_of(job); });
}

// For the least memory the plan decides: one that needs more than several others need not be simulated.
bool Attempts::has_smaller(const Candidate& candidate) const {
  const auto known = static_cast<size_t>(runners_up);
  return options_.goal == Goal::memory && outcome_.best.size() > known &&
         candidate.peak_bytes >= outcome_.best[known].peak_bytes;
}

// A known candidate whose layouts have the same cost; null: none.
const Candidate* Attempts::with_these_layouts(const Candidate& c) const {
  if (!c.layouts) return nullptr;
  for (const Candidate& known : outcome_.best)
    if (known.layouts && key_of(known.job) == key_of(c.job) && known.found.cost == c.found.cost &&
        known.peak_bytes == c.peak_bytes && known.slots.changes == c.slots.changes)
      return &known;
  return nullptr;
}

std::vector<Candidate> Attempts::hopeful(double share, int most) const {
  std::vector<Candidate> some;
  std::set<Degrees> done;
  for (const Candidate& c : outcome_.best) {
    if (some.size() == static_cast<size_t>(most)) break;
    const bool may_win = (1 - share) * value(c) < value(outcome_.best.front());
    if ((some.empty() || (may_win && is_short(c.job))) && done.insert(degrees_of(c.job)).second)
      some.push_back(c);
  }
  return some;
}

double Attempts::smallest_bytes() const {
  const Candidate& known = outcome_.smallest;
  if (known.peak_bytes > 0) return static_cast<double>(known.peak_bytes);
  return known.estimated_bytes <= static_cast<double>(limit_) ? infinity : known.estimated_bytes;
}

// If estimates of memory were too low, messages quote plans, and changes have to leave so much more room.
void Attempts::note_smallest(const Candidate& c) {
  if (static_cast<double>(c.peak_bytes) < smallest_bytes()) outcome_.smallest = c;
  if (c.estimated_bytes > 0 && !c.layouts)
    memory_underestimate_ =
        std::max(memory_underestimate_, static_cast<double>(c.peak_bytes) / c.estimated_bytes);
}

void Attempts::measure_smallest() {
  const Candidate smallest = outcome_.smallest;
  const std::optional<Error> refused = refused_;
  outcome_.smallest.estimated_bytes = infinity;
  attempt(begin(smallest));
  if (outcome_.smallest.peak_bytes == 0) outcome_.smallest = smallest;  // it may even fit, or have no plan
  refused_ = refused;
}

// A simulated candidate takes precedence over one that was not simulated.
void Attempts::note_fastest(const Candidate& c) {
  const auto rank = [](const Candidate& x) {
    return std::pair(x.seconds == 0, x.seconds == 0 ? x.estimated_seconds : x.seconds);
  };
  if (!outcome_.fastest || rank(c) < rank(*outcome_.fastest))
    outcome_.fastest = c, outcome_.fastest->plan.reset();
}

}  // namespace boxcar::search
