// `mpirun boxcar train --backend cuda` as a user runs it, over the stand-ins for CUDA, its libraries and
// NCCL: one GPU per process or several, with groups set up over MPI.
#include "mpi_train.h"

namespace boxcar::tests {
namespace {

using ::testing::HasSubstr;

struct Job {
  int processes, gpus;
  Words plan;
  bool graphs = false;
};

class GpuProcesses : public MpiTrain {
 protected:
  ~GpuProcesses() override { unsetenv("CUDA_ON_CPU_GPUS"); }
  // All processes see the same GPUs.
  static void have(int gpus) { setenv("CUDA_ON_CPU_GPUS", std::to_string(gpus).c_str(), 1); }
  static Words with(const std::string& backend, Words words) {
    words.insert(words.end(), {"--backend=" + backend, "--precision=fp32"});
    return words;
  }
  std::map<int, double> on_cpu(const Words& plan) const { return train(0, with("cpu", plan)); }
  std::map<int, double> over(int processes, const Words& plan) const {
    return train(processes, with("cuda", plan));
  }
  // Runs steps as acts, and as graphs where the job says so.
  void expect_losses_of_the_cpu(std::initializer_list<Job> jobs) const;
  void expect_one_process(std::initializer_list<Words> plans) const;
  void expect_named(std::initializer_list<Job> jobs) const;
  static void expect_near(const std::map<int, double>& got, const std::map<int, double>& wanted) {
    ASSERT_EQ(wanted.size(), 4u);
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [step, loss] : wanted) EXPECT_NEAR(got.at(step), loss, 1e-5 * loss) << "step " << step;
  }
};

void GpuProcesses::expect_losses_of_the_cpu(std::initializer_list<Job> jobs) const {
  for (const Job& job : jobs) {
    Words plan = job.plan;
    plan.push_back("--steps=4");
    SCOPED_TRACE(std::to_string(job.processes) + " processes, " + ::testing::PrintToString(plan));
    have(job.gpus);
    const auto wanted = on_cpu(plan), got = over(job.processes, plan);
    expect_near(got, wanted);
    if (!job.graphs) continue;
    plan.push_back("--cuda-graph");
    EXPECT_EQ(over(job.processes, plan), got);
  }
}

// Collectives between processes, and both within and between processes with several GPUs each.
TEST_F(GpuProcesses, HaveTheLossesOfTheCpu) {
  expect_losses_of_the_cpu({{2, 2, {"--dp=2"}, true},
                            {4, 4, {"--dp=2", "--pp=2", "--zero=3"}, true},
                            {2, 4, {"--tp=2", "--pp=2"}}});
}

TEST_F(GpuProcesses, LongHaveTheLossesOfTheCpu) {
  expect_losses_of_the_cpu({{2, 2, {"--tp=2"}, true},
                            {2, 2, {"--pp=2"}, true},
                            {2, 4, {"--dp=2", "--tp=2", "--zero=1"}},
                            {4, 4, {"--tp=2", "--pp=2", "--virtual-stages=2", "--layers=4"}, true},
                            {4, 4, {"--dp=2", "--tp=2", "--zero=1"}, true},
                            {4, 4, {"--dp=4", "--zero=2"}}});
}

// A plan from a search, with one process per GPU.
TEST_F(GpuProcesses, TrainAPlanThatASearchFound) {
  const std::string plan = (folder_ / "best.txt").string();
  ASSERT_EQ(end_of(start({BOXCAR_PROGRAM, "search", "--model=gpt", "--layers=2", "--hidden=16", "--heads=4",
                          "--seq=16", "--vocab=256", "--precision=fp32", "--cluster=local", "--gpus=8",
                          "--dp=2", "--tp=2", "--pp=2", "--micro-batch=2", "--global-batch=16", "-o", plan})),
            0)
      << err();
  have(8);
  const Words words{"--plan=" + plan, "--steps=4"};
  expect_near(over(8, words), on_cpu(words));
}

// Without tied weights and a norm over both stages no collective joins them, and sums equal one process's to
// the bit. The stages exchange data both ways, with one and with two chunks of the model each, as acts and as
// graphs.
void GpuProcesses::expect_one_process(std::initializer_list<Words> plans) const {
  have(2);
  for (const Words& more : plans) {
    SCOPED_TRACE(::testing::PrintToString(more));
    Words words{"--pp=2", "--tied=false", "--clip-norm=0", "--steps=4"};
    words.insert(words.end(), more.begin(), more.end());
    const auto wanted = over(0, words);
    EXPECT_EQ(over(2, words), wanted);
    words.push_back("--cuda-graph");
    EXPECT_EQ(over(2, words), wanted);
  }
}
TEST_F(GpuProcesses, PipelinesAreThoseOfOneProcessBitForBit) { expect_one_process({{"--schedule=zb-h1"}}); }
TEST_F(GpuProcesses, LongPipelinesAreThoseOfOneProcessBitForBit) {
  expect_one_process({{}, {"--virtual-stages=2", "--layers=4"}, {"--schedule=gpipe"}});
}

// Process 0 validates for about twice as long as a collective may take; meanwhile the others are in none.
TEST_F(GpuProcesses, LongAValidationIsNoCollectiveThatIsLate) {
  have(2);
  std::ofstream text(folder_ / "text.txt");
  for (int i = 0; i < 80'000; ++i)
    text << "the trains run on time, line " << i << ", and so do the boxcars\n";
  text.close();
  for (const Words& more : {Words{}, {"--cuda-graph"}}) {
    Words words{"--dp=2",
                "--steps=3",
                "--validate-every=2",
                "--validation-fraction=0.5",
                "--validation-batches=8000",
                "--collective-timeout=6"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(over(2, words).size(), 3u);
  }
}

// The last stage has kernels that the first has not.
TEST_F(GpuProcesses, SayWhichKernelsRunOncePerStage) {
  have(4);
  EXPECT_EQ(over(4, {"--pp=2", "--dp=2", "--steps=1"}).size(), 1u);
  EXPECT_THAT(said(), HasSubstr("boxcar: process 0: kernels of "));
  EXPECT_THAT(said(), ContainsRegex("boxcar: process [123]: kernels of [^\n]*cross_entropy"));
  int ways = 0;
  for (int process = 0; process < 4; ++process)
    ways += said().find("process " + std::to_string(process) + ": kernels of ") != std::string::npos;
  EXPECT_EQ(ways, 2);
}

TEST_F(GpuProcesses, NeedAGpuEach) {
  have(1);
  expect_end(1, command(2, with("cuda", {"--dp=2"})), 1,
             HasSubstr("cuda: 2 processes for 1 GPU that they all see; start one for each GPU"));
}

// Message of process 0, which waits in an act that needs device 1, as a regular expression.
std::string awaited(const Words& plan) {
  if (plan[0] == "--pp=2")
    return "device 0: [a-z0-9_.]+( for device 1: send in net.pp.[a-z]+ of 1 from 0|"
           ": receive in net.pp.[a-z]+ of 0 from 1)(: rank [01] of 2, device 0)? "
           "waits for device 1 of process 1";
  const std::string group = plan.size() > 1 && plan[1] == "--tp=2" ? "tp" : "dp";
  return "device 0: [a-z0-9_.]+: (all_reduce|all_gather|reduce_scatter) in " + group + " of 0 on net." +
         group + ": rank 0 of 2, device 0 waits for device 1 of process 1";
}
const Words links_alone{"--pp=2", "--tied=false", "--clip-norm=0"},
    links_in_graphs{"--pp=2", "--tied=false", "--clip-norm=0", "--cuda-graph"};

// The others reach a collective, a send or a receive that it never reaches, and report that. mpirun's exit
// code is the signal's.
void GpuProcesses::expect_named(std::initializer_list<Job> jobs) const {
  for (const Job& job : jobs) {
    SCOPED_TRACE(::testing::PrintToString(job.plan));
    have(job.gpus);
    EXPECT_EQ(run_and_signal(1, SIGKILL, "\"step\":3,", with("cuda", job.plan), job.processes), 137) << err();
    EXPECT_THAT(
        said(),
        ContainsRegex("process 0: ended by SIGTERM, which mpirun sends when another process dies or it is "
                      "interrupted; ([^\n]*; )?" +
                      awaited(job.plan)));
  }
}

TEST_F(GpuProcesses, AProcessThatDiesIsNamedByWhatTheOthersWaitFor) {
  expect_named({{2, 2, {"--dp=2"}}, {2, 2, links_in_graphs}});
}
TEST_F(GpuProcesses, LongAProcessThatDiesIsNamedByWhatTheOthersWaitFor) {
  expect_named({{2, 2, {"--dp=2", "--cuda-graph"}}, {4, 4, {"--dp=2", "--tp=2"}}, {2, 2, links_alone}});
}

TEST_F(GpuProcesses, LongAProcessThatStopsEndsTheRun) {
  have(2);
  for (const Words& plan : {Words{"--dp=2"}, {"--dp=2", "--cuda-graph"}, links_alone, links_in_graphs}) {
    EXPECT_EQ(run_and_signal(1, SIGSTOP, "\"step\":3,", with("cuda", plan), 2), 3) << err();
    const std::string silent = ": process 1 has not been heard from for 15 s";
    const auto by_a_gpu = ContainsRegex("boxcar: process 0: [^\n]*waits for [^\n]*" + silent +
                                        "; ([^\n]*; )?" + awaited(plan) + "\n");
    const auto by_a_host = ContainsRegex(
        "boxcar: process 0: device 0: [a-z0-9_.]+( for device 1)?: waits for device 1 of process 1" + silent +
        "\n");
    if (plan == links_alone)
      EXPECT_THAT(said(), ::testing::AnyOf(by_a_gpu, by_a_host));
    else
      EXPECT_THAT(said(), by_a_gpu);
  }
}

}  // namespace
}  // namespace boxcar::tests
