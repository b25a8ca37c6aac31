// `boxcar sweep` as a user starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "bad_input.h"
#include "cli/sweep/runs_format.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tests::Output;
using tests::run_program;
using tests::TemporaryFile;
using tests::Words;

#define NEEDS_SQLITE() \
  if (!sweep::has_sqlite()) GTEST_SKIP() << "this build lacks SQLite"

const std::string small_model = "{family: gpt, layers: 4, hidden: 256, heads: 8, seq: 128, vocab: 1000}";

class SweepCommand : public ::testing::Test {
 protected:
  void SetUp() override { NEEDS_SQLITE(); }
  ~SweepCommand() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& text, const std::string& name = "s.yaml") const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  Output sweep(const std::string& text, const std::string& runs = "runs.db", const Words& more = {}) const {
    Words words{"sweep", write(text), "-o", path(runs)};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  // All rows by key, without what differs from run to run.
  std::map<std::string, json> rows(const std::string& runs = "runs.db", bool with_times = false) const {
    const sweep::RunsTable table = read_rows(path(runs), {.columns = sweep::runs_columns(path(runs))});
    std::map<std::string, json> all;
    for (const auto& row : table.rows) {
      json one;
      for (size_t i = 0; i < row.size(); ++i)
        if (with_times || table.columns[i] != "wall_s") one[table.columns[i]] = row[i];
      all[row[0].get<std::string>()] = one;
    }
    return all;
  }
  size_t rows_so_far(const std::string& runs = "runs.db") const {
    try {
      return read_rows(path(runs), {.columns = {"key"}}).rows.size();
    } catch (const Error&) {
      return 0;  // not there yet
    }
  }
  // Starts a sweep, and sends it a signal once the file has so many rows. The status it ended with.
  int interrupted(int signal, size_t at, const std::string& runs, const std::string& err = "err") const {
    const std::string file = path("s.yaml"), out = path(runs), log = path(err);
    const pid_t child = fork();
    if (child == 0) {
      if (!freopen(log.c_str(), "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(126);
      execl(BOXCAR_PROGRAM, "boxcar", "sweep", file.c_str(), "-o", out.c_str(), "--workers=2", nullptr);
      _exit(127);
    }
    int status = 0;
    while (rows_so_far(runs) < at && waitpid(child, &status, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(child, signal);
    waitpid(child, &status, 0);
    return status;
  }

  const std::string folder_ = tests::temporary_folder();
  const std::string small_ = "model: " + small_model + "\ncluster: dgx-a100-80g\n";
  // 96 points, 24 plans: enough to be interrupted in.
  const std::string many_ = small_ +
                            "gpus: [8, 16]\nglobal_batch: 64\ntp: [1, 2, 4]\npp: [1, 2]\nzero: [0, 1]\n"
                            "what_if: {bandwidth.link: [0.5x, 1x], latency.network: [1x, 2x]}\n";
};

TEST_F(SweepCommand, RowsAreWhatSimulatePrints) {
  const Output output = sweep(small_ + "gpus: 8\ntp: [1, 2]\nwhat_if: {bandwidth.link: [1x, 0.25x]}\n");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.err, "");
  EXPECT_EQ(output.out, path("runs.db") +
                            ": 4 points, 4 run now, 0 there before\n  4 simulated, 0 without enough "
                            "memory, 0 refused\n");
  const auto all = rows();
  ASSERT_EQ(all.size(), 4u);
  for (const auto& [key, row] : all) {
    Words words{"simulate", "--json", "--tp=" + std::to_string(row["tp"].get<int>()),
                row["what_if_bandwidth_link"] == 1 ? "--what-if=bandwidth.link=1x"
                                                   : "--what-if=bandwidth.link=0.25x"};
    words.insert(words.end(), tests::job_flags.begin(), tests::job_flags.end());
    json alone = json::parse(run_program(words).out), doc = json::parse(row["result"].get<std::string>());
    EXPECT_EQ(row["step_time_s"], alone["step_time_s"]);
    EXPECT_EQ(row["mfu"], alone["mfu"]);
    EXPECT_EQ(row["peak_memory_bytes"], alone["peak_memory_bytes"][0]);
    EXPECT_EQ(row["memory_limit_bytes"], alone["memory_limit_bytes"][0]);
    EXPECT_EQ(row["step_time_low_s"], alone["step_time_range_s"][0]);
    EXPECT_EQ(row["bound_stage"], alone["bound_by"]["stage"]);
    EXPECT_EQ(row["fits"], true);
    EXPECT_EQ(row["layers"], 4);
    EXPECT_EQ(row["tied"], true);
    EXPECT_EQ(row["precision"], "fp16");
    EXPECT_EQ(doc["comm_bytes"], alone["comm_bytes"]);
    EXPECT_EQ(doc["memory_breakdown_bytes"], alone["memory_breakdown_bytes"]);
    EXPECT_EQ(doc["configuration"], alone["configuration"]);
    json configuration = json::parse(row["configuration"].get<std::string>());
    configuration.erase("what_if.bandwidth.link");
    EXPECT_EQ(configuration, alone["configuration"]);
  }
}

TEST_F(SweepCommand, MemoryMayChangeBetweenPointsThatShareAPlan) {
  const Output output = sweep(small_ + "gpus: 8\nwhat_if: {memory: [1x, 50MB]}\n");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  for (const auto& [key, row] : rows()) {
    const bool fits = row["what_if_memory"] == 1;
    EXPECT_EQ(row["status"], fits ? "simulated" : "does not fit");
    EXPECT_EQ(row["fits"], fits);
    EXPECT_EQ(row["step_time_s"].is_null(), !fits);
    if (!fits) {
      EXPECT_THAT(row["why_not"].get<std::string>(), StartsWith("does not fit: stage0 needs "));
      EXPECT_EQ(row["memory_limit_bytes"], 50'000'000);
    }
    EXPECT_GT(row["peak_memory_bytes"], 50'000'000);
  }
}

TEST_F(SweepCommand, PointsThatAJobRefusesSayWhy) {
  const Output output = sweep(small_ + "gpus: 8..12 +4\ntp: [1, 3]\n");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  std::map<std::string, std::string> whys;
  for (const auto& [key, row] : rows())
    whys[std::to_string(row["gpus"].get<int>()) + " " + std::to_string(row["tp"].get<int>())] =
        row["why_not"].is_null() ? "" : row["why_not"].get<std::string>();
  EXPECT_EQ(whys["8 1"], "");
  EXPECT_THAT(whys["8 3"], StartsWith("parallel: tp 3 x pp 1 "));
  EXPECT_EQ(whys["12 1"],
            "cluster.gpus: 12 is not a multiple of the 8 GPUs of a node of dgx-a100-80g (use 8 or 16)");
  EXPECT_EQ(read_rows(path("runs.db"), {.where = "status = 'refused' and fits is null"}).rows.size(), 3u);
}

TEST_F(SweepCommand, EqualPointsAreOneRun) {
  const Output output = sweep(small_ + "gpus: 8\ndp: [4, 8]\ntp: [1, 2]\n");  // half of them are refused
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(sweep(small_ + "gpus: 8\ntp: [1, 2]\n").out,
            path("runs.db") +
                ": 2 points, 0 run now, 2 there before\n  2 simulated, 0 without enough memory, 0 "
                "refused\n")
      << "dp is what remains of the GPUs";
  EXPECT_THAT(sweep(small_ + "gpus: 8\nglobal_batch: [1k, 1024]\n", "other.db").out,
              HasSubstr("1 point, 1 run now, 0 there before; 1 more resolve to the same"));
}

// The framework's name is the program's too, and a file of that name lies where the program was built.
TEST_F(SweepCommand, AFileNamedAsAFrameworkIsNotReadForIt) {
  ASSERT_EQ(sweep(small_ + "gpus: 8\n").exit_code, 0);
  std::ofstream(path("boxcar")) << "a program";
  const auto back = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const Output output = sweep(small_ + "gpus: 8\n");
  std::filesystem::current_path(back);
  EXPECT_THAT(output.out, HasSubstr("1 point, 0 run now, 1 there before"));
}

TEST_F(SweepCommand, RowsDoNotDependOnTheNumberOfWorkers) {
  ASSERT_EQ(sweep(many_, "one.db", {"--workers=1"}).exit_code, 0);
  ASSERT_EQ(sweep(many_, "two.db", {"--workers=2"}).exit_code, 0);
  ASSERT_EQ(sweep(many_, "five.db", {"--workers=5"}).exit_code, 0);
  const auto one = rows("one.db");
  EXPECT_EQ(one.size(), 96u);
  EXPECT_EQ(one, rows("two.db"));
  EXPECT_EQ(one, rows("five.db"));
}

TEST_F(SweepCommand, GoesOnAfterSigkill) {
  ASSERT_EQ(sweep(many_, "whole.db").exit_code, 0);
  const auto whole = rows("whole.db");
  for (const size_t at : {0u, 1u, 7u, 40u, 90u}) {
    const std::string runs = "killed" + std::to_string(at) + ".db";
    interrupted(SIGKILL, at, runs);
    const auto before = rows_so_far(runs) > 0 ? rows(runs, true) : std::map<std::string, json>{};
    EXPECT_GE(before.size(), at);
    const Output output = sweep(many_, runs);
    ASSERT_EQ(output.exit_code, 0) << output.err;
    EXPECT_THAT(output.out, HasSubstr(std::to_string(before.size()) + " there before")) << at;
    EXPECT_EQ(rows(runs), whole) << at;
    const auto after = rows(runs, true);
    for (const auto& [key, row] : before) EXPECT_EQ(after.at(key), row) << "was run again";
    EXPECT_FALSE(std::filesystem::exists(path(runs + ".lock")));
  }
}

// Seconds of points remain when the signal comes: the sweep cannot be over before it.
TEST_F(SweepCommand, GoesOnAfterCtrlC) {
  const std::string text = small_ +
                           "gpus: [8, 16]\nglobal_batch: 64\ntp: [1, 2, 4]\npp: [1, 2]\nzero: [0, 1]\n"
                           "what_if: {latency.network: [1x, 2x, 3x, 4x, 5x, 6x, 7x, 8x, 9x, 10x],"
                           " bandwidth.link: [0.5x, 1x]}\n";
  write(text);
  const int status = interrupted(SIGINT, 5, "runs.db");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  std::ifstream err(path("err"));
  std::string line;
  std::getline(err, line);
  const size_t before = rows_so_far();
  EXPECT_LT(before, 480u);
  EXPECT_EQ(line, "boxcar: " + path("runs.db") + ": interrupted; " + std::to_string(before) +
                      " of 480 points have rows, and the same command runs the others");
  const Output output = sweep(text);
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr(std::to_string(before) + " there before"));
  EXPECT_EQ(rows().size(), 480u);
}

TEST_F(SweepCommand, ASecondOneOnTheSameFileIsRefused) {
  const sweep::RunsWriter first(path("runs.db"), runs_format(), "tp: 1\n");
  const Output output = sweep(small_ + "gpus: 8\n");
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_EQ(output.err, "boxcar: " + path("runs.db") + ": is being written by another sweep, process " +
                            std::to_string(getpid()) + " (wait for it, or give another file)\n");
}

TEST_F(SweepCommand, MayGrow) {
  ASSERT_EQ(sweep(small_ + "gpus: 8\ntp: [1, 2]\n").exit_code, 0);
  const Output output = sweep(small_ + "gpus: 8\ntp: [1, 2, 4]\n");
  EXPECT_THAT(output.out, HasSubstr("3 points, 1 run now, 2 there before"));
  const Output by_flag = sweep(small_ + "gpus: 8\ntp: [1, 2, 4]\n", "runs.db", {"--tp=4,8", "--what-if"});
  EXPECT_EQ(by_flag.err,
            "boxcar: --what-if: unknown flag (write what_if: {NAME: [1x, 2x]} in SWEEP.yaml); `boxcar sweep "
            "--help` lists all\n");
  EXPECT_THAT(sweep(small_ + "gpus: 8\ntp: [1, 2, 4]\n", "runs.db", {"--tp=4,8"}).out,
              HasSubstr("2 points, 1 run now, 1 there before"));
  const Output texts =
      tests::run_another("/usr/bin/env", {"sqlite3", path("runs.db"), "SELECT name FROM meta ORDER BY name"});
  if (texts.exit_code == 0) {
    EXPECT_EQ(texts.out, "axes\nprogram_version\nschema_version\nsweep\nsweep.1\nsweep.2\n");
  }
}

// A cluster's file may change under its name.
TEST_F(SweepCommand, AChangedClusterIsAnotherPoint) {
  const auto cluster = [&](const std::string& bandwidth) {
    write(
        "name: mine\ndevice: a100-sxm-80g\nnodes: 1\nnode: {gpus: 8, link: nvswitch, link_bandwidth: " +
            bandwidth +
            ", link_latency: 0.6e-6, pcie_bandwidth: 31e9, nics: 8, nic_bandwidth: 25e9, nic_latency: "
            "2.7e-6, "
            "host_per_op: 5e-6}\nfabric: {kind: single-switch, hop_latency: 0.5e-6}\nprice_per_gpu_hour: 3\n",
        "mine.yaml");
  };
  const std::string text = "model: " + small_model + "\ncluster: " + path("mine.yaml") + "\ngpus: 8\n";
  cluster("300e9");
  ASSERT_EQ(sweep(text).exit_code, 0);
  EXPECT_THAT(sweep(text).out, HasSubstr("1 point, 0 run now"));
  cluster("100e9");
  EXPECT_THAT(sweep(text).out, HasSubstr("1 point, 1 run now"));
  const sweep::RunsTable table = read_rows(path("runs.db"), {.columns = {"dollars_per_step", "step_time_s"}});
  ASSERT_EQ(table.rows.size(), 2u);
  for (const auto& row : table.rows)
    EXPECT_DOUBLE_EQ(row[0].get<double>(), 3 * 8 * row[1].get<double>() / 3600);
}

TEST_F(SweepCommand, APriceGivesDollars) {
  const std::string text = small_ + "gpus: 8\ntp: [1, 2]\n";
  ASSERT_EQ(sweep(text).exit_code, 0);
  const Output none = run_program({"table", path("runs.db"), "--pareto=dollars_per_step,gpus"});
  EXPECT_EQ(none.err,
            "boxcar: --pareto: no row has dollars_per_step; a sweep gives dollars where it has a price "
            "(boxcar sweep --price 2.50)\n");
  EXPECT_EQ(none.exit_code, 0);
  const auto dollars = [&](double price) {
    const sweep::RunsTable table = read_rows(
        path("runs.db"), {.where = "dollars_per_step > 0", .columns = {"dollars_per_step", "step_time_s"}});
    EXPECT_EQ(table.rows.size(), 2u);
    for (const auto& row : table.rows)
      EXPECT_DOUBLE_EQ(row[0].get<double>(), price * 8 * row[1].get<double>() / 3600);
  };
  // Another price is another point, as another description of the cluster is.
  EXPECT_THAT(sweep("price: 2.5\n" + text).out, HasSubstr("2 points, 2 run now"));
  dollars(2.5);
  std::filesystem::remove(path("runs.db"));
  EXPECT_EQ(sweep("price: 2.5\n" + text, "runs.db", {"--price=4"}).exit_code, 0);
  dollars(4);
  EXPECT_EQ(run_program({"table", path("runs.db"), "--pareto=dollars_per_step"}).err, "");
}

TEST_F(SweepCommand, ARefusedPointHasItsConstantInTheSameUnit) {
  EXPECT_EQ(sweep(small_ + "gpus: 8\ntp: [1, 3]\nwhat_if: {bandwidth.network: [25GB/s]}\n").exit_code, 0);
  const auto all = rows();
  ASSERT_EQ(all.size(), 2u);
  for (const auto& [key, row] : all) EXPECT_EQ(row["what_if_bandwidth_network"], 25e9) << row["status"];
}

TEST_F(SweepCommand, SearchesEachPoint) {
  const Output output =
      sweep("search: true\n" + small_ +
            "gpus: 8\nglobal_batch: [64, 128]\npp: 1\nwhat_if: {bandwidth.link: [1x, 0.1x]}\n");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const auto all = rows();
  ASSERT_EQ(all.size(), 4u);
  for (const auto& [key, row] : all) {
    Words words{
        "search", "--json", "--pp=1", "--global-batch=" + std::to_string(row["global_batch"].get<int>()),
        row["what_if_bandwidth_link"] == 1 ? "--what-if=bandwidth.link=1x" : "--what-if=bandwidth.link=0.1x"};
    words.insert(words.end(), tests::job_flags.begin(), tests::job_flags.end());
    const json alone = json::parse(run_program(words).out),
               doc = json::parse(row["result"].get<std::string>());
    EXPECT_EQ(row["step_time_s"], alone["step_time_s"]);
    EXPECT_EQ(row["flags"], alone["flags"]);
    EXPECT_EQ(doc["candidates"], alone["candidates"]);
    EXPECT_EQ(row["searched"], true);
    EXPECT_EQ(row["pp"], 1);
    EXPECT_EQ(std::to_string(row["tp"].get<int>()),
              alone["best"]["configuration"]["parallel.tp"].get<std::string>());
  }
}

TEST_F(SweepCommand, SearchesWithinWhatAFrameworkRuns) {
  const std::string text = small_ + "gpus: 8\nglobal_batch: [64, 128]\nsearch: true\n";
  const Output output = sweep(text + "max_stack: megatron\n");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(
      output.err,
      "boxcar: --max-stack: steps are simulated as boxcar runs them; --stack megatron simulates them as "
      "megatron does\n");
  const auto all = rows();
  ASSERT_EQ(all.size(), 2u);
  for (const auto& [key, row] : all) {
    Words words{"search", "--json", "--max-stack=megatron",
                "--global-batch=" + std::to_string(row["global_batch"].get<int>())};
    words.insert(words.end(), tests::job_flags.begin(), tests::job_flags.end());
    const json alone = json::parse(run_program(words).out);
    EXPECT_EQ(row["step_time_s"], alone["step_time_s"]);
    EXPECT_EQ(row["flags"], alone["flags"]);
    EXPECT_EQ(row["max_stack"], "megatron");
  }
  // Other limits are other points, and points outside of them say so.
  EXPECT_EQ(sweep(text).exit_code, 0);
  EXPECT_EQ(rows().size(), 4u);
  EXPECT_THAT(sweep(text + "max_stack: torchtitan\n", "other.db").err,
              HasSubstr("torchtitan runs false alone"));
}

TEST_F(SweepCommand, WithoutAPointThatRunsTheCommandFails) {
  const Output output = sweep("model: gpt3-175b\ncluster: dgx-a100-80g\ngpus: [8, 16]\n");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out, HasSubstr("  0 simulated, 2 without enough memory, 0 refused"));
  EXPECT_EQ(output.err, "boxcar: no point can be run; `boxcar table " + path("runs.db") +
                            " --columns point,why_not` says why\n");
}

TEST_F(SweepCommand, RefusesWhatEveryPointLacks) {
  const Output output = sweep("model: gpt2\ngpus: [8, 16]\n");
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_EQ(output.err, "boxcar: cluster.preset: missing; give it in the job file or as --cluster\n");
  EXPECT_FALSE(std::filesystem::exists(path("runs.db")));
}

TEST_F(SweepCommand, RefusesFlagsAndPaths) {
  const std::string file = write(small_ + "gpus: 8\n");
  const tests::CommandCase cases[] = {
      {{}, 2, "--output: missing; `boxcar sweep --help` says more"},
      {{"-o", path("r.db")}, 2, "SWEEP.yaml: missing; `boxcar sweep --help` says more"},
      {{file, file, "-o", path("r.db")}, 2, file + ": one sweep at a time; " + file + " was given too"},
      {{"none.yaml", "-o", path("r.db")}, 2, "none.yaml: cannot be read; check the path"},
      {{file, "-o", file}, 2, "--output: " + file + " is the same file as SWEEP.yaml"},
      {{file, "-o", path("r.db"), "--workers=0"},
       2,
       "--workers: got \"0\", expected a whole number from 1 to 1024"},
      {{file, "-o", path("r.db"), "--worker=2"},
       2,
       "--worker: unknown flag (did you mean --workers?); `boxcar sweep --help` lists all"},
      {{file, "-o", path("r.db"), "--tp=1..x"},
       2,
       "--tp: got \"1..x\", expected a range such as 1..4, 8..64 x2 or 0..12 +4"},
      {{file, "-o", path("no/r.db")}, 2, path("no/r.db") + ": cannot be written: No such file or directory"},
      {{file, "-o", folder_}, 2, folder_ + ": cannot be written: Is a directory"},
      {{file, "-o", "/dev/null"}, 2, "/dev/null: is no regular file (give another name)"},
  };
  tests::expect_refused({"sweep"}, cases);
}

TEST_F(SweepCommand, RefusesFilesThatAreNotItsOwn) {
  const std::string text = small_ + "gpus: 8\n", file = write(text);
  std::ofstream(path("text.db")) << std::string(5000, 'a');
  EXPECT_EQ(run_program({"sweep", file, "-o", path("text.db")}).err,
            "boxcar: " + path("text.db") +
                ": is no file of runs, which `boxcar sweep` writes (give another name)\n");
  std::ifstream in(path("text.db"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), std::string(5000, 'a')) << "was changed";
  ASSERT_EQ(sweep(text).exit_code, 0);
  {  // the middle of a page is lost
    std::fstream runs(path("runs.db"), std::ios::in | std::ios::out | std::ios::binary);
    runs.seekp(3 * 4096);
    runs << std::string(4096, '\x7e');
  }
  const Output damaged = run_program({"sweep", file, "-o", path("runs.db")});
  EXPECT_EQ(damaged.exit_code, 2);
  EXPECT_THAT(damaged.err, HasSubstr(": is damaged ("));
}

TEST_F(SweepCommand, RefusesAFolderThatMayNotBeWritten) {
  const std::string file = write(small_ + "gpus: 8\n"), shut = path("shut");
  std::filesystem::create_directory(shut);
  ASSERT_EQ(chmod(shut.c_str(), 0555), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const std::string out = shut + "/runs.db", log = path("err");
  const pid_t child = fork();
  if (child == 0) {  // root may write everywhere
    if (!freopen(log.c_str(), "w", stderr)) _exit(126);
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(126);
    execl(BOXCAR_PROGRAM, "boxcar", "sweep", file.c_str(), "-o", out.c_str(), nullptr);
    _exit(126);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) >= 126) GTEST_SKIP() << "nobody else may run the program";
  EXPECT_EQ(WEXITSTATUS(status), 2);
  std::ifstream in(log);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
            "boxcar: " + out + ": cannot be written: Permission denied\n");
}

TEST(SweepWithoutSqlite, SaysSo) {
  if (sweep::has_sqlite()) GTEST_SKIP() << "this build has it";
  const TemporaryFile file("s.yaml", "model: gpt2\n");
  tests::expect_refused({"sweep", file.path(), "-o", "runs.db"}, 1,
                        "this build lacks SQLite (install libsqlite3-dev, configure again and build)");
}

}  // namespace
}  // namespace boxcar::cli
