#include "sim/paired_passes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

using ir::PhaseKind;

// The phases whose kernels run when `phase` does: itself and, of a backward pass, its second part.
std::vector<int> parts_of(const ir::Program& program, int phase) {
  std::vector<int> parts{phase};
  const ir::PlanPhase& pass = at(program.phases, phase);
  for (int p = 0; p < static_cast<int>(program.phases.size()); ++p)
    if (pass.kind == PhaseKind::backward && program.phases[p].kind == PhaseKind::weight &&
        program.phases[p].chunk == pass.chunk)
      parts.push_back(p);
  return parts;
}

}  // namespace

std::vector<PassPair> pass_pairs(const ir::Program& program) {
  std::vector<ir::PhaseRun> runs;
  std::map<int, double> all;  // by phase
  const auto kind = [&](const ir::PhaseRun& run) { return at(program.phases, run.phase).kind; };
  for (const ir::PhaseRun& run : program.schedule) {
    if (kind(run) != PhaseKind::forward && kind(run) != PhaseKind::backward) continue;
    runs.push_back(run);
    all[run.phase] += 1;
  }
  std::map<std::pair<int, int>, double> paired;
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    const ir::PhaseRun &run = runs[i], &next = runs[i + 1];
    if (kind(run) == kind(next) || run.micro_batch == next.micro_batch) continue;
    paired[{run.phase, next.phase}] += 1;
    paired[{next.phase, run.phase}] += 1;
    ++i;
  }
  std::vector<PassPair> pairs;
  for (const auto& [phases, count] : paired)
    pairs.push_back({phases.first, phases.second, count / all[phases.first], count / all[phases.second]});
  return pairs;
}

std::vector<BesidePass> beside_passes(const ir::Program& program, const std::vector<PassSeconds>& seconds,
                                      double occupied) {
  std::vector<BesidePass> beside(seconds.size());
  for (const PassPair& pair : pass_pairs(program)) {
    const double exchanges = at(seconds, pair.phase).exchanges;
    double kernels = 0;
    for (const int part : parts_of(program, pair.other)) kernels += at(seconds, part).kernels;
    if (exchanges <= 0 || kernels <= 0) continue;
    const double hidden = std::min(exchanges, kernels / (1 - occupied));
    at(beside, pair.phase).shown -= pair.share * hidden / exchanges;
    for (const int part : parts_of(program, pair.other))
      at(beside, part).slowdown += pair.other_share * hidden * occupied / kernels;
  }
  return beside;
}

}  // namespace boxcar::sim
