#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/report_text.h"
#include "cli/verdict.h"

namespace boxcar::cli {
namespace {

explain::Report example() {
  explain::Report r;
  r.configuration = {{"model.family", "gpt"},
                     {"model.layers", "24"},
                     {"cluster.preset", "dgx-a100-80g"},
                     {"parallel.tp", "8"}};
  r.simulated = true;
  r.step_seconds = 3.5;
  r.first_step_seconds = 3.75;
  r.error = {{"megatron", "a100-sxm-80g", 9, 41, 0.05}, "a100-sxm-80g", 41, false};
  r.samples_per_second = 146.3;
  r.tokens_per_second = 299600;
  r.model_tflops = 103.25;
  r.hardware_tflops = 137.5;
  r.mfu = 0.3309;
  r.bubble_fraction = 0.0625;
  r.exposed_comm_seconds = 0.0421;
  r.comm_bytes = {{"all_reduce", 1.5e12}, {"pull", 2e9}};
  explain::StageReport stage{
      "stage0",     32,     62'000'000'000, {10, 20'000'000'000, 3'000'000'000, 999, 1000},
      3.2,          0.0625, 0.0421,         61'000'000'000,
      5'000'000'000};
  stage.most_busy_seconds = 3.2, stage.most_busy_exposed_seconds = 0.0421;
  r.stages = {stage};
  r.memory_limit_bytes = 80'000'000'000;
  r.plan = {100, 200, 300, 40, 5000};
  r.programs = r.classes = 1;
  r.events = 12345;
  r.wall_seconds = 0.25;
  r.peak_rss_bytes = 41'000'000;
  r.folded = true;
  return r;
}

TEST(Report, TableReadsAsWritten) {
  EXPECT_EQ(to_table(example()), R"(verdict
  fits      62 GB of 80 GB on stage0, 18 GB free
  step      3.5 s, 3.333 s to 3.684 s by published runs; 2.996e+05 tokens/s, MFU 33.1 %
  bound by  kernels of stage0, 91.4 % of the step; waiting 7.4 %, exposed communication 1.2 %

result
  step time              3.5 s   (first step 3.75 s)
  global batch           512 samples, 1048600 tokens
  throughput             146.3 samples/s, 2.996e+05 tokens/s
  model compute          103.2 TFLOP/s per GPU, MFU 33.1 %
  hardware compute       137.5 TFLOP/s per GPU, recomputation included
  idle                   6.2 % of the compute queue's time, mean over stages
  exposed communication  42.1 ms on the worst stage

communication
  all_reduce             1.5 TB per step over all devices
  pull                   2 GB per step over all devices

memory, limit 80 GB per GPU
  stage         GPUs      busy     idle      peak  parameters   gradients   optimizer activations   workspace
  stage0          32     3.2 s    6.2 %     62 GB        10 B       20 GB        3 GB       999 B        1 kB

plan: 100 actors, 200 registers, 300 queues, 40 groups, 5000 acts a step; 1 programs, 1 classes
simulator: 12345 events in 250 ms, 41 MB resident, symmetric ranks folded

configuration
  model     family gpt, layers 24
  cluster   preset dgx-a100-80g
  parallel  tp 8
)");
}

TEST(Report, VerdictSaysWhatIsNotKnown) {
  explain::Report r = example();
  r.error = campaign::error_bar("boxcar", "my-device", 32);
  r.tokens_per_second = r.mfu = 0;
  r.stages[0].most_busy_seconds = 1, r.stages[0].most_busy_exposed_seconds = 2;
  EXPECT_EQ(verdict_text(r), R"(  fits      62 GB of 80 GB on stage0, 18 GB free
  step      3.5 s, with no published run on my-device to compare; 146.3 samples/s
  bound by  exposed communication, 57.1 % of the step; kernels of stage0 28.6 %, waiting 14.3 %
)");
  r.node_peak_bytes = 90'000'000'000;
  r.fits = r.simulated = false;
  EXPECT_EQ(verdict_text(r), "  fits      no: 90 GB of 80 GB in a node, 10 GB too much\n");
}

// A document's shares sum to the step, also if a stage's devices differ and their means sum to more.
TEST(Report, SharesOfTheStepSumToOne) {
  explain::Report r = example();
  r.stages[0].most_busy_seconds = 3, r.stages[0].most_busy_exposed_seconds = 1;
  const nlohmann::json bound = nlohmann::json::parse(to_json(r))["bound_by"];
  EXPECT_EQ(bound["stage"], "stage0");
  EXPECT_NEAR(bound["kernels"], 3 / 3.5, 1e-12);
  EXPECT_NEAR(bound["exposed_communication"], 0.5 / 3.5, 1e-12);
  EXPECT_EQ(bound["waiting"], 0);
}

TEST(Report, JsonHasUnitsInItsKeys) {
  nlohmann::json doc = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(doc["schema_version"], 1);
  EXPECT_EQ(doc["fits"], true);
  EXPECT_EQ(doc["step_time_s"], 3.5);
  EXPECT_EQ(doc["peak_memory_bytes"][0], 62'000'000'000);
  EXPECT_EQ(doc["held_memory_bytes"][0], 61'000'000'000);
  EXPECT_EQ(doc["memory_limit_bytes"][0], 80'000'000'000);
  EXPECT_EQ(doc["memory_breakdown_bytes"][0]["gradients"], 20'000'000'000);
  EXPECT_EQ(doc["kept_activation_bytes"][0], 5'000'000'000);
  EXPECT_EQ(doc["plan"]["queues"], 300);
  EXPECT_EQ(doc["simulator"]["folded"], true);
  EXPECT_NEAR(doc["step_time_range_s"][0], 3.5 / 1.05, 1e-12);
  EXPECT_NEAR(doc["step_time_range_s"][1], 3.5 / 0.95, 1e-12);
  EXPECT_EQ(doc["step_error"]["framework"], "megatron");
}

// Parts of a stage that differ have separate programs: the table lists all, the document has the fullest.
TEST(Report, TheDocumentHasOneEntryForAStage) {
  explain::Report r = example();
  explain::StageReport part = r.stages[0], last = part;
  r.stages[0].name = "stage0.0", part.name = "stage0.1", last.name = "stage1";
  r.stages[0].stage = part.stage = 0, last.stage = 1;
  part.peak_bytes += 5, part.kept_bytes = 7, last.peak_bytes = 9;
  r.stages.insert(r.stages.end(), {part, last});
  const nlohmann::json doc = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(doc["peak_memory_bytes"], nlohmann::json({part.peak_bytes, 9}));
  EXPECT_EQ(doc["kept_activation_bytes"][0], 7);
  EXPECT_EQ(doc["memory_limit_bytes"].size(), 2u);
  EXPECT_EQ(doc["memory_breakdown_bytes"].size(), 2u);
}

TEST(Report, TheDeviceHoldsWhatNoTensorHasToo) {
  explain::Report r = example();
  EXPECT_FALSE(nlohmann::json::parse(to_json(r)).contains("device_memory_bytes"));
  r.outside_bytes = 1'000'000'000;
  const nlohmann::json doc = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(doc["device_memory_bytes"][0], 63'000'000'000);
  EXPECT_EQ(doc["peak_memory_bytes"][0], 62'000'000'000);
}

// An allocator's peak is the most that is held at once, not the arena that a plan would need.
TEST(Report, AnAllocatorGivesWhatIsHeldAndWorkspaces) {
  explain::Report r = example();
  EXPECT_FALSE(nlohmann::json::parse(to_json(r)).contains("allocated_memory_bytes"));
  r.allocates = true;
  r.library_workspaces = 2'000;
  r.outside_bytes = 1'000'000;
  nlohmann::json doc = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(doc["allocated_memory_bytes"][0], 61'000'002'000);
  EXPECT_EQ(doc["device_memory_bytes"][0], 61'001'002'000);
  EXPECT_EQ(doc["peak_memory_bytes"][0], 62'000'000'000);
  r.simulated = r.fits = false;  // then held memory was not observed
  doc = nlohmann::json::parse(to_json(r));
  EXPECT_FALSE(doc.contains("allocated_memory_bytes"));
  EXPECT_EQ(doc["device_memory_bytes"][0], 62'001'000'000);
}

TEST(Report, AJobThatDoesNotFitHasNoTimes) {
  explain::Report r = example();
  r.simulated = r.fits = false;
  nlohmann::json doc = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(doc["fits"], false);
  EXPECT_FALSE(doc.contains("step_time_s"));
  EXPECT_EQ(doc["peak_memory_bytes"].size(), 1u);
}

// Two programs of two ranks: a rank of a group of 2 sends 2 (2 - 1) / 2 n in an all-reduce of n bytes; a pull
// sends n.
}  // namespace
}  // namespace boxcar::cli
