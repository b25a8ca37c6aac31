// The places of global tensors under a plan. They link a plan's registers to checkpoints, data and losses.
//
//   const Places places = places_of(job);
//   places.find("h0.attn.qkv.weight")->ranges[3]     // device 3's part, as ranges of the global tensor
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/types.h"
#include "planner/planner.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

// A register holds a weight, a moment of an optimizer, a loaded input or the loss.
enum class Holding : uint8_t { weight, moment, input, loss };

struct Place {
  // The register's name in the programs: "h0.ln1.weight.whole", "embedding.word.replica1.m".
  std::string reg;
  // The model's global tensor that the register holds, or holds a part of, in the same or another type:
  // "h0.ln1.weight", "embedding.word.m"; an input, "tokens"; "loss".
  std::string tensor;
  Holding holding = Holding::weight;
  ir::TensorType type;   // global, in the register's type; of one micro-batch for inputs and the loss
  bool derived = false;  // follows from other state (a cast to 16 bits, a gathered one): not in checkpoints
  bool partial = false;  // for the loss: values of the devices with `first` must be added
  // By device: its part, one range per axis; empty if the device has no such register. A scalar's ranges are
  // empty too; see `holds`.
  std::vector<std::vector<sbp::Range>> ranges;
  std::vector<bool> holds;
  // By device: true for exactly one of the devices that hold the same part of `tensor`, over all its
  // registers; a parameter and its replica on another stage count together. All are false if `derived`.
  std::vector<bool> first;
};

// Whether it is a weight or a moment, which checkpoints hold and training begins with.
bool is_state(const Place& place);

struct Places {
  std::vector<Place> places;
  const Place* find(const std::string& reg) const;  // null if there is none
  const Place* loss() const;
};

// For the plan that compile(job) makes: parameters, master weights, moments,
// half-precision copies, gathered wholes, inputs and the loss.
Places places_of(const ResolvedJob& job);

}  // namespace boxcar::planner
