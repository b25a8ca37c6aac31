#include "backends/cpu/reference_random.h"

#include <cmath>

namespace boxcar::backends::cpu {
namespace {

int64_t count(const ir::Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

}  // namespace

Dropout::Dropout(const ir::Attrs& attrs, const ir::Shape& local)
    : p_(ir::attr_float(attrs, "p")),
      kept_(1 / (1 - p_)),
      least_(static_cast<int64_t>(std::ceil(p_ * 0x1p24))),
      op_(ir::attr_int(attrs, "op")),
      local_(local),
      starts_(ir::attr_ints(attrs, "starts")),
      global_strides_(strides(ir::attr_ints(attrs, "shape"))) {
  elements_ = count(starts_.empty() ? local : ir::attr_ints(attrs, "shape"));
  count_from(ir::attr_int(attrs, "seed"), ir::attr_int(attrs, "step"), ir::attr_int(attrs, "micro_batch"));
}

void Dropout::count_from(int64_t seed, int64_t step, int64_t micro_batch) {
  seed_ = seed;
  step_ = step;
  micro_batch_ = micro_batch;
  key_ = random_key(seed, step, op_);
  first_ = micro_batch * elements_;
}

Dropout Dropout::at(const Moment& moment) const {
  Dropout then = *this;
  then.count_from(seed_ + moment.seed, step_ + moment.step, micro_batch_ + moment.micro_batch);
  return then;
}

int64_t Dropout::position(int64_t flat) const {
  int64_t element = first_ + (starts_.empty() ? flat : 0);
  for (size_t i = starts_.size(); i-- > 0;) {
    element += (starts_[i] + flat % local_[i]) * global_strides_[i];
    flat /= local_[i];
  }
  return element;
}

}  // namespace boxcar::backends::cpu
