// How long each act of a plan takes when nothing contends, from the time models.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"
#include "sim/framework_effects.h"
#include "sim/models/collective_time.h"
#include "sim/paired_passes.h"
#include "sim/rings.h"

namespace boxcar::sim {

// The cost of one act: `seconds` of a kernel or a fixed duration, or a communication.
struct ActCost {
  double seconds = 0;  // of work that loads no link
  CommTime comm;       // if bytes_on_link > 0
  double total() const { return seconds + comm.seconds(); }
};

// Computes costs and caches what devices share: kernels by program, groups by comm, collectives by span. An
// attribute "seconds" (a double) fixes the duration of an act; kernels take kernel_seconds times the device's
// slowdown.
class ActCosts {
 public:
  ActCosts(const ir::Plan& plan, const backends::Cluster& cluster);

  // Costs by actor of the program for `device`, of a class that runs it.
  std::vector<ActCost> of(int program, int device);

 private:
  struct Fixed {
    double seconds = 0;
    bool kernel = false;  // slowed on a slow device
    double times = 1;     // experts: the fullest device's load over the mean
    RunAct run;
  };
  const std::vector<Fixed>& fixed(int program);
  const KernelRings& rings(int program);
  std::vector<double> advances(int program, const std::vector<Fixed>& known);
  void run_beside_passes(int program, std::vector<Fixed>& known);
  void wait_for_host(int program, std::vector<Fixed>& known);
  double fixed_seconds(const ir::Program& program, const ir::Actor& actor, const RunAct& run) const;
  double kernel_run_seconds(const ir::Program& program, const ir::Actor& actor, const RunAct& run,
                            const ir::Types& inputs, const ir::Types& outputs) const;
  PartSeconds ring_seconds(const ir::Program& program, const KernelRing& ring, const RunAct& run) const;
  const Span& span(std::map<int, Span>& spans, int comm, int device) const;
  int first_device(int program) const;
  const CommTime& collective(const RunAct& run, const Span& span);
  CommTime shown(int program, size_t actor, const Span& span, const std::vector<Fixed>& known);
  CommTime pull(const ir::Program& program, const ir::Actor& actor, int device) const;

  const ir::Plan& plan_;
  const backends::Cluster& cluster_;
  const double straggler_factor_;            // time of the slowest device's products over the mean device's
  std::map<int, std::vector<Fixed>> fixed_;  // by program
  std::map<int, KernelRings> rings_;         // by program: those that the framework runs
  std::map<int, std::vector<BesidePass>> beside_;  // by program, phase: if passes run beside each other
  std::map<std::tuple<int, int64_t, Span, int, double, std::optional<ExpertChoice>>, CommTime>
      collectives_;  // by collective, bytes, span, tensors apart, times, choice of a token sent by node
};

// The devices that act with `device` in a group of `comm`; {device} if it is in none.
std::vector<int> group_of(const ir::Comm& comm, int device);

bool is_communication(const ir::Actor& actor);

// Bytes of a communication as the framework runs it.
struct MovedBytes {
  double size = 0;  // the larger of its input and output; of experts by node: over the NIC, or in one node
  double sent = 0;  // by one device
};
MovedBytes moved_bytes(const ir::Plan& plan, const backends::Cluster& cluster, const ir::Program& program,
                       const ir::Actor& actor, int device);

}  // namespace boxcar::sim
