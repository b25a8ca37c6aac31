// Job files, plans, models from files, and outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bad_input.h"

namespace boxcar::tests {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct FileCase {
  std::string text;
  Words flags;
  std::string message;
};

const FileCase file_cases[] = {
    {std::string("model: [gpt]\n"),
     {},
     "job.yaml:1:8: model: expected keys and values, as in model: {family: ...}, or the value of family "
     "alone"},
    {std::string("model: gtp2\ncluster: dgx-a100-80g\n"),
     {},
     "job.yaml:1:8: model: no model is named \"gtp2\" (did you mean gpt2?); `boxcar models` lists them"},
    {std::string("model: gpt2\ncluster: dgx-a100\n"),
     {},
     "job.yaml:2:10: cluster: no preset dgx-a100 (did you mean dgx-a100-40g or dgx-a100-80g?); " +
         known_clusters},
    {std::string("SQLite format 3\0\x10\\q", 19),
     {},
     "job.yaml: is no job file, which has sections called model, cluster, parallel, train, run; it is a file "
     "of "
     "runs, which `boxcar table` and `boxcar report` read"},
    {std::string("<!DOCTYPE html>\n<html>{a: b: c}\n"),
     {},
     "job.yaml: is no job file, which has sections called model, cluster, parallel, train, run; it is a page "
     "for "
     "a browser"},
    {std::string(""), {}, "job.yaml: is empty; it needs the sections model and cluster"},
    {std::string("- a\n- b\n"),
     {},
     "job.yaml: is no job file, which has sections called model, cluster, parallel, train, run"},
    {std::string("model: {layers: 4\n"), {}, "job.yaml:2:1: end of map flow not found"},
    {std::string("modle: {layers: 4}\n"),
     {},
     "job.yaml:1:1: unknown section \"modle\" (did you mean model?); known are model, cluster, parallel, "
     "train, run"},
    {std::string("model: {layerz: 4}\n"),
     {},
     "job.yaml:1:9: unknown key \"layerz\" under model (did you mean layers?); known are "
     "family, layers, hidden, heads, seq, vocab, ffn, kv_heads, head_dim, qk_norm, attention_window, "
     "full_attention_every, document_length, q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, "
     "v_head_dim, "
     "lora_rank, lora_alpha, lora_dropout, lora_mlp, mlp, gelu, norm, norm_epsilon, position, rotary_base, "
     "tied, bias, qkv_bias, dropout, pad_vocab, experts, "
     "top_k, expert_groups, top_groups, router_scores, expert_scale, "
     "expert_ffn, shared_experts, dense_layers, expert_every, weigh_inside, masked, decoder_layers, "
     "decoder_seq, "
     "channels, classes, width, image, channels_last, graph"},
    {std::string("modl: {layers: 4}\nparallel: 3\x00\n", 31), {}, "job.yaml: is no text file"},
    {std::string("tp: [1,\n"), {}, "job.yaml:2:1: end of sequence flow not found"},
    {std::string("model: gpt2\nmbs: 4\n"),
     {},
     "job.yaml:2:1: unknown section \"mbs\" (did you mean micro_batch under parallel?); known are model, "
     "cluster, parallel, train, run"},
    {std::string("model: {tp: 4}\n"),
     {},
     "job.yaml:1:9: unknown key \"tp\" under model; it belongs under parallel"},
    {job_file + "parallel: {tp: 3}\n",
     {},
     "parallel: tp 3 x pp 1 x context_parallel 1 = 3 does not divide 8 gpus (use a multiple of 3 gpus, or "
     "other degrees)"},
    {job_file + "parallel: {tp: x}\n",
     {},
     "job.yaml:3:16: parallel.tp: got \"x\", expected a whole number from 1 to 10000"},
    {job_file + "parallel:\n  tp: 2\n  tp: 4\n", {}, "job.yaml:5:7: parallel.tp: given twice"},
    {job_file + job_file, {}, "job.yaml:3:1: section model is given twice"},
    {job_file + "train: {precision: }\n",
     {},
     "job.yaml:3:20: train.precision: has no value; leave the key out for its default"},
    {job_file + "train: {precision: {a: b}}\n",
     {},
     "job.yaml:3:20: train.precision: expected a value or a list of values"},
    {job_file + "train: 5\n",
     {},
     "job.yaml:3:8: train: expected keys and values, as in train: {global_batch: ...}"},
    {job_file + "parallel: {stage_layers: [1, [2]]}\n",
     {},
     "job.yaml:3:26: parallel.stage_layers: expected a list of plain values"},
    {std::string("model: &a {b: *c}\n"), {}, "job.yaml:1:15: the referenced anchor is not defined"},
    {std::string("model: &a {layers: 2}\ntrain: *a\n"), {}, "job.yaml:2:8: an alias; write the value itself"},
    {job_file + "parallel: {tp: 6}\n",
     {"--gpus=48", "--heads=8"},
     "job.yaml:3:16: parallel.tp: 6 does not divide heads 8 (use 1, 2, 4 or 8)"},
    {std::string("model:\n\tlayers: 3\n"), {}, "job.yaml:2:8: illegal map value"},
    {job_file + "---\nparallel: {tp: 2}\n",
     {},
     "job.yaml:4:1: a second document; one is expected (drop the ---)"},
    {"model: " + std::string(100000, '['), {}, "job.yaml:1:1: nested too deep"},
    {std::string(",\nmodel: gpt2\n"), {}, "job.yaml:1:1: no value begins with this"},
    {job_file + "parallel: {fsdp_group: 8}\n",
     {},
     "job.yaml:3:24: parallel.fsdp_group: has no effect unless zero is 1, 2 or 3"},
    {job_file + "parallel: {servers_update: false}\n",
     {},
     "job.yaml:3:28: parallel.servers_update: has no effect unless servers is 2 or more"},
};

TEST(BadInput, JobFiles) {
  for (const FileCase& c : file_cases) {
    TemporaryFile file("job.yaml", c.text);
    Words arguments{"simulate", file.path()};
    arguments.insert(arguments.end(), c.flags.begin(), c.flags.end());
    expect_refused(arguments, 2, c.message, "job.yaml", file.path());
  }
}

// Files that are no plan, a plan of another program, and outputs that would overwrite a file.
TEST(BadInput, PlanFilesAndOutputs) {
  TemporaryFile plan("plan.txt", "");
  Words save = job_flags;
  save.insert(save.begin(), "simulate");
  save.insert(save.end(), {"--save-plan", plan.path()});
  ASSERT_EQ(run_program(save).exit_code, 0);
  std::string text = read_text(plan.path());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    for (size_t at = other.find(from); at != std::string::npos; at = other.find(from, at + to.size()))
      other.replace(at, from.size(), to);
    return other;
  };
  const auto line_of = [&](size_t at) {
    return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  };
  const auto fmt_place = [](auto line, size_t column) {
    return "plan.txt:" + std::to_string(line) + ":" + std::to_string(column) + ": ";
  };
  const auto fact_at = [&](const std::string& name) {
    const std::string begin = "fact " + name + " = ";
    return fmt_place(line_of(text.find(begin)), begin.size() + 1);
  };
  const auto with_fact = [&](const std::string& name, const std::string& value) {
    const size_t at = text.find("fact " + name + " = ");
    std::string other = text;
    return other.replace(at, text.find('\n', at) - at, "fact " + name + " = " + value);
  };
  const std::string no_plan =
      "plan.txt: is no plan, as `boxcar search -o` and `boxcar simulate --save-plan` write it";
  const std::pair<std::string, std::string> cases[] = {
      {"", "plan.txt:1:1: expected \"plan NAME\", then \"devices N\""},
      {"\x7f\x01", no_plan},
      {"<!DOCTYPE html>\n<html>{a: b: c}\n", no_plan + "; it is a page for a browser"},
      {job_file, no_plan},
      {changed(" layer_norm(", " layer_nrm("),
       "plan.txt: stage0: h0.ln1: no op is named \"layer_nrm\" (did you mean layer_norm?)"},
      {with_fact("model_flops", "-1"),
       fact_at("model_flops") + "model_flops is -1, expected a number from 0 on"},
      {with_fact("memory_limit_bytes", "-5"),
       fact_at("memory_limit_bytes") + "memory_limit_bytes is -5, expected a number from 0 on"},
      {with_fact("tokens", "inf"), fact_at("tokens") + "tokens is inf, expected a number from 0 on"},
      {text + "some junk here\n",
       fmt_place(line_of(text.size()), 6) +
           "expected a kind of actor: kernel, collective, pull, copy, host, got junk"},
  };
  for (const auto& [content, message] : cases) {
    TemporaryFile file("plan.txt", content);
    expect_refused({"simulate", "--plan", file.path()}, 2, message, "plan.txt", file.path());
  }
  TemporaryFile small("plan.txt", with_fact("memory_limit_bytes", "1000"));
  const Output refused = run_program({"simulate", "--plan", small.path()});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find(" of 1 kB, "), std::string::npos) << refused.err;
  EXPECT_EQ(run_program({"simulate", "--plan", small.path(), "--cluster=dgx-a100-40g"}).exit_code, 0);
  // The memory that the plan keeps free stays free on other devices.
  const auto limit = [](const Words& words) {
    return nlohmann::json::parse(run_program(words).out)["memory_limit_bytes"][0].get<double>();
  };
  TemporaryFile margin("margin.txt", "");
  EXPECT_EQ(run_program({"simulate", "--model=gpt2", "--cluster=dgx-a100-40g", "--gpus=1",
                         "--memory-margin=10%", "--save-plan", margin.path()})
                .exit_code,
            0);
  const double whole = limit({"simulate", "--plan", plan.path(), "--cluster=dgx-a100-80g", "--json"});
  EXPECT_NEAR(limit({"simulate", "--plan", margin.path(), "--cluster=dgx-a100-80g", "--json"}), 0.9 * whole,
              2);
  expect_refused({"simulate", "--plan", plan.path(), "--trace", plan.path()}, 2,
                 "--trace: plan.txt is the same file as --plan", "plan.txt", plan.path());
  EXPECT_EQ(read_text(plan.path()), text);
}

