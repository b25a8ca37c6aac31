// Users' own models, as graph text: simulated, searched and trained.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/host/safetensors.h"
#include "ir/models/graph_model.h"
#include "train.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::string examples = BOXCAR_SOURCE_DIR "/docs/examples/";

// Skips between layers, a table, attributes with the batch, a constant of both passes, a whole-number input.
const std::string recommender = R"(graph recommender layers=3
%items: int64[batch, 4] = input()
%numbers: float32[batch, 8] = input()
%clicks: int64[batch] = input()
%table.weight: float32[20, 8] = parameter()
%rows = embedding(%table.weight, %items) layer=0
%flat = reshape(%rows) {shape=[batch, 32]}
%joined = concat(%flat, %numbers) {axis=1}
%fc1.weight: float32[40, 16] = parameter()
%fc1.bias: float32[16] = parameter()
%fc1 = matmul(%joined, %fc1.weight) layer=1
%fc1.sum = add(%fc1, %fc1.bias)
%fc1.gelu = gelu(%fc1.sum)
%norm.gamma: float32[16] = parameter()
%norm.beta: float32[16] = parameter()
%norm = layer_norm(%fc1.gelu, %norm.gamma, %norm.beta) core
%fc2.weight: float32[16, 8] = parameter()
%unit: float32[8] = constant() {value=0.5}
%fc2.unit = rms_norm(%fc2.weight, %unit)
%fc2 = matmul(%norm, %fc2.unit) layer=2
%wide = add(%fc2, %numbers)
%head.weight: float32[8, 2] = parameter()
%logits = matmul(%wide, %head.weight)
%losses = cross_entropy(%logits, %clicks)
%own = one_hot(%clicks) {depth=2}
%gain = mul(%logits, %own)
%gains = reduce_mean(%gain) {axes=[1]}
%both = sub(%losses, %gains)
%loss = reduce_mean(%both) {axes=[0]}
)";

