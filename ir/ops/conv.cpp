#include "ir/ops/ops.h"

namespace boxcar::ir {

void add_conv_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
