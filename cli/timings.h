// Measurements of a machine by its user: the output of nccl-tests, and training steps with the keys of their
// jobs.
//
//   model,layers,hidden,heads,seq,vocab,gpus,tp,step_s
//   gpt,24,1024,16,1024,51200,8,1,0.391
//   gpt,24,1024,16,1024,51200,8,2,0.507
//
// A column is a key of a job (docs/jobs.md) or step_s, the seconds of an optimizer step. An empty cell gives
// nothing; a cell with commas is in quotes. sim/fit/nccl_tests.h reads the other kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/job.h"
#include "sim/fit/calibrate.h"

namespace boxcar::cli {

struct MeasuredStep {
  std::string where;  // "steps.csv:3"
  GivenKeys keys;     // without the cluster
  double seconds = 0;
};

struct Measurements {
  std::vector<fit::CollectiveTest> tests;
  std::vector<MeasuredStep> steps;
};

// Adds the contents of `path`, of either kind. Throws Error (bad input) with file and line for unreadable
// text, columns that are no keys, tables that do not name their ranks, and files without measurements.
void read_measurements(const std::string& path, Measurements& to);

// The same measurements, for a cluster with `device` (empty: its own) in its nodes: presets or paths.
fit::Measurements measured_on(const std::string& cluster, const std::string& device,
                              const Measurements& measured);

}  // namespace boxcar::cli
