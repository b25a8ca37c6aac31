// One step of a plan as MLCommons' Chakra execution traces, a file for each device, for ASTRA-sim and other
// simulators (chakra.proto, docs/export.md).
//
//   write_chakra(plan, cluster, {.folder = "traces", .devices = {0, 1}, .write_file = write_file});
//   traces/step.0.et            nodes of device 0
//   traces/step.1.et
//   traces/step.groups.json     {"1": [0, 1], "2": [2, 3]}: the members of each communicator group
//
// A kernel is a COMP_NODE (num_ops, tensor_size), a collective a COMM_COLL_NODE (comm_type, comm_size,
// pg_name, pg_desc), a pull a COMM_RECV_NODE and on its source a COMM_SEND_NODE (comm_src, comm_dst,
// comm_tag, comm_size), a copy from or to the host a MEM_LOAD_NODE or MEM_STORE_NODE (tensor_size).
// duration_micros is the time of the act alone by the time models.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "ir/plan.h"

namespace boxcar::chakra {

struct ChakraRequest {
  std::string folder;
  std::vector<int> devices;  // devices whose traces are written, ascending
  // Makes the file `path` of the output of `write`; throws Error if it cannot.
  std::function<void(const std::string& path, const std::function<void(std::ostream&)>& write)> write_file;
  std::function<void(const std::string&)> tell{};  // of progress
};

// `plan` has passed planner::verify. One device's step is in memory at a time. Throws Error (bad input) if
// the folder cannot be made, Error (cannot run) in a build without protobuf, and any error of write_file.
void write_chakra(const ir::Plan& plan, const backends::Cluster& cluster, const ChakraRequest& request);

// A part of a plan that such traces cannot express, and what they have in its place.
struct Unsaid {
  std::string part, name, why;  // "queue", "compute"
};
std::vector<Unsaid> unsaid_in_chakra(const ir::Plan& plan);

// Communicator groups of two devices or more that collectives of a plan use, numbered from 1 as simulators
// expect.
class ChakraGroups {
 public:
  explicit ChakraGroups(const ir::Plan& plan);
  struct Group {
    int number = 0;
    std::string name;  // of its communicator: "tp"
    std::vector<int> members;
  };
  const std::vector<Group>& all() const { return groups_; }
  // nullptr if the device is alone.
  const Group* of(int comm, int device) const;

 private:
  std::vector<Group> groups_;
  std::map<std::pair<int, int>, size_t> of_;  // by communicator and device
};

// Bytes of one rank's operand, as Chakra counts collectives: for an all_gather a rank's part, otherwise
// `bytes` (ir::Actor::comm_bytes, the larger of one rank's input and output).
int64_t chakra_bytes(sbp::Collective collective, int64_t bytes, int ranks);

}  // namespace boxcar::chakra
