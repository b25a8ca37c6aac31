// The known name nearest to an unknown one, for messages.
//
//   nearest("hiden", {"hidden", "heads"}) == "hidden";  did_you_mean(...) == " (did you mean hidden?)"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace boxcar {

// By edit distance, whatever the case; swapped neighbours count one, and so does a known name that begins
// with the given one, of three characters or more. Empty if nothing is within half of the name's length, or
// if it has more than 100 characters. Ties go to the first.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

// " (did you mean X?)", or "" if nothing is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace boxcar
