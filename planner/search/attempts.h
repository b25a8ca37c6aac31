// Tries candidates one after the other: makes and simulates their plans, while the plans of the next are
// made. A candidate that fits and keeps the limit of time goes into the outcome, the best by the objective
// first.
//
//   Attempts attempts(options, oracle, points, limit, outcome);
//   const Attempt one = attempts.attempt(attempts.begin(candidate));
//   if (!one.succeeded && one.excess > 0) ...  // its plan needs this many bytes too many
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/search/candidates.h"
#include "planner/search/making.h"
#include "planner/search/search.h"

namespace boxcar::search {

struct Attempt {
  bool succeeded = false;    // fits and keeps the limit of time, or a known one that does is equally good
  bool too_slow = false;     // takes longer than the limit of time, or its layouts alone longer than the best
  double seconds = 0;        // simulated; 0: not simulated
  int64_t excess = 0;        // bytes by which its plan does not fit
  double layouts_bytes = 0;  // if it does not fit and layouts were found: by their costs,
  double layouts_price = 0;  // and next_price of these
  std::vector<double> stage_bytes = {};  // of its plan
  std::optional<Error> error = {};       // why no plan could be made
};

class Attempts {
 public:
  // All arguments have to outlive it. A plan may take at most `limit` bytes on a device.
  Attempts(const SearchOptions& options, const Oracle& oracle, Candidates& points, int64_t limit,
           Outcome& outcome);

  // Begins to make its plan, with the requested layouts.
  Making begin(Candidate candidate);
  // Drops a plan that is not needed, without waiting for it.
  void leave(Making making);

  Attempt attempt(Making making);
  // If the plan needs too much memory, tries again with so much less (move make-it-fit): more layers
  // recompute on stages that need too much or, if the candidate has its own layouts, layouts need less on
  // every stage.
  Attempt attempt_within(Candidate candidate, Making making, int most_tries = 3);
  // Begins all at once. Notes if the requested layouts could not be found.
  void attempt_laid_out(const std::vector<Candidate>& candidates);
  // Tries the same plan with the fewest slots of values that move between queues and devices.
  void take_fewest_slots(Candidate candidate);
  // Puts the fastest first of those whose values a report would show as equal to the best.
  void prefer_faster_among_equal();
  // Attempts the candidate even though the search was told to end.
  Attempt attempt_at_the_end(const Candidate& candidate);

  bool asked_to_stop();
  const std::vector<Candidate>& best() const { return outcome_.best; }
  bool is_known(const planner::Job& job) const;  // whether it was simulated
  // The best and, if steps are short, the best of other degrees that would win if they took less by `share`;
  // at most `most` in total.
  std::vector<Candidate> hopeful(double share, int most) const;
  LayoutRequest asked() const;
  bool layouts_asked() const { return !options_.partial || !options_.pins.empty(); }
  double value(const Candidate& c) const { return simulated(options_.goal, c); }

  // Bytes of the smallest known candidate: by its plan, or by an estimate that does not fit.
  double smallest_bytes() const;
  // If nothing fits by estimate: makes the smallest one's plan to measure its memory.
  void measure_smallest();
  void note_fastest(const Candidate& candidate);

  const std::optional<Error>& refused() const { return refused_; }
  bool measured_any() const { return measured_any_; }
  double memory_underestimate() const { return memory_underestimate_; }
  int solved() const { return solved_; }
  int64_t limit() const { return limit_; }  // bytes of a device

 private:
  // Seconds of a step that are too long to be better than the best.
  double hopeless_seconds(const planner::Job& job) const;
  void insert(Candidate candidate);
  void note_smallest(const Candidate& candidate);
  bool has_smaller(const Candidate& candidate) const;
  const Candidate* with_these_layouts(const Candidate& candidate) const;
  void simulate(Made made, Attempt& attempt);

  const SearchOptions& options_;
  const Oracle& oracle_;
  Candidates& points_;
  const int64_t limit_;
  Outcome& outcome_;
  Graphs graphs_{4};                 // of candidates
  std::optional<Error> refused_;     // why the last candidate without a plan has none
  bool measured_any_ = false;        // whether any plan was made, which tells its memory
  double memory_underestimate_ = 1;  // the largest factor by which a plan needed more than its estimate
  int simulated_ = 0;                // plans
  int solved_ = 0;                   // nodes of the largest problem of layouts
  double ending_seconds_ = 0;        // to end after go_on returns false, by the plans made so far
  bool last_ = false;                // told to end, but tries one more
  std::function<void()> look_;
  std::vector<Making> left_;  // waits, so it is destroyed before the graphs
};

}  // namespace boxcar::search
