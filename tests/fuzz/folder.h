// A folder, in memory where possible, for parsers that read files; removed when the program ends.
#pragma once

#include <string>
#include <string_view>

namespace boxcar::fuzz {

const std::string& folder();
// Writes folder()/name and returns its path.
std::string put(const std::string& name, std::string_view bytes);

}  // namespace boxcar::fuzz
