// What a person can get wrong on the command line or in a job file, each with the whole message it gets. The
// program is run as a user runs it: one line on stderr, nothing on stdout, exit 1 or 2, and nothing written.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace boxcar::testing {
namespace {

using Words = std::vector<std::string>;

const Words job_flags{"--model=gpt", "--layers=4",   "--hidden=256",           "--heads=8",
                      "--seq=128",   "--vocab=1000", "--cluster=dgx-a100-80g", "--gpus=8"};
const std::string good =
    "model: {family: gpt, layers: 4, hidden: 256, heads: 8, seq: 128, vocab: 1000}\ncluster: {preset: "
    "dgx-a100-80g, gpus: 8}\n";

void expect_refused(const Words& arguments, int exit_code, const std::string& message,
                    const std::string& shown_path = "", const std::string& path = "") {
  Output output = run_program(arguments);
  std::string shown = path.empty() ? output.err : replace_all(output.err, path, shown_path);
  EXPECT_EQ(shown, "boxcar: " + message + "\n") << ::testing::PrintToString(arguments);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.exit_code, exit_code);
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string name_of(const std::string& flag) { return flag.substr(0, flag.find('=')); }

// A job that runs, with these flags instead and without that one.
struct JobCase {
  Words flags;
  std::string without;
  int exit_code;
  std::string message;
};

const JobCase job_cases[] = {
    {{"--layers=0"}, "", 2, "--layers: got \"0\", expected a whole number from 1 to 2000"},
    {{"--layers=-4"}, "", 2, "--layers: got \"-4\", expected a whole number from 1 to 2000"},
    {{"--layers=many"}, "", 2, "--layers: got \"many\", expected a whole number from 1 to 2000"},
    {{"--layers=1e99"}, "", 2, "--layers: got \"1e99\", expected a whole number from 1 to 2000"},
    {{"--layers=20000"}, "", 2, "--layers: got \"20000\", expected a whole number from 1 to 2000"},
    {{"--hidden=0"}, "", 2, "--hidden: got \"0\", expected a whole number from 1 to 1000000"},
    {{"--hidden=255"}, "", 2, "--heads: 8 does not divide hidden 255 (use 1, 3, 5, 15, 17, 51, 85, 255)"},
    {{"--heads=7"}, "", 2, "--heads: 7 does not divide hidden 256 (use 1, 2, 4, 8, 16, 32, 64, 128, 256)"},
    {{"--heads=512"},
     "",
     2,
     "--heads: 512 does not divide hidden 256 (use 1, 2, 4, 8, 16, 32, 64, 128, 256)"},
    {{"--seq=-1"}, "", 2, "--seq: got \"-1\", expected a whole number from 1 to 100000000"},
    {{"--global-batch=1000000000"},
     "",
     2,
     "--global-batch: 1000000000 makes 125000000 micro-batches of 1 on dp 8, more than 100000 (use a larger "
     "micro_batch or dp, or a smaller batch)"},
    {{"--vocab=0"}, "", 2, "--vocab: got \"0\", expected a whole number from 1 to 100000000"},
    {{"--gpus=0"}, "", 2, "--gpus: got \"0\", expected a whole number from 1 to 1000000"},
    {{"--gpus=-8"}, "", 2, "--gpus: got \"-8\", expected a whole number from 1 to 1000000"},
    {{"--gpus=12"},
     "",
     2,
     "--gpus: 12 is not a multiple of the 8 GPUs of a node of dgx-a100-80g (use 8 or 16)"},
    {{"--gpus=10000000"}, "", 2, "--gpus: got \"10000000\", expected a whole number from 1 to 1000000"},
    {{"--cluster=dgx-a100"},
     "",
     2,
     "--cluster: no preset dgx-a100 (did you mean dgx-a100-40g?); known: a100-80g-400g, a100-80g-800g, "
     "alps-gh200, dgx-1-v100-16g, dgx-1-v100-32g, dgx-2-v100-32g, "
     "dgx-a100-40g, dgx-a100-80g, dgx-h100, gb200-nvl72, h100-80g-800g, hgx-b200, hgx-h200, local, "
     "p3-16xlarge, pcie-a100-80g; or give a "
     "path to a "
     ".yaml "
     "file"},
    {{"--cluster=/no/such.yaml"}, "", 2, "--cluster: /no/such.yaml: cannot be read"},
    {{"--model=gtp"},
     "",
     2,
     "--model: no model is named \"gtp\" (did you mean gpt?); `boxcar models` lists them"},
    {{"--model=gpt4"},
     "",
     2,
     "--model: no model is named \"gpt4\" (did you mean gpt?); `boxcar models` lists them"},
    {{"--width=2"}, "", 2, "--width: a model of family gpt has none; it is of resnet, wide_resnet"},
    {{"--masked=20"}, "", 2, "--masked: a model of family gpt has none; it is of bert"},
    {{"--model=bert", "--masked=128"}, "", 2, "--masked: is 128, expected at least 0 and below seq 128"},
    {{"--model=resnet50"},
     "",
     2,
     "--heads: a model of family resnet has none; it is of gpt, bert, llama, t5"},
    {{"--tp=3"},
     "",
     2,
     "parallel: tp 3 x pp 1 x context_parallel 1 = 3 does not divide 8 gpus (use a multiple of 3 gpus, or "
     "other degrees)"},
    {{"--tp=16"},
     "",
     2,
     "parallel: tp 16 x pp 1 x context_parallel 1 = 16 does not divide 8 gpus (use a multiple of 16 gpus, or "
     "other degrees)"},
    {{"--tp=-1"}, "", 2, "--tp: got \"-1\", expected a whole number from 1 to 10000"},
    {{"--pp=3"},
     "",
     2,
     "parallel: tp 1 x pp 3 x context_parallel 1 = 3 does not divide 8 gpus (use a multiple of 3 gpus, or "
     "other degrees)"},
    {{"--pp=8"}, "", 2, "--pp: 8 stages for 4 layers (use at most 4)"},
    {{"--dp=3"},
     "",
     2,
     "parallel: dp 3 x tp 1 x pp 1 x context_parallel 1 = 3 is not the 8 gpus of the cluster (use dp: 8, or "
     "3 gpus)"},
    {{"--dp=16"},
     "",
     2,
     "parallel: dp 16 x tp 1 x pp 1 x context_parallel 1 = 16 is not the 8 gpus of the cluster (use dp: 8, "
     "or 16 gpus)"},
    {{"--virtual-stages=2"},
     "",
     2,
     "--virtual-stages: 2 without pipeline stages (use 1, or pp of 2 or more)"},
    {{"--zero=4"}, "", 2, "--zero: got \"4\", expected a whole number from 0 to 3"},
    {{"--zero=yes"}, "", 2, "--zero: got \"yes\", expected a whole number from 0 to 3"},
    {{"--micro-batch=0"}, "", 2, "--micro-batch: got \"0\", expected a whole number from 1 to 1000000"},
    {{"--global-batch=7"}, "", 2, "--global-batch: 7 is not a multiple of dp 8 x micro_batch 1 (use 8)"},
    {{"--stage-layers=1,2"},
     "",
     2,
     "--stage-layers: 2 numbers for 1 stages (give one for each of pp 1 x virtual_stages 1)"},
    {{"--stage-layers=a,b"}, "", 2, "--stage-layers: got \"a\", expected a whole number from 1 to 10000"},
    {{"--precision=fp4"},
     "",
     2,
     "--precision: got \"fp4\", expected fp32, tf32, fp16, bf16, fp64, fp8 (did you mean fp64?)"},
    {{"--cluster=dgx-1-v100-16g", "--precision=bf16"},
     "",
     2,
     "--precision: bf16: device v100-sxm2-16g has no bfloat16 rate (add one to peak_flops in its "
     "description, "
     "or use fp16)"},
    {{"--cluster=dgx-1-v100-16g", "--precision=tf32"},
     "",
     2,
     "--precision: tf32: device v100-sxm2-16g has no tf32 rate (add one to peak_flops in its description, or "
     "use fp32)"},
    {{"--precision=fp8"},
     "",
     2,
     "--precision: fp8: device a100-sxm-80g has no float8 rate (add one to peak_flops in its description, or "
     "use bf16)"},
    {{"--precision=fp64"},
     "",
     2,
     "--precision: fp64: device a100-sxm-80g has no float64 rate (add one to peak_flops in its description, "
     "or "
     "use fp32)"},
    {{"--momentum=0.5"}, "", 2, "--momentum: has no effect unless optimizer is momentum"},
    {{"--optimizer=sgd", "--beta1=0.8"}, "", 2, "--beta1: has no effect unless optimizer is adam"},
    {{"--beta2=1"}, "", 2, "--beta2: got \"1\", expected a number from 0 to 0.999999"},
    {{"--pad-vocab=0"}, "", 2, "--pad-vocab: got \"0\", expected a whole number from 1 to 1000000"},
    {{"--optimizer=adams"},
     "",
     2,
     "--optimizer: got \"adams\", expected sgd, momentum, adam (did you mean adam?)"},
    {{"--recompute=some"},
     "",
     2,
     "--recompute: got \"some\", expected none, selective, full, ops (did you mean none?)"},
    {{"--attention=flesh"},
     "",
     2,
     "--attention: got \"flesh\", expected unfused, flash (did you mean flash?)"},
    {{"--context-parallel=3"},
     "",
     2,
     "parallel: tp 1 x pp 1 x context_parallel 3 = 3 does not divide 8 gpus (use a multiple of 3 gpus, or "
     "other degrees)"},
    {{"--ep=2"}, "", 2, "--ep: 2 for a model without experts (use 1)"},
    {{"--kv-heads=3"}, "", 2, "--kv-heads: 3 does not divide heads 8 (use 1, 2, 4, 8)"},
    {{"--mlp=relu"}, "", 2, "--mlp: got \"relu\", expected gelu, swiglu (did you mean gelu?)"},
    {{"--norm=batch"}, "", 2, "--norm: got \"batch\", expected layer, rms"},
    {{"--position=absolute"}, "", 2, "--position: got \"absolute\", expected learned, rotary"},
    {{"--dropout=1.5"}, "", 2, "--dropout: got \"1.5\", expected a number from 0 to 0.99"},
    {{"--schedule=zb"},
     "",
     2,
     "--schedule: unknown schedule 'zb' (use 1f1b, gpipe, zb-h1, zb-h2 or the micro-batches in flight on "
     "each stage, as "
     "4,3,2,1; "
     "virtual_stages > 1 interleaves 1f1b)"},
    {{"--pp=4", "--schedule=3,2,1"}, "", 2, "--schedule: 3 numbers for 4 stages (give one for each of pp 4)"},
    {{"--pp=4", "--schedule=3,2,3,1"},
     "",
     2,
     "--schedule: 3,2,3,1: a stage has fewer micro-batches in flight than the one behind it, which would "
     "wait "
     "forever (let the numbers fall)"},
    {{"--pp=2", "--virtual-stages=2", "--schedule=2,1"},
     "",
     2,
     "--schedule: 2,1 does not interleave virtual stages (use 1f1b)"},
    {{"--fsdp-group=3"}, "", 2, "--fsdp-group: 3 does not divide dp 8 (use 1, 2, 4 or 8)"},
    {{"--recompute-layers=-1"},
     "",
     2,
     "--recompute-layers: got \"-1\", expected a whole number from 0 to 10000"},
    {{"--off=fuse_patern"},
     "",
     2,
     "--off: no pass is named \"fuse_patern\" (did you mean fuse_patterns?); the passes are "
     "double_precision, fuse_patterns, fuse_elementwise, fuse_loss, mixed_precision, differentiate, "
     "recompute, "
     "fuse_products, accumulate, clip, optimize"},
    {{"--off=differentiate"},
     "",
     2,
     "--off: differentiate makes the backward pass (fuse_patterns, fuse_elementwise, mixed_precision, "
     "recompute and clip may always be switched off)"},
    {{"--off=clip,optimize"},
     "",
     2,
     "--off: optimize makes the update (fuse_patterns, fuse_elementwise, mixed_precision, recompute and clip "
     "may always be switched off)"},
    {{"--off=accumulate", "--global-batch=32"},
     "",
     2,
     "--off: accumulate adds up the gradients of 4 micro-batches (fuse_patterns, fuse_elementwise, "
     "mixed_precision, recompute and clip may always be switched off)"},
    {{"--fsdp-group=4"}, "", 2, "--fsdp-group: has no effect unless zero is 1, 2 or 3"},
    {{"--routing-skew=2"}, "", 2, "--routing-skew: has no effect unless the model has experts"},
    {{"--mesh-order=dp,tp"},
     "",
     2,
     "--mesh-order: unknown order 'dp,tp' (give each of pp, dp, cp, tp once, outermost first: ranks of the "
     "last lie beside each other)"},
    {{"--recompute-layers=2"},
     "",
     2,
     "--recompute-layers: has no effect unless recompute is selective, full or ops"},
    {{"--recompute=full", "--pp=2", "--recompute-layers=2,1,0"},
     "",
     2,
     "--recompute-layers: 3 numbers for 2 stages (give one for all, or one for each of pp 2 x virtual_stages "
     "1)"},
    {{"--recompute=full", "--pp=2", "--recompute-layers=2,9999"},
     "",
     2,
     "--recompute-layers: 9999 is out of range (use 0 to 4)"},
    {{"--recompute=full", "--recompute-others=selective"},
     "",
     2,
     "--recompute-others: has no effect unless recompute_layers are given"},
    {{"--recompute=selective", "--recompute-layers=1", "--recompute-others=selective"},
     "",
     2,
     "--recompute-others: has no effect unless recompute is full and attention is unfused"},
    {{"--attention=flash", "--recompute=full", "--recompute-layers=1", "--recompute-others=selective"},
     "",
     2,
     "--recompute-others: has no effect unless recompute is full and attention is unfused"},
    {{"--zero=3", "--grad-bucket-mb=50"},
     "",
     2,
     "--grad-bucket-mb: has no effect unless zero is 0, 1 or 2 (3 gathers and reduces by layer)"},
    {{"--precision=fp32", "--gradients=half"},
     "",
     2,
     "--gradients: has no effect unless precision is fp16, bf16 or fp8"},
    {{"--precision=tf32", "--grad-reduction=float32"},
     "",
     2,
     "--grad-reduction: has no effect unless precision is fp16, bf16 or fp8"},
    {{"--grad-reduction=bf16"}, "", 2, "--grad-reduction: got \"bf16\", expected sums, float32, half"},
    {{"--gradients=quarter"}, "", 2, "--gradients: got \"quarter\", expected float32, half, half-but-tables"},
    {{"--precision=tf32", "--logits=half"},
     "",
     2,
     "--logits: has no effect unless precision is fp16, bf16 or fp8"},
    {{"--flash-version=1"}, "", 2, "--flash-version: has no effect unless attention is flash"},
    {{"--stack=megaton"},
     "",
     2,
     "--stack: no framework is named \"megaton\" (did you mean megatron?); known are boxcar, composer, "
     "deepspeed, fsdp, internevo, jax, "
     "megatron, "
     "megatron-fused-loss, megatron-nondeterministic, nemo, ngc, oneflow, oneflow-ops, pytorch, "
     "pytorch-compiled, scaling, scaling-rms"},
    {{"--tp=8", "--kv-heads=2"}, "", 2, "--tp: 8 does not divide kv_heads 2 (use 1 or 2)"},
    {{"--tied=perhaps"}, "", 2, "--tied: got \"perhaps\", expected true or false"},
    {{"--ffn=-1"}, "", 2, "--ffn: got \"-1\", expected a whole number from 1 to 10000000"},
    {{"--top-k=2"}, "", 2, "--top-k: needs experts"},
    {{"--grad-bucket-mb=0"}, "", 2, "--grad-bucket-mb: got \"0\", expected a whole number from 1 to 1000000"},
    {{"--steps=-1"}, "", 2, "--steps: got \"-1\", expected a whole number from 0 to 10000"},
    {{"--steps=x"}, "", 2, "--steps: got \"x\", expected a whole number from 0 to 10000"},
    {{"--steps=2", "--steps=3"}, "", 2, "--steps: given twice"},
    {{"--trace", ""}, "", 2, "--trace: needs a value"},
    {{"--save-plan", ""}, "", 2, "--save-plan: needs a value"},
    {{"--plan", ""}, "", 2, "--plan: needs a value"},
    {{"--json", "false"},
     "",
     2,
     "false: is no job file; a flag such as --json stands alone, or is given as --json=false"},
    {{"--lr=3"},
     "",
     2,
     "--lr: unknown flag (did you mean --learning-rate?); `boxcar simulate --help` lists all"},
    {{"--TP=2"}, "", 2, "--TP: unknown flag (did you mean --tp?); `boxcar simulate --help` lists all"},
    {{"--model=gpt2", "--family=bert"},
     "",
     2,
     "--model: got \"gpt2\" and then \"bert\", which has no sizes of its own; --family is another name of "
     "--model: give one of them"},
    {{"--trace", "--json"}, "", 2, "--json: is taken for a file's name (write ./--json if it is meant)"},
    {{"--trace=/no/such/dir/t.json"},
     "",
     2,
     "/no/such/dir/t.json: cannot be written: No such file or directory"},
    {{"--save-plan=/no/such/dir/p.txt"},
     "",
     2,
     "/no/such/dir/p.txt: cannot be written: No such file or directory"},
    {{"--plan=/no/such/plan.txt"}, "", 2, "/no/such/plan.txt: cannot be read; check the path"},
    {{}, "--layers=4", 2, "model.layers: missing; give it in the job file or as --layers"},
    {{}, "--hidden=256", 2, "model.hidden: missing; give it in the job file or as --hidden"},
    {{}, "--cluster=dgx-a100-80g", 2, "cluster.preset: missing; give it in the job file or as --cluster"},
    {{}, "--gpus=8", 2, "cluster.gpus: missing; give it in the job file or as --gpus, or give dp"},
    {{}, "--vocab=1000", 2, "model.vocab: missing; give it in the job file or as --vocab"},
    {{"--hiden=3"},
     "",
     2,
     "--hiden: unknown flag (did you mean --hidden?); `boxcar simulate --help` lists all"},
    {{"--sequence-paralel"},
     "",
     2,
     "--sequence-paralel: unknown flag (did you mean --sequence-parallel?); `boxcar simulate --help` lists "
     "all"},
    {{"--micro-batches=3"},
     "",
     2,
     "--micro-batches: unknown flag (did you mean --micro-batch?); `boxcar simulate --help` lists all"},
    {{"job1.yaml", "job2.yaml"}, "", 2, "job2.yaml: one job file at a time; job1.yaml was given too"},
    {{"--tp"}, "", 2, "--tp: needs a value"},
    {{"--tp", "--json"}, "", 2, "--tp: needs a value"},
    {{"--pp=2", "--virtual-stages=3"},
     "",
     2,
     "--virtual-stages: pp 2 x virtual_stages 3 = 6 is more than layers 4 (use at most 2 with pp 2)"},
    {{"--pp=2", "--virtual-stages=2", "--schedule=gpipe"},
     "",
     2,
     "--schedule: gpipe does not interleave virtual stages (use 1f1b)"},
    {{"--pp=2", "--stage-order=1,1"},
     "",
     2,
     "--stage-order: 1,1 is no order of the 2 stages (give each of 0 to 1 once)"},
    {{"--pp=2", "--stage-order=1"},
     "",
     2,
     "--stage-order: 1 is no order of the 2 stages (give each of 0 to 1 once)"},
    {{"--pp=2", "--stage-layers=3,3"}, "", 2, "--stage-layers: 6 layers in all, the model has 4"},
    {{"--pp=2", "--stage-layers=0,4"},
     "",
     2,
     "--stage-layers: got \"0\", expected a whole number from 1 to 10000"},
    {{"--seq=100", "--tp=8", "--sequence-parallel=true"},
     "",
     2,
     "--sequence-parallel: tp 8 x context_parallel 1 does not divide seq 100 (switch it off or change tp)"},
};

TEST(BadInput, Flags) {
  for (const JobCase& c : job_cases) {
    Words arguments{"simulate"};
    for (const std::string& flag : job_flags) {
      bool replaced = flag == c.without;
      for (const std::string& other : c.flags) replaced = replaced || name_of(other) == name_of(flag);
      if (!replaced) arguments.push_back(flag);
    }
    arguments.insert(arguments.end(), c.flags.begin(), c.flags.end());
    expect_refused(arguments, c.exit_code, c.message);
  }
}

struct CommandCase {
  Words arguments;
  int exit_code;
  std::string message;
};

const CommandCase command_cases[] = {
    {{"simulat"}, 2, "simulat: no such command (did you mean simulate?); `boxcar --help` lists them"},
    {{"--nonsense"}, 2, "--nonsense: no such command; `boxcar --help` lists them"},
    {{}, 2, "which command? `boxcar --help` lists them"},
    {{"simulate", "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: stage0 needs 3.38 TB of 85.1 GB, 3.29 TB too much; no other layout tried here fits: use "
     "more GPUs"},
    {{"simulate", "--model=gpt3-175b", "--cluster=dgx-a100-40g", "--gpus=64", "--tp=8", "--pp=8",
      "--global-batch=64"},
     1,
     "does not fit: stage0 needs 97.7 GB of 42.5 GB, 55.2 GB too much; no other layout tried here fits: use "
     "more GPUs"},
    {{"simulate", "--model=gpt", "--layers=12", "--hidden=4096", "--heads=32", "--seq=2048", "--vocab=51200",
      "--cluster=dgx-a100-80g", "--gpus=8", "--tp=1", "--micro-batch=4"},
     1,
     "does not fit: stage0 needs 90.7 GB of 85.1 GB, 5.63 GB too much; it would fit with --attention "
     "flash (65.5 GB) or with --recompute full (54.3 GB)"},
    {{"simulate", "--model=gpt", "--layers=4", "--hidden=8192", "--heads=64", "--seq=2048", "--vocab=51200",
      "--cluster=dgx-a100-40g", "--gpus=8", "--tp=1", "--micro-batch=8"},
     1,
     "does not fit: stage0 needs 132 GB of 42.5 GB, 89.3 GB too much; it would fit with --attention flash "
     "--recompute full --zero 3 (30.1 GB)"},
    {{"simulate", "--model=gpt2", "--seq=100000", "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: stage0 needs 6.29 TB of 85.1 GB, 6.21 TB too much; it would fit with --attention flash "
     "--recompute full (56.2 GB)"},
    {{"simulate", "--model=gpt2", "--seq=300000", "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: stage0 needs 56.3 TB of 85.1 GB, 56.2 TB too much; it would fit with --attention flash "
     "--recompute full --zero 3 --context-parallel 2 --dp 4 (81.2 GB)"},
    {{"simulate", "--model=gpt2", "--cluster=dgx-a100-8g"},
     2,
     "--cluster: no preset dgx-a100-8g (did you mean dgx-a100-80g?); known: a100-80g-400g, a100-80g-800g, "
     "alps-gh200, dgx-1-v100-16g, dgx-1-v100-32g, dgx-2-v100-32g, dgx-a100-40g, dgx-a100-80g, dgx-h100, "
     "gb200-nvl72, h100-80g-800g, hgx-b200, hgx-h200, local, "
     "p3-16xlarge, pcie-a100-80g; or give a path to a .yaml file"},
    {{"simulate", "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8", "--trace=/no/such/t.json"},
     2,
     "/no/such/t.json: cannot be written: No such file or directory"},
    {{"simulate", "--model=gpt", "--layers=4", "--hidden=256", "--heads=8", "--seq=10000000", "--vocab=1000",
      "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: stage0 needs 16 PB of 85.1 GB, 16 PB too much; no other layout tried here fits: use more "
     "GPUs"},
    {{"simulate", "--model=gpt", "--layers=4", "--hidden=256", "--heads=8", "--seq=100000000", "--vocab=1000",
      "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: %h0.attn.core.scores of stage0 has 1.28 EB, more than any cluster has; no other "
     "layout tried here fits: use more GPUs"},
    {{"train", "--model=unet", "--layers=3", "--hidden=4", "--image=8", "--vocab=3", "--cluster=local",
      "--gpus=1", "--data=README.md"},
     2,
     "--model: a U-Net is simulated, not trained (data are images of a label each)"},
    {{"train", "--model=llama", "--layers=2", "--hidden=64", "--heads=4", "--seq=32", "--vocab=256",
      "--qkv-bias", "--cluster=local", "--gpus=1", "--data=README.md"},
     2,
     "--qkv-bias: checkpoints have biases in all linear layers or in none"},
    {{"simulate", "--model=gpt2", "--qkv-bias", "--cluster=dgx-a100-80g", "--gpus=8"},
     2,
     "--qkv-bias: has no effect unless bias is false"},
    {{"simulate", "--model=resnet50", "--layers=18", "--cluster=dgx-a100-80g", "--gpus=8"},
     2,
     "--layers: is 18, expected the blocks of ResNet-50, -101 or -152: 16, 33 or 50"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8"},
     2,
     "train.global_batch: missing; give it in the job file or as --global-batch"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--memory=900GB"},
     2,
     "--memory: 900GB is more than the 85.1 GB of a device (a100-sxm-80g); say less, or leave it out"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--budget=0.001ms"},
     1,
     "ended before a point was found that fits; give it more time with --budget"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--memory=12"},
     2,
     "--memory: got \"12\", expected a size such as 72GB or 80GiB"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--budget=-1s"},
     2,
     "--budget: got \"-1s\", expected a time such as 5s or 2m"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--pp=4",
      "--stage-order=1,0"},
     1,
     "parallel: stage_order 1,0 contradicts pp 4: stage_order has to have each of the pp stages once"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--tp=7"},
     1,
     "parallel: tp 7 contradicts heads 12: tp has to divide heads (use 1, 2 or 4)"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--recompute=full",
      "--recompute-layers=4,2,1,0", "--pp=8"},
     1,
     "parallel: pp 8 contradicts recompute_layers 4,2,1,0: recompute_layers has to have a number for each of "
     "pp x "
     "virtual_stages stages (use 2 or 4)"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--recompute=none",
      "--recompute-layers=3"},
     2,
     "--recompute-layers: has no effect unless recompute is selective, full or ops"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=64", "--micro-batch=64",
      "--memory=8GB"},
     1,
     "nothing fits: the smallest of 3 points needs 36.7 GB of 8 GB on each device of stage 0, 28.7 GB "
     "too "
     "much (--dp 1 --tp 1 --pp 1 --micro-batch 64 --recompute full); by estimate one would do with "
     "--micro-batch 4 or with --memory 36.8GB"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=8", "--memory=100MB"},
     1,
     "nothing fits: the smallest of 3 points needs 2.78 GB of 100 MB on each device of stage 0, 2.68 "
     "GB too "
     "much (--dp 1 --tp 1 --pp 1 --recompute full); by estimate one would do with --memory 2.78GB"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=32", "--micro-batch=32",
      "--recompute=none", "--memory=2900MB"},
     1,
     "nothing fits: the smallest of 1 points needs 47.9 GB of 2.9 GB on each device of stage 0, 45 GB "
     "too "
     "much (--dp 1 --tp 1 --pp 1 --micro-batch 32); by estimate one would do with --recompute full "
     "--micro-batch 1, on 40 GPUs or with --memory 47.9GB"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=8",
      "--objective=money"},
     2,
     "--objective: got \"money\", expected time, memory or cost"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=8", "--objective=cost"},
     2,
     "cluster: dgx-a100-80g has no price; give price_per_gpu_hour in a cluster file"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=8",
      "--max-step-time=fast"},
     2,
     "--max-step-time: got \"fast\", expected a time such as 5s or 2m"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=8",
      "--max-step-time=1ms"},
     1,
     "--max-step-time: no plan was found that fits and takes 1 ms or less: the fastest of 4 takes 75.33 ms, "
     "74.33 ms "
     "too "
     "long (--dp 1 --tp 1 --pp 1 --micro-batch 8); neither other keys nor more GPUs mend it by estimate"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h0.ln1"},
     2,
     "--pin: got \"h0.ln1\", expected a tensor and its layout such as \"h*.mlp.fc1.weight=(B, S(1))\""},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h0.ln1=(B,X(1))"},
     2,
     "--pin h0.ln1=(B,X(1)): layout \"(B,X(1))\": expected S(axis), B or P(sum, max or min) at \"X(1))\""},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h*.mlp.fc3.weight=S(0)"},
     2,
     "--pin h*.mlp.fc3.weight=S(0): no tensor is called h*.mlp.fc3.weight (did you mean h0.mlp.fc1.weight?)"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h*.ln1=S(1)", "--pin=h3.*=B"},
     1,
     "--pin h3.*=B: contradicts --pin h*.ln1=S(1): both name h3.ln1"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--micro-batch=1", "--pin=h0.ln1=S(0)"},
     2,
     "--pin h0.ln1=S(0): h0.ln1 of float16[1, 1024, 768] cannot be split over 2 devices like this"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h0.ln1=(B,B)"},
     1,
     "parallel: no combination of degrees is legal with gpus 2, --pin h0.ln1=(B, B): dp x tp x pp x "
     "context_parallel has to be gpus, and a layout has an entry for each dimension of a stage's mesh"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h0.ln1.weight=P"},
     2,
     "--pin h0.ln1.weight=P(sum): h0.ln1.weight is there from the start and cannot be partial"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h0.ln1=S(3)"},
     2,
     "--pin h0.ln1=S(3): h0.ln1 of float16[1, 1024, 768] has no axis 3"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--pin=h0.attn.core.softmax=P(max)"},
     1,
     "--pin h0.attn.core.softmax=P(max): no ops can make and read h0.attn.core.softmax like this"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=4", "--dp=2", "--tp=2", "--global-batch=2",
      "--pin=h*.attn.qkv.weight=(S(0), S(0))"},
     1,
     "--pin h*.attn.qkv.weight=(S(0), S(0)): no ops can make and read h0.attn.qkv.weight like this with a "
     "dimension of the mesh as degrees have it (try --both-dimensions)"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--zero=a..2"},
     2,
     "--zero: got \"a..2\", expected a range such as 1..4"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--global-batch=2", "--zero=0..5"},
     2,
     "--zero: got \"0..5\", expected a range within 0..3"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--global-batch=2", "--tp=0..2"},
     2,
     "--tp: got \"0..2\", expected a range that begins at 1 or more"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--global-batch=2",
      "--sequence-parallel=1..2"},
     2,
     "--sequence-parallel: got \"1..2\", but only cp, dp, ep, micro_batch, pp, tp, virtual_stages, zero take "
     "a "
     "range"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=4", "--tp=2", "--pp=2", "--global-batch=2",
      "--pin=embedding.word=S(0)", "--pin=embedding.word.replica1=S(1)"},
     1,
     "--pin embedding.word.replica1=S(1): contradicts --pin embedding.word=S(0): no ops go with both"},
    {{"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8", "--tpp=7"},
     2,
     "--tpp: unknown flag (did you mean --tp?); `boxcar search --help` lists all"},
    {{"train", "--model=t5", "--layers=2"},
     2,
     "--model: an encoder with a decoder is simulated, not trained (data is one text)"},
    {{"simulate", "--model=gpt2", "--decoder-seq=8", "--cluster=local", "--gpus=1"},
     2,
     "--decoder-seq: a model of family gpt has none; it is of t5"},
    {{"train", "--model=resnet50", "--data=random", "--checkpoint-dir=out"},
     2,
     "--checkpoint-dir: is for models of text (leave it out)"},
    {{"train", "--model=bert-base", "--masked=20"},
     2,
     "--masked: pre-training heads are simulated, not trained (leave it out)"},
    {{"train", "--model=gpt2", "--precision=fp8"},
     2,
     "--precision: fp8 is simulated, not trained (use bf16)"},
    {{"clusters", "dgx-a1000"},
     2,
     "cluster: no preset dgx-a1000 (did you mean dgx-h100?); known: a100-80g-400g, a100-80g-800g, "
     "alps-gh200, dgx-1-v100-16g, dgx-1-v100-32g, dgx-2-v100-32g, "
     "dgx-a100-40g, dgx-a100-80g, dgx-h100, gb200-nvl72, h100-80g-800g, hgx-b200, hgx-h200, local, "
     "p3-16xlarge, pcie-a100-80g; or give a "
     "path to a "
     ".yaml "
     "file"},
    {{"clusters", "x", "y"}, 2, "y: one argument too many"},
    {{"models", "gpt"}, 2, "gpt: one argument too many"},
    {{"clusters", "--jsn"},
     2,
     "--jsn: unknown flag (did you mean --json?); `boxcar clusters --help` lists all"},
    {{"explain", "a", "b"}, 2, "b: one argument too many"},
    {{"explain"}, 2, "plan: missing; `boxcar explain --help` says more"},
    {{"sbp", "rules"}, 2, "op: missing; `boxcar sbp rules --help` says more"},
    {{"sbp", "box"}, 2, "--shape: missing; `boxcar sbp box --help` says more"},
};

