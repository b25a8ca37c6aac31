// Inputs of `calibrate`: the output of nccl-tests, and CSVs of jobs.
#include "cli/timings.h"
#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_measurements(std::string_view input) {
  for (const char* name : {"all_gather.txt", "steps.csv"}) {
    const std::string path = put(name, input);
    ends([&] {
      cli::Measurements measured;
      cli::read_measurements(path, measured);
    });
  }
}

}  // namespace boxcar::fuzz
