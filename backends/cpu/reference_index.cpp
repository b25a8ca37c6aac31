#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {

void add_index_kernels(KernelTable&) {}

}  // namespace boxcar::backends::cpu
