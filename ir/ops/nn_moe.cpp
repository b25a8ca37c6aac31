#include "ir/ops/nn_rows.h"

namespace boxcar::ir {

void add_moe_ops(std::vector<OpDef>&) {}

}  // namespace boxcar::ir
