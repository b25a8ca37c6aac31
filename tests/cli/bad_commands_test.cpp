// Jobs that do not fit or cannot be trained, and unknown commands.
#include <gtest/gtest.h>

#include "bad_input.h"

namespace boxcar::tests {
namespace {

const CommandCase of_simulate[] = {
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: stage0 needs 3.23 TB of 85.1 GB, 3.15 TB too much; it would fit with --pp 48 "
     "--gpus 192 --dp 4 (82.5 GB)"},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-40g", "--gpus=64", "--tp=8", "--pp=8", "--global-batch=64"},
     1,
     "does not fit: stage0 needs 79 GB of 42.5 GB, 36.4 GB too much; it would fit with --tp 24 "
     "--gpus 192 (40.1 GB)"},
    {{"--model=gpt", "--layers=12", "--hidden=4096", "--heads=32", "--seq=2048", "--vocab=51200",
      "--cluster=dgx-a100-80g", "--gpus=8", "--tp=1", "--micro-batch=4", "--attention=unfused"},
     1,
     "does not fit: stage0 needs 90.7 GB of 85.1 GB, 5.63 GB too much; it would fit with --attention flash "
     "(65.5 GB), with --recompute selective (66 GB), with --micro-batch 2 (69.3 GB) or with --zero 2 (56.5 "
     "GB)"},
    {{"--model=gpt", "--layers=4", "--hidden=8192", "--heads=64", "--seq=2048", "--vocab=51200",
      "--cluster=dgx-a100-40g", "--gpus=8", "--tp=1", "--micro-batch=8"},
     1,
     "does not fit: stage0 needs 93.3 GB of 42.5 GB, 50.8 GB too much; it would fit with --tp 4 "
     "--dp 2 (27.5 GB)"},
    {{"--model=gpt2", "--seq=100000", "--cluster=dgx-a100-80g", "--gpus=8", "--attention=unfused"},
     1,
     "does not fit: stage0 needs 6.29 TB of 85.1 GB, 6.21 TB too much; it would fit with --attention flash "
     "--recompute full (56.2 GB), with --attention flash --zero 1 (83.8 GB) or with --attention flash "
     "--context-parallel 2 --dp 4 (44.9 GB)"},
    {{"--model=gpt2", "--seq=100000", "--cluster=dgx-a100-80g", "--gpus=8"},
     1,
     "does not fit: stage0 needs 85.8 GB of 85.1 GB, 696 MB too much; it would fit with --recompute full "
     "(56.2 GB), with --zero 1 (83.8 GB) or with --context-parallel 2 --dp 4 (44.9 GB)"},
    {{"--model=gpt2", "--seq=300000", "--cluster=dgx-a100-80g", "--gpus=8", "--attention=unfused"},
     1,
     "does not fit: stage0 needs 56.3 TB of 85.1 GB, 56.2 TB too much; it would fit with --attention flash "
     "--context-parallel 4 --dp 2 (68.2 GB) or with --attention flash --tp 4 --dp 2 (84.3 GB)"},
    {{"--model=gpt", "--layers=16", "--hidden=2048", "--heads=16", "--seq=1024", "--vocab=51200",
      "--cluster=dgx-1-v100-16g", "--gpus=8", "--pp=4", "--schedule=gpipe", "--micro-batch=2",
      "--global-batch=128"},
     1,
     "does not fit: stage3 needs 54.5 GB of 16.6 GB, 37.9 GB too much; it would fit with --schedule 1f1b "
     "(10.1 GB), with --recompute full --gpus 16 --dp 4 (13.7 GB) or with --gpus 64 --dp 16 (12.2 GB)"},
    {{"--model=gpt2-xl", "--cluster=dgx-1-v100-16g", "--gpus=16", "--zero=2", "--fsdp-group=2",
      "--micro-batch=2", "--global-batch=64"},
     1,
     "does not fit: stage0 needs 33.8 GB of 16.6 GB, 17.2 GB too much; it would fit with --recompute "
     "full --zero 3 (16.2 GB)"},
    {{"--model=gpt2", "--cluster=dgx-a100-8g"},
     2,
     "--cluster: no preset dgx-a100-8g (did you mean dgx-a100-80g?); " + known_clusters},
    {{"--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=8", "--trace=/no/such/t.json"},
     2,
     "/no/such/t.json: cannot be written: No such file or directory"},
    {{"--model=gpt", "--layers=4", "--hidden=256", "--heads=8", "--seq=10000000", "--vocab=1000",
      "--cluster=dgx-a100-80g", "--gpus=8", "--attention=unfused"},
     1,
     "does not fit: stage0 needs 16 PB of 85.1 GB, 16 PB too much; it would fit with --attention flash "
     "--recompute full --context-parallel 8 --dp 1 (71.8 GB)"},
    {{"--model=gpt", "--layers=4", "--hidden=256", "--heads=8", "--seq=100000000", "--vocab=1000",
      "--cluster=dgx-a100-80g", "--gpus=8", "--attention=unfused"},
     1,
     "does not fit: %h0.attn.core.scores of stage0 has 1.28 EB, more than any cluster has; no change of one "
     "key or two fits, nor do more GPUs, alone or with one key; `boxcar search` changes all keys together"},
    {{"--model=gpt2", "--qkv-bias", "--cluster=dgx-a100-80g", "--gpus=8"},
     2,
     "--qkv-bias: has no effect unless bias is false"},
    {{"--model=resnet50", "--layers=18", "--cluster=dgx-a100-80g", "--gpus=8"},
     2,
     "--layers: is 18, expected the blocks of ResNet-50, -101 or -152: 16, 33 or 50"},
    {{"--model=gpt2", "--decoder-seq=8", "--cluster=local", "--gpus=1"},
     2,
     "--decoder-seq: a model of family gpt has none; it is of t5"},
};

