#include "ir/ops/ops.h"

namespace boxcar::ir {

void add_elementwise_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
