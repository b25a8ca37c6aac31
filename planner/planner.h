// From a training graph and hints to a plan.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "ir/graph.h"
#include "ir/models/model.h"
#include "ir/passes/passes.h"
#include "ir/plan.h"
#include "planner/mesh_order.h"
#include "planner/schedule.h"

namespace boxcar::planner {

// The type in which gradients are reduced under mixed precision: the type of their sums (TrainOptions),
// float32, or the 16-bit type of the products. It is the same at every level of zero.
enum class Reduction : uint8_t { sums, float32, half };
inline std::vector<std::string> words_of(Reduction) { return {"sums", "float32", "half"}; }

// A user's choices for parallelism; everything else follows from them. 0 or empty: not given, to be filled in
// by resolve().
struct Hints {
  int dp = 0, tp = 1, pp = 1, cp = 1;
  int ep = 1;   // ranks over which experts are dealt out, each with some of them: of dp, with etp 1 of tp too
  int etp = 0;  // ranks of tp that share an expert, each with a part of it: 1 or tp; 0: tp
  int virtual_stages = 1;
  std::vector<int> stage_layers;  // layers of each stage (pp x virtual_stages, in model order)
  int micro_batch = 1;            // samples per data-parallel rank; 0: all, or a 4 pp-th if pp is not 1
  int zero = 0;                   // 0..3
  bool sequence_parallel = false;
  PipelineSchedule schedule;
  Reduction grad_reduction = Reduction::sums;
  int grad_bucket_mb = 25;
  bool overlap_grad = true;   // reduce gradients during the backward pass, else after the last micro-batch
  bool overlap_param = true;  // gather sharded parameters ahead of their use
  bool overlap_tp = true;     // weight gradients run beside the collectives of tensor parallelism
  // If all ranks of tp hold a tensor whole, each sends a part of it to the next stage, where it is gathered.
  bool scatter_gather = false;
  int defer_head_grad = 0;  // micro-batches whose gradient of the head's weight waits for the last of them
  // By op: bytes that a framework keeps for the backward pass, as a multiple of the op's output.
  std::map<std::string, double> retained_bytes;
  bool gathered_stay = false;  // activations that a forward pass gathers stay for the backward pass
  // Operands of products, and results of experts' products, are kept in 8 bits (planner/retained.h).
  bool keeps_float8 = false, keeps_float8_of_experts = false;
  bool fused_optimizer = false;  // one act updates all states of a device that have the same rule
  bool gather_logits = false;    // the loss reads the whole vocabulary on each rank of tp
  bool gather_keys = false;      // fused attention reads all keys and values on each rank of cp
  // Activations that a backward pass reads lie in memory of the host until then (lowering/offload.h).
  bool offload_activations = false;
  // Master weights and moments lie there too, and the host updates them (lowering/host_updates.h).
  bool offload_optimizer = false;
  int fsdp_group = 0;  // ranks that share one copy of sharded states; 0: all of dp
  // Parameter servers, each on the hosts of dp / servers replicas (lowering/servers.h). 0: none.
  int servers = 0;
  bool servers_update = true;  // they also update what they hold; else they only add up gradients
  MeshOrder mesh_order = usual_mesh_order;
  std::vector<int> stage_order = {};  // by stage: the position of its devices; empty: its own number
  friend auto operator<=>(const Hints&, const Hints&) = default;
};

struct Job {
  ir::models::Model model;
  Hints parallel;
  ir::TrainOptions train;
  double routing_skew = 1;   // simulated: tokens of the fullest expert over the mean
  int64_t global_batch = 0;  // sequences per optimizer step; 0: dp x micro_batch
  backends::Cluster cluster;
  int gpus = 0;
  friend bool operator==(const Job&, const Job&) = default;
};

// A valid job with its defaults filled in. Only resolve() makes one. To change it, change a copy of the job
// and resolve the copy.
class ResolvedJob {
 public:
  const Job& operator*() const { return job_; }
  const Job* operator->() const { return &job_; }
  operator const Job&() const { return job_; }  // NOLINT: it is a job

 private:
  friend ResolvedJob resolve(Job job);
  explicit ResolvedJob(Job job) : job_(std::move(job)) {}

  Job job_;
};

// Fills in defaults and refuses invalid jobs: degrees whose product is not the GPU count, sizes that do not
// divide. A resolved job does not change. Throws an Error whose `where` is the key ("parallel.tp"); the
// caller adds file and line.
ResolvedJob resolve(Job job);

// Does everything: model, graph passes, SBP deduction, lowering, registers, memory. The plan is checked but
// not yet verified.
ir::Plan compile(const ResolvedJob& job);

// The same for a graph whose placements and SBPs the user gave (Table 4 of the paper), without hints.
ir::Plan compile(const ir::Graph& graph, int micro_batches, const backends::Cluster& cluster);

}  // namespace boxcar::planner
