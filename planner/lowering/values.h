// What tasks do with values, for passes that move values elsewhere.
#pragma once

#include <algorithm>

#include "planner/lowering/tasks.h"
#include "sbp/at.h"

namespace boxcar::planner {

// Calls visit(value) for each value that a task reads; visit may change it if the task is not const.
template <typename T, typename Visit>
void each_read(T& task, Visit visit) {
  for (auto& v : task.reads) visit(v);
  for (auto& bucket : task.buckets)
    for (auto& boxed : bucket) visit(boxed.source);
}

template <typename Visit>
void each_write(const Task& task, Visit visit) {
  for (ValueId v : task.writes) visit(v);
  for (const Bucket& bucket : task.buckets)
    for (const Boxed& boxed : bucket) visit(boxed.result);
}

// The value whose register a value shares.
inline ValueId value_root(const StageTasks& tasks, ValueId v) {
  while (at(tasks.values, v).over >= 0) v = at(tasks.values, v).over;
  return v;
}

inline bool reads_on_host(const StageTasks& tasks, const Task& task) {
  return std::any_of(task.reads.begin(), task.reads.end(),
                     [&](ValueId v) { return at(tasks.values, v).on_host; });
}

}  // namespace boxcar::planner
