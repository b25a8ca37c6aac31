// `boxcar sweep` in ranks that mpirun started: each point has one row, whichever rank dies.
#include "mpi_train.h"

namespace boxcar::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// 240 points, which take some seconds.
constexpr const char* sweep_text =
    "model: {family: gpt, layers: 4, hidden: 256, heads: 8, seq: 128, vocab: 1000}\n"
    "cluster: dgx-a100-80g\ngpus: [8, 16]\nglobal_batch: 64\ntp: [1, 2, 4]\npp: [1, 2]\nzero: [0, 1]\n"
    "what_if: {latency.network: [1x, 2x, 3x, 4x, 5x], bandwidth.link: [0.5x, 1x]}\n";
constexpr size_t points = 240;

class MpiSweep : public MpiTrain {
 protected:
  std::string runs(const std::string& name) const { return (folder_ / name).string(); }

  Words sweep(int ranks, const std::string& name, const Words& of_mpirun = {}) const {
    std::ofstream(folder_ / "sweep.yaml") << sweep_text;
    Words words;
    if (ranks > 0) {
      words = {mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"};
      words.insert(words.end(), of_mpirun.begin(), of_mpirun.end());
      words.insert(words.end(), {"-n", std::to_string(ranks)});
    }
    words.insert(words.end(), {BOXCAR_PROGRAM, "sweep", runs("sweep.yaml"), "-o", runs(name)});
    return words;
  }

  // Lines of `boxcar table --csv`, without the names of columns.
  std::vector<std::string> lines(const std::string& name, const std::string& columns) const {
    const std::string command = std::string(BOXCAR_PROGRAM) + " table " + runs(name) + " --csv --sort key" +
                                " --columns " + columns + " 2>/dev/null";
    std::vector<std::string> all;
    FILE* pipe = popen(command.c_str(), "r");
    char line[1 << 16];
    while (fgets(line, sizeof line, pipe)) all.emplace_back(line);
    pclose(pipe);
    if (!all.empty()) all.erase(all.begin());
    return all;
  }
  std::vector<std::string> rows(const std::string& name) const {
    return lines(name, "key,point,status,gpus,tp,pp,zero,what_if_latency_network,step_time_s,result");
  }

  // The process of a rank, once there are rows and most of the points remain.
  pid_t rank_at_work(pid_t run, const std::string& name, int rank) const {
    for (const auto end = Clock::now() + too_long; lines(name, "key").size() < 5 && Clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LT(lines(name, "key").size(), points) << "it was over before the fault";
    const pid_t process = process_of(run, rank);
    EXPECT_GT(process, 0) << err();
    return process;
  }

  static pid_t child_of(pid_t process) {
    const std::string id = std::to_string(process);
    return std::atoi(content_of("/proc/" + id + "/task/" + id + "/children").c_str());
  }

  void expect_all_once(const std::string& name) const {
    EXPECT_THAT(rows(name), SizeIs(points));
    ASSERT_EQ(end_of(start(sweep(0, "alone.db"))), 0) << err();
    EXPECT_EQ(rows(name), rows("alone.db"));
    EXPECT_FALSE(fs::exists(runs(name) + ".ranks"));
    EXPECT_FALSE(fs::exists(runs(name) + ".lock"));
  }
};

TEST_F(MpiSweep, RowsAreThoseOfOneProcessAlthoughAWorkerIsKilled) {
  const pid_t run = start(sweep(3, "runs.db"));
  const pid_t rank = rank_at_work(run, "runs.db", 2), worker = child_of(rank);
  ASSERT_GT(worker, 0);
  kill(worker, SIGKILL);
  ASSERT_EQ(end_of(run), 0) << err();
  EXPECT_THAT(said(), ContainsRegex("rank 2 on [^\n]*: a worker was ended by signal 9 \\(Killed\\); another "
                                    "one goes on\n"));
  expect_all_once("runs.db");
}

TEST_F(MpiSweep, OthersTakeThePointsOfALostRank) {
  const pid_t run = start(sweep(4, "runs.db", {"--enable-recovery"}));
  const pid_t rank = rank_at_work(run, "runs.db", 2);
  kill(rank, SIGKILL);
  ASSERT_EQ(end_of(run), 0) << err();
  EXPECT_THAT(said(), ContainsRegex("rank 2 on [^\n]* was lost; another process runs its point\n"));
  expect_all_once("runs.db");
}

TEST_F(MpiSweep, GoesOnAfterMpirunHasEndedIt) {
  const pid_t run = start(sweep(3, "runs.db"));
  kill(rank_at_work(run, "runs.db", 0), SIGKILL);
  EXPECT_NE(end_of(run), 0);
  EXPECT_LT(rows("runs.db").size(), points);
  ASSERT_EQ(end_of(start(sweep(3, "runs.db"))), 0) << err();
  expect_all_once("runs.db");
}

TEST_F(MpiSweep, AMistakeIsToldOnce) {
  Words words = sweep(3, "runs.db");
  words.insert(words.end(), {"--tp=3"});
  std::ofstream(folder_ / "sweep.yaml") << "tpp: 1\n";
  EXPECT_EQ(end_of(start(words)), 2);
  EXPECT_THAT(said(), ::testing::StartsWith("boxcar: " + runs("sweep.yaml") + ":1:1: unknown key \"tpp\""));
  EXPECT_EQ(said().find("boxcar: ", 1), std::string::npos) << said();
}

}  // namespace
}  // namespace boxcar::tests
