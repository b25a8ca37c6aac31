// The points of a sweep: every combination of the values of its keys.
//
//   model: gpt3-175b
//   cluster: dgx-a100-80g
//   tp: [4, 8]
//   gpus: 256..1024 x2                      # 256, 512, 1024
//   what_if: {bandwidth.network: [1x, 2x]}
//   price: 2.50                             # dollars per GPU and hour
//   search: true
//   max_stack: megatron                     # of a search: only plans that this framework runs
//
//   const Sweep sweep = parse_sweep(text, "sweep.yaml");
//   sweep.count()         // 12
//   sweep.at(1).given     // model.family gpt3-175b, ..., parallel.tp 4, cluster.gpus 256
//   sweep.at(1).changes   // {"bandwidth.network=2x"}
//
// The axis that is written last changes fastest; constants of the cluster change faster than all keys, so
// that neighbours share a compiled plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/job.h"

namespace boxcar::cli {

// A key with its values, in order.
struct SweepAxis {
  std::string name;           // "parallel.tp", or a constant's name: "bandwidth.network"
  bool constant = false;      // of the cluster
  std::vector<Given> values;  // at least one; `where` is the place of each in the file
};

struct SweepPoint {
  int64_t number = 0;                // from 0
  GivenKeys given;                   // `where` is the key's path, so a message does not depend on the file
  std::vector<std::string> changes;  // of the cluster: "bandwidth.network=2x"
  std::optional<double> price = {};  // dollars per GPU and hour, in place of the cluster's
};

struct Sweep {
  std::vector<SweepAxis> axes;  // constants last
  bool search = false;          // each point's open keys are searched
  std::string max_stack;        // of searches: the framework that has to run the found plans; empty: any
  std::optional<double> price;  // of each point

  int64_t count() const;                // of points
  SweepPoint at(int64_t number) const;  // REQUIRES 0 <= number < count()
  // Points with the same number share all keys of the job, and differ at most in constants of the cluster.
  int64_t group_of(int64_t number) const;
};

inline constexpr int64_t most_points = 1'000'000;

// Reads the text of a sweep file. `flags` replace the file's values of their keys: each is a value, a range
// or a list with commas. Throws Error (bad input) with file, line and column: unknown names with the nearest
// one, values that their key refuses, ranges without end, more points than `most_points`, and max_stack of a
// sweep that searches nothing.
Sweep parse_sweep(const std::string& text, const std::string& path, const GivenKeys& flags = {});

// "8..64 x2" as {"8", "16", "32", "64"}; also "1..4", "0..12 +4", "1x..8x x2", "1k..8k x2". Text that does
// not begin with a number and two dots is one value. Throws Error (bad input) at `where` for an invalid
// range.
std::vector<std::string> range_values(const std::string& text, const std::string& where);

// The name of a job's key in a sweep and of its column: its flag, "micro_batch" for --micro-batch.
std::string sweep_name(const Key& key);

}  // namespace boxcar::cli
