#include "backends/cpu/reference_groups.h"

namespace boxcar::backends::cpu {

void add_moe_kernels(KernelTable&) {}

}  // namespace boxcar::backends::cpu
