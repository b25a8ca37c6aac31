// Published measurements of every op of a model, aceso_v100_op_profile.csv, and of links between two GPUs,
// aceso_v100_comm_profile.csv (Aceso, Liu et al. 2024; github.com/microsoft/SuperScaler, MIT).
//
//   const OpTable table = OpTable::read("tables", "gpt_2_6B");
//   table.names()[2] -> "enc-attention-qkv"
//   table.find(2, 1, 2, 0)->forward -> seconds for one sample, two-way tensor parallelism, the first split
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace boxcar::measured {

// Seconds; and MB on one device. `kept`: read by the backward pass. `reserved`: the allocator's extra.
struct OpCost {
  double forward = 0, backward = 0;
  double input = 0, output = 0, weights = 0, kept = 0;
  double reserved_forward = 0, reserved_backward = 0;
};

class OpTable {
 public:
  // From `folder`/aceso_v100_op_profile.csv. Errors: input (no such file, a bad row, a model without rows).
  static OpTable read(const std::string& folder, const std::string& model);

  const std::vector<std::string>& names() const { return names_; }  // in the order of the forward pass
  // By index of its name, samples on a device, tensor parallelism, kind of split; null if not measured.
  const OpCost* find(int op, int samples, int tp, int split) const;

 private:
  std::vector<std::string> names_;
  std::map<std::tuple<int, int, int, int>, OpCost> costs_;
};

class Links {
 public:
  // From `folder`/aceso_v100_comm_profile.csv. Errors: as above.
  static Links read(const std::string& folder);
  double seconds(double megabytes, bool between_nodes) const;
  // An all-gather of `megabytes` on each of up to 8 devices of a node. The tables have none, so it takes as
  // long as a reduce-scatter of 4 or 8 devices, which moves as much.
  double gather_seconds(double megabytes, int devices) const;

 private:
  std::vector<double> inside_, between_;              // GB/s at 1, 2, 4, ... MB
  std::map<int, std::map<double, double>> scatters_;  // by devices and MB, seconds
};

}  // namespace boxcar::measured
