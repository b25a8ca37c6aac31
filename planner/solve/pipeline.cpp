#include "planner/solve/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sbp/error.h"

namespace boxcar::search {

double least_period(const std::vector<PipelineStage>& stages) {
  double least = 0;
  for (const PipelineStage& stage : stages) {
    least = std::max({least, stage.forward + stage.backward, stage.send, stage.send_back});
  }
  return least;
}

std::vector<int> in_flight(const std::vector<PipelineStage>& stages, double period) {
  double least = least_period(stages);
  if (!(period >= least && period > 0)) {
    throw Error::input("search", fmt::format("period {} is below the least one, {}", period, least));
  }
  std::vector<int> counts(stages.size());
  double gap = 0;  // from the start of the next stage's forward act to the end of its backward act
  for (size_t s = stages.size(); s-- > 0;) {
    const PipelineStage& stage = stages[s];
    double lag = stage.forward;  // between the starts of forward and backward acts, at least
    if (s + 1 < stages.size()) lag += stage.send + gap + stages[s + 1].send_back;
    // The k with lag <= k x period - backward, up to rounding.
    double count = std::max(1.0, std::ceil((lag + stage.backward) / period - 1e-9));
    counts[s] = static_cast<int>(count);
    gap = std::max(lag, (count - 1) * period + stage.forward) + stage.backward;
  }
  return counts;
}

}  // namespace boxcar::search
