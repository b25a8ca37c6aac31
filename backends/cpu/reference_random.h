// Dropout of the reference kernels: which elements of a part are kept.
//
//   const Dropout drop(attrs, type.shape);   // attrs of a random op, maybe of a part of a larger tensor
//   y = x * drop.factor(flat);               // 0 or 1 / (1 - p); flat is row-major in this part
#pragma once

#include "backends/cpu/reference.h"
#include "backends/random.h"

namespace boxcar::backends::cpu {

class Dropout {
 public:
  Dropout(const ir::Attrs& attrs, const ir::Shape& local);
  double factor(int64_t flat) const;

 private:
  double p_;
  RandomKey key_;
  ir::Shape local_;
  std::vector<int64_t> starts_, global_strides_;  // empty where the part is the whole
};

}  // namespace boxcar::backends::cpu
