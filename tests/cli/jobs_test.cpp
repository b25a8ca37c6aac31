// Jobs from flags, files and presets, and messages about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "bad_input.h"
#include "cli/catalog.h"
#include "cli/job.h"
#include "cli/job_labels.h"

namespace boxcar::tests {
namespace {

// A file has the same sizes as the catalog, and flags win.
TEST(Jobs, AModelFromAFile) {
  TemporaryFile file("config.json", R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32,
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
    "max_position_embeddings": 131072, "vocab_size": 32000, "head_dim": 128, "rms_norm_eps": 1e-5})");
  const Words rest{"--cluster=dgx-a100-80g", "--gpus=8", "--tp=8", "--json"};
  Words by_file{"simulate", "--model", file.path(), "--seq=4096"}, by_name{"simulate", "--model=llama2-7b"};
  by_file.insert(by_file.end(), rest.begin(), rest.end());
  by_name.insert(by_name.end(), rest.begin(), rest.end());
  const auto until_simulator = [](const std::string& text) {
    return text.substr(0, text.find("\"simulator\""));
  };
  const Output from_file = run_program(by_file);
  EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
  EXPECT_EQ(until_simulator(from_file.out), until_simulator(run_program(by_name).out));
  by_file[2] = std::filesystem::path(file.path()).parent_path().string() + "/";  // the folder
  EXPECT_EQ(until_simulator(run_program(by_file).out), until_simulator(from_file.out));
}

// Settings in a model file beside sizes are built, or reported.
TEST(Jobs, AModelFromAFileHasItsBiasesAndActivation) {
  const auto simulate = [](const std::string& config, const Words& flags) {
    TemporaryFile file("config.json", config);
    Words words{"simulate", "--model", file.path(), "--cluster=dgx-a100-80g", "--gpus=1", "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return output;
  };
  const std::string sizes = R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128)";
  const auto llama = [&](const std::string& name, const std::string& more) {
    return R"({"architectures": [")" + name + R"("], )" + sizes + more + "}";
  };
  const auto parameters = [](const Output& output) {
    const auto doc = nlohmann::json::parse(output.out);
    return doc["memory_breakdown_bytes"][0]["optimizer"].get<int64_t>();
  };
  const Output plain = simulate(llama("LlamaForCausalLM", ""), {});
  const Output qwen = simulate(llama("Qwen2ForCausalLM", R"(, "sliding_window": 32)"), {});
  EXPECT_EQ(plain.err + qwen.err, "");
  EXPECT_GT(parameters(qwen), parameters(plain));
  EXPECT_EQ(nlohmann::json::parse(qwen.out)["configuration"]["model.qkv_bias"], "true");
  const auto window = [&](const std::string& name, const std::string& more) {
    const Output output = simulate(llama(name, more), {});
    const auto all = nlohmann::json::parse(output.out)["configuration"];
    return all.value("model.attention_window", "0") + " " + all.value("model.full_attention_every", "0") +
           (output.err.find("sliding_window") == std::string::npos ? "" : " " + output.err);
  };
  EXPECT_EQ(window("MistralForCausalLM", R"(, "sliding_window": 32)"), "32 0");
  EXPECT_EQ(window("MistralForCausalLM", R"(, "sliding_window": null)"), "0 0");
  EXPECT_EQ(window("Qwen2ForCausalLM", R"(, "sliding_window": 32, "use_sliding_window": true)"), "0 0");
  EXPECT_EQ(window("Qwen2ForCausalLM",
                   R"(, "sliding_window": 32, "use_sliding_window": true, "max_window_layers": 0)"),
            "32 0");
  EXPECT_EQ(
      window("Qwen2ForCausalLM",
             R"(, "sliding_window": 32, "use_sliding_window": true, "max_window_layers": 1)"),
      "0 0 boxcar: --model: sliding_window 32 in some layers, which do not follow each other evenly, is "
      "not built: all see all keys\n");
  const std::string experts = R"(, "sliding_window": 32, "num_local_experts": 4, "num_experts_per_tok": 2)";
  EXPECT_EQ(window("GptOssForCausalLM", experts), "32 2");
  EXPECT_EQ(
      window("GptOssForCausalLM", experts + R"(, "layer_types": ["sliding_attention", "full_attention"])"),
      "32 2");
  EXPECT_EQ(window("GptOssForCausalLM", experts + R"(, "layer_types": ["full_attention", "full_attention"])"),
            "0 0");
  const Output oss = simulate(llama("GptOssForCausalLM", experts), {});
  EXPECT_EQ(
      oss.err,
      "boxcar: --model: sinks of attention, biases of the router and the clamp of SwiGLU are not built\n");
  EXPECT_EQ(nlohmann::json::parse(oss.out)["configuration"]["model.bias"], "true");
  EXPECT_EQ(simulate(llama("LlamaForCausalLM", R"(, "attention_bias": true)"), {}).err,
            "boxcar: --model: attention_bias alone is not built: all linear layers have biases\n");
  EXPECT_EQ(simulate(llama("LlamaForCausalLM", R"(, "rms_norm_eps": 1e-06, "rope_theta": 500000.0,
                           "rope_scaling": {"rope_type": "llama3"})"),
                     {})
                .err,
            "boxcar: --model: rope_scaling llama3 is not built: positions are not scaled\n");
  EXPECT_EQ(simulate(llama("LlamaForCausalLM", R"(, "rope_parameters": {"rope_type": "yarn",
                           "rope_theta": 1000000.0})"),
                     {})
                .err,
            "boxcar: --model: rope_parameters yarn is not built: positions are not scaled\n");
  EXPECT_EQ(simulate(llama("LlamaForCausalLM", R"(, "rope_scaling": {"type": "default"})"), {}).err, "");
  const auto numbers = [&](const std::string& name, const std::string& more) {
    const auto all = nlohmann::json::parse(simulate(llama(name, more), {}).out)["configuration"];
    return all.value("model.rotary_base", "10000") + " " + all.value("model.norm_epsilon", "1e-05");
  };
  EXPECT_EQ(numbers("LlamaForCausalLM", R"(, "rms_norm_eps": 1e-05, "rope_theta": 500000.0)"),
            "500000 1e-05");
  EXPECT_EQ(numbers("LlamaForCausalLM", R"(, "rope_parameters": {"rope_theta": 500000})"), "500000 1e-06");
  EXPECT_EQ(numbers("MixtralForCausalLM", R"(, "num_local_experts": 2, "num_experts_per_tok": 1)"),
            "1000000 1e-05");
  const Output mixture =
      simulate(llama("Qwen3MoeForCausalLM", R"(, "num_experts": 4, "num_experts_per_tok": 2,
                "moe_intermediate_size": 32, "decoder_sparse_step": 2, "mlp_only_layers": [0], "head_dim": 24)"),
               {});
  EXPECT_EQ(
      mixture.err,
      "boxcar: --model: norm_topk_prob false is not built: the shares of a token's experts add up to one\n"
      "boxcar: --model: mlp_only_layers is not built: these layers have experts too\n");
  const auto keys = nlohmann::json::parse(mixture.out)["configuration"];
  for (const auto& [key, value] : std::map<std::string, std::string>{{"experts", "4"},
                                                                     {"top_k", "2"},
                                                                     {"expert_ffn", "32"},
                                                                     {"expert_every", "2"},
                                                                     {"head_dim", "24"},
                                                                     {"qk_norm", "true"}})
    EXPECT_EQ(keys["model." + key], value) << key;
  const std::string bert = R"({"architectures": ["BertForMaskedLM"], )" + sizes;
  const Output tanh = simulate(
      bert + R"(, "hidden_act": "gelu_new", "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0})",
      {});
  EXPECT_EQ(
      tanh.err,
      "boxcar: --model: hidden_dropout_prob, attention_probs_dropout_prob differ, which is not built: all "
      "are 0.2\n");
  EXPECT_EQ(nlohmann::json::parse(tanh.out)["configuration"]["model.gelu"], "tanh");
  EXPECT_EQ(nlohmann::json::parse(tanh.out)["configuration"]["model.dropout"], "0.2");
  EXPECT_EQ(nlohmann::json::parse(simulate(bert + "}", {}).out)["configuration"]["model.gelu"], "erf");
}

