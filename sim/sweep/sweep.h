// A sweep: points that run in processes, into a file of runs. A point whose row is there is not run again, so
// a sweep that was interrupted goes on where it ended.
//
//   // A program that compares degrees of tensor parallelism; it links boxcar::sweep.
//   const std::vector<int> degrees{1, 2, 4};
//   const RunsFormat format({"degrees", "1.0"},
//                           {{.name = "tp", .type = ColumnType::integer, .meaning = "degree", .asked = true},
//                            {.name = "step_time_s", .type = ColumnType::real, .better = Better::less}},
//                           {"step_time_s"});
//   const PointWork work = [&](int64_t i) {
//     const int tp = degrees.at(i);
//     return RunRow{fmt::format("tp {}", tp), i, {{"tp", tp}, {"step_time_s", simulated_seconds(tp)}}};
//   };
//   {
//     RunsWriter writer("runs.db", format, "tp: [1, 2, 4]", {"tp"});
//     run_points({{"tp 1"}, {"tp 2"}, {"tp 4"}}, writer, {.here = 2}, work).run;   // 3, and 0 the next time
//   }
//   read_runs("runs.db", format, {.sort = {"step_time_s"}}).rows[0];   // {4, 0.0123}
//
// tests/install/sweep.cpp is this program. Ranks that a launcher starts take part too (ranks.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/store.h"
#include "sim/sweep/workers.h"

namespace boxcar::sweep {

struct Point {
  std::string key;    // of its row; of points with the same key only the first one is run
  int64_t group = 0;  // neighbours of one group go to one process, which may keep what they have in common
};

// Runs a point by its number, from 0. One thread of a process at a time.
using PointWork = std::function<RunRow(int64_t)>;

// The same for processes that join (ranks.h).
NumberWork answering(PointWork work);

struct Ended {
  int64_t run = 0;               // points that have a row now, and had none
  std::vector<Finished> faults;  // points that have none for a fault
};

// Points that are to be run, and those of them that have ended.
struct Progressed {
  int64_t ended = 0, all = 0;
};

// Runs the points that have no row in the file, and writes their rows. `look` is called about every 0.2 s;
// false ends the work, with all finished rows written. REQUIRES work(i).key == points[i].key. Throws Error as
// run_in_processes and RunsWriter::add do.
Ended run_points(
    const std::vector<Point>& points, RunsWriter& writer, const Processes& processes, const PointWork& work,
    const std::function<bool(const Progressed&)>& look = [](const Progressed&) { return true; });

}  // namespace boxcar::sweep
