// Pins: the layouts that hints decide. Everything else is deduced.
//
//   qkv weight   S(1) on tp        proj weight  S(0) on tp          so that two all-reduces a layer follow
//   tokens       S(0) on dp, S(1) on cp
//   residuals    B on tp, or S(1) with sequence parallelism
//   zero 1       master weight, moments and the summed gradient S on dp (Figure 14 of the paper)
//
// A table of name patterns, first match wins; `*` stands for any text. A tensor's gradient and its copy in
// half precision have the pins of the tensor.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "planner/mesh.h"

namespace boxcar::planner {

// By tensor. An entry is the layout of one mesh dimension, nothing where it is to be deduced.
using PartialSbp = std::vector<std::optional<sbp::Sbp>>;
struct Pins {
  std::vector<PartialSbp> stored;               // the layout that the tensor is kept in
  std::vector<std::optional<sbp::NdSbp>> used;  // for state: the layout that forward and backward ops see
};

bool matches(std::string_view pattern, std::string_view name);
// "h0.attn.qkv.weight.half.grad" -> "h0.attn.qkv.weight"
std::string_view base_name(std::string_view tensor);

Pins pins_of(const ir::Graph& graph, const Hints& hints, const Mesh& mesh);

// The axis of a state tensor that the sharding dimension splits, given its split by tp: an axis that tp
// leaves whole where one divides, else one inside the tp part.
//   [12288, 36864] S(1) on tp 8, shards 16 -> S(0);  [36864] S(0) on tp 8, shards 16 -> S(0,inner)
sbp::Sbp shard_axis(const sbp::Shape& shape, sbp::Sbp tp, int64_t tp_parts, int64_t shards);

}  // namespace boxcar::planner
