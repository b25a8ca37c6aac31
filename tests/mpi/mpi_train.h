// `boxcar train` over several processes, as a user starts it by mpirun.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace boxcar::tests {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::MatchesRegex;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

inline constexpr std::chrono::seconds too_long{100};  // ends a hanging run and fails the test

inline std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

#ifdef BOXCAR_MPIRUN
inline constexpr const char* mpirun = BOXCAR_MPIRUN;
#else
inline constexpr const char* mpirun = nullptr;
#endif

// A folder with a text to train on. Skipped if there is no mpirun.
class MpiTrain : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!mpirun) GTEST_SKIP() << "no MPI was found when this was configured";
    std::string name = (fs::temp_directory_path() / "boxcar-mpi-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 60; ++i) text << "the trains run on time, line " << i << ", and so do the boxcars\n";
  }
  void TearDown() override { fs::remove_all(folder_); }  // also removes files of killed processes

  // 0: without mpirun. `shell`: sh code that each process runs first, with $rank.
  Words command(int processes, const Words& more, const std::string& shell = "") const {
    Words words;
    if (processes > 0)
      words = {mpirun, "--allow-run-as-root",    "--oversubscribe", "--bind-to", "none",
               "-n",   std::to_string(processes)};
    const Words before{"/bin/sh", "-c", "rank=$OMPI_COMM_WORLD_RANK; " + shell + "; exec \"$@\"", "sh"};
    if (!shell.empty()) words.insert(words.end(), before.begin(), before.end());
    const Words job{BOXCAR_PROGRAM,
                    "train",
                    "--model=gpt",
                    "--layers=2",
                    "--hidden=16",
                    "--heads=4",
                    "--seq=16",
                    "--vocab=256",
                    "--dropout=0.1",
                    "--data=" + (folder_ / "text.txt").string(),
                    "--micro-batch=2",
                    "--global-batch=16",
                    "--lr-schedule=constant",
                    "--json"};
    words.insert(words.end(), job.begin(), job.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  pid_t start(const Words& words) const {
    fs::remove(folder_ / "out");
    fs::remove(folder_ / "err");
    const pid_t child = fork();
    if (child != 0) return child;
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const auto redirect = [&](const char* name, int target) {
      dup2(open((folder_ / name).c_str(), O_WRONLY | O_CREAT, 0600), target);
    };
    redirect("out", STDOUT_FILENO);
    redirect("err", STDERR_FILENO);
    // OpenMPI puts a run's folder into one shared by all runs, which the last run to end removes.
    setenv("TMPDIR", folder_.c_str(), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  // The exit code; -1 if the run had to be killed.
  static int end_of(pid_t child) {
    int status = 0;
    for (const auto end = Clock::now() + too_long; waitpid(child, &status, WNOHANG) == 0;) {
      if (Clock::now() > end) {
        kill(child, SIGTERM);
        waitpid(child, &status, 0);
        return -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string out() const { return content_of(folder_ / "out"); }
  std::string err() const { return content_of(folder_ / "err"); }
  // Boxcar's error output, without mpirun's lines.
  std::string said() const {
    std::istringstream lines(err());
    std::string text;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("boxcar: ") || line.starts_with("process ")) text += line + "\n";
    return text;
  }
  // Repeats a run that must end the same way although its processes race.
  void expect_end(int times, const Words& words, int exit_code,
                  const ::testing::Matcher<std::string>& message) const {
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(end_of(start(words)), exit_code) << err();
      EXPECT_THAT(said(), message) << err();
    }
  }

  std::map<int, double> train(int processes, const Words& more) const {
    EXPECT_EQ(end_of(start(command(processes, more))), 0) << err();
    return losses();
  }
  // Losses by step of the run that has ended.
  std::map<int, double> losses() const {
    std::map<int, double> losses;
    std::istringstream lines(out());
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("event") == "step") losses[event.at("step")] = event.at("loss");
    }
    return losses;
  }

  // The last checkpoint is whole: training makes two more steps from it.
  void expect_goes_on(const std::string& folder, Words plan) const {
    const int step = std::stoi(content_of(folder + "/latest").substr(5));  // "step-000020"
    plan.insert(plan.end(),
                {"--checkpoint-dir=" + folder, "--resume", "--steps=" + std::to_string(step + 2)});
    const auto losses = train(4, plan);
    EXPECT_EQ(losses.size(), 2u);
    EXPECT_EQ(losses.begin()->first, step + 1);
  }

  // The process of a rank, by the environment that mpirun gave it.
  static pid_t process_of(pid_t run, int rank) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string id = entry.path().filename();
      if (id.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string status = content_of(entry.path() / "status");
      if (status.find("\nPPid:\t" + std::to_string(run) + "\n") == std::string::npos) continue;
      const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
      const std::string environment = content_of(entry.path() / "environ");
      if (environment.find(variable + '\0') != std::string::npos) return std::stoi(id);
    }
    return -1;
  }

  // Waits until a condition holds; a hanging test continues and fails.
  template <typename Holds>
  static void wait_until(Holds holds) {
    for (const auto end = Clock::now() + too_long; !holds() && Clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Waits until `sign` is in the output.
  void wait_for(const std::string& sign) const {
    wait_until([&] { return out().find(sign) != std::string::npos; });
  }

  // Starts an endless run and signals its process of this rank once `sign` is in the output.
  int run_and_signal(int rank, int signal, const std::string& sign, Words more, int processes = 4) const {
    more.push_back("--steps=1000000");
    // Processes that mpirun ends get three seconds for their messages, not one: machines may be busy.
    setenv("OMPI_MCA_odls_base_sigkill_timeout", "3", 1);
    const pid_t run = start(command(processes, more));
    wait_for(sign);
    const pid_t process = process_of(run, rank);
    EXPECT_GT(process, 0) << err();
    if (process > 0) kill(process, signal);
    unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
    return end_of(run);
  }

  fs::path folder_;
};

}  // namespace boxcar::tests
