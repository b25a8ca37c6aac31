#include "planner/estimate/in_flight.h"

#include "backends/machines/framework.h"
#include "planner/schedule.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

// For each virtual stage of a stage: the most micro-batches whose activations it holds.
std::vector<Held> in_flight(const Job& job, int stage) {
  const Hints& h = job.parallel;
  const int micro_batches = job.train.micro_batches;
  const planner::Pipeline pipeline = planner::pipeline_of(h, micro_batches);
  if (h.virtual_stages > 1) {
    const planner::ChunksInFlight chunks = planner::chunks_in_flight(pipeline, stage);
    std::vector<Held> held;
    if (planner::splits_backward(h.schedule.kind)) {
      for (int c = 0; c < h.virtual_stages; ++c)
        held.push_back({static_cast<double>(at(chunks.most, c)), static_cast<double>(at(chunks.first, c)),
                        static_cast<double>(at(chunks.second, c))});
      return held;
    }
    for (const double chunk : job.cluster.framework->allocator ? chunks.at_once : chunks.most)
      held.push_back({chunk, chunk, 0});
    return held;
  }
  const planner::MostOfParts parts = planner::most_of_parts(pipeline, stage);
  const int to_end = planner::most_in_flight(h.schedule, h.pp, stage, micro_batches);
  return {{static_cast<double>(to_end), static_cast<double>(parts.first), static_cast<double>(parts.second)}};
}

}  // namespace

InFlight in_flight_of(const Job& job) {
  InFlight result;
  for (int s = 0; s < job.parallel.pp; ++s) result.push_back(in_flight(job, s));
  return result;
}

}  // namespace boxcar::search
