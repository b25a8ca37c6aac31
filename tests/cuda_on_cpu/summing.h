// Plans of two devices that sum their loads in every step.
#pragma once

#include <fmt/format.h>

#include <string>

#include "ir/plan.h"

namespace cuda_on_cpu {

inline std::string summing_program(const std::string& name, int64_t room, int slots = 2) {
  return fmt::format(R"(
program {}
  arena {}
  phases F
  schedule F
  queue net: network
  queue copy_in: copy_in
  %x: float32[3] x{} activations bytes 512 @0
  %sum: float32[3] x1 gradients bytes 512 @1536
  x load() -> %x on copy_in in F
  all all_reduce(%x) -> %sum on net in F over dp bytes 12
)",
                     name, room, slots);
}

inline boxcar::ir::Plan checked(const std::string& text) {
  boxcar::ir::Plan plan = boxcar::ir::parse_plan(text);
  boxcar::ir::check(plan);
  return plan;
}

constexpr const char* summing_head = R"(plan summing
devices 2
micro_batches 1
comm dp: groups 1 by 1, ranks 2 by 1
)";

// `room`: the arena's bytes.
inline boxcar::ir::Plan summing(int64_t room = 4096) {
  return checked(summing_head + std::string("class 0-1: p\n") + summing_program("p", room));
}
// The same, but only device 0 writes the sum to disk, and x has two slots there and three on device 1.
inline boxcar::ir::Plan summing_and_writing() {
  std::string first = summing_program("first", 4096);
  const std::string after = "  queue copy_in: copy_in\n";
  first.insert(first.find(after) + after.size(), "  queue disk: disk\n");
  return checked(summing_head + std::string("class 0: first\nclass 1: second\n") + first +
                 "  note write(%sum) on disk in F\n" + summing_program("second", 4096, 3));
}

}  // namespace cuda_on_cpu
