// The passes of lowering one by one: each pass's result, and that its check finds a planted wrong task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/laid_out.h"
#include "planner/lowering/boxing.h"
#include "planner/lowering/gradients.h"
#include "planner/lowering/host_updates.h"
#include "planner/lowering/offload.h"
#include "planner/lowering/order.h"
#include "planner/lowering/overlap.h"
#include "planner/lowering/servers.h"
#include "planner/lowering/states.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

Job zero_job(int zero, int dp = 2, int tp = 1, int micro_batches = 2) {
  Job job = small_job(dp, tp, 1, 1, micro_batches);
  job.parallel.zero = zero;
  return job;
}

// The only stage of a job, and its tasks after a number of passes.
class Lowered {
 public:
  Lowered(const Job& job, int passes)
      : laid_(lay_out(resolve(job))),
        readers_(ir::consumers(laid_.graph)),
        comms_(laid_.mesh, 1),
        routes_(laid_.mesh),
        input_{laid_.graph,
               laid_.hints,
               sharding_of(laid_.hints),
               laid_.mesh,
               laid_.pipeline,
               laid_.sites,
               laid_.pins,
               laid_.layouts,
               readers_,
               {},
               made_of_states(laid_.graph, laid_.sites),
               comms_,
               routes_},
        stage(input_, 0, all(laid_.mesh), "stage0") {
    const auto run = {shard_states, order_ops, reduce_gradients, insert_boxing,
                      offload,      serve,     update_on_host,   overlap};
    for (int p = 0; p < passes; ++p) run.begin()[p](stage, tasks);
  }

  std::string name(ir::TensorId t) const { return stage.tensor(t).name; }
  // "h0.ln2 S(1) -> B" of all boxes and gathers of a kind in a phase.
  std::vector<std::string> boxed(TaskKind kind, int phase) const {
    std::vector<std::string> result;
    for (const auto* part : tasks.parts())
      for (const Task& task : *part)
        for (const Bucket& bucket : task.buckets)
          for (const Boxed& boxed : bucket)
            if (task.kind == kind && task.phase == phase)
              result.push_back(fmt::format("{} {} -> {}", name(boxed.t), sbp::to_text(boxed.from),
                                           sbp::to_text(boxed.to)));
    return result;
  }
  size_t find(const std::string& op) const {
    for (size_t a = 0; a < tasks.passes.size(); ++a)
      if (const Task& task = tasks.passes[a];
          task.kind == TaskKind::kernel && stage.op(task.ops[0]).name == op)
        return a;
    throw Error::fault(op, "is not there");
  }

 private:
  static std::vector<int> all(const Mesh& mesh) {
    std::vector<int> places;
    for (int place = 0; place < mesh.devices(); ++place) places.push_back(place);
    return places;
  }

  LaidOut laid_;
  std::vector<std::vector<ir::OpId>> readers_;
  CommTable comms_;
  RouteTable routes_;
  LoweringInput input_;

 public:
  const Stage stage;
  StageTasks tasks;
};

