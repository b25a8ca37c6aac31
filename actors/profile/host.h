// The machine around a measurement.
#pragma once

#include <string>

namespace boxcar::profile {

// The system's name for its processor; "a processor" where it gives none.
std::string processor();

// How many processors other programs keep busy while this one sleeps; 0 where the system does not say.
double busy_processors();

}  // namespace boxcar::profile
