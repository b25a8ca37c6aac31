// The communicator groups of a plan: one per set of mesh dimensions, over all stages; one across stages for
// the gradient norm; one between the stages of tied tensors. Also the peers of pulls.
//
//   mesh {2, 4} named {"dp", "tp"}, 2 stages:
//     along({1})   "tp":  {0,1,2,3} {4,5,6,7} {8,...} {12,...}          queue "net.tp"
//     along({0})   "dp":  {0,4} {1,5} {2,6} {3,7} {8,12} ...            queue "net.dp"
//     across stages and dims {0, 1}: "world": {0, ..., 15}              queue "net.world"
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"
#include "planner/mesh.h"
#include "sbp/at.h"

namespace boxcar::planner {

class CommTable {
 public:
  CommTable(const Mesh& mesh, int stages) : mesh_(mesh), stages_(stages) {}

  // Groups whose members differ in the mesh dimensions `dims`; the first of these varies slowest in a group.
  // Each is made once.
  int along(const std::vector<int>& dims);
  // Groups whose members also differ in the stage. Named "world" if `dims` has all dimensions.
  int across_stages(const std::vector<int>& dims);
  // Groups of the devices at the same place in these stages.
  int between(const std::vector<int>& stages);
  // "net.tp": the queue of a communicator's acts.
  const std::string& queue(int comm) const { return at(queues_, comm); }

  // source[d] is the device at the same place `offset` stages later, wrapping at the end.
  int peers(int offset);
  // source[d] is the device `offset` steps later along "replica", wrapping at the end.
  int replicas(int offset);

  std::vector<ir::Comm> comms;
  std::vector<ir::Peers> pulls;

 private:
  int find(const std::string& name) const;
  int add(std::string name, std::vector<std::vector<int>> groups, std::string queue);

  Mesh mesh_;
  int stages_;
  std::vector<std::string> queues_;  // by communicator
};

}  // namespace boxcar::planner
