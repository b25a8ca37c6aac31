#include "planner/search/candidate.h"

#include <algorithm>
#include <utility>

#include "planner/laid_out.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

// The recomputation by layer.
std::vector<ir::Recompute> recomputation(const planner::Job& job) {
  std::vector<ir::Recompute> kinds;
  for (size_t stage = 0; stage < job.parallel.stage_layers.size(); ++stage) {
    const int layers = job.parallel.stage_layers[stage],
              recomputed = recomputed_layers(job.train, stage, layers);
    kinds.insert(kinds.end(), static_cast<size_t>(recomputed), job.train.recompute);
    kinds.insert(kinds.end(), static_cast<size_t>(layers - recomputed), job.train.recompute_others);
  }
  return kinds;
}

}  // namespace

planner::Choose Candidate::choose(FoundLayouts* into, const std::function<void()>& look) const {
  if (!layouts) return nullptr;
  if (!found.found) return chooser(job, *layouts, into, look);
  return [known = found.layouts](const ir::Graph&, const planner::Hints&, const planner::Mesh&) {
    return known;
  };
}

ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found) {
  Graphs graphs(1);
  return plan_of(candidate, found, graphs);
}

ir::Plan plan_of(const Candidate& candidate, FoundLayouts* found, Graphs& graphs,
                 const std::function<void()>& look) {
  const planner::ResolvedJob job = planner::resolve(candidate.job);
  const planner::LaidOut laid = graphs.lay_out(job, candidate.choose(found, look));
  if (look) look();
  ir::Plan plan = planner::compile(laid, job);
  if (look) look();
  if (!candidate.slots.changes.empty()) set_slots(plan, candidate.slots.changes);
  return plan;
}

double layout_seconds(const FoundLayouts& found, const planner::Job& job) {
  return found.found ? (found.cost[kernels] + found.cost[collectives]) / job.parallel.pp : 0;
}

Candidate anew(Candidate candidate) {
  candidate.found = {};
  candidate.plan.reset();
  candidate.peak_bytes = 0;
  candidate.stage_bytes.clear();
  return candidate;
}

void note_memory(const ir::Plan& plan, Candidate& candidate) {
  const planner::Mesh mesh = planner::mesh_of(candidate.job.parallel);
  candidate.peak_bytes = 0;
  candidate.stage_bytes.assign(static_cast<size_t>(candidate.job.parallel.pp), 0);
  for (const planner::MemoryUse& use : planner::memory_use(plan)) {
    const int device = at(plan.classes, use.cls).devices.front();
    const int stage = mesh.stage_of(device, candidate.job.parallel.pp);
    double& bytes = at(candidate.stage_bytes, stage);
    bytes = std::max(bytes, static_cast<double>(use.total));
    if (use.total <= candidate.peak_bytes) continue;
    candidate.peak_bytes = use.total;
    candidate.fullest_stage = stage;
  }
}

JobKey key_of(const planner::Job& job) {
  JobKey key{job.gpus, {}, recomputation(job)};
  for (const Dimension& d : dimensions())
    if (!d.recomputes) key.values.push_back(value_of(d, job));
  return key;
}

Degrees degrees_of(const planner::Job& job) {
  Degrees degrees;
  for (const Dimension& d : dimensions())
    if (d.degree) degrees.push_back(value_of(d, job));
  return degrees;
}

bool is_short(const planner::Job& job) {
  const planner::Hints& h = job.parallel;
  return int64_t{h.pp} * h.virtual_stages * job.train.micro_batches <= 64;
}

double price_of(const planner::Job& job, double step_seconds) {
  return job.gpus * job.cluster.price_per_gpu_hour * step_seconds / 3600;
}

double value_of(Goal goal, const planner::Job& job, double seconds, double bytes) {
  switch (goal) {
    case Goal::memory:
      return bytes;
    case Goal::cost:
      return price_of(job, seconds);
    case Goal::time:
      break;
  }
  return seconds;
}

}  // namespace boxcar::search
