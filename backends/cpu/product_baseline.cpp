#define BOXCAR_BYTES 16
#define BOXCAR_ROWS 4
#include "backends/cpu/product_unit.h"
#include "backends/cpu/product_units.h"

namespace boxcar::backends::cpu {

ProductUnit product_baseline() { return {"baseline", Tiles<float>::product, Tiles<double>::product}; }

}  // namespace boxcar::backends::cpu
