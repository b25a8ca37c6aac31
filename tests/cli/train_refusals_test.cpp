// Jobs that `boxcar train` refuses, and its end if it cannot continue: whole messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train.h"

namespace boxcar::tests {
namespace {

struct Refusal {
  Words flags;
  int exit_code;
  std::string message;  // FOLDER stands for the test's folder
};

TEST_F(Train, RefusesWhatCannotBe) {
  std::ofstream(path("empty.txt")).close();
  std::ofstream(path("short.txt")) << "too short";
  std::ofstream(path("odd.bin")) << "odd";
  std::ofstream(path("large.bin"), std::ios::binary) << std::string(100, '\0') << std::string("\0\1", 2);
  const Refusal cases[] = {
      {{"--data=FOLDER/none.txt"}, 2, "FOLDER/none.txt: cannot be read: No such file or directory"},
      {{"--data=FOLDER/empty.txt"}, 2, "FOLDER/empty.txt: is empty, expected tokens"},
      {{"--data=FOLDER/short.txt"},
       2,
       "data: has 9 tokens, expected at least the 17 of a sample (use more text or a shorter seq)"},
      {{"--data=FOLDER/odd.bin"},
       2,
       "FOLDER/odd.bin: has 3 bytes, expected an even number: two bytes a token"},
      {{"--vocab=100"},
       2,
       "FOLDER/text.txt: byte 0 is 116, expected less than vocab 100 (use a larger vocab, 256 takes any "
       "text)"},
      {{"--data=FOLDER/large.bin"},
       2,
       "FOLDER/large.bin: token 50 is 256, expected less than vocab 256 (use a larger vocab)"},
      {{"--model=bert", "--masked=14"},
       2,
       "--masked: is 14, but three tokens of seq 16 are [CLS] and [SEP]; expected 13 or fewer"},
      {{"--model=bert", "--masked=1", "--seq=3"},
       2,
       "--seq: is 3; [CLS] and [SEP] are three of its tokens, expected 4 or more"},
      {{"--model=bert", "--masked=2", "--vocab=3"},
       2,
       "--vocab: is 3; [CLS], [SEP] and [MASK] are its last three tokens, expected 4 or more"},
      {{"--model=t5", "--objective=spans", "--decoder-seq=4"},
       2,
       "--decoder-seq: is 4; a span has three tokens and a mark, and one more mark ends all, expected 5 or "
       "more"},
      {{"--model=t5", "--objective=spans", "--decoder-seq=41"},
       2,
       "--seq: is 16; 10 spans are missing in it, expected 20 or more"},
      {{"--model=t5", "--objective=spans", "--decoder-seq=9", "--vocab=3"},
       2,
       "--vocab: is 3; its last 3 tokens mark spans, expected 4 or more"},
      {{"--document-length=4", "--document-end=256"}, 2, "--document-end: is 256, expected below vocab 256"},
      {{"--document-length=4", "--document-end=1"},
       2,
       "--document-end: is 1, which the data does not have (give the token that ends its documents)"},
      {{"--document-end=10"}, 2, "--document-end: has no effect unless document_length is given"},
      {{"--steps=0"}, 2, "--steps: got \"0\", expected a whole number from 1 to 1000000000"},
      {{"--warmup-steps=6"}, 2, "--warmup-steps: 6 of 6 steps (leave some for training)"},
      {{"--lr-schedule=constant", "--min-learning-rate=0.0001"},
       2,
       "--min-learning-rate: has no effect unless lr_schedule is cosine"},
      {{"--learning-rate=0.01", "--min-learning-rate=0.5"},
       2,
       "--min-learning-rate: is 0.5, expected at most learning_rate 0.01"},
      {{"--validation-batches=2"}, 2, "--validation-batches: needs validate_every"},
      {{"--validate-every=2", "--validation-fraction=0.001"},
       2,
       "--validation-fraction: holds back 3 of 3290 tokens, expected at least the 17 of a sample (use a "
       "larger "
       "one, "
       "more text or a shorter seq)"},
      {{"--validate-every=2", "--validation-fraction=0.0001"},
       2,
       "--validation-fraction: holds back 0 of 3290 tokens, expected at least the 17 of a sample (use a "
       "larger one, more text or a shorter seq)"},
      {{"--validate-every=2", "--validation-fraction=0.9", "--seq=400"},
       2,
       "--validation-fraction: leaves 329 of 3290 tokens, expected at least the 401 of a sample (use a "
       "smaller "
       "one, "
       "more text or a shorter seq)"},
      {{"--trace=FOLDER/none/trace.json"},
       2,
       "FOLDER/none/trace.json: cannot be written: No such file or directory"},
      {{"--checkpoint-every=2"}, 2, "--checkpoint-every: needs checkpoint_dir"},
      {{"--resume"}, 2, "--resume: needs checkpoint_dir"},
      {{"--cuda-graph"}, 2, "--cuda-graph: needs backend cuda"},
      {{"--fast"}, 2, "--fast: needs backend cuda"},
      {{"--algorithms=x"}, 2, "--algorithms: needs backend cuda"},
      {{"--backend=cuda", "--algorithms=x"}, 2, "--algorithms: needs fast"},
      {{"--backend=cuda", "--fast", "--algorithms=FOLDER/none/chosen"},
       2,
       "FOLDER/none/chosen: cannot be written: No such file or directory"},
      {{"--share-gpus"}, 2, "--share-gpus: needs backend cuda"},
      {{"--collective-timeout=60"}, 2, "--collective-timeout: needs backend cuda"},
      {{"--backend=cuda", "--cuda-graph", "--probe"},
       2,
       "--probe: shows a step act by act; leave it out, or train with --cuda-graph false"},
      {{"--backend=cuda", "--cuda-graph", "--trace=t.json"},
       2,
       "--trace: shows a step act by act; leave it out, or train with --cuda-graph false"},
      {{"--init-from=FOLDER/none.safetensors"},
       2,
       "FOLDER/none.safetensors: cannot be read: No such file or directory"},
      {{"--init-from=FOLDER"}, 2, "FOLDER: cannot be read: it is a folder"},
      {{"--init-from=FOLDER/short.txt"}, 2, "FOLDER/config.json: cannot be read: No such file or directory"},
      {{"--backend=gpu"}, 2, "--backend: got \"gpu\", expected cpu, cuda (did you mean cuda?)"},
      {{"--backend=tpu"}, 2, "--backend: got \"tpu\", expected cpu, cuda (did you mean cpu?)"},
      {{"--tp=3"}, 2, "--tp: 3 does not divide heads 4 (use 1, 2 or 4)"},
  };
  for (const Refusal& refusal : cases) {
    Words flags;
    for (const std::string& flag : refusal.flags)
      flags.push_back(replace_all(flag, "FOLDER", folder_.string()));
    const Output output = run_program(arguments(flags));
    EXPECT_EQ(output.exit_code, refusal.exit_code) << flags[0];
    EXPECT_EQ(replace_all(output.err, folder_.string(), "FOLDER"), "boxcar: " + refusal.message + "\n");
    EXPECT_EQ(output.out, "") << flags[0];
  }
}

// File names are bytes; JSON is text.
TEST_F(Train, TakesAnyNameOfAFolder) {
  const Output output = run_program(arguments({"--checkpoint-dir=" + path("\xff"), "--steps=1"}));
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("/\xef\xbf\xbd/step-000001\""));
  EXPECT_TRUE(fs::exists(path("\xff") + "/step-000001"));
}

// A process needs a thread for each queue of its devices. Limits do not apply to root, so another user runs
// it.
TEST_F(Train, SaysHowManyThreadsItGot) {
  const Words words = arguments({"--dp=64", "--global-batch=128"});
  const std::string err = path("err");
  const pid_t child = fork();
  if (child == 0) {
    const rlimit few{20, 20};
    if (!freopen(err.c_str(), "w", stderr) || setrlimit(RLIMIT_NPROC, &few) != 0) _exit(126);
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(126);
    run(words);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) >= 126) GTEST_SKIP() << "nobody else may run the program";
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(bytes_of(err),
              MatchesRegex("boxcar: threads: [0-9]+ of [0-9]+ could be had: Resource temporarily unavailable "
                           ".use fewer devices in a process, or raise `ulimit -u`.\n"));
}

