// Pins: the layouts that hints decide. Everything else is deduced.
//
//   qkv weight   S(1) on tp        proj weight  S(0) on tp          so there are two all-reduces per layer
//   tokens       S(0) on dp, S(1) on cp
//   residuals    B on tp, or S(1) with sequence parallelism
//   zero 1       master weight, moments and the summed gradient S on dp and cp (Figure 14 of the paper)
//
// A table of name patterns; the first match wins. `*` stands for any text. A tensor's gradient and its copy
// in half precision have the tensor's pins.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/parameter_kinds.h"
#include "planner/mesh.h"

namespace boxcar::planner {

// One tensor's layout. An entry is the SBP on one mesh dimension, nullopt if it is to be deduced.
using PartialSbp = std::vector<std::optional<sbp::Sbp>>;
struct Pins {
  std::vector<PartialSbp> stored;               // the layout in which the tensor is kept
  std::vector<std::optional<sbp::NdSbp>> used;  // for state: the layout that forward and backward ops read
  // Fused attention reads queries in their stored layout. So if they are split, it gathers keys and values.
  bool queries_stay = false;
};

bool matches(std::string_view pattern, std::string_view name);

Pins pins_of(const ir::Graph& graph, const Hints& hints, const Mesh& mesh);

// Chosen layouts, by tensor: for a state, as forward and backward ops read it; for any other, as it is kept.
// Empty: left open.
using Chosen = std::vector<sbp::NdSbp>;
// The same with these layouts in place of the table's. States are sharded by the hints.
Pins pins_of(const ir::Graph& graph, const Hints& hints, const Mesh& mesh, const Chosen& chosen);

// The layout in which a sharded state of this shape, read as `whole`, is kept: split over dp and cp, and over
// ep if ep does not split it yet. An axis that `whole` does not split is split if its parts are equal; else
// an axis is split inside its present parts.
//   [1024, 3072] (B, S(1)) on {dp 2, tp 4} -> (S(0), S(1));  [3072] (B, S(0)) -> (S(0,inner), S(0))
// Context parallelism splits states of experts by expert if it can, as it does their gradients.
//   experts [8, 1024, 4096] (S(0), B) on {ep 2, cp 2} -> (S(0), S(0))
sbp::NdSbp sharded(const sbp::Shape& shape, const sbp::NdSbp& whole, const Mesh& mesh,
                   ir::ParameterKind kind);

// The layout in which parameter servers hold a tensor of this shape, read as `whole`: the devices of a
// server's hosts have equal parts, and each part is cut once more, into a share for each server.
//   [1024, 3072] (B, B) on {replica 2, dp 8} -> (S(0,inner), S(0)); without dp, S(0)
// What is split already stays as it is.
sbp::NdSbp served(const sbp::Shape& shape, const sbp::NdSbp& whole, const Mesh& mesh);

}  // namespace boxcar::planner
