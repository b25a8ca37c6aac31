// Flags of a job, one by one.
#include <gtest/gtest.h>

#include "bad_input.h"

namespace boxcar::testing {
namespace {

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

}  // namespace
}  // namespace boxcar::testing
