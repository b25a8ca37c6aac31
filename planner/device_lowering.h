// One device's share of a graph with given placements: kernels on its parts, boxing, pulls from other
// devices.
//
// After each step of a boxing route a device holds a tensor as blocks: one block if the step ends in a
// layout.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/program_builder.h"
#include "sbp/boxing.h"

namespace boxcar::planner {

// A pull that is still to be linked to the block that device `from` holds after `step` (0: before any) of a
// tensor's route.
struct DeviceLink {
  int actor = 0, from = 0;
  std::string tensor;
  int step = 0;
  std::vector<sbp::Range> block;
};

class DeviceLowering {
 public:
  DeviceLowering(const ir::Graph& graph, const std::vector<const sbp::Placement*>& placements,
                 const std::vector<Mesh>& meshes, const Deduction& layouts, int device, int micro_batches,
                 std::vector<ir::Comm>& comms);
  void run();

  std::string shape() const;  // equal for devices with the same program
  // The register that holds `block` after `step` of the route named `tensor`. If it holds more than the
  // block, `attrs` gets the block's starts and ends.
  int register_of(const DeviceLink& link, ir::Attrs& attrs) const;

  ProgramBuilder builder;
  std::vector<DeviceLink> links;

 private:
  struct Block {
    std::vector<sbp::Range> ranges;  // in global coordinates
    int reg = -1;
  };
  using Blocks = std::vector<Block>;

  void source(const ir::Op& op, ir::TensorId t);
  void kernel(ir::OpId o);
  int64_t place_in(const sbp::Placement& placement) const;  // -1 if the device is not in it
  Block whole(const sbp::Layout& layout, int reg) const;
  // The register of this tensor in this layout. Boxes it if needed.
  int get(ir::TensorId t, const sbp::Layout& to);
  // A tensor on its way to a layout: its name, and the name of the route, "x to S(0) on 0-1".
  struct Route {
    std::string tensor, name;
  };
  Blocks take(const sbp::Step& step, const Route& route, int index, const Blocks& before, ir::DType dtype);
  Blocks transfer(const sbp::Step& step, const Route& route, int index, const Blocks& before,
                  ir::DType dtype);
  int assemble(const Blocks& blocks, const Block& target, ir::DType dtype, const std::string& name);
  int cut(const Block& from, const std::vector<sbp::Range>& block, ir::DType dtype, const std::string& name);
  int collective(const sbp::Step& step, const std::vector<int>& group, const Blocks& before, ir::DType dtype,
                 const std::string& name);
  int kernel_actor(const std::string& name, const std::string& op, ir::Attrs attrs,
                   const std::vector<int>& inputs, ir::TensorType out);
  int add_register(const std::string& name, ir::TensorType type);
  std::string unique(std::unordered_map<std::string, int>& names, const std::string& name);

  const ir::Graph& graph_;
  const std::vector<const sbp::Placement*>& placements_;
  const std::vector<Mesh>& meshes_;
  const Deduction& layouts_;
  int device_;
  std::vector<ir::Comm>& comms_;
  std::map<std::pair<ir::TensorId, std::string>, Blocks> held_;  // by tensor and layout
  std::map<std::pair<std::string, int>, Blocks> steps_;          // by route and step
  std::unordered_map<std::string, int> actor_names_, register_names_;
};

}  // namespace boxcar::planner
