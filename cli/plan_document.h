// A plan (ir/plan.h) as a JSON document, for Python (cli/python): the struct's members, with names where the
// struct has indices.
//
//   to_json(plan)["programs"][0]["actors"][0]
//       == {"name":"mm","kind":"kernel","op":"matmul","attrs":{"transpose_b":true},
//           "inputs":[{"register":"x","repeat":1},{"register":"w","repeat":8}],"outputs":["y"],
//           "queue":"compute","phase":"F","layer":null, ...}
//
// Sizes are in bytes. Values that a plan leaves open are null.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/plan.h"

namespace boxcar::cli {

// `plan` has passed ir::check().
nlohmann::ordered_json to_json(const ir::Plan& plan);

}  // namespace boxcar::cli
