// `boxcar compare-trace`: a profile of a step compared with the simulated one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bad_input.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Kernels are longer than the host takes to launch them.
const Words job{"simulate",   "--model=gpt",     "--layers=1",  "--hidden=4096",          "--heads=32",
                "--seq=2048", "--vocab=8192",    "--dropout=0", "--cluster=dgx-a100-80g", "--dp=2",
                "--tp=2",     "--precision=bf16"};

class CompareTrace : public testing::Test {
 protected:
  CompareTrace() : plan_("plan.txt", ""), trace_("trace.json", ""), device_("device.yaml", "") {
    Words words = job;
    words.insert(words.end(), {"--save-plan", plan_.path(), "--trace", trace_.path(), "--json"});
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    step_ = json::parse(output.out)["step_time_s"];
  }
  static json document(const Words& words) {
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return json::parse(output.out);
  }
  static std::map<std::string, json> by_name(const json& rows) {
    std::map<std::string, json> found;
    for (const json& row : rows) found[row["name"]] = row;
    return found;
  }
  TemporaryFile plan_, trace_, device_;
  double step_ = 0;
};

TEST_F(CompareTrace, OfItsOwnSimulationHasNoDifference) {
  const json doc = document({"compare-trace", trace_.path(), plan_.path(), "--json"});
  EXPECT_EQ(doc["trace"], "boxcar");
  auto rows = by_name(doc["rows"]);
  EXPECT_NEAR(rows["step"]["simulated_s"].get<double>(), step_, 1e-9);
  for (const auto& [name, row] : rows) {
    EXPECT_NEAR(row["measured_s"].get<double>(), row["simulated_s"].get<double>(), 0.005 * step_) << name;
    EXPECT_EQ(row["measured_acts"], row["simulated_acts"]) << name;
  }
  EXPECT_GT(rows["products"]["measured_s"], 0);
  EXPECT_GT(rows["collectives"]["measured_s"], 0);
}

// Two steps of 4 ms: products of 3 ms of which one is beside a collective of 1.5, other kernels, a copy.
constexpr const char* kineto = R"json({"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "ts": 1000, "dur": 4000, "pid": 9},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#8", "ts": 5000, "dur": 4000, "pid": 9},
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1000, "dur": 3000, "pid": 9},
  {"ph": "X", "cat": "kernel", "name": "nvjet_tst_256x128_64x4", "ts": 1000, "dur": 3000, "args": {"device": 0}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "ts": 3500, "dur": 1500,
   "args": {"device": 0}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "ts": 1000, "dur": 10,
   "args": {"device": 0}},
  {"ph": "X", "cat": "kernel", "name": "nvjet_tst_256x128_64x4", "ts": 5000, "dur": 3000, "args": {"device": 0}},
  {"ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4>", "ts": 8000,
   "dur": 400, "args": {"device": 0}},
  {"ph": "X", "cat": "kernel", "name": "my_own_kernel", "ts": 8400, "dur": 200, "args": {"device": 0}},
  {"ph": "X", "cat": "kernel", "name": "flash_fwd_kernel", "ts": 5000, "dur": 100, "args": {"device": 1}}
]})json";

TEST_F(CompareTrace, OfPytorchByWordsInNames) {
  const TemporaryFile trace("kineto.json", kineto);
  const json doc = document({"compare-trace", trace.path(), plan_.path(), "--json"});
  EXPECT_EQ(doc["trace"], "pytorch");
  EXPECT_EQ(doc["device"], "0");
  EXPECT_EQ(doc["steps"], 2);
  EXPECT_EQ(doc["unknown_kernels"], json({"my_own_kernel"}));
  auto rows = by_name(doc["rows"]);
  const auto measured = [&](const char* name) { return rows[name]["measured_s"].get<double>(); };
  // From the first step's begin to the last kernel's end: 7.6 ms of two steps.
  EXPECT_NEAR(measured("step"), 3.8e-3, 1e-9);
  EXPECT_NEAR(measured("products"), 3e-3, 1e-9);
  EXPECT_NEAR(measured("collectives"), 0.75e-3, 1e-9);
  EXPECT_NEAR(measured("other kernels"), 0.3e-3, 1e-9);
  EXPECT_NEAR(measured("copies"), 5e-6, 1e-9);
  EXPECT_NEAR(measured("exposed communication"), 0.5e-3, 1e-9);
  EXPECT_NEAR(measured("idle"), 0, 1e-9);
  EXPECT_EQ(document({"compare-trace", trace.path(), plan_.path(), "--trace-device=1", "--json"})["device"],
            "1");
  const std::string text = run_program({"compare-trace", trace.path(), plan_.path()}).out;
  EXPECT_THAT(text, HasSubstr("PyTorch's, device 0, 2 steps\n"));
  EXPECT_THAT(text, HasSubstr("\nkernels of unknown names, counted as others: my_own_kernel\n"));
}

// With the file's device the classes take as long as in the trace.
TEST_F(CompareTrace, WritesTheMeasuredSpeeds) {
  std::ifstream in(trace_.path());
  json events = json::parse(in);
  for (json& event : events["traceEvents"])  // as if all took 1.3 times as long
    for (const char* key : {"ts", "dur"})
      if (event.contains(key) && event["ph"] == "X") event[key] = 1.3 * event[key].get<double>();
  const TemporaryFile slower("slower.json", events.dump());
  const json doc = document({"compare-trace", slower.path(), plan_.path(), "-o", device_.path(), "--json"});
  auto before = by_name(doc["rows"]), after = by_name(doc["calibrated"]);
  for (const char* name : {"products", "other kernels"}) {
    const double measured = before[name]["measured_s"];
    EXPECT_GT(measured, 1.25 * before[name]["simulated_s"].get<double>()) << name;
    EXPECT_LT(std::abs(after[name]["simulated_s"].get<double>() - measured),
              0.6 * (measured - before[name]["simulated_s"].get<double>()))
        << name;
  }
  EXPECT_EQ(run_program({"simulate", "--plan", plan_.path(), "--device", device_.path()}).exit_code, 0);
}

TEST_F(CompareTrace, RefusesWhatIsNoTraceOfThePlan) {
  const auto refused = [&](const std::string& content, const std::string& message, const Words& more = {}) {
    const TemporaryFile file("t.json", content);
    Words words{"compare-trace", file.path(), plan_.path()};
    words.insert(words.end(), more.begin(), more.end());
    expect_refused(words, 2, message, "t.json", file.path());
  };
  refused("{", "t.json: is not JSON (unpack a .gz first)");
  refused("{}", "t.json: has no list traceEvents");
  refused(R"({"traceEvents": []})", "t.json: has no work of a device: no kernels, collectives or copies");
  refused(R"([{"ph": "X", "cat": "F0", "name": "h9.elsewhere", "pid": 0, "tid": 0, "ts": 0, "dur": 1}])",
          "t.json: 1 of its 1 acts are not in the plan: it is the trace of another plan");
  refused(kineto, "t.json: has no device 3; it has 0, 1", {"--trace-device=3"});
  refused(kineto, "--stage: the plan has no stage stage7; it has stage0", {"--stage=stage7"});
  refused(R"([{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "ts": 0, "dur": 1, "args": {"device": 0}},
              {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 1}])",
          "t.json: has no kernels and no collectives");
}

}  // namespace
}  // namespace boxcar::tests
