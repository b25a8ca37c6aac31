// Output of nccl-tests: times of collectives by size.
//
//   # nThread 1 nGpus 8 minBytes ...
//   # Collective test starting: all_reduce_perf
//   #  Rank  0 ... on alpha device 0 ...
//   #   size  count  type  redop  root   time   algbw ...
//        512    128  float    sum    -1  35.10   0.01 ...
//
// The out-of-place time of a size is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sbp/boxing.h"

namespace boxcar::fit {

// One run of one program of nccl-tests.
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

// True if a line begins a table.
bool is_of_nccl_tests(const std::vector<std::string>& lines);

// Adds the tables of a file. Throws Error (bad input) with file and line for tables that do not name their
// ranks, or have too few sizes.
void read_nccl_tests(const std::string& path, const std::vector<std::string>& lines,
                     std::vector<CollectiveTest>& to);

}  // namespace boxcar::fit