class OwnModel : public testing::Test {
 protected:
  Output run(const std::string& command, const Words& more) const {
    Words words{command};
    const bool has_graph = std::any_of(more.begin(), more.end(),
                                       [](const std::string& word) { return word.starts_with("--graph="); });
    if (!has_graph) words.push_back("--graph=" + file_.path());
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  std::vector<double> losses(const Words& more) const {
    Words words{"--json", "--data=random", "--steps=4", "--global-batch=16", "--precision=fp64"};
    words.insert(words.end(), more.begin(), more.end());
    return losses_of(run("train", words));
  }
  static std::vector<double> losses_of(const Output& output) {
    EXPECT_EQ(output.exit_code, 0) << output.err;
    std::vector<double> all;
    std::istringstream lines(output.out);
    for (std::string line; std::getline(lines, line);)
      if (const json event = json::parse(line); event["event"] == "step") all.push_back(event["loss"]);
    EXPECT_EQ(all.size(), 4u);
    return all;
  }

  TemporaryFile file_{"recommender.txt", recommender};
};

// A step whose gradients overflow leaves the weights as they are, on every device.
TEST_F(OwnModel, StepsWithoutAnUpdateAreCounted) {
  const auto ends = [&](const char* factor, const Words& more) {
    const std::string mean = "%loss = reduce_mean(%both) {axes=[0]}";
    std::string text = recommender;
    text.replace(
        text.find(mean), mean.size(),
        fmt::format("%mean = reduce_mean(%both) {{axes=[0]}}\n%loss = scale(%mean) {{factor={}}}", factor));
    const TemporaryFile graph("scaled.txt", text);
    Words words{"--graph=" + graph.path(), "--data=random",    "--steps=3",
                "--global-batch=8",        "--precision=fp16", "--dp=2"};
    words.insert(words.end(), more.begin(), more.end());
    return run("train", words).out;
  };
  EXPECT_THAT(ends("1000000", {}),
              HasSubstr("\n3 of these steps changed no weight, since their gradients overflowed in 16 bits "
                        "(use precision bf16, or scale the loss down)\n"));
  EXPECT_THAT(ends("1000000", {"--json"}), HasSubstr("\"skipped_steps\":3"));
  EXPECT_THAT(ends("0.001", {}), Not(HasSubstr("changed no weight")));
  EXPECT_THAT(ends("0.001", {"--json"}), Not(HasSubstr("skipped_steps")));
}

// Law 4 for a graph of the user's own.
TEST_F(OwnModel, EverySplitHasTheSingleDevicesLosses) {
  const std::vector<double> alone = losses({});
  ASSERT_EQ(alone.size(), 4u);
  EXPECT_NE(alone.back(), alone.front());
  for (const Words& plan :
       {Words{"--dp=4"}, Words{"--dp=2", "--zero=3", "--micro-batch=4"},
        Words{"--gpus=4", "--dp=2", "--tp=2", "--zero=1"}, Words{"--pp=3", "--micro-batch=4"},
        Words{"--pp=2", "--micro-batch=2", "--schedule=zb-h1", "--tp=2"}, Words{"--dp=2", "--recompute=full"},
        Words{"--dp=2", "--recompute=selective"}, Words{"--pp=2", "--stage-layers=1,2", "--epilogues"}}) {
    const std::vector<double> split = losses(plan);
    ASSERT_EQ(split.size(), alone.size()) << plan[0];
    for (size_t step = 0; step < alone.size(); ++step)
      EXPECT_NEAR(split[step], alone[step], 1e-9 * alone[step]) << plan[0] << plan[1] << " step " << step;
  }
}

TEST_F(OwnModel, EverySplitDrawsTheSameClasses) {
  const TemporaryFile graph("sampled.txt", small_partial_fc()), plan("best.txt", "");
  const auto job = [&](Words more) {
    more.push_back("--graph=" + graph.path());
    more.emplace_back("--global-batch=3");
    return more;
  };
  const auto expect_the_same = [](const std::vector<double>& alone, const Words& how,
                                  const std::vector<double>& found) {
    ASSERT_EQ(found.size(), alone.size()) << how.back();
    for (size_t step = 0; step < alone.size(); ++step)
      EXPECT_NEAR(found[step], alone[step], 1e-9 * alone[step]) << how.back() << " step " << step;
  };
  const std::vector<double> alone = losses(job({}));
  ASSERT_EQ(alone.size(), 4u);
  for (const Words& split : {Words{"--dp=3"}, Words{"--dp=3", "--zero=3"}, Words{"--micro-batch=3", "--pp=2"},
                             Words{"--gpus=6", "--dp=3", "--tp=2", "--zero=1"}})
    expect_the_same(alone, split, losses(job(split)));
  const auto planned = [&](const Words& devices) {
    Words words{"--cluster=local", "--pp=1", "--micro-batch=3", "--precision=fp64", "-o", plan.path()};
    words.insert(words.end(), devices.begin(), devices.end());
    EXPECT_EQ(run("search", job(words)).exit_code, 0);
    return losses_of(run_program({"train", "--plan", plan.path(), "--data=random", "--steps=4", "--json"}));
  };
  const Words split{"--gpus=4", "--dp=1", "--tp=4", "--pin=classes.weight=S(0)"};
  expect_the_same(planned({"--gpus=1"}), split, planned(split));
  const Output crowded =
      run_program({"train", "--graph=" + graph.path(), "--data=random", "--steps=1", "--global-batch=64"});
  EXPECT_EQ(crowded.exit_code, 3);
  EXPECT_THAT(crowded.err,
              testing::ContainsRegex(": sample_(rows|labels): draws 3 of the 4 classes from [0-9]+ "
                                     "on, but more are those of labels"));
}

TEST_F(OwnModel, ReadsItsInputsFromAFile) {
  namespace host = backends::host;
  const TemporaryFile data("train.safetensors", "");
  host::StoredFile samples;
  const auto add = [&](const char* name, const ir::TensorType& type, auto value) {
    host::StoredTensor tensor{type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
    for (int64_t i = 0; i < type.elements(); ++i) {
      const auto number = value(i);
      std::memcpy(tensor.bytes.data() + i * static_cast<int64_t>(sizeof number), &number, sizeof number);
    }
    samples.tensors.emplace(name, std::move(tensor));
  };
  // Whoever has a first number above zero clicks.
  add("items", {{64, 4}, ir::DType::int32}, [](int64_t i) { return static_cast<int32_t>(i % 20); });
  add("numbers", {{64, 8}, ir::DType::float32}, [](int64_t i) { return i % 16 == 0 ? 1.0F : -1.0F; });
  add("clicks", {{64}, ir::DType::int64}, [](int64_t i) { return static_cast<int64_t>(i % 2 == 0); });
  host::write_safetensors(data.path(), samples);
  const Output output = run("train", {"--json", "--data=" + data.path(), "--steps=60", "--global-batch=64",
                                      "--learning-rate=0.05"});
  ASSERT_EQ(output.exit_code, 0) << output.err;
  std::istringstream lines(output.out);
  double last = 1;
  for (std::string line; std::getline(lines, line);)
    if (const json event = json::parse(line); event["event"] == "step") last = event["loss"];
  EXPECT_LT(last, 0.05);
}

// Values for all parameters of the graph, the same for the same name; of %unit a half.
void write_weights(const std::string& path, const std::string& graph) {
  namespace host = backends::host;
  host::StoredFile file;
  for (const auto& parameter : ir::models::parameters_of(ir::models::read_graph_model(graph))) {
    host::StoredTensor stored{parameter.type,
                              std::vector<std::byte>(static_cast<size_t>(parameter.type.bytes()))};
    for (int64_t i = 0; i < parameter.type.elements(); ++i) {
      const float value = parameter.name == "unit" ? 0.5F : 0.1F * static_cast<float>((i * 7 + 3) % 11 - 5);
      std::memcpy(stored.bytes.data() + i * 4, &value, 4);
    }
    file.tensors[parameter.name] = std::move(stored);
  }
  host::write_safetensors(path, file);
}

// A parameter that is not trained does what a constant of the same value does.
TEST_F(OwnModel, ATableStaysAsItIs) {
  const std::string with_table =
      replace_all(recommender, "= constant() {value=0.5}", "= parameter() role=constant");
  const TemporaryFile graph("table.txt", with_table), weights("table.safetensors", ""),
      others("others.safetensors", "");
  write_weights(weights.path(), with_table);
  write_weights(others.path(), recommender);
  for (const Words& plan : {Words{"--dp=1"}, Words{"--dp=2", "--zero=3"}, Words{"--pp=3", "--micro-batch=4"},
                            Words{"--gpus=4", "--dp=2", "--tp=2", "--zero=1"},
                            Words{"--dp=2", "--recompute=full", "--clip-norm=0.1"}}) {
    Words words = plan;
    words.push_back("--init-from=" + others.path());
    const std::vector<double> expected = losses(words);
    words.back() = "--init-from=" + weights.path();
    words.push_back("--graph=" + graph.path());
    EXPECT_EQ(losses(words), expected) << testing::PrintToString(plan);
  }
  const TemporaryFile plan("plan.txt", "");
  ASSERT_EQ(run_program({"simulate", "--graph=" + graph.path(), "--cluster=local", "--dp=2",
                         "--global-batch=16", "--save-plan=" + plan.path()})
                .exit_code,
            0);
  const Output planned = run_program(
      {"train", "--plan=" + plan.path(), "--init-from=" + weights.path(), "--data=random", "--steps=1"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  const Output drawn = run_program({"train", "--graph=" + graph.path(), "--data=random", "--steps=1"});
  EXPECT_EQ(drawn.err, "boxcar: run.init_from: is missing; %unit is a table that is not trained\n");
}

TEST_F(OwnModel, RefusesWeightsOfAnother) {
  namespace host = backends::host;
  const TemporaryFile weights("weights.safetensors", "");
  const auto refused = [&](const std::function<void(host::StoredFile&)>& change) {
    write_weights(weights.path(), recommender);
    host::StoredFile file = host::read_safetensors(weights.path());
    change(file);
    host::write_safetensors(weights.path(), file);
    const Output output = run("train", {"--data=random", "--steps=1", "--init-from=" + weights.path()});
    EXPECT_EQ(output.exit_code, 2) << output.out;
    return replace_all(output.err, "boxcar: " + weights.path() + ": ", "");
  };
  EXPECT_EQ(refused([](host::StoredFile& file) { file.tensors.erase("fc1.bias"); }),
            "has no tensor fc1.bias, a parameter of the model\n");
  EXPECT_EQ(refused([](host::StoredFile& file) { file.tensors["more"] = file.tensors["fc1.bias"]; }),
            "has a tensor more, which is no parameter of the model\n");
  EXPECT_EQ(refused([](host::StoredFile& file) { file.tensors["fc1.bias"] = file.tensors["fc2.weight"]; }),
            "fc1.bias is float32[16, 8], expected float32[16]\n");
}

// An alias has its operand's register, and the loss is watched in its own.
TEST_F(OwnModel, ALossMayBeAnAlias) {
  for (const char* alias : {"%loss = reshape(%mean) {shape=[]}",
                            "%flat = reshape(%mean) {shape=[]}\n%loss = "
                            "identity(%flat)"}) {
    const TemporaryFile graph("alias.txt",
                              "graph g\n%x: float32[batch, 3] = input()\n%w: float32[3, 2] = parameter()\n"
                              "%y = matmul(%x, %w)\n%square = mul(%y, %y)\n"
                              "%mean = reduce_mean(%square) {axes=[0, 1], keepdims=true}\n" +
                                  std::string(alias) + "\n");
    const std::vector<double> alone = losses({"--graph=" + graph.path()});
    ASSERT_EQ(alone.size(), 4u);
    EXPECT_NEAR(losses({"--graph=" + graph.path(), "--dp=2", "--micro-batch=4"}).at(3), alone.at(3), 1e-9);
    EXPECT_EQ(losses({"--graph=" + graph.path(), "--off=fuse_elementwise"}).size(), 4u);
  }
}

// The gradient of a maximum asks which element it is of. Here the elements are sums over the batch, which
// ranks add up in different orders.
TEST_F(OwnModel, AMaximumOfSumsHasItsGradientUnderEveryPlan) {
  const TemporaryFile graph("maximum.txt",
                            "graph g\n%x: float32[batch, 4] = input()\n%w: float32[4, 5] = parameter()\n"
                            "%y = matmul(%x, %w)\n%sums = reduce_sum(%y) {axes=[0], keepdims=true}\n"
                            "%most = reduce_max(%sums) {axes=[0, 1], keepdims=true}\n%by = mul(%y, %most)\n"
                            "%loss = reduce_mean(%by) {axes=[0, 1]}\n");
  const Words common{"--graph=" + graph.path(), "--optimizer=sgd", "--learning-rate=0.05", "--clip-norm=0",
                     "--lr-schedule=constant"};
  const auto trained = [&](Words plan) {
    plan.insert(plan.end(), common.begin(), common.end());
    return losses(plan);
  };
  const std::vector<double> alone = trained({"--micro-batch=16"});
  for (const Words& plan : {Words{"--dp=2", "--micro-batch=8"}, Words{"--dp=4", "--micro-batch=4"},
                            Words{"--gpus=8", "--dp=4", "--tp=2", "--micro-batch=4"}})
    EXPECT_NEAR(trained(plan).at(3), alone.at(3), 1e-9) << plan[0];
}

// Data are checked when they are read; an index that is computed is checked where it is taken.
TEST_F(OwnModel, AnIndexThatIsComputedStaysInsideOfItsTable) {
  const auto said = [&](const std::string& j, const std::string& op, const Words& plan = {}) {
    const TemporaryFile graph("computed.txt", graph_of_computed_indices(j, op));
    Words words{"train", "--graph=" + graph.path(), "--data=random", "--global-batch=64", "--steps=1"};
    words.insert(words.end(), plan.begin(), plan.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, output.err.empty() ? 0 : 3);
    return output.err;
  };
  EXPECT_EQ(said("sub(%k, %k)", "embedding(%w, %j)"), "");
  for (const char* op : {"embedding(%w, %j)", "gather(%w, %j) {axis=0}"}) {
    EXPECT_THAT(said("add(%k, %k)", op),
                testing::MatchesRegex(
                    "boxcar: device [0-9]+: e: (embedding|gather): has the index [5-8], expected 0 to 4\n"))
        << op;
    EXPECT_THAT(said("neg(%k)", op, {"--dp=2"}), HasSubstr(": has the index -")) << op;
  }
  EXPECT_THAT(said("add(%k, %k)", "cross_entropy(%own, %j)"), HasSubstr("cross_entropy: has the index "));
}

TEST_F(OwnModel, ALossOfNanEndsTheRun) {
  namespace host = backends::host;
  const TemporaryFile graph(
      "nan.txt",
      "graph g\n%x: float32[batch] = input()\n%w: float32[1] = parameter()\n%y = mul(%x, %w)\n"
      "%z = relu(%y)\n%loss = reduce_mean(%z) {axes=[0]}\n"),
      data("nan.safetensors", "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  host::StoredTensor x{{{1}, ir::DType::float32}, std::vector<std::byte>(sizeof nan)};
  std::memcpy(x.bytes.data(), &nan, sizeof nan);
  host::write_safetensors(data.path(), {{{"x", x}}, {}});
  const Output output = run_program(
      {"train", "--graph=" + graph.path(), "--data=" + data.path(), "--steps=1", "--global-batch=1"});
  EXPECT_EQ(output.exit_code, 3) << output.out;
  EXPECT_THAT(output.err, HasSubstr("the loss is nan (use a lower learning_rate, warmup_steps or"));
  const Output divided = run_program({"train", "--graph=" + graph.path(), "--data=" + data.path(),
                                      "--steps=1", "--global-batch=1", "--eps=0"});
  EXPECT_THAT(divided.err, HasSubstr("the loss is nan (use an eps above 0, a lower learning_rate"));
}

TEST_F(OwnModel, SearchFindsAPlanThatRunsAgain) {
  const TemporaryFile plan("best.txt", "");
  const Output found =
      run("search", {"--cluster=dgx-a100-80g", "--gpus=4", "--global-batch=64", "--json", "-o", plan.path()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const Output again = run_program({"simulate", "--plan", plan.path(), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["step_time_s"], json::parse(found.out)["best"]["step_time_s"]);
  EXPECT_EQ(run_program({"explain", plan.path()}).exit_code, 0);
  EXPECT_EQ(run_program({"train", "--plan", plan.path(), "--data=random", "--steps=1"}).exit_code, 0);
}

TEST_F(OwnModel, APlanIsOfOneText) {
  const TemporaryFile graph("model.txt", recommender), plan("plan.txt", "");
  const Words job{"simulate", "--graph=" + graph.path(), "--cluster=dgx-a100-80g",
                  "--gpus=2", "--global-batch=16",       "--save-plan=" + plan.path()};
  ASSERT_EQ(run_program(job).exit_code, 0);
  const auto explained = [&](const std::string& text) {
    std::ofstream(graph.path()) << text;
    return run_program({"explain", plan.path()});
  };
  EXPECT_EQ(explained("# The same graph.\n" + recommender).exit_code, 0);
  const Output other = explained(replace_all(recommender, "gelu(", "relu("));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_EQ(other.err, fmt::format("boxcar: {}: is a plan for another text than {} has now (plan anew)\n",
                                   plan.path(), graph.path()));
}

TEST_F(OwnModel, SaysThatTensorParallelismHasNoHints) {
  const std::string told =
      "boxcar: --tp: no hint says how it splits a graph, so ranks of tp do much of the same work; a search "
      "with "
      "these flags finds layouts\n";
  const Words job{"--cluster=dgx-a100-80g", "--gpus=4", "--global-batch=64", "--tp=4"};
  EXPECT_EQ(run("simulate", job).err, told);
  EXPECT_EQ(run("search", job).err, "");
}

// A GPT as text takes the time of the built-in one, but for how its loss is written.
TEST_F(OwnModel, AGptTakesTheTimeOfTheBuiltInOne) {
  const auto block = [](int layer, const std::string& x) {
    return fmt::format(R"(
%h{0}.ln1.gamma: float32[512] = parameter()
%h{0}.ln1.bias: float32[512] = parameter()
%h{0}.ln1 = layer_norm(%{1}, %h{0}.ln1.gamma, %h{0}.ln1.bias) layer={0}
%h{0}.qkv.weight: float32[512, 1536] = parameter()
%h{0}.qkv = matmul(%h{0}.ln1, %h{0}.qkv.weight)
%h{0}.q, %h{0}.k, %h{0}.v = split_heads(%h{0}.qkv) {{head_dim=64}}
%h{0}.attention = scaled_dot_product_attention(%h{0}.q, %h{0}.k, %h{0}.v) {{causal=true}}
%h{0}.merged = merge_heads(%h{0}.attention)
%h{0}.proj.weight: float32[512, 512] = parameter()
%h{0}.proj = matmul(%h{0}.merged, %h{0}.proj.weight)
%h{0}.middle = add(%h{0}.proj, %{1})
%h{0}.ln2.gamma: float32[512] = parameter()
%h{0}.ln2.bias: float32[512] = parameter()
%h{0}.ln2 = layer_norm(%h{0}.middle, %h{0}.ln2.gamma, %h{0}.ln2.bias)
%h{0}.fc1.weight: float32[512, 2048] = parameter()
%h{0}.fc1 = matmul(%h{0}.ln2, %h{0}.fc1.weight)
%h{0}.gelu = gelu(%h{0}.fc1)
%h{0}.fc2.weight: float32[2048, 512] = parameter()
%h{0}.fc2 = matmul(%h{0}.gelu, %h{0}.fc2.weight)
%h{0}.out = add(%h{0}.fc2, %h{0}.middle)
)",
                       layer, x);
  };
  const std::string text = R"(graph gpt layers=4
%tokens: int64[batch, 1024] = input()
%labels: int64[batch, 1024] = input()
%words.weight: float32[8192, 512] = parameter()
%positions.weight: float32[1024, 512] = parameter()
%words = embedding(%words.weight, %tokens)
%x = add(%words, %positions.weight)
)" + block(0, "x") + block(1, "h0.out") +
                           block(2, "h1.out") + block(3, "h2.out") + R"(
%norm.gamma: float32[512] = parameter()
%norm.bias: float32[512] = parameter()
%norm = layer_norm(%h3.out, %norm.gamma, %norm.bias) layer=4
%head.weight: float32[512, 8192] = parameter()
%logits = matmul(%norm, %head.weight)
%losses = cross_entropy(%logits, %labels)
%loss = reduce_mean(%losses) {axes=[0, 1]}
)";
  const TemporaryFile file("gpt.txt", text);
  const auto seconds = [](const Words& model, const Words& plan) {
    Words words{"simulate",          "--json",         "--cluster=dgx-a100-80g", "--gpus=8",
                "--global-batch=64", "--preset=modern"};
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), plan.begin(), plan.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return json::parse(output.out)["step_time_s"].get<double>();
  };
  for (const Words& plan : {Words{"--micro-batch=4", "--zero=1"},
                            {"--micro-batch=2", "--pp=4", "--schedule=zb-h1"},
                            {"--micro-batch=8", "--zero=3", "--recompute=full"}})
    EXPECT_NEAR(seconds({"--graph=" + file.path()}, plan) /
                    seconds({"--model=gpt", "--layers=4", "--hidden=512", "--heads=8", "--seq=1024",
                             "--vocab=8192", "--tied=false", "--bias=false", "--dropout=0"},
                            plan),
                1, 0.05)
        << plan[1];
}

TEST_F(OwnModel, ExamplesAreSimulatedAndSearched) {
  for (const char* name : {"mlp.txt", "wide_deep.txt", "partial_fc.txt"}) {
    const Words job{"--graph=" + examples + name, "--cluster=dgx-a100-80g", "--gpus=4", "--global-batch=256",
                    "--json"};
    for (const char* command : {"simulate", "search"}) {
      Words words{command};
      words.insert(words.end(), job.begin(), job.end());
      const Output output = run_program(words);
      EXPECT_EQ(output.exit_code, 0) << name << output.err;
    }
  }
}

TEST_F(OwnModel, RefusesWhatItIsNot) {
  const auto refused = [&](const Words& more, const std::string& command = "simulate") {
    Words words{"--cluster=dgx-a100-80g", "--gpus=4"};
    words.insert(words.end(), more.begin(), more.end());
    const Output output = run(command, words);
    EXPECT_EQ(output.exit_code, 2) << output.out;
    return output.err;
  };
  EXPECT_EQ(refused({"--model=gpt2"}), "boxcar: --graph: a model of family gpt has none; it is of graph\n");
  EXPECT_THAT(refused({"--layers=2"}), HasSubstr("--layers: a model of family graph has none; it is of gpt"));
  EXPECT_EQ(refused({"--context-parallel=2"}),
            "boxcar: --context-parallel: 2 for inputs of a graph, which have no sequence to split (use 1)\n");
  EXPECT_EQ(refused({"--pp=4"}), "boxcar: --pp: 4 stages for 3 layers (use at most 3)\n");
  EXPECT_EQ(refused({"--validate-every=2", "--data=random"}, "train"),
            "boxcar: --validate-every: is for models of text and images (leave it out)\n");
  EXPECT_EQ(refused({"--global-batch=4M-tokens"}),
            "boxcar: --global-batch: counts tokens, which a graph does not say; give samples\n");
  EXPECT_EQ(refused({}, "train"),
            "boxcar: run.data: missing; give a file of safetensors in the job file or as --data, or --data "
            "random\n");
  EXPECT_EQ(refused({"--data=a,b"}, "train"),
            "boxcar: --data: of a graph is one file of safetensors, or random\n");
}

TEST_F(OwnModel, RefusesTextByLineAndColumn) {
  const auto refused = [](const std::string& text) {
    const TemporaryFile file("m.txt", text);
    const Output output =
        run_program({"simulate", "--graph=" + file.path(), "--cluster=dgx-a100-80g", "--gpus=4"});
    EXPECT_EQ(output.exit_code, 2) << output.out;
    std::string error = output.err;
    const size_t at = error.find(file.path());
    return at == std::string::npos ? error : error.replace(at, file.path().size(), "m.txt");
  };
  EXPECT_EQ(refused("graph g\n%x: float32[batch, 4] = input()\n%y = matmull(%x, %x)\n"),
            "boxcar: m.txt:3:6: matmull: no such op (did you mean matmul?)\n");
  EXPECT_EQ(refused("graph g\n%x: float32[batch, 4] = input()\n%loss = neg(%x)\n"),
            "boxcar: m.txt: %loss: is float32[1, 4], expected float32[], the mean over samples\n");
  EXPECT_EQ(
      refused("graph g\n%x: float32[batch] = input()\n%w: float32[1] = parameter()\n%y = mul(%x, %w)\n"
              "%size = square_sum(%w)\n%mean = reduce_mean(%y) {axes=[0]}\n%loss = mul(%mean, %size)\n"),
      "boxcar: size: square_sum has no gradient\n");
}

}  // namespace
}  // namespace boxcar::tests
