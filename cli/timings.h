// What a person has measured on a machine: the output of nccl-tests, and training steps with the keys of
// their jobs.
//
//   # nThread 1 nGpus 8 minBytes ... model,layers,hidden,heads,seq,vocab,gpus,tp,step_s # Collective test
//   starting: all_reduce_perf             gpt,24,1024,16,1024,51200,8,1,0.391 #  Rank  0 ... on alpha device
//   0 ...                   gpt,24,1024,16,1024,51200,8,2,0.507 #   size  count  type  redop  root   time
//   algbw ...
//        512    128  float    sum    -1  35.10   0.01 ...
//
// Of a size nccl-tests' time out of place counts. A column of the other file is a key of a job (docs/jobs.md)
// or step_s, the seconds of an optimizer step; an empty cell gives nothing; a cell with commas stands in
// quotes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/job.h"
#include "sbp/boxing.h"

namespace boxcar::cli {

// One program of nccl-tests, once.
struct CollectiveTest {
  struct Row {
    int64_t bytes = 0;  // the larger of one rank's input and output
    double seconds = 0;
  };
  std::string where;  // "nccl.txt:12", its table
  sbp::Collective collective = sbp::Collective::all_reduce;
  int ranks = 0, nodes = 0;
  std::vector<Row> rows;
};

struct MeasuredStep {
  std::string where;  // "steps.csv:3"
  GivenKeys keys;     // without the cluster
  double seconds = 0;
};

struct Measurements {
  std::vector<CollectiveTest> tests;
  std::vector<MeasuredStep> steps;
};

// Adds what `path` holds, of either kind. Throws Error (bad input) with file and line for what cannot be
// read, for columns that are no keys, for tables that do not say who took part, and for files without
// measurements.
void read_measurements(const std::string& path, Measurements& to);

}  // namespace boxcar::cli
