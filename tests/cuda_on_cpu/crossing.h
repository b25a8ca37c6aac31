// Plans of two devices with several groups of both, which they reach in opposite orders: device 0 has the
// operand of the first group first, device 1 that of the last.
//
//   device 0   copy_in  x1 x2 ... xn    compute  y1 y2 ... yn    net1 a1   net2 a2 ...
//   device 1   copy_in  xn ... x2 x1    compute  yn ... y2 y1    net1 a1   net2 a2 ...
//
// The first half of the y are made by one kernel, the others by another. In each program, collectives are in
// the order a1 a2 ... an, by which plans are proved.
#pragma once

#include <fmt/format.h>

#include <string>

#include "summing.h"

namespace cuda_on_cpu {

inline std::string crossing_program(const std::string& name, int groups, bool backwards) {
  std::string queues, registers, loads, acts, collectives;
  for (int n = 0; n < groups; ++n) {
    const int i = backwards ? groups - n : n + 1;
    loads += fmt::format("  x{0} load() -> %x{0} on copy_in in F\n", i);
    acts += fmt::format("  y{0} {1}(%x{0}) -> %y{0} on compute in F\n", i,
                        2 * i <= groups + 1 ? "relu" : "softmax");
    const int g = n + 1, at = 1536 * n;
    queues += fmt::format("  queue net{}: network\n", g);
    registers += fmt::format(
        "  %x{0}: float32[3] x1 activations bytes 512 @{1}\n  %y{0}: float32[3] x1 activations bytes 512 "
        "@{2}\n"
        "  %s{0}: float32[3] x1 gradients bytes 512 @{3}\n",
        g, at, at + 512, at + 1024);
    collectives += fmt::format("  a{0} all_reduce(%y{0}) -> %s{0} on net{0} in F over dp bytes 12\n", g);
  }
  return fmt::format(R"(
program {}
  arena {}
  phases F
  schedule F
  queue compute: compute
{}  queue copy_in: copy_in
{}{}{}{})",
                     name, 1536 * groups, queues, registers, loads, acts, collectives);
}

inline boxcar::ir::Plan crossing(int groups) {
  return checked(summing_head + std::string("class 0: first\nclass 1: second\n") +
                 crossing_program("first", groups, false) + crossing_program("second", groups, true));
}

}  // namespace cuda_on_cpu
