// Reads the arguments of `boxcar sbp`. Every function throws Error (bad input) that names the flag or the
// argument.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/types.h"
#include "sbp/boxing.h"

namespace boxcar::cli {

// "4x6"; "scalar" has no extents. Extents are 1 or more, and there are at most 2^48 elements.
sbp::Shape read_shape(const std::string& place, const std::string& text);

// A whole number of 1 to `most`.
int64_t read_count(const std::string& place, const std::string& text, int64_t most);

ir::DType read_dtype(const std::string& place, const std::string& text);
ir::Attrs read_attrs(const std::vector<std::string>& texts);  // "axis=1"

// One end of a route: --from, --from-devices and --from-mesh, or the same with to. Without a mesh, a layout
// of several entries has the mesh that is nearest to a square, with the longer dimensions inside.
struct End {
  std::string name;  // "from"
  std::string sbp, devices, mesh;
};
sbp::Layout read_layout(const End& end, const sbp::Shape& shape, const sbp::Layout* other = nullptr);

}  // namespace boxcar::cli
