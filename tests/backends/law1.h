// Law 1 by brute force: tries all signatures of an op and compares the valid ones with those that it offers.
//
//   check_law1(op("matmul"), sample, 2, seed) on a registry whose matmul lost a rule:
//   {"matmul(float32[4, 6], float32[6, 8]) {...} on 2 devices, seed 7: missing: S(1), S(0) -> P(sum)"}
//
// Every combination of input layouts is split over the devices: S in balanced parts, P into uneven random
// parts that differ per operand. The op runs on each part, with its localized attributes. Each output is
// judged alone, for each layout that it could have. A signature is right if all of its outputs are. Several
// draws must agree.
//
// Not distinguished: S of an axis of extent 1 (it is B with idle devices), and P(max), P(min) of an output
// that is B. Not tried: P(sum) of booleans, which cannot hold it.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/reference.h"
#include "ir/op.h"

namespace boxcar::tests {

struct Law1 {
  std::vector<std::string> findings;  // one line each, empty if the law holds
  std::set<std::string> omitted;      // the reasons that were needed
  int64_t tried = 0, offered = 0;     // combinations of input layouts that fit together, signatures
};

Law1 check_law1(const ir::OpDef& def, const ir::Sample& sample, int64_t parts, uint64_t seed);

// Values that distinguish right from wrong, as law 1 draws them.
backends::cpu::HostTensor draw_tensor(std::mt19937_64& random, const ir::TensorType& type,
                                      const ir::Domain& domain, bool infinite);
// Splits one element over the devices so that `reduction` gives it back. Parts are equal only by chance.
void split_element(std::mt19937_64& random, const ir::Domain& domain, sbp::Reduction reduction, double x,
                   std::vector<double>& parts);
double combine(sbp::Reduction reduction, double a, double b);
bool near(double got, double want, double tolerance);

// The op's samples with extents drawn from `seed`.
std::vector<ir::Sample> draw_samples(const ir::OpDef& def, uint64_t seed);

}  // namespace boxcar::tests
