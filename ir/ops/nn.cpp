#include "ir/ops/ops.h"

namespace boxcar::ir {

void add_nn_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
