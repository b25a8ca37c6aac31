// `boxcar train --backend cuda` as a user runs it, over the stand-ins for CUDA, its libraries and NCCL.
#include "train.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace boxcar::tests {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Words small{"--layers=1", "--vocab=256", "--global-batch=4", "--dropout=0.1", "--precision=fp32"};

class TrainOnGpus : public Train {
 protected:
  ~TrainOnGpus() override { unsetenv("CUDA_ON_CPU_GPUS"); }
  static void have(int gpus) { setenv("CUDA_ON_CPU_GPUS", std::to_string(gpus).c_str(), 1); }
  static Words with(const std::string& backend, Words more) {
    more.insert(more.end(), small.begin(), small.end());
    more.push_back("--backend=" + backend);
    return more;
  }
  std::map<int, double> on_gpus(const Words& more) const { return train(with("cuda", more)); }
  static void expect_near(const std::map<int, double>& got, const std::map<int, double>& wanted) {
    ASSERT_FALSE(wanted.empty());
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [step, loss] : wanted) EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << "step " << step;
  }
};

// A model of the user's own, which has inputs in place of text.
class TrainOwnOnGpus : public TrainOnGpus {
 protected:
  static std::map<int, double> own(const std::string& graph, const char* backend, const Words& plan) {
    Words words{"train",
                "--graph=" + graph,
                "--data=random",
                "--steps=4",
                "--json",
                "--precision=fp32",
                std::string("--backend=") + backend};
    words.insert(words.end(), plan.begin(), plan.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out);
  }
  static void expect_the_same(const std::string& graph, const std::vector<Words>& plans) {
    have(2);
    for (const Words& plan : plans) {
      SCOPED_TRACE(plan.back());
      expect_near(own(graph, "cuda", plan), own(graph, "cpu", plan));
    }
  }
};

TEST_F(TrainOwnOnGpus, SamplesWhatTheCpuSamples) {
  const TemporaryFile graph("sampled.txt", small_partial_fc());
  expect_the_same(graph.path(), {{"--global-batch=3", "--dp=1"},
                                 {"--global-batch=3", "--micro-batch=1", "--pp=2"},
                                 {"--global-batch=6", "--micro-batch=3", "--dp=2", "--zero=1"}});
}

// Also in graphs of steps, and with several devices.
TEST_F(TrainOwnOnGpus, NamesAnOperandThatAKernelCannotTake) {
  have(2);
  const auto said = [](const std::string& text, const Words& plan) {
    const TemporaryFile graph("given.txt", text);
    Words words{"train", "--graph=" + graph.path(), "--data=random", "--backend=cuda", "--precision=fp32"};
    words.insert(words.end(), plan.begin(), plan.end());
    const Output output = run_program(words);
    EXPECT_THAT(output.exit_code, AnyOf(0, 3));
    return output.exit_code == 0 ? "" : output.err;
  };
  const Words few{"--steps=2", "--global-batch=64"}, many{"--steps=30", "--global-batch=64", "--cuda-graph"},
      split{"--steps=2", "--global-batch=64", "--dp=2"};
  for (const Words& plan : {few, many, split}) {
    EXPECT_EQ(said(graph_of_computed_indices("sub(%k, %k)", "embedding(%w, %j)"), plan), "");
    for (const char* op : {"embedding(%w, %j)", "gather(%w, %j) {axis=0}", "cross_entropy(%own, %j)"}) {
      const std::string type = std::string(op).substr(0, std::string(op).find('('));
      EXPECT_THAT(said(graph_of_computed_indices("neg(%k)", op), plan), HasSubstr(type + ": has the index -"))
          << op;
    }
    EXPECT_THAT(said(small_partial_fc(), plan),
                ContainsRegex("sample_(rows|labels): draws 3 of the 4 classes from [0-9]+ on, but more are "
                              "those of labels"));
  }
}

