// Plans of two devices that pass their loads to each other, with two micro-batches per step.
//
// Device 0 loads x[e] = b + 100 e and passes column 1 of [3, 2], so b + 100 first. Device 1 adds its own load
// and passes the sum back, after a control register.
#pragma once

#include <fmt/format.h>

#include <string>

#include "summing.h"

namespace cuda_on_cpu {

// `swapped`: device 1 pulls in the other order. `initial`: %y has a slot from the start, so that an older
// version is pulled. Without `loads`, device 1 loads nothing and adds its input to itself.
inline boxcar::ir::Plan passing(bool swapped = false, bool initial = false, bool loads = true) {
  const std::string
      z = "  z pull(%y of first via forward) {starts=[0, 1], ends=[3, 2]} -> %z on forward in F bytes 12\n",
      w = "  w pull(%x of first via forward) -> %w on forward in F bytes 24\n";
  return checked(fmt::format(R"(plan passing
devices 2
micro_batches 2
peers forward: 1 from 0
peers backward: 0 from 1
class 0: first
class 1: second

program first
  arena 8192
  phases F, B
  schedule F[0-1] B[0-1]
  queue compute: compute
  queue backward: network
  queue copy_in: copy_in
  %x: float32[3, 2] x2 activations bytes 512 @0
  %y: float32[3, 2] x{} activations bytes 512{} @1024
  %dy: float32[3] x2 gradients bytes 512 @4096
  %sum: float32[3] x1 gradients bytes 512 @5120
  x load() -> %x on copy_in in F
  y relu(%x) -> %y on compute in F
  go pull(%go of second via backward) on backward in B
  dy pull(%dz of second via backward) -> %dy on backward in B bytes 12
  sum relu(%dy) -> %sum on compute in B

program second
  arena 8192
  phases F, B
  schedule F[0] B[0] F[1] B[1]
  queue compute: compute
  queue forward: network
  queue copy_in: copy_in
  %z: float32[3] x1 activations bytes 512 @0
  %w: float32[3, 2] x1 activations bytes 512 @512
  %v: float32[3, 2] x1 activations bytes 512 @1024
{}  %dz: float32[3] x1 gradients bytes 512 @3072
  %go: float32[1] x1 gradients bytes 0 @0
{}{}  v relu(%w) -> %v on compute in F
  dz add(%z, %{}) -> %dz, %go on compute in B
)",
                             initial ? 3 : 2, initial ? " initial 1" : "",
                             loads ? "  %own: float32[3] x2 activations bytes 512 @2048\n" : "",
                             swapped ? w + z : z + w, loads ? "  own load() -> %own on copy_in in F\n" : "",
                             loads ? "own" : "z"));
}

}  // namespace cuda_on_cpu
