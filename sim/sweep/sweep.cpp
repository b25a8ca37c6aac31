#include "sim/sweep/sweep.h"

#include <set>
#include <utility>

namespace boxcar::sweep {
namespace {

// Points without a row, only the first of equal ones, grouped by what they have in common.
std::vector<std::vector<int64_t>> open_groups(const std::vector<Point>& points,
                                              const std::set<std::string>& done) {
  std::vector<std::vector<int64_t>> groups;
  std::set<std::string> seen = done;
  int64_t last = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!seen.insert(points[i].key).second) continue;
    if (groups.empty() || points[i].group != last) groups.emplace_back();
    last = points[i].group;
    groups.back().push_back(static_cast<int64_t>(i));
  }
  return groups;
}

}  // namespace

NumberWork answering(PointWork work) {
  return [work = std::move(work)](int64_t number) { return to_text(work(number)); };
}

Ended run_points(const std::vector<Point>& points, RunsWriter& writer, const Processes& processes,
                 const PointWork& work, const std::function<bool(const Progressed&)>& look) {
  const std::vector<std::vector<int64_t>> groups = open_groups(points, writer.keys());
  Progressed progress;
  for (const std::vector<int64_t>& group : groups) progress.all += static_cast<int64_t>(group.size());
  Ended result;
  run_in_processes(groups, processes, answering(work), [&](std::vector<Finished> some) {
    std::vector<RunRow> rows;
    for (Finished& one : some)
      one.fault.empty() ? rows.push_back(row_of(one.text)) : result.faults.push_back(std::move(one));
    writer.add(rows);
    result.run += static_cast<int64_t>(rows.size());
    progress.ended = result.run + static_cast<int64_t>(result.faults.size());
    return look(progress);
  });
  return result;
}

}  // namespace boxcar::sweep