std::string message(void (*check)(const Stage&, const StageTasks&), const Lowered& lowered) {
  try {
    check(lowered.stage, lowered.tasks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Lowering, ALevelOfZeroIsWhatItShards) {
  const auto of = [](int zero) {
    Hints hints;
    hints.zero = zero;
    const Sharding s = sharding_of(hints);
    return std::vector{s.states, s.gradients, s.parameters};
  };
  EXPECT_EQ(of(0), (std::vector{false, false, false}));
  EXPECT_EQ(of(1), (std::vector{true, false, false}));
  EXPECT_EQ(of(2), (std::vector{true, true, false}));
  EXPECT_EQ(of(3), (std::vector{true, true, true}));
}

// The table of states.h.
TEST(Lowering, ShardedStatesAreWholeAfterTheUpdateOrInEachPass) {
  const auto declared = [](int zero, ir::Precision precision) {
    Job job = zero_job(zero);
    job.train.precision = precision;
    const Lowered lowered(job, 1);
    std::string result;
    for (const Value& value : lowered.tasks.values)
      if (const std::string name = lowered.name(value.t); name == "ln_f.weight" || name == "ln_f.weight.half")
        result += fmt::format("{}{} {}; ", name, value.suffix, sbp::to_text(value.layout));
    return result + fmt::format("{}", lowered.tasks.states.groups.empty() ? "once" : "in each pass");
  };
  EXPECT_EQ(declared(0, ir::Precision::fp16), "ln_f.weight B; ln_f.weight.half B; once");
  EXPECT_EQ(declared(1, ir::Precision::fp16),
            "ln_f.weight S(0); ln_f.weight.half.shard S(0); ln_f.weight.half B; once");
  EXPECT_EQ(declared(3, ir::Precision::fp16), "ln_f.weight S(0); ln_f.weight.half S(0); in each pass");
  EXPECT_EQ(declared(1, ir::Precision::fp32), "ln_f.weight S(0); ln_f.weight.whole B; once");
}

// The example of boxing.h.
TEST(Lowering, TensorsGatheredInAForwardPassAreGatheredAgainInItsBackwardPass) {
  Job job = small_job(1, 2, 1);
  job.parallel.sequence_parallel = true;
  const Lowered lowered(job, 8);
  const Phases& phases = lowered.stage.phases;
  for (const int phase : {phases.forward(0), phases.backward(0)})
    EXPECT_THAT(lowered.boxed(TaskKind::box, phase), testing::Contains("h0.ln2 S(1) -> B")) << phase;
}

TEST(Lowering, GradientsAreReducedOnceOrWithTheirLayer) {
  for (const int zero : {1, 2}) {
    const Lowered lowered(zero_job(zero), 3);
    const Phases& phases = lowered.stage.phases;
    const auto once = lowered.boxed(TaskKind::box, phases.reduce()),
               with_layer = lowered.boxed(TaskKind::box, phases.backward(0));
    EXPECT_EQ(once.empty(), zero == 2);
    EXPECT_EQ(with_layer.empty(), zero == 1);
    EXPECT_THAT(zero == 1 ? once : with_layer, testing::Contains(testing::StartsWith("h0.attn.qkv.weight.")));
  }
}

TEST(Lowering, AGatherWaitsForTheFirstReaderOfTheOneBefore) {
  for (const bool ahead : {true, false}) {
    Job job = zero_job(3);
    job.parallel.overlap_param = ahead;
    const Lowered lowered(job, 8);
    int gathers = 0, waiting = 0, held = 0;
    for (const Task& task : lowered.tasks.passes) {
      if (task.kind != TaskKind::gather) continue;
      ++gathers;
      waiting += task.after.empty() ? 0 : 1;
      held += task.hold == Hold::every_collective ? 1 : 0;
    }
    EXPECT_EQ(gathers, 6);  // embeddings, the layer and the last norm, in two passes
    EXPECT_EQ(waiting, ahead ? 4 : 0);
    EXPECT_EQ(held, ahead ? 0 : 6);
  }
}

TEST(Lowering, ChecksPassAfterEveryPass) {
  const auto checks = {check_states,  check_order,   check_gradients,    check_boxing,
                       check_offload, check_servers, check_host_updates, check_overlap};
  for (const int zero : {0, 1, 2, 3})
    for (int pass = 1; pass <= 8; ++pass)
      for (const bool offloads : {false, true}) {
        Job job = zero_job(zero);
        job.model->layers = 3, job.train.precision = ir::Precision::fp16;
        job.parallel.offload_activations = job.parallel.offload_optimizer = offloads;
        EXPECT_EQ(message(checks.begin()[pass - 1], Lowered(job, pass)), "") << zero << " " << pass;
      }
}

TEST(Lowering, AStateThatIsNotDeclaredIsFound) {
  Lowered lowered(zero_job(0), 1);
  lowered.tasks.values.pop_back();
  EXPECT_THAT(message(check_states, lowered), testing::HasSubstr("is not declared as it is kept"));
  Lowered other(zero_job(1), 1);
  std::swap(other.tasks.states.gathers[0].source, other.tasks.states.gathers[0].result);
  EXPECT_THAT(message(check_states, other), testing::HasSubstr("is not gathered between its own values"));
}

TEST(Lowering, AnOpOutOfOrderIsFound) {
  Lowered swapped(zero_job(0), 2);
  const size_t first = swapped.find("h0.ln1"), last = swapped.find("h0.attn.qkv");
  std::swap(swapped.tasks.passes[first], swapped.tasks.passes[last]);
  EXPECT_THAT(message(check_order, swapped), testing::HasSubstr("stands before h0.ln1"));
  Lowered twice(zero_job(0), 2);
  twice.tasks.passes.push_back(twice.tasks.passes.back());
  EXPECT_THAT(message(check_order, twice), testing::HasSubstr("stands in two tasks"));
  Lowered gone(zero_job(0), 2);
  gone.tasks.updates.erase(gone.tasks.updates.begin());
  EXPECT_NE(message(check_order, gone), "");
}

TEST(Lowering, AGradientThatIsNotReducedOnceIsFound) {
  for (const int zero : {1, 2}) {
    Lowered gone(zero_job(zero), 3), twice(zero_job(zero), 3);
    for (auto* lowered : {&gone, &twice})
      for (auto* part : {&lowered->tasks.passes, &lowered->tasks.reductions})
        for (Task& task : *part) {
          if (task.buckets.empty()) continue;
          Bucket& bucket = task.buckets[0];
          lowered == &gone ? bucket.pop_back() : bucket.push_back(bucket[0]);
        }
    EXPECT_THAT(message(check_gradients, gone),
                testing::HasSubstr(zero == 1 ? "is never reduced" : "is added up before"));
    EXPECT_THAT(message(check_gradients, twice), testing::HasSubstr("is reduced twice"));
  }
}

TEST(Lowering, AValueThatIsReadWronglyIsFound) {
  Job job = small_job(1, 2, 1);
  job.parallel.sequence_parallel = true;
  Lowered early(job, 4);
  const size_t reader = early.find("h0.mlp.fc1");
  std::rotate(early.tasks.passes.begin(), early.tasks.passes.begin() + static_cast<std::ptrdiff_t>(reader),
              early.tasks.passes.begin() + static_cast<std::ptrdiff_t>(reader) + 1);
  EXPECT_THAT(message(check_boxing, early), testing::HasSubstr("is read before it is there"));
  Lowered late(job, 4);
  late.tasks.passes[reader].phase = late.stage.phases.backward(0);
  EXPECT_THAT(message(check_boxing, late), testing::HasSubstr("in another phase than it is for"));
  Lowered layout(job, 4);
  at(layout.tasks.values, layout.tasks.passes[reader].reads[1]).layout = {sbp::Sbp::S(0)};
  EXPECT_THAT(message(check_boxing, layout), testing::HasSubstr("the layout that its reader wants"));
}

TEST(Lowering, ATaskThatWaitsForALaterOneIsFound) {
  Lowered lowered(zero_job(3), 8);
  lowered.tasks.passes.front().after.push_back(1000);
  EXPECT_THAT(message(check_overlap, lowered), testing::HasSubstr("which is not in front of it"));
  Lowered held(zero_job(3), 8);
  held.tasks.passes[held.find("h0.ln1")].hold = Hold::first_step;
  EXPECT_THAT(message(check_overlap, held), testing::HasSubstr("held back that moves nothing"));
}

Job offloading_job() {
  Job job = small_job(1, 1, 1, 3, 2);
  job.parallel.offload_activations = true;
  return job;
}

// The picture of offload.h: "h0.offload" and the layer of the kernel that waits for it, "h0.fetch" and that
// of the kernel for which it waits.
TEST(Lowering, ALayersActivationsAreOnTheHostWhileOthersRun) {
  const Lowered lowered(offloading_job(), 8);
  std::map<TaskId, std::string> layer_of, copies;
  std::vector<std::string> seen;
  const auto layer = [&](const Task& task) {
    return fmt::format("{}", lowered.stage.op(task.ops.back()).layer);
  };
  for (const Task& task : lowered.tasks.passes) {
    if (task.kind == TaskKind::kernel && task.id >= 0) layer_of[task.id] = layer(task);
    for (const TaskId id : task.after)
      if (task.kind == TaskKind::kernel && copies.contains(id))
        seen.push_back(fmt::format("{} before the end of {}", copies[id], layer(task)));
    if (task.kind != TaskKind::copy) continue;
    if (lowered.stage.phases.is_forward(task.phase))
      copies[task.id] = task.label.name;
    else
      seen.push_back(fmt::format("{} after the begin of {}", task.label.name, layer_of.at(task.after.at(0))));
  }
  EXPECT_THAT(seen,
              testing::ElementsAre("embedding.offload before the end of 0", "h0.offload before the end of 1",
                                   "h1.offload before the end of 2", "h2.offload before the end of 3",
                                   "h2.fetch after the begin of 3", "h1.fetch after the begin of 2",
                                   "h0.fetch after the begin of 1", "embedding.fetch after the begin of 0"));
}

TEST(Lowering, AValueOnTheHostThatAKernelReadsIsFound) {
  Lowered lowered(offloading_job(), 5);
  const auto copy = std::find_if(lowered.tasks.passes.begin(), lowered.tasks.passes.end(),
                                 [](const Task& task) { return task.kind == TaskKind::copy; });
  ASSERT_NE(copy, lowered.tasks.passes.end());
  lowered.tasks.passes.back().reads.push_back(copy->writes[0]);
  EXPECT_THAT(message(check_offload, lowered), testing::HasSubstr("is read on the host"));
  Lowered gone(offloading_job(), 5);
  std::erase_if(gone.tasks.passes, [&](const Task& task) {
    return task.kind == TaskKind::copy && gone.stage.phases.is_forward(task.phase);
  });
  EXPECT_THAT(message(check_offload, gone), testing::HasSubstr("is fetched before it is on the host"));
}

// The picture of host_updates.h.
TEST(Lowering, TheHostUpdatesWhatTheDeviceDoesNotRead) {
  const auto updates = [](ir::Precision precision, ir::Optimizer optimizer) {
    Job job = zero_job(1);
    job.train.precision = precision, job.train.optimizer = optimizer;
    job.parallel.offload_optimizer = true, job.train.clip_norm = 0;
    const Lowered lowered(job, 8);
    std::string text;
    for (const Task& task : lowered.tasks.updates) {
      const bool of_fc1 =
          task.kind == TaskKind::copy
              ? task.label.name.starts_with("h0.mlp.fc1.weight")
              : !task.ops.empty() && lowered.stage.op(task.ops[0]).name.starts_with("h0.mlp.fc1.weight");
      if (!of_fc1) continue;
      const bool host = at(lowered.tasks.values, task.writes[0]).on_host;
      if (task.kind == TaskKind::copy)
        text += host ? "offload " : "fetch ";
      else
        text += lowered.stage.op(task.ops[0]).type + (host ? " on the host " : " on the device ");
      for (ValueId v : task.kind == TaskKind::copy ? task.reads : std::vector<ValueId>())
        text += lowered.name(at(lowered.tasks.values, v).t) + " ";
    }
    return text;
  };
  EXPECT_EQ(
      updates(ir::Precision::bf16, ir::Optimizer::adam),
      "offload h0.mlp.fc1.weight.grad.sum adam on the host cast on the host fetch h0.mlp.fc1.weight.half ");
  EXPECT_EQ(updates(ir::Precision::fp32, ir::Optimizer::adam), "adam on the device ");
  EXPECT_THAT(updates(ir::Precision::bf16, ir::Optimizer::adafactor),
              testing::HasSubstr("adafactor on the device cast on the device"));
  EXPECT_EQ(updates(ir::Precision::bf16, ir::Optimizer::lamb),
            "lamb_norms on the device lamb on the device ");
}

TEST(Lowering, ATaskOnTheHostAndTheDeviceIsFound) {
  Job job = zero_job(1);
  job.train.precision = ir::Precision::bf16, job.parallel.offload_optimizer = true;
  Lowered lowered(job, 7);
  EXPECT_EQ(message(check_host_updates, lowered), "");
  const auto update =
      std::find_if(lowered.tasks.updates.begin(), lowered.tasks.updates.end(), [&](const Task& task) {
        return task.kind == TaskKind::kernel && at(lowered.tasks.values, task.writes[0]).on_host;
      });
  ASSERT_NE(update, lowered.tasks.updates.end());
  at(lowered.tasks.values, update->reads[0]).on_host = false;
  EXPECT_THAT(message(check_host_updates, lowered), testing::HasSubstr("is on the host, and other operands"));
}

// The picture of servers.h, of one weight.
TEST(Lowering, GradientsGoToServersAndParametersOrSumsComeBack) {
  const auto path = [](bool update) {
    Job job = zero_job(0, 4);
    job.parallel.servers = 2, job.parallel.servers_update = update;
    job.train.precision = ir::Precision::fp32, job.train.clip_norm = 0;
    const Lowered lowered(job, 8);
    std::string text;
    for (const auto* part : {&lowered.tasks.reductions, &lowered.tasks.updates})
      for (const Task& task : *part) {
        for (ValueId v : task.kind == TaskKind::copy ? task.writes : std::vector<ValueId>())
          if (lowered.name(at(lowered.tasks.values, v).t).starts_with("h0.mlp.fc1.weight"))
            text += at(lowered.tasks.values, v).on_host ? "offload; " : "fetch; ";
        if (task.kind == TaskKind::kernel &&
            lowered.stage.op(task.ops[0]).name.starts_with("h0.mlp.fc1.weight"))
          if (lowered.stage.op(task.ops[0]).type == "adam")
            text += at(lowered.tasks.values, task.writes[0]).on_host ? "adam on the host; " : "adam; ";
        for (const Bucket& bucket : task.buckets)
          for (const Boxed& boxed : bucket)
            if (lowered.name(boxed.t).starts_with("h0.mlp.fc1.weight"))
              text += fmt::format("{} {} -> {}; ", task.kind == TaskKind::exchange ? "exchange" : "box",
                                  sbp::to_text(boxed.from), sbp::to_text(boxed.to));
      }
    return text;
  };
  const std::string push =
      "box (P(sum), P(sum)) -> (P(sum), S(0)); offload; exchange (P(sum), S(0)) -> (S(0,inner), S(0)); ";
  const std::string pull = "exchange (S(0,inner), S(0)) -> (B, S(0)); fetch; box (B, S(0)) -> (B, B); ";
  EXPECT_EQ(path(true), push + "adam on the host; " + pull);
  EXPECT_EQ(path(false), push + pull + "adam; ");
}

TEST(Lowering, AnExchangeOffTheHostsOrABoxToServersIsFound) {
  Job job = zero_job(0);
  job.parallel.servers = 2;
  for (const bool off : {false, true}) {
    Lowered lowered(job, 6);
    EXPECT_EQ(message(check_servers, lowered), "");
    for (Task& task : lowered.tasks.reductions)
      if (task.kind == TaskKind::exchange) {
        if (off)
          at(lowered.tasks.values, task.buckets[0][0].source).on_host = false;
        else
          task.kind = TaskKind::box;
      }
    EXPECT_THAT(message(check_servers, lowered),
                testing::HasSubstr(off ? "is exchanged on devices" : "goes to the servers by no exchange"));
  }
}

}  // namespace
}  // namespace boxcar::planner
