// The known name nearest to an unknown one, for messages.
//
//   nearest("hiden", {"hidden", "heads"}) == "hidden";  did_you_mean(...) == " (did you mean hidden?)"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace boxcar {

// By edit distance (swapped neighbours count one, case is ignored); empty if nothing is within half of the
// name's length. Ties go to the first.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

// " (did you mean X?)", or "" if nothing is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace boxcar