TEST(BadInput, CommandsAndJobsThatDoNotFit) {
  for (const CommandCase& c : command_cases) expect_refused(c.arguments, c.exit_code, c.message);
}

struct FileCase {
  std::string text;
  Words flags;
  std::string message;
};

const FileCase file_cases[] = {
    {std::string("model: [gpt]\n"),
     {},
     "job.yaml:1:8: model: expected keys and values, as in model: {family: ...}"},
    {std::string(""), {}, "job.yaml: is empty; it needs the sections model and cluster"},
    {std::string("- a\n- b\n"),
     {},
     "job.yaml:1:1: expected the sections model, cluster, parallel, train, run"},
    {std::string("model: {layers: 4\n"), {}, "job.yaml:2:1: end of map flow not found"},
    {std::string("modle: {layers: 4}\n"),
     {},
     "job.yaml:1:1: unknown section \"modle\" (did you mean model?); known are model, cluster, parallel, "
     "train, run"},
    {std::string("model: {layerz: 4}\n"),
     {},
     "job.yaml:1:9: unknown key \"layerz\" under model (did you mean layers?); known are family, layers, "
     "hidden, heads, seq, vocab, ffn, kv_heads, mlp, gelu, norm, position, tied, bias, qkv_bias, dropout, "
     "pad_vocab, experts, top_k, expert_every, masked, decoder_layers, decoder_seq, width, image, "
     "channels_last"},
    {std::string("model: {tp: 4}\n"),
     {},
     "job.yaml:1:9: unknown key \"tp\" under model; it belongs under parallel"},
    {good + "parallel: {tp: 3}\n",
     {},
     "parallel: tp 3 x pp 1 x context_parallel 1 = 3 does not divide 8 gpus (use a multiple of 3 gpus, or "
     "other degrees)"},
    {good + "parallel: {tp: x}\n",
     {},
     "job.yaml:3:16: parallel.tp: got \"x\", expected a whole number from 1 to 10000"},
    {good + "parallel:\n  tp: 2\n  tp: 4\n", {}, "job.yaml:5:7: parallel.tp: given twice"},
    {good + good, {}, "job.yaml:3:1: section model is given twice"},
    {good + "train: {precision: }\n",
     {},
     "job.yaml:3:20: train.precision: has no value; leave the key out for its default"},
    {good + "train: {precision: {a: b}}\n",
     {},
     "job.yaml:3:20: train.precision: expected a value or a list of values"},
    {good + "train: 5\n",
     {},
     "job.yaml:3:8: train: expected keys and values, as in train: {global_batch: ...}"},
    {good + "parallel: {stage_layers: [1, [2]]}\n",
     {},
     "job.yaml:3:26: parallel.stage_layers: expected a list of plain values"},
    {std::string("model: &a {b: *c}\n"), {}, "job.yaml:1:15: the referenced anchor is not defined"},
    {std::string("model: &a {layers: 2}\ntrain: *a\n"), {}, "job.yaml:2:8: an alias; write the value itself"},
    {good + "parallel: {tp: 6}\n",
     {"--gpus=48", "--heads=8"},
     "job.yaml:3:16: parallel.tp: 6 does not divide heads 8 (use 1, 2, 4 or 8)"},
    {std::string("model:\n\tlayers: 3\n"), {}, "job.yaml:2:8: illegal map value"},
    {good + "---\nparallel: {tp: 2}\n",
     {},
     "job.yaml:4:1: a second document; one is expected (drop the ---)"},
    {std::string(100000, '['), {}, "job.yaml:1:1: nested too deep"},
    {std::string(",\n"), {}, "job.yaml:1:1: no value begins with this"},
    {good + "parallel: {fsdp_group: 8}\n",
     {},
     "job.yaml:3:24: parallel.fsdp_group: has no effect unless zero is 1, 2 or 3"},
};

