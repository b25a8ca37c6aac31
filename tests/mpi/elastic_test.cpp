// scripts/elastic: a run that loses a process, and gets other devices, has the losses of one device.
#include "mpi_train.h"

namespace boxcar::tests {
namespace {

using ::testing::HasSubstr;

#ifdef BOXCAR_PYTHON
constexpr const char* python = BOXCAR_PYTHON;
#else
constexpr const char* python = nullptr;
#endif

class Elastic : public MpiTrain {
 protected:
  void SetUp() override {
    MpiTrain::SetUp();
    if (!python) GTEST_SKIP() << "no Python 3 was found when this was configured";
    std::ofstream(folder_ / "job.yaml")
        << "model: {family: gpt, layers: 3, hidden: 16, heads: 2, seq: 16, vocab: 256, dropout: 0}\n"
           "cluster: {preset: local}\n"
           "train: {global_batch: 6, precision: fp64, optimizer: sgd, learning_rate: 0.01}\n";
  }

  // `hosts` is sh code in the test's folder; `run` are flags of training.
  Words elastic(const std::string& hosts, const Words& run, const Words& more = {}) const {
    Words words{python,
                BOXCAR_SOURCE_DIR "/scripts/elastic",
                folder_ / "job.yaml",
                "--hosts=cd '" + folder_.string() + "'; " + hosts,
                "--look=0.1",
                "--program=" BOXCAR_PROGRAM};
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("--");
    words.insert(words.end(), run.begin(), run.end());
    return words;
  }

  Words training(int steps) const {
    return {"--data=" + (folder_ / "text.txt").string(), "--steps=" + std::to_string(steps),
            "--lr-schedule=constant", "--json"};
  }

  static pid_t mpirun_of(pid_t run) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string status = content_of(entry.path() / "status");
      if (status.starts_with("Name:\tmpirun\n") &&
          status.find("\nPPid:\t" + std::to_string(run) + "\n") != std::string::npos)
        return std::stoi(entry.path().filename());
    }
    return -1;
  }
};

TEST_F(Elastic, GoesOnWithTheDevicesThatAreThere) {
  const int steps = 400;
  Words words{BOXCAR_PROGRAM, "train", folder_ / "job.yaml"};
  const Words run = training(steps);
  words.insert(words.end(), run.begin(), run.end());
  ASSERT_EQ(end_of(start(words)), 0) << err();
  const auto alone = losses();

  // Three devices; two between the loss of a process and step 200, then three again.
  Words saved = run;
  saved.insert(saved.end(), {"--checkpoint-dir=" + (folder_ / "run").string(), "--checkpoint-every=10"});
  const std::string hosts =
      "if [ -e lost ] && [ \"$(cat run/latest)\" \\< step-000200 ]; then echo localhost:2; else echo "
      "localhost:3; fi";
  const pid_t parent = start(elastic(hosts, saved));
  wait_for("\"checkpoint\"");
  std::ofstream(folder_ / "lost");
  const pid_t process = process_of(mpirun_of(parent), 1);
  ASSERT_GT(process, 0) << err();
  kill(process, SIGKILL);
  ASSERT_EQ(end_of(parent), 0) << err();

  EXPECT_THAT(err(),
              ContainsRegex("elastic: starts on 3 devices by [^\n]*/run-plans/3.txt, from the beginning\n"));
  EXPECT_THAT(err(),
              ContainsRegex("elastic: the run was lost with exit code 137\n"
                            "elastic: starts on 2 devices by [^\n]*/run-plans/2.txt, from step-000[0-9]+\n"));
  EXPECT_THAT(err(),
              ContainsRegex("elastic: other hosts can be used: the run ends here and goes on with them\n"));
  EXPECT_THAT(err(),
              ContainsRegex("elastic: starts on 3 devices by [^\n]*/run-plans/3.txt, from step-000[2-4]"));
  const auto found = losses();
  ASSERT_EQ(found.size(), alone.size());
  for (const auto& [step, loss] : alone) EXPECT_NEAR(found.at(step), loss, 1e-9) << step;
}

