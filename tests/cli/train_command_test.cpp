// `boxcar train` as a user runs it: losses that fall, runs that go on where they stopped, whole messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "backends/host/checkpoint.h"
#include "support/run_program.h"

namespace boxcar::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Words = std::vector<std::string>;

// In a child process: becomes the program; what it prints goes to `out`.
[[noreturn]] void run(const Words& words, const char* out = "/dev/null") {
  std::vector<char*> argv{const_cast<char*>(BOXCAR_PROGRAM)};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  if (!freopen(out, "w", stdout)) _exit(126);
  execv(BOXCAR_PROGRAM, argv.data());
  _exit(127);
}

// A folder with a text to train on.
class Train : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("boxcar-train-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    std::ofstream text(data());
    for (int i = 0; i < 60; ++i) text << "the trains run on time, line " << i << ", and so do the boxcars\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string data() const { return path("text.txt"); }

  Words arguments(const Words& more) const {
    Words words{"train",       "--model=gpt", "--layers=2",       "--hidden=16", "--heads=4",      "--seq=16",
                "--vocab=256", "--steps=6",   "--data=" + data(), "--json",      "--micro-batch=2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The losses by step, of training or validation.
  static std::map<int, double> losses(const std::string& out, const std::string& event = "step") {
    std::map<int, double> result;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line);
      if (j.at("event") == event) result[j.at("step")] = j.at("loss");
    }
    return result;
  }

  std::map<int, double> train(const Words& more) const {
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out);
  }

  static std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // All files of the newest checkpoint.
  static std::map<std::string, std::string> checkpoint(const std::string& folder) {
    std::map<std::string, std::string> files;
    std::ifstream latest(folder + "/latest");
    std::string name;
    latest >> name;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / name))
      files[entry.path().filename()] = bytes_of(entry.path());
    return files;
  }

  fs::path folder_;
};

TEST_F(Train, EverySplitHasTheSingleDevicesLosses) {
  const Words job{"--global-batch=8", "--precision=fp64", "--dropout=0.1"};
  const auto with = [&](Words more) {
    more.insert(more.end(), job.begin(), job.end());
    return train(more);
  };
  const auto alone = with({});
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_LT(alone.at(6), alone.at(1));
  for (Words plan : {Words{"--dp=4"}, Words{"--tp=2", "--pp=2"}, Words{"--dp=2", "--tp=2", "--zero=3"},
                     Words{"--dp=2", "--cp=2", "--zero=1", "--recompute=full"}}) {
    const auto split = with(plan);
    plan.push_back("--chaos=5");
    EXPECT_EQ(with(plan), split) << plan[0];
    for (const auto& [step, loss] : alone)
      EXPECT_NEAR(split.at(step), loss, 1e-9 * loss) << plan[0] << " step " << step;
  }
}

// Dark ones and bright ones.
TEST_F(Train, TellsImagesApart) {
  std::mt19937 random(3);
  std::ofstream file(path("images.bin"), std::ios::binary);
  for (int image = 0; image < 24; ++image) {
    file.put(static_cast<char>(image % 2)).put(0);
    for (int byte = 0; byte < 3 * 32 * 32; ++byte)
      file.put(static_cast<char>(random() % 128 + (image % 2 == 0 ? 0 : 128)));
  }
  file.close();
  const Words job{"train",
                  "--model=resnet",
                  "--layers=16",
                  "--hidden=4",
                  "--image=32",
                  "--vocab=2",
                  "--steps=16",
                  "--micro-batch=12",
                  "--global-batch=24",
                  "--optimizer=momentum",
                  "--learning-rate=0.05",
                  "--clip-norm=0",
                  "--data=" + path("images.bin")};
  const auto run_with = [&](Words more) {
    more.insert(more.begin(), job.begin(), job.end());
    const Output output = run_program(more);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return output.out;
  };
  const auto alone = losses(run_with({"--json", "--precision=fp64"}));
  ASSERT_EQ(alone.size(), 16u);
  EXPECT_LT(alone.at(16), 0.5 * alone.at(1));
  // Batch norm takes the images of a device.
  const auto two = losses(run_with({"--json", "--precision=fp64", "--dp=2"}));
  EXPECT_EQ(losses(run_with({"--json", "--precision=fp64", "--dp=2", "--chaos=2"})), two);
  EXPECT_NEAR(two.at(4), alone.at(4), 1e-9);
  EXPECT_THAT(run_with({"--data=random"}), AllOf(HasSubstr(": 24 images a step;"), HasSubstr(" images/s")));
}

