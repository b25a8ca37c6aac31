// Registers of actors that are added to a plan and work in memory of the host (checkpoints.h,
// input_pipeline.h): only credits, which take no device memory.
#pragma once

#include <string>
#include <utility>

#include "ir/plan.h"

namespace boxcar::planner {

// Adds a register that `producer` writes; returns its index.
inline int add_host_register(ir::Program& program, std::string name, int producer, int slots) {
  ir::Register reg;
  reg.name = std::move(name);
  reg.type = {{}, ir::DType::int8};
  reg.count = slots;
  reg.producer = producer;
  reg.memory = ir::MemoryKind::workspace;
  program.registers.push_back(std::move(reg));
  return static_cast<int>(program.registers.size()) - 1;
}

}  // namespace boxcar::planner