TEST_F(Train, NeedsMemoryForAllDevices) {
  const Output output = run_program(arguments({"--dp=64", "--hidden=16384", "--micro-batch=1"}));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(
      output.err,
      MatchesRegex("boxcar: does not fit: devices of the plan need [0-9.]+ TB on this machine, which has "
                   "[0-9.]+ [MGT]B .use more machines, or a smaller model, micro_batch or seq.\n"));
}

TEST_F(Train, EndsWhereNobodyCanReadIt) {
  const pid_t child = fork();
  if (child == 0) run(arguments({}), "/dev/full");
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

// The missing part depends on the machine: CUDA at build time, a driver, a GPU; or nothing is missing.
TEST_F(Train, SaysWhyItCannotTrainOnGpus) {
  const Output output = run_program(arguments({"--backend=cuda"}));
  if (output.exit_code == 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err,
              MatchesRegex(
                  "boxcar: cuda: (this program was built without CUDA; build it where nvcc is found, with "
                  "-DBOXCAR_CUDA=ON, or use --backend cpu|"
                  "no NVIDIA driver answers on this machine; install one for CUDA [0-9]+.[0-9]+ or later, or "
                  "use --backend cpu|"
                  "no GPU is visible to this process .look at CUDA_VISIBLE_DEVICES, or use --backend "
                  "cpu.)\n"));
}

// The step and value at which the loss diverges depend on the processor's rounding.
TEST_F(Train, EndsWhereTheLossIsNoNumber) {
  const std::string folder = path("out");
  const Words job{"--checkpoint-dir=" + folder, "--optimizer=sgd", "--lr-schedule=constant"};
  const auto with = [&](const Words& more) {
    Words words = job;
    words.insert(words.end(), more.begin(), more.end());
    return arguments(words);
  };
  ASSERT_EQ(run_program(with({"--steps=2"})).exit_code, 0);
  const auto good = checkpoint(folder);
  const Output output = run_program(with({"--resume", "--learning-rate=1e6", "--clip-norm=0", "--steps=60"}));
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.err,
              MatchesRegex("boxcar: device 0: loss: step [0-9]+: the loss is -?(nan|inf) "
                           "\\(use a lower learning_rate, warmup_steps or another precision\\); the last "
                           "checkpoint is " +
                           folder + "/step-000002\n"));
  EXPECT_EQ(checkpoint(folder), good);
}

}  // namespace
}  // namespace boxcar::tests