// One sample of 256, which a replayed step reads.
TEST_F(TrainOwnOnGpus, NamesAnOperandThatALaterStepCannotTake) {
  std::vector<int64_t> indices(256);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i % 3);
  indices[100] = 3;
  const std::string header = R"({"i":{"dtype":"I64","shape":[256],"data_offsets":[0,2048]}})";
  const auto length = static_cast<int64_t>(header.size());
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  file.append(reinterpret_cast<const char*>(indices.data()), indices.size() * sizeof indices[0]);
  const TemporaryFile data("later.safetensors", file), graph("later.txt", R"(graph g
%i: int64[batch] = input()
%w: float32[5, 4] = parameter()
%j = add(%i, %i)
%e = embedding(%w, %j)
%loss = reduce_mean(%e) {axes=[0, 1]}
)");
  const std::string folder = path("later");
  const Output output = run_program({"train", "--graph=" + graph.path(), "--data=" + data.path(),
                                     "--backend=cuda", "--precision=fp32", "--cuda-graph", "--steps=32",
                                     "--global-batch=8", "--checkpoint-dir=" + folder});
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.err, HasSubstr("e: embedding: has the index 6, expected 0 to 4"));
  EXPECT_FALSE(fs::exists(fs::path(folder) / "latest"));
}

TEST_F(TrainOwnOnGpus, UpdatesTheRowsThatTheCpuUpdates) {
  const Words rows{"--sparse-tables", "--clip-norm=0", "--global-batch=8"};
  const auto with_rows = [&](Words more) {
    more.insert(more.begin(), rows.begin(), rows.end());
    return more;
  };
  const TemporaryFile graph("tables.txt", small_example("wide_deep.txt", {{"2322444", "40"}, {"1024", "8"}}));
  expect_the_same(graph.path(), {with_rows({"--dp=1"}), with_rows({"--dp=2", "--zero=1"}),
                                 with_rows({"--dp=1", "--optimizer=adagrad"})});
}

// One GPU per device, which then communicate by NCCL, and one GPU that all share.
TEST_F(TrainOnGpus, HasTheLossesOfTheCpu) {
  const Words plan{"--dp=2", "--tp=2", "--zero=1"};
  const auto on_cpu = train(with("cpu", plan));
  EXPECT_LT(on_cpu.at(6), on_cpu.at(1));
  Words shared = plan;
  shared.push_back("--share-gpus");
  expect_near(on_gpus(shared), on_cpu);
  have(4);
  expect_near(on_gpus(plan), on_cpu);
}

// Tables have 320 words, or 384 on two devices, and 257 on the CPU.
TEST_F(TrainOnGpus, PadsTablesWithoutAShareInTheLoss) {
  have(2);
  const auto losses_of = [&](const char* backend, Words more) {
    more.insert(more.end(), {"--layers=1", "--vocab=257", "--global-batch=4", "--dropout=0",
                             "--precision=fp32", std::string("--backend=") + backend});
    return train(more);
  };
  const auto on_cpu = losses_of("cpu", {});
  for (const Words& plan : {Words{}, Words{"--fused-loss"}, Words{"--tp=2"}, Words{"--tp=2", "--fused-loss"},
                            Words{"--fast", "--fused-loss", "--fused-optimizer"}})
    expect_near(losses_of("cuda", plan), on_cpu);
}

// Also where checkpoints in flight have many more slots than recorded steps.
TEST_F(TrainOnGpus, TrainsByGraphsBitForBit) {
  for (const auto& [plan, every] : {std::pair(Words{"--dp=1"}, 3),
                                    {Words{"--dp=1"}, 40},
                                    {Words{"--dp=2", "--tp=2", "--share-gpus"}, 3}}) {
    const std::string folder = path("graphs" + std::to_string(plan.size()) + std::to_string(every));
    Words graphs = plan;
    graphs.insert(graphs.end(), {"--cuda-graph", "--checkpoint-dir=" + folder,
                                 "--checkpoint-every=" + std::to_string(every)});
    EXPECT_EQ(on_gpus(graphs), on_gpus(plan)) << plan[0];
  }
}

TEST_F(TrainOnGpus, GoesOnBitForBit) {
  const Words keys{"--dp=2", "--share-gpus", "--lr-schedule=constant"};
  const auto saving = [&](const char* folder, Words more) {
    more.insert(more.end(), keys.begin(), keys.end());
    more.push_back("--checkpoint-dir=" + path(folder));
    return on_gpus(more);
  };
  const auto whole = saving("whole", {});
  saving("parts", {"--steps=3"});
  const auto rest = saving("parts", {"--resume"});
  ASSERT_EQ(rest.size(), 3u);
  for (const auto& [step, loss] : rest) EXPECT_EQ(loss, whole.at(step)) << step;
  const auto weights = [&](const char* folder) { return checkpoint(path(folder)).at("model.safetensors"); };
  EXPECT_EQ(weights("parts"), weights("whole"));
}

