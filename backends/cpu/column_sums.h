// Sums over rows, column by column: in A over a few rows, in double over all.
//
//   ColumnSums<float> sums(3);
//   sums.add(0, 3, row);  sums.next_row();     // for each row
//   sums.totals()[1]
#pragma once

#include <vector>

#include "backends/cpu/chunks.h"

namespace boxcar::backends::cpu {

template <class A>
class ColumnSums {
 public:
  explicit ColumnSums(int64_t width) : partial_(padded(width)), total_(padded(width)) {}

  void clear() {
    std::fill(partial_.begin(), partial_.end(), A(0));
    std::fill(total_.begin(), total_.end(), 0.0);
    rows_ = 0;
  }

  // Adds f(x[i]...) to columns at to at + count; at is a multiple of kLanes.
  template <class F, class... X>
  void add(int64_t at, int64_t count, F f, const X*... x) {
    on_vectors(
        [](int64_t n, F g, A* __restrict sum, const X* __restrict... from) {
          for (int64_t b = 0; b < n; b += kLanes) {
            for (int64_t i = 0; i < kLanes; ++i) sum[b + i] += g(from[b + i]...);
          }
        },
        count, f, partial_.data() + at, x...);
  }

  void next_row() {
    if (++rows_ % kRows == 0) flush();
  }

  // Called after the last row: the sums, and the sums as elements of an output.
  const std::vector<double>& totals() {
    flush();
    return total_;
  }
  void store(const Out<A>& out, const Operands& operands, int64_t width) {
    flush();
    for_chunks(width, [&](int64_t at, int64_t n) {
      Chunk<A> rounded{};
      for (int64_t i = 0; i < n; ++i) rounded.at[i] = static_cast<A>(total_[static_cast<size_t>(at + i)]);
      out.store(rounded.at, operands, at, n);
    });
  }

 private:
  static constexpr int64_t kRows = 32;

  static size_t padded(int64_t width) { return static_cast<size_t>((width + kLanes - 1) / kLanes * kLanes); }

  void flush() {
    for (size_t i = 0; i < total_.size(); ++i) {
      total_[i] += static_cast<double>(partial_[i]);
      partial_[i] = A(0);
    }
  }

  std::vector<A> partial_;
  std::vector<double> total_;
  int64_t rows_ = 0;
};

}  // namespace boxcar::backends::cpu
