#include "ir/ops/ops.h"

namespace boxcar::ir {

void add_reduce_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