// Each backend resumes from the other's checkpoint.
TEST_F(TrainOnGpus, ChecksOutWhatTheOtherBackendWrote) {
  const auto steps = [&](const char* backend, const std::string& folder, Words more) {
    more.insert(more.end(), {"--lr-schedule=constant", "--checkpoint-dir=" + path(folder)});
    return train(with(backend, more));
  };
  const auto whole = steps("cpu", "whole", {});
  for (const auto& [first, then] : {std::pair("cpu", "cuda"), {"cuda", "cpu"}}) {
    steps(first, first, {"--steps=3"});
    auto rest = steps(then, first, {"--resume"});
    for (int step = 1; step <= 3; ++step) rest[step] = whole.at(step);
    expect_near(rest, whole);
  }
}

TEST_F(TrainOnGpus, TakesPlansTracesAndAlgorithms) {
  const std::string plan = path("best.plan"), trace = path("trace.json"), chosen = path("algorithms");
  const Output saved =
      run_program({"simulate", "--model=gpt", "--layers=1", "--hidden=16", "--heads=4", "--seq=16",
                   "--vocab=256", "--cluster=local", "--dp=2", "--precision=fp32", "--global-batch=4",
                   "--micro-batch=2", "--save-plan=" + plan});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const Words words{"train", "--plan=" + plan, "--data=" + data(), "--steps=4", "--json"};
  const auto losses_of = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    const Output output = run_program(more);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out);
  };
  have(2);
  expect_near(losses_of({"--backend=cuda", "--trace=" + trace}), losses_of({}));
  std::map<std::string, int> acts;
  const json events = json::parse(bytes_of(trace)).at("traceEvents");
  for (const json& event : events)
    if (event.at("ph") == "X") ++acts[event.at("name")];
  EXPECT_GT(acts.size(), 20u);
  for (const auto& [act, times] : acts) EXPECT_EQ(times % 2, 0) << act << " of two devices";
  const auto quick = losses_of({"--backend=cuda", "--fast", "--algorithms=" + chosen});
  expect_near(quick, losses_of({}));
  EXPECT_TRUE(bytes_of(chosen).starts_with("boxcar algorithms 1\nthe host in a GPU's place, cuBLASLt "));
  EXPECT_EQ(losses_of({"--backend=cuda", "--fast", "--algorithms=" + chosen}), quick);
}

TEST_F(TrainOnGpus, SaysWhichKernelsRun) {
  const auto run = [&](const Words& more) { return run_program(arguments(with("cuda", more))); };
  const std::string slow =
      "scaled_dot_product_attention, scaled_dot_product_attention_grad: own kernels without tensor cores, "
      "since "
      "its operands are float32 (--precision bf16)\n";
  const Output fast = run({"--steps=1", "--require-fast"});
  EXPECT_EQ(fast.exit_code, 0) << fast.err;
  EXPECT_THAT(fast.err, HasSubstr("boxcar: kernels of batch_matmul, "));
  EXPECT_THAT(fast.err, Not(HasSubstr(", since ")));
  const Output told = run({"--steps=1", "--attention=flash"});
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.err, HasSubstr("boxcar: kernels of " + slow));
  const Output refused = run({"--steps=1", "--attention=flash", "--require-fast"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("boxcar: --require-fast: not all kernels are fast: " + slow));
}

TEST_F(TrainOnGpus, SaysWhyItCannot) {
  const auto refused = [&](int exit_code, int gpus, const Words& more, const std::string& message) {
    have(gpus);
    const Output output = run_program(arguments(with("cuda", more)));
    EXPECT_EQ(output.exit_code, exit_code);
    EXPECT_THAT(output.err, HasSubstr("boxcar: " + message));
  };
  refused(1, 0, {"--dp=1"},
          "cuda: no GPU is visible to this process (look at CUDA_VISIBLE_DEVICES, or use --backend cpu)");
  refused(1, 1, {"--dp=2"},
          "cuda: 2 devices for 1 GPU; use more GPUs or fewer devices, or --share-gpus to put several devices "
          "on one");
  refused(1, 1, {"--hidden=4096", "--ffn=200000"}, "cuda: GPU 0: the plan needs ");
  refused(
      2, 2, {"--dp=2", "--cuda-graph"},
      "graphs of steps: 2 devices in one process communicate by NCCL; start a process for each with mpirun");
  refused(3, 1,
          {"--dp=1", "--optimizer=sgd", "--lr-schedule=constant", "--learning-rate=1e6", "--clip-norm=0",
           "--steps=60"},
          "device 0: loss: step ");
}

}  // namespace
}  // namespace boxcar::tests
