// The machine around what is measured.
#pragma once

#include <string>

namespace boxcar::profile {

// What the system calls its processor; "a processor" where it does not say.
std::string processor();

// How many processors other programs keep busy while this one sleeps; 0 where the system does not say.
double busy_processors();

}  // namespace boxcar::profile
