// Dropout of reference and fast kernels: which elements of a part are kept.
//
//   const Dropout drop(attrs, type.shape);   // attrs of a random op, maybe of a part of a larger tensor
//   y = x * drop.factor(flat);               // 0 or 1 / (1 - p); flat is row-major in this part
//
// Positions continue over micro-batches: element e of micro-batch m is m times the elements of the global
// tensor plus e. A row's elements have consecutive positions:
//
//   const Dropout drop = Dropout(attrs, type.shape).at(moment);
//   const int64_t first = drop.position(row * width);
//   y[i] = x[i] * drop.factor_at(first + i);             // for i < width, the last extent
#pragma once

#include "backends/cpu/reference.h"
#include "backends/device.h"
#include "backends/random.h"

namespace boxcar::backends::cpu {

class Dropout {
 public:
  Dropout(const ir::Attrs& attrs, const ir::Shape& local);
  // The same with the moment's seed, step and micro-batch added to the attributes'.
  Dropout at(const Moment& moment) const;

  bool drops() const { return p_ != 0; }
  double factor(int64_t flat) const { return drops() ? factor_at(position(flat)) : 1; }

  int64_t position(int64_t flat) const;
  double factor_at(int64_t position) const { return keeps(position) ? kept_ : 0; }
  bool keeps(int64_t position) const { return draw_bits(key_, position) >= least_; }
  double kept() const { return kept_; }

 private:
  void count_from(int64_t seed, int64_t step, int64_t micro_batch);

  double p_, kept_;
  int64_t least_;  // of the draws that keep: uniform at least p
  int64_t seed_, step_, micro_batch_, op_;
  RandomKey key_;
  int64_t first_ = 0;  // position of the micro-batch's first element
  int64_t elements_;   // of the global tensor
  ir::Shape local_;
  std::vector<int64_t> starts_, global_strides_;  // empty if the part is the whole
};

}  // namespace boxcar::backends::cpu
