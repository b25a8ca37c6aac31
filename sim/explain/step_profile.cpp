#include "sim/explain/step_profile.h"

#include <algorithm>
#include <utility>

#include "ir/op.h"
#include "sim/step_timeline.h"

namespace boxcar::explain {
namespace {

using Interval = std::pair<double, double>;

bool is_kernel(WorkClass work) { return work <= WorkClass::kernels; }
bool is_communication(WorkClass work) {
  return work == WorkClass::collectives || work == WorkClass::transfers;
}

// Seconds that any of the intervals covers. Sorts them.
double covered(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  double all = 0, until = -1e300;
  for (const auto& [start, end] : intervals) {
    all += std::max(0.0, end - std::max(start, until));
    until = std::max(until, end);
  }
  return all;
}

WorkClass kernel_class(const ir::Actor& actor) {
  if (!ir::has_op(actor.op)) return WorkClass::kernels;  // a fused chain
  switch (ir::op(actor.op).family) {
    case ir::Family::matmul:
      return WorkClass::products;
    case ir::Family::attention:
      return WorkClass::attention;
    case ir::Family::convolution:
      return WorkClass::convolutions;
    default:
      return WorkClass::kernels;
  }
}

}  // namespace

const char* to_text(WorkClass work) {
  constexpr const char* names[] = {"products",    "attention", "convolutions", "other kernels",
                                   "collectives", "transfers", "copies"};
  static_assert(std::size(names) == work_classes);
  return names[static_cast<size_t>(work)];
}

StepProfile profile_of(const std::vector<Span>& spans, double begin, double end, int steps) {
  StepProfile profile;
  profile.step = (end - begin) / steps;
  std::vector<Interval> kernels, busy;
  for (const Span& span : spans) {
    const double start = std::max(span.start, begin), stop = std::min(span.end, end);
    if (start >= stop) continue;
    const auto work = static_cast<size_t>(span.work);
    profile.seconds[work] += (stop - start) / steps;
    profile.count[work] += 1.0 / steps;
    if (is_kernel(span.work)) kernels.emplace_back(start, stop);
    if (is_kernel(span.work) || is_communication(span.work)) busy.emplace_back(start, stop);
  }
  const double with_communication = covered(busy);
  profile.exposed = (with_communication - covered(kernels)) / steps;
  profile.idle = profile.step - with_communication / steps;
  return profile;
}

bool has_work(const ir::Actor& actor, WorkClass* work) {
  switch (actor.kind) {
    case ir::ActorKind::kernel:
      *work = kernel_class(actor);
      return true;
    case ir::ActorKind::collective:
      *work = WorkClass::collectives;
      return true;
    case ir::ActorKind::pull:
      *work = WorkClass::transfers;
      return true;
    case ir::ActorKind::copy:
      *work = WorkClass::copies;
      return true;
    case ir::ActorKind::host:
      return false;
  }
  return false;
}

StepProfile profile_of(const ir::Plan& plan, const sim::Result& result, size_t cls) {
  const sim::StepTimeline timeline(plan, result);
  const sim::ClassTimeline& of_class = timeline.classes().at(cls);
  std::vector<Span> spans;
  for (size_t a = 0; a < of_class.last.size(); ++a) {
    WorkClass work;
    if (!has_work(of_class.program->actors[a], &work)) continue;
    for (const sim::Act& act : of_class.last[a])
      if (act.end > act.start) spans.push_back({act.start, act.end, work});  // a view takes no time
  }
  return profile_of(spans, timeline.begin(), timeline.end(), 1);
}

}  // namespace boxcar::explain
