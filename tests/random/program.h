// Laws over the command line: jobs as a user types them.
#pragma once

#include "random_job.h"

namespace boxcar::tests {

// Whether make_cuda_backend finds a GPU.
bool has_gpus();

// Every job that can be simulated can be trained, except those that the documentation calls simulated only. A
// step, its checkpoint and a second step under another plan equal two steps under that other plan.
bool has_program_run(const RandomJob& job);
void check_program(const RandomJob& job);

// Both commands refuse such a job, with the same words unless it is simulated only.
void check_refused(const RandomJob& job);

}  // namespace boxcar::tests
