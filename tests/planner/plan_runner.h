// Runs a plan on the reference kernels, all devices in one process, by its registers' versions: the judge of
// lowering. Without queues or time: an act runs when its inputs are there.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/cpu/reference.h"
#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::planner {

using backends::cpu::HostTensor;

class PlanRunner {
 public:
  // `initial(name, program, device)`: a register's value before training, and the value that a load brings,
  // by name.
  using Source = std::function<HostTensor(const ir::Register& reg, int program, int device)>;
  PlanRunner(const ir::Plan& plan, Source source);

  // One step. Throws Error (fault) naming an actor that cannot act.
  void run();
  // One act of an actor (of a collective: the act of all members), in an order that the caller chooses; any
  // number of steps. Throws Error (fault) if an input is missing.
  void act(int device, int actor);
  // The value of the register of this name on a device after the step.
  const HostTensor& value(const std::string& name, int device) const;
  // The same after `steps` steps made by act(); null if nothing was written.
  const HostTensor* value_after(int steps, int reg, int device) const;
  int program_of(int device) const { return at(program_, device); }

 private:
  struct Slot {
    HostTensor value;
    int writes = 0;
  };
  struct Device {
    std::vector<std::vector<Slot>> registers;  // by register: versions
    std::vector<int> acts;                     // by actor
  };

  const ir::Program& program(int device) const;
  const ir::Register& reg(int device, int r) const;
  std::vector<ir::TensorType> result_types(int device, int a) const;
  Device& of(int device) { return at(devices_, device); }
  const Slot* readable(int device, int r, int version) const;
  int goal(int device, int a) const;
  bool ready(int device, int a) const;
  void expect_ready(int device, int a) const;
  bool step(int device, int a);
  std::vector<HostTensor> operands(int device, int a) const;
  void write(int device, int a, std::vector<HostTensor> results);
  void kernel(int device, int a);
  void pull(int device, int a);
  void collective(int device, int a);
  ir::Attrs attrs(int device, const ir::Actor& actor) const;
  std::vector<std::pair<int, int>> members(int device, int a) const;

  const ir::Plan& plan_;
  Source source_;
  std::vector<int> program_;  // by device
  std::vector<int> first_;    // by device: the first of its class
  std::vector<Device> devices_;
  int steps_ = 1;  // the steps that actors may make
};

// Whether the register's producer reads the previous version.
inline bool updated_in_place(const ir::Program& program, int r) {
  const int producer = at(program.registers, r).producer;
  for (const ir::Input& in : at(program.actors, producer).inputs)
    if (in.program < 0 && in.reg == r) return true;
  return false;
}

}  // namespace boxcar::planner
