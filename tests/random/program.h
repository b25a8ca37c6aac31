// Laws over the command line: jobs as a user types them.
#pragma once

#include "random_job.h"

namespace boxcar::tests {

// Whether make_cuda_backend finds something to run on.
bool has_gpus();

// What is simulated can be trained, but for what the documentation calls simulated alone; the same is refused
// with the same words. A step of training, its checkpoint and a second step under another plan are two steps
// under that one.
bool has_program_run(const RandomJob& job);
void check_program(const RandomJob& job);

// A job that is refused is refused by both commands.
void check_refused(const RandomJob& job);

}  // namespace boxcar::tests
