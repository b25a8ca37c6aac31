#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {

void add_attention_kernels(KernelTable&) {}

}  // namespace boxcar::backends::cpu
