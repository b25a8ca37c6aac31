// The commands of `boxcar`, from the words of a command line.
//
//   const char* words[] = {"boxcar", "sbp", "ops"};
//   run_program(3, words);   // prints the names of all ops, returns 0
#pragma once

#include "cli/extent.h"

namespace boxcar::cli {

const char* program_version();  // "0.1.0"

// The exit code. Throws Error if the input is wrong, the job cannot run or something fails.
int run_program(int argc, const char* const* argv, Extent extent = Extent::whole);

// The same for `main`: an error is a line on standard error. The exit code is 0 done, 1 the job cannot run, 2
// the input is wrong, 3 a fault while running.
int program_main(int argc, const char* const* argv);

}  // namespace boxcar::cli