TEST_F(Train, SaysHowItGoesOnInJson) {
  const Output output = run_program(arguments({"--validate-every=3", "--validation-fraction=0.2"}));
  ASSERT_EQ(output.exit_code, 0) << output.err;
  std::string events;
  json last;
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line);
    events += last.at("event").get<std::string>() + " ";
    if (last.at("event") != "step") continue;
    for (const char* key : {"step", "loss", "learning_rate", "step_time_s", "samples", "tokens_per_s"})
      EXPECT_TRUE(last.contains(key)) << key;
  }
  EXPECT_EQ(events, "start step step step validation step step step validation end ");
  EXPECT_EQ(last.at("step"), 6);
}

TEST_F(Train, ValidatesAlikeUnderEveryPlan) {
  const auto validation = [&](Words more) {
    more.insert(more.end(), {"--validate-every=2", "--validation-fraction=0.2", "--precision=fp64",
                             "--global-batch=8", "--dropout=0.1", "--validation-batches=3"});
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out, "validation");
  };
  const auto alone = validation({});
  ASSERT_EQ(alone.size(), 3u);
  EXPECT_LT(alone.at(6), alone.at(2));
  for (const auto& [step, loss] : validation({"--dp=2", "--tp=2", "--pp=2", "--zero=1"}))
    EXPECT_NEAR(loss, alone.at(step), 1e-9 * loss) << step;
  // In float32, whose sums are in another order where fewer sequences go at once.
  for (const auto& [step, loss] : validation({"--dp=2", "--micro-batch=4"}))
    EXPECT_NEAR(loss, alone.at(step), 1e-6 * loss) << step;
  for (const auto& [step, loss] : validation({"--dp=8", "--micro-batch=1"}))
    EXPECT_NEAR(loss, alone.at(step), 1e-6 * loss) << step;
}

TEST_F(Train, ReadsTokensAsItReadsText) {
  std::ofstream tokens(path("text.bin"), std::ios::binary);
  for (const char c : bytes_of(data())) tokens << c << '\0';
  tokens.close();
  const auto text = train({});
  EXPECT_EQ(text.size(), 6u);
  EXPECT_EQ(train({"--data=" + path("text.bin")}), text);
}

