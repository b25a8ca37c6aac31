// The time that a command may take, with some of it kept for its work after it is told to end.
//
//   TimeBudget budget(5, passed);     // s; `passed` returns how long the command has run
//   budget.keep(0.2);                 // is_spent() from 4.8 s on
//   budget.begin_share(2);            // the first of two searches: from here on half of what is left
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

namespace boxcar::cli {

class TimeBudget {
 public:
  TimeBudget(double seconds, std::function<double()> passed)
      : passed_(std::move(passed)), end_(seconds), share_end_(seconds) {}

  // Keeps `seconds` at the end for later work; the largest call counts.
  void keep(double seconds) { kept_ = std::max(kept_, seconds); }

  // Divides the time left into `shares` of equal length; the first begins now.
  void begin_share(size_t shares) {
    share_begin_ = passed_();
    share_end_ = share_begin_ + (end_ - share_begin_) / static_cast<double>(shares);
  }

  // `part` of the share.
  bool is_spent(double part = 1) const {
    return passed_() >= share_begin_ + part * (share_end_ - kept_ - share_begin_);
  }

 private:
  std::function<double()> passed_;
  double end_, kept_ = 0;
  double share_begin_ = 0, share_end_;
};

}  // namespace boxcar::cli
