#include "ir/ops/ops.h"

namespace boxcar::ir {

void add_index_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