TEST_F(Elastic, TakesAsManyDevicesAsHaveAPlan) {
  Words saved = training(4);
  saved.insert(saved.end(), {"--checkpoint-dir=" + (folder_ / "run").string(), "--checkpoint-every=10"});
  // Seven devices cannot share six sequences or three layers.
  ASSERT_EQ(end_of(start(elastic("echo localhost:7", saved))), 0) << err();
  EXPECT_THAT(err(), ContainsRegex("elastic: starts on 6 devices by "));
}

TEST_F(Elastic, SaysWhatKeepsARunFromStarting) {
  const auto expect = [&](const Words& words, int code, const ::testing::Matcher<std::string>& message) {
    EXPECT_EQ(end_of(start(words)), code);
    EXPECT_THAT(err(), message);
  };
  const std::string folder = "--checkpoint-dir=" + (folder_ / "run").string(),
                    every = "--checkpoint-every=10";
  expect(elastic("echo localhost:1", {every}), 2,
         HasSubstr("--checkpoint-dir is missing after --: without checkpoints nothing can go on"));
  expect(elastic("echo localhost:1", {folder}), 2, HasSubstr("--checkpoint-every is missing after --"));
  expect(elastic("echo localhost", {folder, every}), 2,
         HasSubstr("elastic: --hosts: got \"localhost\", expected host:devices such as alpha:4\n"));
  expect(elastic("exit 3", {folder, every}), 2, HasSubstr("elastic: --hosts: ended with 3\n"));
  expect(elastic("echo localhost:7", {folder, every}, {"--least=7"}), 1,
         HasSubstr("no combination of degrees is legal"));
  expect(elastic("echo localhost:1", {folder, every}, {"--program=/none/boxcar"}), 2,
         HasSubstr("--program: /none/boxcar is no program"));
  expect(elastic("echo localhost:1", {folder, every, "--data=none.txt"}), 2,
         HasSubstr("none.txt: cannot be read"));
  std::ofstream(folder_ / "job.yaml", std::ios::app) << "run: {steps: 4}\n";
  expect(elastic("echo localhost:1", {folder, every}), 2,
         HasSubstr("job.yaml: section run is not read here; give its keys as flags after --"));
}

// A line that --hosts prints by mistake changes nothing, and a signal leaves no process behind.
TEST_F(Elastic, EndsItsRunWhenItIsEnded) {
  Words endless = training(1000000);
  endless.insert(endless.end(), {"--checkpoint-dir=" + (folder_ / "run").string(), "--checkpoint-every=10"});
  const pid_t parent = start(elastic("if [ -e lost ]; then echo hello; else echo localhost:2; fi", endless));
  wait_for("\"checkpoint\"");
  std::ofstream(folder_ / "lost");
  wait_until([&] { return err().find("--hosts: got \"hello\"") != std::string::npos; });
  const pid_t mpirun = mpirun_of(parent), process = process_of(mpirun, 0);
  ASSERT_GT(process, 0) << err();
  kill(parent, SIGTERM);
  EXPECT_EQ(end_of(parent), 128 + SIGTERM);
  EXPECT_FALSE(fs::exists("/proc/" + std::to_string(mpirun)));
  wait_until([&] { return !fs::exists("/proc/" + std::to_string(process)); });
  EXPECT_FALSE(fs::exists("/proc/" + std::to_string(process)));
}

TEST_F(Elastic, GivesUpWhereNoCheckpointIsMade) {
  const fs::path program = folder_ / "dies";
  std::ofstream(program) << "#!/bin/sh\n[ \"$1\" = search ] || kill -9 $$\n";
  fs::permissions(program, fs::perms::owner_all);
  const Words words =
      elastic("echo localhost:1", {"--checkpoint-dir=" + (folder_ / "run").string(), "--checkpoint-every=1"},
              {"--program=" + program.string(), "--restarts=1"});
  EXPECT_EQ(end_of(start(words)), 137);
  const std::string lost = "elastic: the run was lost with exit code 137\n";
  const size_t first = err().find(lost);
  ASSERT_NE(first, std::string::npos) << err();
  const size_t second = err().find(lost, first + 1);
  ASSERT_NE(second, std::string::npos) << err();
  EXPECT_EQ(err().find(lost, second + 1), std::string::npos) << err();
}

}  // namespace
}  // namespace boxcar::tests
