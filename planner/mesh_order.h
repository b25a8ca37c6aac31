// The order of a job's ranks on the cluster: its parallel dimensions, outermost first. Ranks of the last
// dimension are neighbours.
//
//   parse_mesh_order("pp,dp,cp,tp")   {pp, dp, cp, tp}: tensor-parallel ranks are neighbours, as in Megatron
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace boxcar::planner {

enum class MeshAxis : uint8_t { pp, dp, cp, tp };  // dp includes ep
inline std::vector<std::string> words_of(MeshAxis) { return {"pp", "dp", "cp", "tp"}; }

using MeshOrder = std::array<MeshAxis, 4>;  // each once
inline constexpr MeshOrder usual_mesh_order{MeshAxis::pp, MeshAxis::dp, MeshAxis::cp, MeshAxis::tp};

// Throws Error (bad input) at `where` unless the text has each axis once.
MeshOrder parse_mesh_order(const std::string& text, const std::string& where = "parallel.mesh_order");
std::string to_text(const MeshOrder& order);

}  // namespace boxcar::planner