TEST(BadInput, JobFiles) {
  for (const FileCase& c : file_cases) {
    TemporaryFile file("job.yaml", c.text);
    Words arguments{"simulate", file.path()};
    arguments.insert(arguments.end(), c.flags.begin(), c.flags.end());
    expect_refused(arguments, 2, c.message, "job.yaml", file.path());
  }
}

// What is no plan, what is one of another program, and what would be written over.
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
  const std::pair<std::string, std::string> cases[] = {
      {"", "plan.txt:1:1: expected \"plan NAME\", then \"devices N\""},
      {"\x7f\x01", "plan.txt:1:1: expected \"plan\", got \"\\x7f\\x01\""},
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
  expect_refused({"simulate", "--plan", plan.path(), "--trace", plan.path()}, 2,
                 "--trace: plan.txt is the same file as --plan", "plan.txt", plan.path());
  EXPECT_EQ(read_text(plan.path()), text);
}

TEST(BadInput, ModelsFromFiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "config.json:1:2: is not JSON"},
      {"{\n \"a\": 1,\n b}", "config.json:3:2: is not JSON"},
      {"", "config.json:1:1: is not JSON"},
      {"{}",
       "config.json: has no architectures, expected one of GPT2LMHeadModel, LlamaForCausalLM, "
       "MistralForCausalLM, Qwen2ForCausalLM, MixtralForCausalLM, BertForMaskedLM, BertForPreTraining"},
      {R"({"architectures": ["T5ForConditionalGeneration"]})",
       "config.json: architectures has \"T5ForConditionalGeneration\", expected one of GPT2LMHeadModel, "
       "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, MixtralForCausalLM, BertForMaskedLM, "
       "BertForPreTraining"},
      {R"({"architectures": ["GPT2LMHeadModel"], "n_layer": -1})",
       "config.json: n_layer is -1, expected a whole number of at least 1"},
      {R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128,
           "hidden_act": "relu"})",
       "config.json: hidden_act is \"relu\", expected silu"},
      {R"({"architectures": ["BertForMaskedLM"], "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128,
           "hidden_act": "relu"})",
       "config.json: hidden_act is \"relu\", expected gelu, gelu_new, gelu_fast or gelu_pytorch_tanh"},
      {R"({"architectures": ["BertForMaskedLM"], "num_hidden_layers": 2, "hidden_size": 64,
           "num_attention_heads": 5, "intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 128})",
       "--model: model.heads: 5 does not divide hidden 64 (use 1, 2, 4, 8, 16, 32, 64)"},
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

