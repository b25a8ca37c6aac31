// The time of a step on one device, by class of work, and the time that no work fills.
//
//   // 3 ms of products, 2 ms of a collective of which 1 ms is beside them, in a step of 5 ms
//   const std::vector<Span> spans = {{0, 3e-3, WorkClass::products}, {2e-3, 4e-3, WorkClass::collectives}};
//   const StepProfile p = profile_of(spans, 0, 5e-3, 1);
//   p.exposed;  // 1e-3: collectives and transfers beside which no kernel runs
//   p.idle;     // 1e-3: neither
//
// It compares a simulated step with a measured one, since their kernels have different names.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ir/plan.h"
#include "sim/simulate.h"

namespace boxcar::explain {

enum class WorkClass : uint8_t {
  products,      // of matrices
  attention,     // as one kernel
  convolutions,  // all passes
  kernels,       // all others
  collectives,
  transfers,  // between two devices
  copies,     // between host and device, or inside a device
};
inline constexpr int work_classes = 7;
const char* to_text(WorkClass work);

struct Span {
  double start = 0, end = 0;  // s
  WorkClass work = WorkClass::kernels;
};

// Means of one step, s.
struct StepProfile {
  double step = 0;
  std::array<double, work_classes> seconds = {};  // work of a class, beside others or not
  std::array<double, work_classes> count = {};    // spans of a step
  double exposed = 0;                             // collectives and transfers without a kernel beside them
  double idle = 0;                                // neither kernels nor those; copies do not count
};

// The profile of the time between `begin` and `end`, which is `steps` steps. REQUIRES begin < end, steps > 0.
StepProfile profile_of(const std::vector<Span>& spans, double begin, double end, int steps);

// The same of the last step of a simulation with a timeline, on the devices of a class.
StepProfile profile_of(const ir::Plan& plan, const sim::Result& result, size_t cls);

// The class of an actor's acts; nothing for those that take no time of a device.
bool has_work(const ir::Actor& actor, WorkClass* work);

}  // namespace boxcar::explain
