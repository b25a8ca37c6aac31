#include "sim/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

namespace boxcar::sim {
namespace {

// A producer with two slots on the copy queue feeds a consumer on the compute queue; a step is two acts each.
ir::Plan loading_plan() {
  ir::Plan plan;
  plan.devices = 1;
  ir::Program p;
  p.name = "stage0";
  p.phases = {"F"};
  p.schedule = {{0, 0}, {0, 1}};
  p.queues = {{"copy_in", ir::QueueKind::copy_in, true}, {"compute", ir::QueueKind::compute, true}};
  ir::Register data;
  data.name = "x";
  data.bytes = 100;
  data.count = 2;
  data.producer = 0;
  p.registers = {data};
  ir::Actor load, use;
  load.name = "load";
  load.outputs = {0};
  use.name = "use";
  use.queue = 1;
  ir::Input x;
  x.reg = 0;
  use.inputs = {x};
  p.actors = {load, use};
  plan.programs = {p};
  plan.classes = {{0, {0}}};
  return plan;
}

TEST(Trace, WritesSlicesArrowsAndCounters) {
  const ir::Plan plan = loading_plan();
  Result result;
  result.step_ends = {4e-6};
  result.classes.resize(1);
  result.classes[0].devices = {0};
  result.timeline = {
      {0, 0, 0, 0, 1e-6}, {0, 0, 1, 1e-6, 2e-6}, {0, 1, 0, 1e-6, 2.5e-6}, {0, 1, 1, 2.5e-6, 4e-6}};
  std::ostringstream out;
  write_chrome_trace(plan, result, out);
  EXPECT_EQ(out.str(), R"~({"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","name":"process_name","pid":0,"args":{"name":"device 0 (stage0)"}},
{"ph":"M","name":"process_sort_index","pid":0,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"copy_in"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":1,"args":{"sort_index":1}},
{"ph":"X","name":"load","cat":"F","pid":0,"tid":0,"ts":0.000,"dur":1.000,"args":{"act":0}},
{"ph":"X","name":"load","cat":"F","pid":0,"tid":0,"ts":1.000,"dur":1.000,"args":{"act":1}},
{"ph":"X","name":"use","cat":"F","pid":0,"tid":1,"ts":1.000,"dur":1.500,"args":{"act":0}},
{"ph":"X","name":"use","cat":"F","pid":0,"tid":1,"ts":2.500,"dur":1.500,"args":{"act":1}},
{"ph":"s","name":"req","cat":"req","id":1,"pid":0,"tid":0,"ts":1.000},
{"ph":"f","bp":"e","name":"req","cat":"req","id":1,"pid":0,"tid":1,"ts":1.000},
{"ph":"s","name":"req","cat":"req","id":2,"pid":0,"tid":0,"ts":2.000},
{"ph":"f","bp":"e","name":"req","cat":"req","id":2,"pid":0,"tid":1,"ts":2.500},
{"ph":"C","name":"bytes in registers","pid":0,"ts":0.000,"args":{"parameters":0,"gradients":0,"optimizer":0,"activations":100,"workspace":0}},
{"ph":"C","name":"register slots in use","pid":0,"ts":0.000,"args":{"slots":1}},
{"ph":"C","name":"bytes in registers","pid":0,"ts":1.000,"args":{"parameters":0,"gradients":0,"optimizer":0,"activations":200,"workspace":0}},
{"ph":"C","name":"register slots in use","pid":0,"ts":1.000,"args":{"slots":2}},
{"ph":"C","name":"bytes in registers","pid":0,"ts":2.500,"args":{"parameters":0,"gradients":0,"optimizer":0,"activations":200,"workspace":0}},
{"ph":"C","name":"register slots in use","pid":0,"ts":2.500,"args":{"slots":2}},
{"ph":"C","name":"bytes in registers","pid":0,"ts":4.000,"args":{"parameters":0,"gradients":0,"optimizer":0,"activations":100,"workspace":0}},
{"ph":"C","name":"register slots in use","pid":0,"ts":4.000,"args":{"slots":1}}
]}
)~");
}

// The second step's first load starts at 2 us, while the first step still runs until 4 us.
TEST(Trace, BeginsWithTheFirstActOfItsStep) {
  const ir::Plan plan = loading_plan();
  Result result;
  result.step_ends = {4e-6, 7e-6};
  result.classes.resize(1);
  result.classes[0].devices = {0};
  result.timeline = {{0, 0, 0, 0, 1e-6},      {0, 0, 1, 1e-6, 2e-6},   {0, 0, 2, 2e-6, 3e-6},
                     {0, 0, 3, 3e-6, 4e-6},   {0, 1, 0, 1e-6, 2.5e-6}, {0, 1, 1, 2.5e-6, 4e-6},
                     {0, 1, 2, 4e-6, 5.5e-6}, {0, 1, 3, 5.5e-6, 7e-6}};
  std::ostringstream out;
  write_chrome_trace(plan, result, out);
  std::string slices;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("{\"ph\":\"X\"")) slices += line + "\n";
  }
  EXPECT_EQ(slices,
            R"~({"ph":"X","name":"load","cat":"F","pid":0,"tid":0,"ts":0.000,"dur":1.000,"args":{"act":0}},
{"ph":"X","name":"load","cat":"F","pid":0,"tid":0,"ts":1.000,"dur":1.000,"args":{"act":1}},
{"ph":"X","name":"use","cat":"F","pid":0,"tid":1,"ts":2.000,"dur":1.500,"args":{"act":0}},
{"ph":"X","name":"use","cat":"F","pid":0,"tid":1,"ts":3.500,"dur":1.500,"args":{"act":1}},
)~");
}

// Readers count in nanoseconds and drop a slice that begins before the one in front of it has ended
// (Perfetto's rule for slices of one thread).
TEST(Trace, SlicesThatFollowEachOtherDoNotOverlapWhenRounded) {
  constexpr int acts = 500;
  ir::Plan plan = loading_plan();
  plan.programs[0].schedule.clear();
  for (int run = 0; run < acts; ++run) plan.programs[0].schedule.push_back({0, run});
  Result result;
  result.classes.resize(1);
  result.classes[0].devices = {0};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> length(0, 2e-6);
  for (int actor = 0; actor < 2; ++actor)
    for (int index = 0; index < acts; ++index) {
      const double start = index == 0 ? 0 : result.timeline.back().end;
      result.timeline.push_back({0, actor, index, start, start + length(random)});
    }
  result.step_ends = {result.timeline.back().end};
  std::ostringstream out;
  write_chrome_trace(plan, result, out);
  std::map<int, int64_t> ends;  // by thread, in ns
  int slices = 0;
  const auto document = nlohmann::json::parse(out.str());
  for (const auto& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int64_t begin = std::llround(event["ts"].get<double>() * 1000);
    int64_t& end = ends[event["tid"].get<int>()];
    EXPECT_GE(begin, end);
    end = begin + std::llround(event["dur"].get<double>() * 1000);
    ++slices;
  }
  EXPECT_EQ(slices, 2 * acts);
}

}  // namespace
}  // namespace boxcar::sim