// Weights that a run without learning wrote are those that it began with.
TEST_F(Train, BeginsWithGivenWeights) {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string folder = path(family);
    train({"--model=" + family, "--learning-rate=0", "--steps=1", "--checkpoint-dir=" + folder});
    const auto drawn = train({"--model=" + family});
    const Output output =
        run_program({"train", "--init-from=" + folder + "/step-000001/model.safetensors", "--data=" + data(),
                     "--seq=16", "--steps=6", "--micro-batch=2", "--json"});
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(losses(output.out), drawn) << family;
  }
  const std::string weights = path("gpt") + "/step-000001/model.safetensors";
  const Output other =
      run_program({"train", "--init-from=" + weights, "--data=" + data(), "--seq=16", "--vocab=300"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_EQ(other.err,
            "boxcar: " + weights +
                ": weights: 'transformer.wte.weight' is float32[256, 16], expected float32[300, 16]\n");
}

TEST_F(Train, TellsItsOwnDefaults) {
  const std::string help = run_program({"train", "--help"}).out;
  EXPECT_THAT(
      help,
      HasSubstr(
          "type of the products; fp64: of everything; fp8: of those in layers, simulated alone [fp32]\n"));
  EXPECT_THAT(help, HasSubstr("learning rate [0.001]\n"));
  EXPECT_THAT(help, HasSubstr("or a YAML file [local]\n"));
}

TEST_F(Train, ShowsABarOnATerminal) {
  int terminal = -1, end = -1;
  ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, nullptr), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(end, STDERR_FILENO);
    close(terminal);
    Words words = arguments({});
    std::erase(words, "--json");
    run(words);
  }
  close(end);
  std::string text;
  char part[256];
  for (ssize_t bytes = 0; (bytes = read(terminal, part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(bytes));
  close(terminal);
  waitpid(child, nullptr, 0);
  const std::string bar = "\r.\\[K\\[####\\.{20}\\] 1/6  loss 5\\.[0-9]{4}  [0-9]+ tokens/s  [0-9]+ s left";
  EXPECT_THAT(text, ContainsRegex(bar));
  EXPECT_THAT(text, ContainsRegex("\\[#{24}\\] 6/6  loss"));
}

TEST_F(Train, GoesOnBitForBit) {
  const std::string whole = path("whole"), halves = path("halves");
  const auto straight = train({"--checkpoint-dir=" + whole, "--dp=2", "--zero=1"});
  // The schedule's length is part of the job, so the first half is a run that is cut short by its own
  // checkpoint.
  const Words resume{"--checkpoint-dir=" + halves, "--dp=2",   "--zero=1",
                     "--checkpoint-every=2",       "--resume", "--keep-checkpoints=0"};
  train(resume);
  for (const char* step : {"step-000004", "step-000006"}) fs::remove_all(fs::path(halves) / step);
  std::ofstream(halves + "/latest") << "step-000002\n";
  const auto rest = train(resume);
  ASSERT_EQ(rest.size(), 4u);
  for (const auto& [step, loss] : rest) EXPECT_EQ(loss, straight.at(step)) << step;
  EXPECT_EQ(checkpoint(halves), checkpoint(whole));
}

TEST_F(Train, SaysWhereItBegins) {
  const std::string folder = path("out");
  const auto begin = [&](const std::string& steps) {
    Words words = arguments({"--checkpoint-dir=" + folder, "--resume", steps});
    std::erase(words, "--json");
    return run_program(words).out;
  };
  EXPECT_THAT(begin("--steps=2"), HasSubstr("\nno checkpoint in " + folder + " yet: from the beginning\n"));
  EXPECT_THAT(begin("--steps=3"), HasSubstr("\ngoing on from " + folder + ", step 2\n"));
}

TEST_F(Train, GoesOnUnderAnotherPlan) {
  const std::string folder = path("out");
  const Words keep{"--checkpoint-dir=" + folder, "--checkpoint-every=3", "--precision=fp64",
                   "--global-batch=8",           "--keep-checkpoints=0", "--resume"};
  const auto with = [&](Words more) {
    more.insert(more.end(), keep.begin(), keep.end());
    return train(more);
  };
  const auto first = with({"--dp=2", "--zero=1"});
  fs::remove_all(fs::path(folder) / "step-000006");
  std::ofstream(folder + "/latest") << "step-000003\n";
  const auto rest = with({"--tp=2", "--pp=2"});
  ASSERT_EQ(rest.size(), 3u);
  for (const auto& [step, loss] : rest) EXPECT_NEAR(loss, first.at(step), 1e-9) << step;
}

// 257 tokens are padded to 280 by both: to a multiple of 20 for each of two devices, and of 40.
TEST_F(Train, PadsTheVocabularyForThePlan) {
  const std::string folder = path("out");
  const auto with = [&](Words more) {
    more.insert(more.end(), {"--vocab=257", "--tied=false", "--precision=fp64", "--global-batch=4",
                             "--validate-every=2", "--validation-fraction=0.2"});
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    auto all = losses(output.out);
    for (const auto& [step, loss] : losses(output.out, "validation")) all[-step] = loss;
    return all;
  };
  const auto expect_same = [](const std::map<int, double>& got, const std::map<int, double>& wanted,
                              size_t count) {
    EXPECT_EQ(got.size(), count);
    for (const auto& [step, loss] : got) EXPECT_NEAR(loss, wanted.at(step), 1e-7) << step;
  };
  const auto alone = with({"--pad-vocab=40"});
  expect_same(with({"--tp=2", "--pad-vocab=20", "--checkpoint-dir=" + folder, "--checkpoint-every=3",
                    "--keep-checkpoints=0"}),
              alone, 9);
  fs::remove_all(fs::path(folder) / "step-000006");
  std::ofstream(folder + "/latest") << "step-000003\n";
  expect_same(with({"--pad-vocab=40", "--checkpoint-dir=" + folder, "--resume"}), alone, 5);
  const std::string weights = "--init-from=" + folder + "/step-000003/model.safetensors";
  expect_same(with({"--tp=2", "--pad-vocab=20", weights}), with({"--pad-vocab=40", weights}), 9);
}

// Starts the program and kills it after so many microseconds.
void run_and_kill(const Words& words, int microseconds) {
  const pid_t child = fork();
  if (child == 0) run(words);
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "ended by itself with " << WEXITSTATUS(status);
}

// 50 times at a random moment, many of them while a checkpoint is written.
TEST_F(Train, LosesNothingWhenKilled) {
  const std::string folder = path("killed"), whole = path("whole");
  const Words job{"--lr-schedule=constant", "--dp=2", "--dropout=0.1"};
  const auto with = [&](const std::string& into, const Words& more) {
    Words words = job;
    words.push_back("--checkpoint-dir=" + into);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words endless = arguments(with(folder, {"--resume", "--checkpoint-every=1", "--steps=1000000"}));
  std::mt19937 random(11);
  int while_writing = 0, reached = 0;
  fs::create_directory(folder);
  for (int i = 0; i < 50 || (while_writing == 0 && i < 200); ++i) {
    const int most = 150000 + 20000 * std::max(0, i - 50);  // a busy machine takes longer to begin
    run_and_kill(endless, std::uniform_int_distribution<int>(1000, most)(random));
    for (const auto& entry : fs::directory_iterator(folder))
      while_writing += entry.path().extension() == ".tmp";
    const std::string latest = fs::exists(folder + "/latest") ? bytes_of(folder + "/latest") : "step-0";
    const int step = std::stoi(latest.substr(5));
    EXPECT_GE(step, reached) << "lost";
    reached = step;
  }
  EXPECT_GT(while_writing, 0);
  const std::string steps = "--steps=" + std::to_string(reached + 1);
  train(with(folder, {"--resume", steps}));
  train(with(whole, {steps}));
  EXPECT_EQ(checkpoint(folder), checkpoint(whole));
}

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
       "data: has 9 tokens, expected at least seq + 1 = 17 (use more text or a shorter seq)"},
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
      {{"--steps=0"}, 2, "--steps: got \"0\", expected a whole number from 1 to 1000000000"},
      {{"--warmup-steps=6"}, 2, "--warmup-steps: 6 of 6 steps (leave some for training)"},
      {{"--validation-batches=2"}, 2, "--validation-batches: needs validate_every"},
      {{"--validate-every=2", "--validation-fraction=0.001"},
       2,
       "--validation-fraction: holds back 3 of 3290 tokens, expected at least seq + 1 = 17 (use a larger "
       "one, "
       "more text or a shorter seq)"},
      {{"--validate-every=2", "--validation-fraction=0.9", "--seq=400"},
       2,
       "--validation-fraction: leaves 329 of 3290 tokens, expected at least seq + 1 = 401 (use a smaller "
       "one, "
       "more text or a shorter seq)"},
      {{"--trace=FOLDER/none/trace.json"},
       2,
       "FOLDER/none/trace.json: cannot be written: No such file or directory"},
      {{"--checkpoint-every=2"}, 2, "--checkpoint-every: needs checkpoint_dir"},
      {{"--resume"}, 2, "--resume: needs checkpoint_dir"},
      {{"--cuda-graph"}, 2, "--cuda-graph: needs backend cuda"},
      {{"--fast"}, 2, "--fast: needs backend cuda"},
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
       "FOLDER/config.json: cannot be read: No such file or directory"},
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

