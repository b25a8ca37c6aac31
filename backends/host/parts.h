// Parts of global tensors in host memory, to fill a device's registers and to gather from them.
//
//   whole f32[4, 6], ranges {[0, 2), [3, 6)}: the upper right quarter, 2 x 3, row-major
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/host/safetensors.h"
#include "ir/types.h"
#include "sbp/sbp.h"

namespace boxcar::backends::host {

std::vector<sbp::Range> all_of(const ir::Shape& shape);  // the ranges of the whole

// Calls visit(flat index in the whole, flat index in the part, elements) for every row of the part. A scalar
// has no ranges and one row.
void for_rows(const ir::Shape& whole, std::span<const sbp::Range> ranges,
              const std::function<void(int64_t whole, int64_t part, int64_t count)>& visit);

// The part as elements of type `to`; float types are rounded to it once. Throws Error (fault) if `part` has
// another size.
void take_part(const StoredTensor& whole, std::span<const sbp::Range> ranges, ir::DType to,
               std::span<std::byte> part);
// The part, of the whole's type, into its place.
void put_part(StoredTensor& whole, std::span<const sbp::Range> ranges, std::span<const std::byte> part);

// One element as a double, and back.
double load_element(ir::DType dtype, const std::byte* at);
void store_element(ir::DType dtype, std::byte* at, double value);

}  // namespace boxcar::backends::host
