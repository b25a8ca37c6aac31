#define BOXCAR_BYTES 64
#define BOXCAR_ROWS 12
#include "backends/cpu/product_unit.h"
#include "backends/cpu/product_units.h"

namespace boxcar::backends::cpu {

ProductUnit product_avx512() { return {"avx512", Tiles<float>::product, Tiles<double>::product}; }

}  // namespace boxcar::backends::cpu
