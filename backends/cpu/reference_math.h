// Activations and their slopes, as more than one group of kernels needs them.
#pragma once

#include "ir/ops/exact.h"

namespace boxcar::backends::cpu {

using namespace ir::exact;

}  // namespace boxcar::backends::cpu
