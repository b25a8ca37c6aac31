// Effects of a training framework on acts' times, as one table: fields of backends::Framework, the actors
// that each concerns, its effect.
//
//   field           actors                            effect
//   op_launches     kernels of the ops that it names  launches = its number
//   reduce_whole    reduce_scatter in phase reduce    an all_reduce of the same gradients
//   gather_copies   gathers of the tensors it names   + the time to copy the gathered tensor
//
// Effects on a whole pass are elsewhere: how far the host runs ahead (host_time.h), rings (ring_attention.h),
// passes beside each other (paired_passes.h).
#pragma once

#include <cstdint>
#include <optional>

#include "backends/machines/cluster.h"
#include "ir/plan.h"
#include "sim/models/expert_exchange.h"

namespace boxcar::sim {

// An act as the framework runs it. The defaults are the plan's act.
struct RunAct {
  // kernels
  double factor = 1;         // on its seconds and more_seconds
  double more_seconds = 0;   // of kernels that the framework runs besides
  double launches = 1;       // by the host
  double waits = 0;          // launches during which the device idles before it
  bool in_producer = false;  // runs inside the kernel that makes its operand
  // One kernel updates it with many other tensors, so the device has no launch for it alone.
  bool in_shared_kernel = false;
  // collectives
  sbp::Collective collective = sbp::Collective::none;
  int64_t bytes = 0;         // as ir::Actor::comm_bytes
  int separate_tensors = 0;  // that go one by one, each with the latency of one; 0: all together
  double piece_seconds = 0;  // of each such tensor, per rank
  double times = 1;          // how often it runs
  double more_latency = 0;   // s, of copies after it
  // Exchanges of experts: sends a token to each node once; runs beside the passes of another micro-batch.
  std::optional<ExpertChoice> by_node;
  bool beside_passes = false;
};

// `actor`: a kernel or a collective of `program`.
RunAct ran_by_framework(const backends::Cluster& cluster, const ir::Program& program, const ir::Actor& actor);

}  // namespace boxcar::sim
