// The units that product.cpp chooses from, each in its product_NAME.cpp; the last two only on x86.
#pragma once

#include "backends/cpu/product.h"

namespace boxcar::backends::cpu {

ProductUnit product_baseline();
ProductUnit product_avx2();    // AVX2 and FMA
ProductUnit product_avx512();  // AVX-512 F and VL

}  // namespace boxcar::backends::cpu