TEST(BadInput, JobsThatDoNotFit) { expect_refused({"simulate"}, of_simulate); }

const CommandCase of_train[] = {
    {{"--model=unet", "--layers=3", "--channels=4", "--image=8", "--classes=3", "--cluster=local", "--gpus=1",
      "--data=README.md"},
     2,
     "--model: a U-Net is simulated, not trained (data are images of a label each)"},
    {{"--model=llama", "--layers=2", "--hidden=64", "--heads=4", "--seq=32", "--vocab=256", "--qkv-bias",
      "--cluster=local", "--gpus=1", "--data=README.md"},
     2,
     "--qkv-bias: checkpoints have biases in all linear layers or in none"},
    {{"--model=resnet50", "--data=random", "--decoders=2"}, 2, "--decoders: needs data that are JPEG images"},
    {{"--model=gpt2", "--data=README.md", "--augment=false"},
     2,
     "--augment: needs data that are JPEG images"},
    {{"--model=gpt2", "--data=README.md", "--objective=spans"}, 2, "--objective: needs family t5"},
    {{"--model=gpt2", "--precision=fp8"}, 2, "--precision: fp8 is simulated, not trained (use bf16)"},
};

TEST(BadInput, JobsThatAreNotTrained) { expect_refused({"train"}, of_train); }

const CommandCase others[] = {
    {{"simulat"}, 2, "simulat: no such command (did you mean simulate?); `boxcar --help` lists them"},
    {{"--nonsense"}, 2, "--nonsense: no such command; `boxcar --help` lists them"},
    {{}, 2, "which command? `boxcar --help` lists them"},
    {{"clusters", "dgx-a1000"},
     2,
     "cluster: no preset dgx-a1000 (did you mean dgx-h100?); " + known_clusters},
    {{"clusters", "x", "y"}, 2, "y: one argument too many"},
    {{"clusters", "--jsn"},
     2,
     "--jsn: unknown flag (did you mean --json?); `boxcar clusters --help` lists all"},
    {{"models", "gpt"}, 2, "gpt: one argument too many"},
    {{"explain", "a", "b"}, 2, "b: one argument too many"},
    {{"explain"}, 2, "plan: missing; `boxcar explain --help` says more"},
    {{"sbp", "rules"}, 2, "op: missing; `boxcar sbp rules --help` says more"},
    {{"sbp", "box"}, 2, "--shape: missing; `boxcar sbp box --help` says more"},
};

TEST(BadInput, Commands) { expect_refused({}, others); }

}  // namespace
}  // namespace boxcar::tests