// DeepSeek-V3's config.json as it is, and the model that is named so.
TEST(Jobs, AModelWithLatentsFromAFile) {
  TemporaryFile file("config.json", R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
    "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432,
    "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "topk_group": 4, "topk_method": "noaux_tc",
    "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"factor": 40, "type": "yarn"}, "rope_theta": 10000, "tie_word_embeddings": false,
    "v_head_dim": 128, "vocab_size": 129280})");
  const auto configuration = [](const std::string& model) {
    const Output output =
        run_program({"simulate", "--model", model, "--layers=5", "--seq=4096", "--json", "--cluster=dgx-h100",
                     "--gpus=64", "--ep=64", "--precision=bf16", "--attention=flash"});
    EXPECT_NE(output.exit_code, 2) << output.err;
    return nlohmann::json::parse(output.out)["configuration"];
  };
  const auto from_file = configuration(file.path());
  EXPECT_EQ(from_file, configuration("deepseek-v3"));
  EXPECT_EQ(from_file["model.kv_lora_rank"], "512");
  EXPECT_EQ(from_file["model.expert_groups"], "8");
  EXPECT_EQ(from_file["model.top_groups"], "4");
  EXPECT_EQ(from_file["model.router_scores"], "sigmoid");
  EXPECT_EQ(from_file["model.expert_scale"], "2.5");
}