#define KNOWN_ARCHITECTURES                                                                     \
  "GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, " \
  "Qwen3MoeForCausalLM, MixtralForCausalLM, "                                                   \
  "GptOssForCausalLM, DeepseekV3ForCausalLM, "                                                  \
  "BertForMaskedLM, BertForPreTraining"

TEST(BadInput, ModelsFromFiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "config.json:1:2: is not JSON"},
      {"{\n \"a\": 1,\n b}", "config.json:3:2: is not JSON"},
      {"", "config.json:1:1: is not JSON"},
      {"{}", "config.json: has no architectures, expected one of " KNOWN_ARCHITECTURES},
      {R"({"architectures": ["T5ForConditionalGeneration"]})",
       "config.json: architectures has \"T5ForConditionalGeneration\", expected one of " KNOWN_ARCHITECTURES},
      {R"({"architectures": ["GPT2LMHeadModel"], "n_layer": -1})",
       "config.json: n_layer is -1, expected a whole number of at least 1"},
      {R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128,
           "hidden_act": "relu"})",
       "config.json: hidden_act is \"relu\", expected \"silu\""},
      {R"({"architectures": ["BertForMaskedLM"], "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128,
           "hidden_act": "relu"})",
       "config.json: hidden_act is \"relu\", expected \"gelu\", \"gelu_new\", \"gelu_fast\" or "
       "\"gelu_pytorch_tanh\""},
      {R"({"architectures": ["BertForMaskedLM"], "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 5, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128})",
       "--model: model.heads: 5 does not divide hidden 64 (use 1, 2, 4, 8, 16, 32, 64, or give head_dim)"},
  };
  for (const auto& [text, message] : cases) {
    TemporaryFile file("config.json", text);
    expect_refused({"simulate", "--model", file.path(), "--cluster=dgx-a100-80g", "--gpus=8"}, 2, message,
                   "config.json", file.path());
  }
}

TEST(BadInput, ModelsFromFilesThatAreNotThere) {
  expect_refused({"simulate", "--model=./no/such", "--cluster=dgx-a100-80g", "--gpus=8"}, 2,
                 "./no/such: cannot be read: No such file or directory");
}

// Devices are written to, and stay devices.
TEST(BadInput, OutputsThatAreNoFiles) {
  Words arguments = job_flags;
  arguments.insert(arguments.begin(), "simulate");
  Words null = arguments, full = arguments;
  null.insert(null.end(), {"--trace", "/dev/null"});
  EXPECT_EQ(run_program(null).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  full.insert(full.end(), {"--trace", "/dev/full"});
  expect_refused(full, 2, "/dev/full: cannot be written: No space left on device");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  expect_refused(
      {"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--out=/"}, 2,
      "/: cannot be written: Is a directory");
}

}  // namespace
}  // namespace boxcar::tests
