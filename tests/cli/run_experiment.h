// Runs a script of experiments/ on the program under test.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace boxcar::cli {

// Both output streams of experiments/NAME; a shell parses `arguments`.
inline std::string experiment(const std::string& name, const std::string& arguments) {
  const std::string command = fmt::format("BOXCAR='{}' '{}' '{}/experiments/{}' {} 2>&1", BOXCAR_PROGRAM,
                                          BOXCAR_PYTHON, BOXCAR_SOURCE_DIR, name, arguments);
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "cannot be started";
  std::string text;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

}  // namespace boxcar::cli
