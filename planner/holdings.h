// Bytes that the registers of a program hold while it runs, in an arena or given by an allocator.
//
//   h0.mlp.fc1 is made in F0 and read in B0, for 47 micro-batches at once, by 5 chunks with 16, 16, 15, 8 and
//   8 slots: an arena holds 63 of them always, an allocator at most 47
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan.h"
#include "planner/lifetimes.h"
#include "sbp/at.h"

namespace boxcar::planner {

// The span in which versions of a register live, if it is inside one step: from the run of a phase that makes
// them to the last act that reads them. Both phases run equally often.
struct Span {
  int from = -1, to = -1;  // phases; -1: its life is not such a span
  int reader = -1;         // the last actor of phase `to` that reads it
};

// By register. Passes leave bytes to the last pass that reads them: forward to backward and, if the backward
// pass is split, forward to weight and backward to weight.
std::vector<Span> spans_of(const ir::Program& program);

// Whether an allocator of the simulated framework gives bytes: the fact "caching_allocator". Sums of
// gradients are never freed if there is the fact "gradients_stay".
bool is_allocated(const ir::Plan& plan);

using BytesByKind = std::vector<int64_t>;  // size ir::memory_kinds

// Registers that live inside runs (Lifetimes::in_run) count while they live. An arena always has all slots of
// all other registers. An allocator gives bytes only for the versions of them that live at the time.
class Holdings {
 public:
  Holdings(const ir::Plan& plan, int program, bool allocates);

  const BytesByKind& always() const { return always_; }
  // The span of a register for which an allocator gives bytes by version, outside runs; else an empty span.
  const Span& span(int reg) const { return at(spans_, reg); }
  bool in_run(int reg) const;
  // The most that a run of the phase holds, beside what earlier runs left.
  BytesByKind in_phase(int phase) const;
  // The most in a step.
  BytesByKind most() const;

 private:
  const ir::Program& program_;
  Lifetimes lifetimes_;
  std::vector<Span> spans_;
  BytesByKind always_;
};

// The most bytes that forward passes leave to backward passes at once.
int64_t kept_activations(const ir::Program& program);

}  // namespace boxcar::planner
