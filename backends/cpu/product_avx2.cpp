#define BOXCAR_BYTES 32
#define BOXCAR_ROWS 6
#include "backends/cpu/product_unit.h"
#include "backends/cpu/product_units.h"

namespace boxcar::backends::cpu {

ProductUnit product_avx2() { return {"avx2", Tiles<float>::product, Tiles<double>::product}; }

}  // namespace boxcar::backends::cpu
