// The units that product.cpp chooses from: product_NAME.cpp each, the last two on x86 alone.
#pragma once

#include "backends/cpu/product.h"

namespace boxcar::backends::cpu {

ProductUnit product_baseline();
ProductUnit product_avx2();    // AVX2 and FMA
ProductUnit product_avx512();  // AVX-512 F and VL

}  // namespace boxcar::backends::cpu
