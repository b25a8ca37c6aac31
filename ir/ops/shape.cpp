#include "ir/ops/ops.h"

namespace boxcar::ir {

void add_shape_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
