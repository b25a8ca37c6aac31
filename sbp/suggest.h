// The nearest known name to one that is not known, for messages.
//
//   nearest("hiden", {"hidden", "heads"}) == "hidden";  did_you_mean(...) == " (did you mean hidden?)"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace boxcar {

// By edit distance (a swap of neighbours counts one, capitals are small letters); empty where nothing is
// nearer than half of the name's length. Ties go to the first.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

// " (did you mean X?)", or "" where nothing is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace boxcar
