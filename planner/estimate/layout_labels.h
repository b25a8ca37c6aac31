// The request by which a plan's layouts were chosen, as labels of the plan, so that the layouts can be found
// again.
//
//   search.layouts.partial "true", search.layouts.states "1", search.layouts.memory "0",
//   search.layouts.pin.1 "h*.mlp.fc1.weight=(B, S(1))"
#pragma once

#include <map>
#include <optional>
#include <string>

#include "planner/estimate/layout_request.h"

namespace boxcar::search {

void add_labels(const LayoutRequest& request, std::map<std::string, std::string>& labels);
// None if the hints decided.
std::optional<LayoutRequest> layouts_of(const std::map<std::string, std::string>& labels);

}  // namespace boxcar::search
