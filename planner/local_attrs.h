// An op's attributes on one rank: global counts and offsets become those of the rank.
//
// One program stands for a class of ranks. Its attributes are those of the first rank; ir/rank_attrs.h
// defines how those of the other ranks are written beside them.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/mesh.h"

namespace boxcar::planner {

// For a class of ranks at these row-major places of `mesh`, ascending.
ir::Attrs local_attrs(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                      const std::vector<int>& places);

// The same for many ops of one class. Ops of different layers are alike except for the number of their
// dropout, so most attributes are found among those of ops before. Graph, mesh and places must outlive it.
class LocalAttrs {
 public:
  LocalAttrs(const ir::Graph& graph, const Mesh& mesh, const std::vector<int>& places)
      : graph_(graph), mesh_(mesh), places_(places) {}

  ir::Attrs of(const ir::Op& op, const OpLayout& layout);

 private:
  const ir::Graph& graph_;
  const Mesh& mesh_;
  const std::vector<int>& places_;
  std::unordered_map<std::string, ir::Attrs> known_;  // by all that decides them but that number
};

// The attributes of the first place and the differences of the others: along mesh dimensions if all ranks are
// in the class, else by the place in the class ("rank"). `at` gives the attributes of any place. `even`: they
// grow by the same step from one device of the mesh to the next, so two places determine all others that are
// evenly spaced. Throws Error (fault) naming an attribute whose differences cannot be written this way.
ir::Attrs class_attrs(const Mesh& mesh, const std::vector<int>& places,
                      const std::function<ir::Attrs(int64_t place)>& at, bool even = false);

}  // namespace boxcar::planner
