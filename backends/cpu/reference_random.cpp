#include "backends/cpu/reference_random.h"

namespace boxcar::backends::cpu {

Dropout::Dropout(const ir::Attrs& attrs, const ir::Shape& local)
    : p_(ir::attr_float(attrs, "p")),
      key_(random_key(ir::attr_int(attrs, "seed"), ir::attr_int(attrs, "step"),
                      ir::attr_int(attrs, "micro_batch"), ir::attr_int(attrs, "op"))),
      local_(local),
      starts_(ir::attr_ints(attrs, "starts")),
      global_strides_(strides(ir::attr_ints(attrs, "shape"))) {}

double Dropout::factor(int64_t flat) const {
  if (p_ == 0) return 1;
  int64_t element = starts_.empty() ? flat : 0;
  for (size_t i = starts_.size(); i-- > 0;) {
    element += (starts_[i] + flat % local_[i]) * global_strides_[i];
    flat /= local_[i];
  }
  return uniform(key_, element) >= p_ ? 1 / (1 - p_) : 0;
}

}  // namespace boxcar::backends::cpu
