// Activations and their slopes that several groups of kernels need.
#pragma once

#include "ir/ops/exact.h"

namespace boxcar::backends::cpu {

using namespace ir::exact;

}  // namespace boxcar::backends::cpu
