// Bytes that the registers of a program hold while it runs, in an arena or where an allocator gives them.
//
//   h0.mlp.fc1 is made in F0 and read in B0, of 47 micro-batches at once, by 5 chunks with 16, 16, 15, 8 and
//   8 slots: an arena holds 63 of them always, an allocator at most 47
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan.h"
#include "planner/lifetimes.h"
#include "sbp/at.h"

namespace boxcar::planner {

// Where versions of a register live, if that is inside of one step: from the run of a phase that makes them
// to the last act that reads them. Both phases run equally often.
struct Span {
  int from = -1, to = -1;  // phases; -1: it lives otherwise
  int reader = -1;         // the last actor of phase `to` that reads it
};

// By register. Passes leave bytes to the last one that reads them: forward to backward, and where the
// backward pass is split forward to weight and backward to weight.
std::vector<Span> spans_of(const ir::Program& program);

// Whether an allocator of the simulated framework gives bytes: the fact "caching_allocator". Sums of
// gradients are never given back where there is the fact "gradients_stay".
bool is_allocated(const ir::Plan& plan);

using BytesByKind = std::vector<int64_t>;  // size ir::memory_kinds

// Registers that live inside runs (Lifetimes::in_run) count where they live. An arena has all slots of all
// others for good. An allocator gives bytes for the versions that there are: those that live in a step.
class Holdings {
 public:
  Holdings(const ir::Plan& plan, int program, bool allocates);

  const BytesByKind& always() const { return always_; }
  // Of a register that an allocator gives bytes for by version, outside of runs; else of none.
  const Span& span(int reg) const { return at(spans_, reg); }
  bool in_run(int reg) const;
  // The most that a run of the phase holds, beside what runs before left.
  BytesByKind in_phase(int phase) const;
  // The most over a step.
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
