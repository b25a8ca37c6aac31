// Stages as Megatron Core writes them: embedding E, layers t and loss L, with | between (virtual) stages in
// model order.
//
//   pipeline_layout({3, 3, 2})   "Et*3|t*3|t*2L"
//   pipeline_layout({0, 2, 0})   "E|t*2|L"
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace boxcar::cli::exports {

inline std::string pipeline_layout(const std::vector<int>& stage_layers) {
  std::string text = "E";
  for (size_t i = 0; i < stage_layers.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : "|",
                        stage_layers[i] == 0 ? "" : fmt::format("t*{}", stage_layers[i]));
  return text + "L";
}

}  // namespace boxcar::cli::exports