// Names of files are bytes; JSON is text.
TEST_F(Train, TakesAnyNameOfAFolder) {
  const Output output = run_program(arguments({"--checkpoint-dir=" + path("\xff"), "--steps=1"}));
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("/\xef\xbf\xbd/step-000001\""));
  EXPECT_TRUE(fs::exists(path("\xff") + "/step-000001"));
}

// A process needs a thread for each queue of its devices. No limit holds for root, so that somebody else runs
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

// What is missing depends on the machine: CUDA when this was built, a driver, a GPU; or nothing.
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

// At which step and to what the loss goes depends on the processor's rounding.
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

// A moment that is no number spoils the weights, and the loss only in the step after.
TEST_F(Train, WritesNoCheckpointThatIsNoNumber) {
  const std::string folder = path("out");
  train({"--checkpoint-dir=" + folder, "--steps=2"});
  const std::string moments = folder + "/step-000002/optimizer.safetensors";
  std::string bytes = bytes_of(moments);
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\x7f");
  std::ofstream(moments, std::ios::binary) << bytes;
  const auto before = checkpoint(folder);
  const Output output = run_program(arguments({"--checkpoint-dir=" + folder, "--resume", "--steps=3"}));
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_EQ(replace_all(output.err, folder_.string(), "FOLDER"),
            "boxcar: step 3: ln_f.weight has a nan (use a lower learning_rate, warmup_steps or another "
            "precision); the last checkpoint is FOLDER/out/step-000002\n");
  EXPECT_EQ(checkpoint(folder), before);
}

