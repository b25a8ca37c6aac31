// Measured samples to which the time models are fitted: experiments/fit/samples/NAME, rows of cells without
// the two lines of source and column names.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace boxcar::support {

inline std::vector<std::vector<std::string>> samples(const std::string& name) {
  std::ifstream in(BOXCAR_SOURCE_DIR "/experiments/fit/samples/" + name);
  EXPECT_TRUE(in) << name;
  std::vector<std::vector<std::string>> rows;
  std::string line, cell;
  for (int number = 0; std::getline(in, line); ++number) {
    if (number < 2) continue;
    std::istringstream cells(line);
    rows.emplace_back();
    while (std::getline(cells, cell, ',')) rows.back().push_back(cell);
  }
  return rows;
}

}  // namespace boxcar::support
