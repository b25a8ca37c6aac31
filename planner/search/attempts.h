// Candidates that are made and simulated, one after the other, while the plans of the next are made. A
// candidate that fits and keeps the time goes into the outcome, the best by the objective first.
//
//   Attempts attempts(options, oracle, points, limit, outcome);
//   const Attempt one = attempts.attempt(attempts.begin(candidate));
//   if (!one.does && one.excess > 0) ...  // its plan needs so many bytes too much
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
  bool does = false;  // it is among the best, or a known one is as good
  bool too_slow = false;
  double seconds = 0;                    // simulated; 0: it was not
  int64_t excess = 0;                    // bytes by which its plan does not fit
  double layouts_bytes = 0;              // where it does not fit and layouts were found: by their costs
  std::vector<double> stage_bytes = {};  // of its plan
  std::optional<Error> error = {};       // why no plan could be made
};

class Attempts {
 public:
  // All arguments have to outlive it. A plan may take at most `limit` bytes on a device.
  Attempts(const SearchOptions& options, const Oracle& oracle, Candidates& points, int64_t limit,
           Outcome& outcome);

  // Begins to make its plan, with the layouts that are asked for.
  Making begin(Candidate candidate) { return {std::move(candidate), asked(), graphs_}; }
  // Drops a plan that is not needed, without waiting for it.
  void leave(Making making);

  Attempt attempt(Making making);
  // Where the plan needs too much memory, tries again with as much less (move make-it-fit): more layers
  // recompute on stages that need too much, or, where the candidate has layouts of its own, layouts need less
  // on every stage.
  Attempt attempt_within(Candidate candidate, Making making, int most_tries = 3);
  // Begins all at once. Notes where the layouts asked for could not be found.
  void attempt_laid_out(const std::vector<Candidate>& candidates);
  // Tries the same plan with the fewest slots of values that move between queues and devices.
  void take_fewest_slots(Candidate candidate);
  // Puts the fastest of the plans first whose values differ from the best one by nothing that a report would
  // show.
  void settle_near_ties();
  // Attempts the candidate although the search was told to end.
  Attempt attempt_at_the_end(const Candidate& candidate);

  bool asked_to_stop();
  const std::vector<Candidate>& best() const { return outcome_.best; }
  bool is_known(const planner::Job& job) const;  // it was simulated
  // The best, and where steps are short, at most `most` in all, the best of other degrees that would win if
  // they took less by `share`.
  std::vector<Candidate> hopeful(double share, int most) const;
  LayoutRequest asked() const;
  bool layouts_asked() const { return !options_.partial || !options_.pins.empty(); }
  double value(const Candidate& c) const { return simulated(options_.goal, c); }

  // Bytes of the smallest candidate known: by its plan, or by an estimate that does not fit.
  double smallest_bytes() const;
  // Where nothing fits by estimate: makes the smallest one's plan to measure its memory.
  void measure_smallest();
  void note_fastest(const Candidate& candidate);

  const std::optional<Error>& refused() const { return refused_; }
  bool measured() const { return measured_; }
  double too_low() const { return too_low_; }
  int solved() const { return solved_; }
  int64_t limit() const { return limit_; }  // bytes of a device

 private:
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
  Graphs graphs_{4};              // of candidates
  std::optional<Error> refused_;  // why the last candidate without a plan has none
  bool measured_ = false;         // the memory of any
  double too_low_ = 1;            // by how much estimates of memory were, at most
  int simulated_ = 0;             // plans
  int solved_ = 0;                // nodes of the largest problem of layouts
  double ending_seconds_ = 0;     // to end after go_on says no, by the plans made so far
  bool last_ = false;             // told to end: one more all the same
  std::function<void()> look_;
  std::vector<Making> left_;  // waits, and so ends before the graphs do
};

}  // namespace boxcar::search
