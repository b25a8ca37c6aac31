// Writes one program of a plan: queues by name, registers, actors in program order. Rates, credits and
// initial tokens are derived at the end from the readers of each register and their phases.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"
#include "planner/schedule.h"
#include "sbp/at.h"

namespace boxcar::planner {

inline constexpr int64_t arena_alignment = 512;  // as in PyTorch's caching allocator
int64_t aligned(int64_t bytes);

// The phases of a program: F0.., B0.., W0.. if the backward pass is split, then G (gradients are reduced) and
// U (states are updated).
struct Phases {
  int chunks = 1;
  bool split = false;
  int forward(int chunk) const { return chunk; }
  int backward(int chunk) const { return chunks + chunk; }
  int weight(int chunk) const { return 2 * chunks + chunk; }
  int reduce() const { return (split ? 3 : 2) * chunks; }
  int update() const { return reduce() + 1; }
  bool is_forward(int phase) const { return phase < chunks; }
  bool is_weight(int phase) const { return phase >= 2 * chunks && phase < reduce(); }
  bool per_micro_batch(int phase) const { return phase < reduce(); }
  std::vector<ir::PlanPhase> all() const;
};

class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, const Pipeline& pipeline, int stage);

  int queue(const std::string& name);  // made on first use; its kind follows from its name
  // A register of one tensor; bytes 0 for control.
  int add_register(std::string name, ir::TensorType type, ir::MemoryKind memory, int64_t bytes);
  int add_actor(ir::Actor actor);  // becomes the producer of its outputs
  // Adds a control edge: `after` acts once `before` has acted (`every` times).
  void control(int before, int after, int every = 1);

  void read_remotely(int reg);  // another program pulls it
  void set_every(int reg, int every) { at(program.registers, reg).every = every; }
  int phase_of(int reg) const;  // of its producer; -1 if it has none yet
  // Sets counts, initial tokens and repeats. Throws Error (fault) naming a register that has no producer, or
  // that is read both before and after its update in a step.
  void finish();

  ir::Program program;
  const Phases phases;

 private:
  struct Readers;
  void finish_register(int reg, const Readers& readers);
  bool once_per_step(const ir::Register& reg) const;

  Pipeline pipeline_;
  std::vector<bool> remote_;  // by register
};

}  // namespace boxcar::planner