TEST(BadInput, APlanIsNoJob) {
  const TemporaryFile plan("plan.txt", "plan 1\n");
  EXPECT_EQ(run_program({"simulate", plan.path()}).err,
            "boxcar: " + plan.path() + ": is a saved plan; simulate, train and campaign take it as --plan " +
                plan.path() + "\n");
}

TEST(BadInput, JsonOfWhatDoesNotFitHasTheMemory) {
  Output output = run_program(
      {"simulate", "--model=gpt3-175b", "--cluster=dgx-a100-40g", "--gpus=64", "--tp=8", "--pp=8", "--json"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_NE(output.out.find("\"fits\": false"), std::string::npos);
  EXPECT_NE(output.out.find("\"peak_memory_bytes\""), std::string::npos);
  EXPECT_EQ(output.out.find("\"step_time_s\""), std::string::npos);
  EXPECT_TRUE(output.err.starts_with("boxcar: does not fit: stage0 needs ")) << output.err;
}

// Devices that are threads on a node's cores share its memory: two fit, 64 do not.
TEST(BadInput, DevicesThatShareTheMemoryOfTheirNodeFitTogether) {
  const TemporaryFile cluster("cores.yaml",
                              "name: cores\ndevice: cpu\nnodes: 1\nnode: {gpus: 64, cores: 2, link: pcie, "
                              "link_bandwidth: 5e9, link_latency: 1e-6, pcie_bandwidth: 5e9, nics: 1, "
                              "nic_bandwidth: 1.25e9, nic_latency: 20e-6}\nfabric: {kind: single-switch, "
                              "hop_latency: 1e-6}\n");
  const auto simulate = [&](const std::string& dp) {
    return run_program({"simulate", "--json", "--model=gpt", "--layers=4", "--hidden=2048", "--heads=16",
                        "--seq=2048", "--vocab=256", "--micro-batch=4", "--precision=fp32",
                        "--cluster=" + cluster.path(), dp});
  };
  const nlohmann::json two = nlohmann::json::parse(simulate("--dp=2").out);
  EXPECT_EQ(two["fits"], true);
  EXPECT_EQ(two["node_peak_memory_bytes"], 2 * two["peak_memory_bytes"][0].get<int64_t>());
  const Output output = simulate("--dp=64");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(output.out)["fits"], false);
  EXPECT_EQ(
      output.err,
      "boxcar: does not fit: the devices of a node need 1.2 TB together, it has 1.1 TB (use more nodes, or a "
      "smaller model, micro_batch or seq)\n");
}

TEST(BadInput, JsonOfWhatIsTooLargeToCountHasWhatIsKnown) {
  Words arguments{"simulate", "--json", "--pp=2", "--attention=unfused"};
  for (const std::string& flag : job_flags)
    arguments.push_back(flag.starts_with("--seq") ? "--seq=100000000" : flag);
  const Output output = run_program(arguments);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_TRUE(
      output.err.starts_with("boxcar: does not fit: the registers of stage0 have 1.92 EB, more than any "
                             "cluster has; "))
      << output.err;
  const nlohmann::json doc = nlohmann::json::parse(output.out);
  EXPECT_EQ(doc["schema_version"], 1);
  EXPECT_EQ(doc["fits"], false);
  EXPECT_EQ(doc["peak_memory_bytes"].size(), 2u);
  EXPECT_GT(doc["peak_memory_bytes"][0].get<double>(), 1e15);
  EXPECT_TRUE(doc["peak_memory_bytes"][1].is_null());
  EXPECT_EQ(doc["memory_limit_bytes"], nlohmann::json({85094039552, 85094039552}));
  EXPECT_EQ(doc["too_large"]["stage"], "stage0");
  EXPECT_GT(doc["too_large"]["bytes"].get<double>(), 0x1p60);
  EXPECT_EQ(doc["configuration"]["model.seq"], "100000000");
}

TEST(Jobs, PresetsAsJson) {
  const auto document = [](const Words& arguments) {
    const Output output = run_program(arguments);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return nlohmann::json::parse(output.out);
  };
  const nlohmann::json all = document({"clusters", "--json"}),
                       one = document({"clusters", "dgx-h100", "--json"});
  EXPECT_EQ(all["schema_version"], 1);
  EXPECT_GE(all["clusters"].size(), 10u);
  ASSERT_EQ(one["clusters"].size(), 1u);
  EXPECT_NE(std::find(all["clusters"].begin(), all["clusters"].end(), one["clusters"][0]),
            all["clusters"].end());
  EXPECT_EQ(one["clusters"][0]["gpus_per_node"], 8);
  for (const nlohmann::json& row : all["clusters"]) {  // a description is a cluster file
    const std::string name = row["name"];
    const TemporaryFile file(name + ".yaml", row["description"].dump());
    EXPECT_EQ(run_program({"clusters", file.path()}).out, run_program({"clusters", name}).out) << name;
  }
  const nlohmann::json models = document({"models", "--json"});
  const auto gpt2 = std::find_if(models["models"].begin(), models["models"].end(),
                                 [](const nlohmann::json& row) { return row["name"] == "gpt2"; });
  ASSERT_NE(gpt2, models["models"].end());
  EXPECT_EQ((*gpt2)["hidden"], 768);
  EXPECT_FALSE(gpt2->contains("ffn"));
}

// The same job from flags, from a file, and from a file with overriding flags.
TEST(Jobs, FlagsAndFilesAgree) {
  Words flags = job_flags;
  flags.insert(flags.begin(), "simulate");
  flags.insert(flags.end(), {"--tp=2", "--steps=3", "--json"});
  TemporaryFile file("job.yaml", job_file + "parallel: {tp: 4}\n");
  Output from_flags = run_program(flags);
  Output from_file = run_program({"simulate", "--tp", "2", "--steps", "3", file.path(), "--json"});
  auto until_simulator = [](const std::string& text) { return text.substr(0, text.find("\"simulator\"")); };
  EXPECT_EQ(from_flags.exit_code, 0) << from_flags.err;
  EXPECT_GT(from_flags.out.size(), 500u);
  EXPECT_EQ(until_simulator(from_flags.out), until_simulator(from_file.out));
}

// A section may be a name: the value of the key whose flag is called as it is.
TEST(Jobs, AModelAndAClusterByNameAlone) {
  const auto step = [](const std::string& text) {
    const TemporaryFile file("job.yaml", text);
    const Output output = run_program({"simulate", file.path(), "--gpus=8", "--json"});
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return output.out.substr(0, output.out.find("\"simulator\""));
  };
  EXPECT_EQ(step("model: gpt2\ncluster: dgx-a100-80g\n"),
            step("model: {family: gpt2}\ncluster: {preset: dgx-a100-80g}\n"));
}

// A plan keeps the sizes of a model, which say its name, whatever the data are.
TEST(Jobs, ModelsAreKnownByTheirSizes) {
  const auto named = [](const cli::GivenKeys& more) {
    cli::GivenKeys given{{"cluster.preset", {"dgx-h100", ""}}, {"cluster.gpus", {"1", ""}}};
    for (const auto& [path, value] : more) given[path] = value;
    return cli::known_model(cli::resolve(given).labels);
  };
  for (const cli::CatalogModel& model : cli::catalog())
    EXPECT_EQ(named({{"model.family", {model.name, ""}}}), model.name);
  const cli::Given llama{"meta-llama/Meta-Llama-3-70B", ""};
  EXPECT_EQ(named({{"model.family", llama}}), "llama3-70b");
  EXPECT_EQ(named({{"model.family", llama}, {"model.seq", {"4096", ""}}, {"model.dropout", {"0.1", ""}}}),
            "llama3-70b");
  EXPECT_EQ(named({{"model.family", llama}, {"model.layers", {"40", ""}}}), "");
  EXPECT_EQ(named({{"model.family", llama}, {"model.attention_window", {"4096", ""}}}), "");
}

// Channels and classes were hidden and vocab once.
TEST(Jobs, OldKeysOfImagesAreRead) {
  const auto parameters = [](const Words& sizes) {
    Words words{"simulate", "--json", "--cluster=dgx-a100-80g", "--gpus=1", "--model=resnet50"};
    words.insert(words.end(), sizes.begin(), sizes.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    const size_t at = output.out.find("\"configuration\"");
    return output.out.substr(at, output.out.find('}', at) - at);
  };
  const std::string now = parameters({"--channels=32", "--classes=10"});
  EXPECT_THAT(now, testing::HasSubstr("channels"));
  EXPECT_EQ(parameters({"--hidden=32", "--vocab=10"}), now);
}

// A replica's images are one micro-batch unless stages or the user want several.
TEST(Jobs, ImagesGoInOneMicroBatch) {
  const auto micro_batch = [](const Words& flags) {
    Words words{"simulate",         "--json",     "--cluster=dgx-a100-80g", "--gpus=4",
                "--model=resnet50", "--image=32", "--global-batch=8"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return nlohmann::json::parse(output.out)["configuration"]["parallel.micro_batch"].get<std::string>();
  };
  EXPECT_EQ(micro_batch({}), "2");
  EXPECT_EQ(micro_batch({"--tp=2"}), "4");
  EXPECT_EQ(micro_batch({"--pp=2"}), "1");
  EXPECT_EQ(micro_batch({"--micro-batch=1"}), "1");
}

// Output on a terminal, with and without NO_COLOR.
std::string shown_on_a_terminal(bool no_color) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    no_color ? setenv("NO_COLOR", "1", 1) : unsetenv("NO_COLOR");
    execl(BOXCAR_PROGRAM, "boxcar", "simulate", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1",
          nullptr);
    _exit(127);
  }
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = read(terminal, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(terminal);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(Output, ProgressKeepsToNoColor) {
  const std::string plain = shown_on_a_terminal(true), colored = shown_on_a_terminal(false);
  EXPECT_EQ(plain.find('\033'), std::string::npos);
  EXPECT_TRUE(plain.starts_with("\r\rcompiling...\r            \rverifying...\r            \rsimulating..."))
      << plain;
  EXPECT_TRUE(colored.starts_with("\r\033[Kcompiling...\r\033[Kverifying...")) << colored;
}

TEST(Jobs, AKeyAtItsDefaultAsksForNothing) {
  Words arguments = job_flags;
  arguments.insert(arguments.begin(), "simulate");
  arguments.insert(arguments.end(), {"--zero=3", "--grad-bucket-mb=25"});
  Output output = run_program(arguments);
  EXPECT_EQ(output.exit_code, 0) << output.err;
}

TEST(Jobs, PlansKeepTheirAttentionKernelAndTheGpusOfEachNode) {
  const auto step = [](const Words& words) {
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return nlohmann::json::parse(output.out)["step_time_s"].get<double>();
  };
  const Words job{"simulate",     "--json",    "--model=gpt",       "--layers=2",
                  "--hidden=256", "--heads=8", "--seq=512",         "--vocab=1000",
                  "--dropout=0",  "--dp=16",   "--attention=flash", "--precision=bf16"};
  const auto with = [&](const Words& more) {
    Words words = job;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const TemporaryFile plan("plan.txt", ""), old("old.txt", "");
  const double racks = step(with({"--cluster=gb200-nvl72", "--gpus-per-node=8", "--save-plan", plan.path()}));
  EXPECT_EQ(step({"simulate", "--json", "--plan", plan.path()}), racks);
  EXPECT_LT(step(with({"--cluster=gb200-nvl72"})), racks);  // in one rack
  const double second = step(with({"--cluster=dgx-a100-80g"}));
  const double first =
      step(with({"--cluster=dgx-a100-80g", "--attention-kernel=flash1", "--save-plan", plan.path()}));
  EXPECT_GT(first, second);
  EXPECT_EQ(step({"simulate", "--json", "--plan", plan.path()}), first);
  EXPECT_EQ(step({"simulate", "--json", "--plan", plan.path(), "--attention-kernel=flash2"}), second);
  EXPECT_EQ(run_program({"simulate", "--json", "--plan", plan.path(), "--cluster=hgx-b200"}).err,
            "boxcar: b200-sxm has no speed of attention by flash1; cudnn is taken (--attention-kernel)\n");
  EXPECT_EQ(run_program({"simulate", "--json", "--plan", plan.path(), "--device=b200-sxm",
                         "--attention-kernel=flash1"})
                .err,
            "boxcar: attention_kernel: device b200-sxm has no speed of \"flash1\"; it has cudnn\n");
  // As plans had it before kernels had names.
  std::ifstream in(plan.path());
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string label = "parallel.attention_kernel = flash1";
  ASSERT_NE(text.find(label), std::string::npos) << text;
  text.replace(text.find(label), label.size(), "parallel.flash_version = 1");
  std::ofstream(old.path()) << text;
  EXPECT_EQ(step({"simulate", "--json", "--plan", old.path()}), first);
}

TEST(Jobs, HelpSaysValuesAndDefaults) {
  const std::string help = run_program({"simulate", "--help"}).out;
  for (const char* line :
       {"\n  --no-fold                   simulate every rank\n",
        "\n  --steps 0..10000            optimizer steps to simulate, 0: until two are alike [0]\n",
        "\n  --tp 1..10000               tensor parallelism [1]\n",
        "\n  --norm layer|rms            normalisation [layer; llama: rms]\n"})
    EXPECT_NE(help.find(line), std::string::npos) << line << help;
}

TEST(Jobs, ASavedPlanGivesTheSameResult) {
  TemporaryFile plan("plan.txt", "");
  Words flags = job_flags;
  flags.insert(flags.begin(), "simulate");
  flags.insert(flags.end(), {"--tp=2", "--pp=2", "--global-batch=16", "--json"});
  Output direct = run_program(flags);
  flags.insert(flags.end(), {"--save-plan", plan.path()});
  Output saved = run_program(flags);
  Output again = run_program({"simulate", "--plan", plan.path(), "--json"});
  auto until_simulator = [](const std::string& text) { return text.substr(0, text.find("\"simulator\"")); };
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(until_simulator(direct.out), until_simulator(saved.out));
  EXPECT_EQ(until_simulator(direct.out), until_simulator(again.out));
}

}  // namespace
}  // namespace boxcar::tests