// Another run's checkpoints are neither replaced nor removed.
TEST_F(Train, BeginsInAFolderOfItsOwn) {
  const std::string folder = path("out");
  const Words words = arguments({"--checkpoint-dir=" + folder});
  const auto refusal = [&] {
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.out, "");
    return replace_all(output.err, folder_.string(), "FOLDER");
  };
  fs::create_directories(folder);
  {
    const backends::host::HeldFolder another(folder);
    EXPECT_EQ(refusal(),
              "boxcar: FOLDER/out: another run writes its checkpoints there (wait until it ends, or use "
              "another folder)\n");
  }
  EXPECT_EQ(run_program(words).exit_code, 0);
  const auto before = checkpoint(folder);
  EXPECT_EQ(refusal(),
            "boxcar: --checkpoint-dir: FOLDER/out has checkpoints already (go on with --resume, or use "
            "another folder)\n");
  EXPECT_EQ(checkpoint(folder), before);
}

// What stands in a folder of checkpoints and cannot be gone on from.
TEST_F(Train, RefusesABadCheckpointAndLeavesIt) {
  const std::string folder = path("out");
  const Words resume{"--checkpoint-dir=" + folder, "--resume", "--steps=3"};
  const auto refusal = [&](const Words& more) {
    Words words = resume;
    words.insert(words.end(), more.begin(), more.end());
    const auto before = checkpoint(folder);
    const Output output = run_program(arguments(words));
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.out, "");
    EXPECT_EQ(checkpoint(folder), before);
    return replace_all(output.err, folder_.string(), "FOLDER");
  };
  train({"--checkpoint-dir=" + folder, "--steps=2"});
  EXPECT_EQ(refusal({"--hidden=32"}),
            "boxcar: FOLDER/out/step-000002: is of another model: hidden is 16, expected 32 (use the model's "
            "own settings, or another folder)\n");
  EXPECT_EQ(refusal({"--seed=9"}), "boxcar: --seed: is 9, the checkpoint was begun with 1\n");
  EXPECT_EQ(refusal({"--global-batch=4"}), "boxcar: --global-batch: is 4, the checkpoint was begun with 2\n");
  EXPECT_EQ(refusal({"--optimizer=sgd"}),
            "boxcar: --resume: is optimizer sgd, precision fp32, dropout 0.1, the checkpoint was begun with "
            "optimizer "
            "adam, precision fp32, dropout 0.1\n");
  std::ofstream(path("other.txt")) << bytes_of(data()) << "and more";
  const std::string other = refusal({"--data=" + path("other.txt")});
  EXPECT_TRUE(other.starts_with("boxcar: --data: is ")) << other;
  EXPECT_NE(other.find(" tokens of fingerprint "), std::string::npos) << other;
  EXPECT_NE(other.find(", the checkpoint was begun with "), std::string::npos) << other;
  EXPECT_TRUE(other.ends_with(" (give the same files, validate_every and validation_fraction)\n")) << other;
  std::ofstream(path("same.txt")) << bytes_of(data());
  EXPECT_EQ(run_program(arguments({"--checkpoint-dir=" + folder, "--resume", "--steps=2",
                                   "--data=" + path("same.txt")}))
                .exit_code,
            0);
  const fs::path weights = fs::path(folder) / "step-000002" / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1);
  EXPECT_EQ(refusal({}),
            "boxcar: FOLDER/out/step-000002/model.safetensors: is not a safetensors file: tensor "
            "'transformer.wte.weight' ends at byte 43776 of the data, which has 43775\n");
  std::ofstream(folder + "/latest") << "step-000007\n";
  fs::create_directory(fs::path(folder) / "step-000007");
  EXPECT_EQ(refusal({}),
            "boxcar: FOLDER/out/step-000007/state.json: cannot be read: No such file or directory\n");
}

}  // namespace
}  // namespace boxcar::testing