// A file has the sizes that the catalog has, and flags win.
TEST(Jobs, AModelFromAFile) {
  TemporaryFile file("config.json", R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32,
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
    "max_position_embeddings": 131072, "vocab_size": 32000, "head_dim": 128, "rms_norm_eps": 1e-6})");
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

// What a file says beside sizes is built, or told.
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
  EXPECT_EQ(
      simulate(llama("Qwen2ForCausalLM", R"(, "sliding_window": 32, "use_sliding_window": true)"), {}).err,
      "boxcar: --model: sliding_window 32 is not built: attention reaches all 64 tokens\n");
  EXPECT_EQ(simulate(llama("MistralForCausalLM", R"(, "sliding_window": 32)"), {"--seq=32"}).err, "");
  EXPECT_EQ(simulate(llama("LlamaForCausalLM", R"(, "attention_bias": true)"), {}).err,
            "boxcar: --model: attention_bias alone is not built: all linear layers have biases\n");
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
  Words arguments{"simulate", "--json", "--pp=2"};
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
  const nlohmann::json models = document({"models", "--json"});
  const auto gpt2 = std::find_if(models["models"].begin(), models["models"].end(),
                                 [](const nlohmann::json& row) { return row["name"] == "gpt2"; });
  ASSERT_NE(gpt2, models["models"].end());
  EXPECT_EQ((*gpt2)["hidden"], 768);
  EXPECT_FALSE(gpt2->contains("ffn"));
}

// The same job from flags, from a file, and from a file that flags override.
TEST(Jobs, FlagsAndFilesAgree) {
  Words flags = job_flags;
  flags.insert(flags.begin(), "simulate");
  flags.insert(flags.end(), {"--tp=2", "--steps=3", "--json"});
  TemporaryFile file("job.yaml", good + "parallel: {tp: 4}\n");
  Output from_flags = run_program(flags);
  Output from_file = run_program({"simulate", "--tp", "2", "--steps", "3", file.path(), "--json"});
  auto until_simulator = [](const std::string& text) { return text.substr(0, text.find("\"simulator\"")); };
  EXPECT_EQ(from_flags.exit_code, 0) << from_flags.err;
  EXPECT_GT(from_flags.out.size(), 500u);
  EXPECT_EQ(until_simulator(from_flags.out), until_simulator(from_file.out));
}

// On a terminal, with and without NO_COLOR.
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
  arguments.insert(arguments.end(), {"--zero=3", "--flash-version=2", "--grad-bucket-mb=25"});
  Output output = run_program(arguments);
  EXPECT_EQ(output.exit_code, 0) << output.err;
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
}  // namespace boxcar::testing
