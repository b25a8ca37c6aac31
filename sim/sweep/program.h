// The program that runs the points of a sweep. Its points are run, and rows are added to its file, by one
// version of it alone, since results of another version may differ.
#pragma once

#include <string>

namespace boxcar::sweep {

struct Program {
  std::string name;     // "boxcar", for messages
  std::string version;  // "0.1.0"
};

}  // namespace boxcar::sweep
