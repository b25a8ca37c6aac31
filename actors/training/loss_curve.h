// The losses of a run of any length in bounded space, as means of enough adjacent steps.
//
//   LossCurve curve(4);
//   for (int64_t step = 1; step <= 7; ++step) curve.add(step, 10 - step);
//   curve.points();   // {1, 8.5}, {4, 6.5}, {6, 4.5}, {7, 3}: of two steps each, except the last
//
// A point is at the last of its steps; the first point is at its first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace boxcar::training {

class LossCurve {
 public:
  using Point = std::pair<int64_t, double>;  // step, loss

  explicit LossCurve(size_t most = 4096) : most_(most) {}

  void add(int64_t step, double loss) {
    if (count_ == 0) first_ = loss;
    last_ = {step, loss};
    sum_ += loss;
    if (++count_ % width_ != 0) return;
    points_.emplace_back(points_.empty() ? step - width_ + 1 : step, sum_ / static_cast<double>(width_));
    sum_ = 0;
    if (points_.size() == most_) halve();
  }

  int64_t steps() const { return count_; }
  double first() const { return first_; }  // losses of the first and the last step; 0 if there is none
  double last() const { return last_.second; }
  std::vector<Point> points() const {
    std::vector<Point> points = points_;
    if (const int64_t rest = count_ % width_; rest != 0)
      points.emplace_back(last_.first, sum_ / static_cast<double>(rest));
    return points;
  }

 private:
  void halve() {
    for (size_t i = 0; i < points_.size() / 2; ++i) {
      const Point &a = points_[2 * i], &b = points_[2 * i + 1];
      points_[i] = {i == 0 ? a.first : b.first, (a.second + b.second) / 2};
    }
    points_.resize(points_.size() / 2);
    width_ *= 2;
  }

  size_t most_;  // points, an even number
  int64_t count_ = 0, width_ = 1;
  double first_ = 0, sum_ = 0;
  Point last_{0, 0};
  std::vector<Point> points_;
};

}  // namespace boxcar::training
