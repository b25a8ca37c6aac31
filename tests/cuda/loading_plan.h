// A plan of one device whose steps load x twice and sum its relu into y on another queue.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/plan.h"

namespace boxcar::tests {

// x has `slots` slots, y one. `registers` start at offset 2048; `acts` belong to the update phase.
inline ir::Plan loading_plan(int slots, const std::string& registers, const std::string& acts) {
  ir::Plan plan = ir::parse_plan(fmt::format(R"(plan loading
devices 1
micro_batches 2
class 0: p

program p
  arena 4096
  phases F, U
  schedule F[0-1] U
  queue compute: compute
  queue copy_in: copy_in
  %x: float32[3] x{} activations bytes 512 @0
  %y: float32[3] x1 gradients bytes 512 every 2 @1536
{}  x load() -> %x on copy_in in F
  y relu(%x) -> %y on compute in F
{})",
                                             slots, registers, acts));
  ir::check(plan);
  return plan;
}

}  // namespace boxcar::tests
