#include "planner/estimate/pipeline_runs.h"

#include <algorithm>
#include <cstddef>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Pipeline;

constexpr int followed = 4;  // times as many micro-batches as stages

// One stage on its way through its order.
struct Walk {
  std::vector<ir::PhaseRun> order;
  size_t next = 0;
  double now = 0;                  // its last run has ended
  double sent = 0, sent_back = 0;  // the last transfers into it have ended
};

class Runs {
 public:
  Runs(const Pipeline& pipeline, const std::vector<RunTimes>& times)
      : p_(pipeline), times_(times), forward_(times.size() * batches(), -1), backward_(forward_) {
    for (int s = 0; s < p_.stages; ++s) walks_.push_back({planner::stage_order(p_, s)});
  }

  double seconds() {
    for (bool any = true, up = true; any; up = !up) {
      any = false;
      for (int i = 0; i < p_.stages; ++i) {
        const int stage = up ? i : p_.stages - 1 - i;
        while (run_next(stage)) any = true;
      }
    }
    double end = 0;
    for (const Walk& walk : walks_) {
      if (walk.next < walk.order.size()) throw Error::fault("pipeline", "its stages wait for each other");
      end = std::max(end, walk.now);
    }
    return end;
  }

 private:
  size_t batches() const { return static_cast<size_t>(p_.micro_batches); }
  double& end_of(std::vector<double>& ends, int part, int micro_batch) {
    return ends[static_cast<size_t>(part) * batches() + static_cast<size_t>(micro_batch)];
  }

  // False where what it reads is not made yet, or where none is left.
  bool run_next(int stage) {
    Walk& walk = at(walks_, stage);
    if (walk.next == walk.order.size()) return false;
    const auto [phase, micro_batch] = walk.order[walk.next];
    const int kind = phase / p_.chunks, part = phase % p_.chunks * p_.stages + stage;
    const RunTimes& own = at(times_, part);
    if (kind == 2) {
      walk.now += own.weight;
    } else if (kind == 0) {
      if (part > 0 && !arrives(forward_, part - 1, micro_batch, at(times_, part - 1).send, walk.sent))
        return false;
      walk.now = std::max(walk.now, part > 0 ? walk.sent : 0) + own.forward;
      end_of(forward_, part, micro_batch) = walk.now;
    } else {
      const bool last = part + 1 == static_cast<int>(times_.size());
      if (!last && !arrives(backward_, part + 1, micro_batch, own.send, walk.sent_back)) return false;
      walk.now = std::max(walk.now, last ? 0 : walk.sent_back) + own.backward;
      end_of(backward_, part, micro_batch) = walk.now;
    }
    ++walk.next;
    return true;
  }

  bool arrives(std::vector<double>& ends, int part, int micro_batch, double send, double& sent) {
    const double made = end_of(ends, part, micro_batch);
    if (made < 0) return false;
    sent = std::max(sent, made) + send;
    return true;
  }

  const Pipeline& p_;
  const std::vector<RunTimes>& times_;
  std::vector<double> forward_, backward_;  // ends by part and micro-batch; -1: not yet
  std::vector<Walk> walks_;
};

}  // namespace

double runs_seconds(const Pipeline& pipeline, const std::vector<RunTimes>& times) {
  const int groups_left = pipeline.micro_batches / pipeline.stages - followed;
  if (groups_left <= 0) return Runs(pipeline, times).seconds();
  Pipeline some = pipeline;
  some.micro_batches -= groups_left * pipeline.stages;
  const double first = Runs(some, times).seconds();
  some.micro_batches -= pipeline.stages;
  return first + groups_left * (first - Runs(some, times).seconds());
}

}  // namespace boxcar::search
