// Impossible requests to a search.
#include <gtest/gtest.h>

#include "bad_input.h"

namespace boxcar::tests {
namespace {

const CommandCase cases[] = {
    {{"--gpus=8"}, 2, "train.global_batch: missing; give it in the job file or as --global-batch"},
    {{"--gpus=8", "--global-batch=8", "--memory=900GB"},
     2,
     "--memory: 900GB is more than the 85.1 GB that a plan may take of a device (a100-sxm-80g); say less, or "
     "leave it out"},
    {{"--gpus=8", "--global-batch=8", "--budget=0.001ms"},
     1,
     "ended before a point was found that fits; give it more time with --budget"},
    {{"--gpus=8", "--global-batch=8", "--memory=12"},
     2,
     "--memory: got \"12\", expected a size such as 72GB or 80GiB"},
    {{"--gpus=8", "--global-batch=8", "--budget=-1s"},
     2,
     "--budget: got \"-1s\", expected a time such as 5s or 2m"},
    {{"--gpus=8", "--global-batch=8", "--pp=4", "--stage-order=1,0"},
     1,
     "parallel: stage_order 1,0 contradicts pp 4: stage_order has to have each of the pp stages once"},
    {{"--gpus=8", "--global-batch=8", "--tp=7"},
     1,
     "parallel: tp 7 contradicts heads 12: tp has to divide heads (use 1, 2 or 4)"},
    {{"--gpus=8", "--global-batch=8", "--recompute=full", "--recompute-layers=4,2,1,0", "--pp=8"},
     1,
     "parallel: pp 8 contradicts recompute_layers 4,2,1,0: recompute_layers has to have a number for each of "
     "pp x "
     "virtual_stages stages (use 2 or 4)"},
    {{"--gpus=8", "--global-batch=8", "--recompute=none", "--recompute-layers=3"},
     2,
     "--recompute-layers: has no effect unless recompute is selective, full or ops"},
    {{"--gpus=1", "--global-batch=64", "--micro-batch=64", "--memory=8GB"},
     1,
     "nothing fits: the smallest of 2 points needs 36.7 GB of 8 GB on each device of stage 0, 28.7 GB "
     "too "
     "much (--dp 1 --tp 1 --pp 1 --micro-batch 64 --recompute full); by estimate one would do with "
     "--micro-batch 8, on 6 GPUs or with --memory 36.8GB"},
    {{"--gpus=1", "--global-batch=8", "--memory=100MB"},
     1,
     "nothing fits: the smallest of 2 points needs 2.78 GB of 100 MB on each device of stage 0, 2.68 "
     "GB too "
     "much (--dp 1 --tp 1 --pp 1 --recompute full); by estimate one would do with --memory 2.78GB"},
    {{"--gpus=1", "--global-batch=32", "--micro-batch=32", "--recompute=none", "--memory=2900MB"},
     1,
     "nothing fits: the smallest of 1 points needs 29.2 GB of 2.9 GB on each device of stage 0, 26.3 GB "
     "too "
     "much (--dp 1 --tp 1 --pp 1 --micro-batch 32); by estimate one would do with --recompute full "
     "--micro-batch 1, on 16 GPUs or with --memory 29.2GB"},
    {{"--gpus=8", "--global-batch=8", "--effort=some"},
     2,
     "--effort: got \"some\", expected quick, normal, thorough or a number of plans from 1 to 1000000"},
    {{"--gpus=8", "--global-batch=8", "--effort=0"},
     2,
     "--effort: got \"0\", expected quick, normal, thorough or a number of plans from 1 to 1000000"},
    {{"--gpus=8", "--global-batch=8", "--gap=2"}, 2, "--gap: got \"2\", expected a share such as 2% or 0.02"},
    {{"--gpus=8", "--global-batch=8", "--gap=-1%"},
     2,
     "--gap: got \"-1%\", expected a share such as 2% or 0.02"},
    {{"--gpus=8", "--global-batch=8", "--gap=2%", "--effort=quick"},
     2,
     "--gap: cannot be given with --effort quick, which ends after 4 plans"},
    {{"--gpus=8", "--global-batch=8", "--prove", "--effort=quick"},
     2,
     "--prove: cannot be given with --effort quick, which ends after 4 plans"},
    {{"--gpus=8", "--global-batch=8", "--prove", "--objective=memory"},
     2,
     "--prove: needs --objective time or cost; no bound on the least memory is known"},
    {{"--gpus=8", "--global-batch=8", "--sensitivity", "--objective=memory"},
     2,
     "--sensitivity: needs --objective time or cost; memory depends on no constant"},
    {{"--gpus=8", "--global-batch=8", "--sensitivity", "--precision=fp16,fp32"},
     2,
     "--sensitivity: needs one precision; the search is made again for each constant"},
    {{"--gpus=8", "--global-batch=8", "--sensitivity", "--budget=5s"},
     2,
     "--sensitivity: cannot be given with --budget: it makes the search some 18 times; Ctrl-C ends it"},
    {{"--gpus=1", "--global-batch=8", "--objective=money"},
     2,
     "--objective: got \"money\", expected time, memory or cost"},
    {{"--gpus=1", "--global-batch=8", "--objective=cost"},
     2,
     "--price: missing; dgx-a100-80g has no price_per_gpu_hour"},
    {{"--gpus=1", "--global-batch=8", "--objective=cost", "--price=0"},
     2,
     "--price: is 0, at which all plans cost the same; give what a GPU costs an hour"},
    {{"--gpus=1", "--global-batch=8", "--max-step-time=fast"},
     2,
     "--max-step-time: got \"fast\", expected a time such as 5s or 2m"},
    {{"--gpus=1", "--global-batch=8", "--max-step-time=1ms"},
     1,
     "--max-step-time: no plan was found that fits and takes 1 ms or less: the fastest of 4 takes 52.44 ms, "
     "51.44 ms "
     "too "
     "long (--dp 1 --tp 1 --pp 1 --micro-batch 8); by estimate neither other keys nor more GPUs would help"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h0.ln1"},
     2,
     "--pin: got \"h0.ln1\", expected a tensor and its layout such as \"h*.mlp.fc1.weight=(B, S(1))\""},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h0.ln1=(B,X(1))"},
     2,
     "--pin h0.ln1=(B,X(1)): layout \"(B,X(1))\": expected S(axis), B or P(sum, max or min) at \"X(1))\""},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h*.mlp.fc3.weight=S(0)"},
     2,
     "--pin h*.mlp.fc3.weight=S(0): no tensor is called h*.mlp.fc3.weight (did you mean h0.mlp.fc1.weight?)"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h*.ln1=S(1)", "--pin=h3.*=B"},
     1,
     "--pin h3.*=B: contradicts --pin h*.ln1=S(1): both name h3.ln1"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--micro-batch=1", "--pin=h0.ln1=S(0)"},
     2,
     "--pin h0.ln1=S(0): h0.ln1 of float16[1, 1024, 768] cannot be split over 2 devices like this"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h0.ln1=(B,B)"},
     1,
     "parallel: no combination of degrees is legal with gpus 2, --pin h0.ln1=(B, B): dp x tp x pp x "
     "context_parallel has to be gpus, and a layout has an entry for each dimension of a stage's mesh"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h0.ln1.weight=P"},
     2,
     "--pin h0.ln1.weight=P(sum): h0.ln1.weight is there from the start and cannot be partial"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--pin=h0.ln1=S(3)"},
     2,
     "--pin h0.ln1=S(3): h0.ln1 of float16[1, 1024, 768] has no axis 3"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--attention=unfused", "--pin=h0.attn.core.softmax=P(max)"},
     1,
     "--pin h0.attn.core.softmax=P(max): no ops can make and read h0.attn.core.softmax like this"},
    {{"--gpus=4", "--dp=2", "--tp=2", "--global-batch=2", "--pin=h*.attn.qkv.weight=(S(0), S(0))"},
     1,
     "--pin h*.attn.qkv.weight=(S(0), S(0)): no ops can make and read h0.attn.qkv.weight like this with a "
     "dimension of the mesh as degrees have it (try --both-dimensions)"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--zero=a..2"},
     2,
     "--zero: got \"a..2\", expected a range such as 1..4"},
    {{"--gpus=2", "--global-batch=2", "--zero=0..5"},
     2,
     "--zero: got \"0..5\", expected a range within 0..3"},
    {{"--gpus=2", "--global-batch=2", "--tp=0..2"},
     2,
     "--tp: got \"0..2\", expected a range that begins at 1 or more"},
    {{"--gpus=2", "--tp=2", "--global-batch=2", "--sequence-parallel=1..2"},
     2,
     "--sequence-parallel: got \"1..2\", but only cp, dp, ep, etp, micro_batch, pp, tp, virtual_stages, zero "
     "take "
     "a "
     "range"},
    {{"--gpus=4", "--tp=2", "--pp=2", "--global-batch=2", "--pin=embedding.word=S(0)",
      "--pin=embedding.word.replica1=S(1)"},
     1,
     "--pin embedding.word.replica1=S(1): contradicts --pin embedding.word=S(0): no ops go with both"},
    {{"--gpus=8", "--global-batch=8", "--tpp=7"},
     2,
     "--tpp: unknown flag (did you mean --tp?); `boxcar search --help` lists all"},
};

TEST(BadInput, Searches) { expect_refused({"search", "--model=gpt2", "--cluster=dgx-a100-80g"}, cases); }

// The values of keys that a search does not try are words too.
TEST(BadInput, FrameworksThatRunNoSuchValues) {
  const auto refuse = [&](const std::string& runs, const std::string& message) {
    const TemporaryFile file("mine.yaml", "like: megatron\nname: mine\n" + runs);
    expect_refused({"search", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=8", "--global-batch=8",
                    "--max-stack=" + file.path()},
                   2, message);
  };
  refuse("runs: {train.optimizer: adam|adamm, parallel.zero: 0..1}\n",
         "framework mine: runs: got \"adamm\", expected sgd, momentum, adam, adagrad, lion, lars, lamb, "
         "adafactor (did you mean adam?)");
  refuse(
      "runs_where: {half: {where: {train.precision: fp61}, runs: {parallel.ep: 1}}}\n",
      "framework mine: runs_where: half: got \"fp61\", expected fp32, tf32, fp16, bf16, fp64, fp8 (did you "
      "mean fp16?)");
}

}  // namespace
}  // namespace boxcar::tests
