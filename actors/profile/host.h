// The state of the machine during a measurement.
#pragma once

#include <string>

namespace boxcar::profile {

// The system's name for its processor; "a processor" if it has none.
std::string processor();

// Number of processors that other programs keep busy while this one sleeps; 0 if the system does not report
// it.
double busy_processors();

}  // namespace boxcar::profile
