// Law 1 by brute force: which signatures of an op are right, found by trying all, against those it offers.
//
//   check_law1(op("matmul"), sample, 2, seed) on a registry whose matmul lost a rule:
//   {"matmul(float32[4, 6], float32[6, 8]) {...} on 2 devices, seed 7: missing: S(1), S(0) -> P(sum)"}
//
// Every combination of input layouts is split over the devices: S in balanced parts, P into uneven random
// parts that differ per operand. The op runs on each part, with its localized attributes. Each output is
// judged alone, for each layout that it could have; a signature is right where every one of its outputs is.
// Several draws must agree.
//
// Not told apart: S of an axis of extent 1 (it is B with idle devices), and P(max), P(min) of an output that
// is B. Not tried: P(sum) of booleans, which cannot hold it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/op.h"

namespace boxcar::tests {

struct Law1 {
  std::vector<std::string> findings;  // one line each, empty where the law holds
  std::set<std::string> omitted;      // the reasons that were needed
  int64_t tried = 0, offered = 0;     // combinations of input layouts that fit together, signatures
};

Law1 check_law1(const ir::OpDef& def, const ir::Sample& sample, int64_t parts, uint64_t seed);

// The op's samples with extents drawn from `seed`.
std::vector<ir::Sample> draw_samples(const ir::OpDef& def, uint64_t seed);

}  // namespace boxcar::tests
