// `boxcar train` over several processes as a user runs it: losses equal one process's, under chaos too; and
// messages if a process dies or stops.
#include "mpi_train.h"

namespace boxcar::tests {
namespace {

const Words plans[] = {{"--dp=4"},
                       {"--dp=2", "--tp=2", "--pp=2", "--zero=1"},
                       {"--dp=2", "--pp=2", "--zero=3"},
                       {"--tp=2", "--pp=2", "--schedule=gpipe"}};

TEST_F(MpiTrain, LossesAreThoseOfOneProcessUnderChaosToo) {
  for (const Words& plan : plans) {
    SCOPED_TRACE(::testing::PrintToString(plan));
    Words words = plan;
    words.push_back("--steps=4");
    const auto alone = train(0, words);
    ASSERT_EQ(alone.size(), 4u);
    EXPECT_EQ(train(4, words), alone);
    words.push_back("--chaos=7");
    EXPECT_EQ(train(0, words), alone);
    EXPECT_EQ(train(4, words), alone);
  }
}

TEST_F(MpiTrain, APlanThatASearchFoundHasTheLossesOfOneProcess) {
  const std::string plan = "--plan=" + (folder_ / "best.plan").string();
  ASSERT_EQ(end_of(start({BOXCAR_PROGRAM, "search", "--model=gpt", "--layers=2", "--hidden=16", "--heads=4",
                          "--seq=16", "--vocab=256", "--cluster=local", "--gpus=4", "--tp=2", "--pp=2",
                          "--micro-batch=2", "--global-batch=16", "-o", plan.substr(7)})),
            0)
      << err();
  const auto alone = train(0, {plan, "--steps=4"});
  ASSERT_EQ(alone.size(), 4u);
  for (const int processes : {2, 4}) EXPECT_EQ(train(processes, {plan, "--steps=4", "--chaos=3"}), alone);
  expect_end(1, command(4, {plan, "--tp=4"}), 2,
             "boxcar: --tp: asks for tp 4, " + plan.substr(7) +
                 " is a plan for tp 2 (leave it out, or plan anew)\n");
}

// Number of times that each act appears, by device and name.
std::map<std::pair<int, std::string>, int> acts_in(const fs::path& path) {
  std::ifstream in(path);
  const auto trace = nlohmann::json::parse(in);
  std::map<std::pair<int, std::string>, int> acts;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") {
      ++acts[{event.at("pid"), event.at("name")}];
      EXPECT_GE(event.at("ts"), 0);
      EXPECT_LT(event.at("ts"), 60e6);
    }
  return acts;
}

TEST_F(MpiTrain, ATraceShowsTheActsOfAllProcesses) {
  const auto traced = [&](int processes) {
    const fs::path trace = folder_ / ("trace-" + std::to_string(processes));
    const Words words{"--dp=2", "--pp=2", "--steps=4", "--trace=" + trace.string()};
    EXPECT_EQ(end_of(start(command(processes, words))), 0) << err();
    return acts_in(trace);
  };
  const auto alone = traced(1);
  EXPECT_GT(alone.size(), 40u);
  EXPECT_EQ(traced(2), alone);
}

TEST_F(MpiTrain, AProcessThatDiesEndsTheRunAndTheLastCheckpointGoesOn) {
  for (const int rank : {2, 0}) {
    const std::string folder = folder_ / ("killed-" + std::to_string(rank));
    const Words words{"--dp=2", "--pp=2", "--zero=1", "--checkpoint-dir=" + folder, "--checkpoint-every=1"};
    // mpirun's exit code is that of the signal.
    EXPECT_EQ(run_and_signal(rank, SIGKILL, "\"checkpoint\"", words), 137) << err();
    const std::string other = std::to_string(rank == 0 ? 1 : 3);
    EXPECT_THAT(err(),
                ContainsRegex(
                    "process " + other +
                    ": ended by SIGTERM, which mpirun sends when another process dies or it is interrupted; "
                    ".*device " +
                    other + ": [a-z0-9_.]+.* waits for .*process [0-9]"));
    expect_goes_on(folder, {"--dp=2", "--pp=2", "--zero=1"});
  }
}

TEST_F(MpiTrain, LongAProcessThatStopsEndsTheRunAndTheLastCheckpointGoesOn) {
  for (const int rank : {2, 0}) {
    const std::string folder = folder_ / ("stopped-" + std::to_string(rank));
    const Words plan{"--dp=2", "--tp=2", "--pp=2"};
    Words words = plan;
    words.insert(words.end(), {"--checkpoint-dir=" + folder, "--checkpoint-every=5"});
    EXPECT_EQ(run_and_signal(rank, SIGSTOP, "\"checkpoint\"", words), 3) << err();
    // The first process knows which checkpoint is the last.
    const std::string last = rank == 0 ? "" : "; the last checkpoint is " + folder + "/step-[0-9]+";
    EXPECT_THAT(said(),
                MatchesRegex("boxcar: process [0-3]: device [0-7]: [a-z0-9_.]+: [^\n]*waits for "
                             "[^\n]*process [0-9][^\n]*: process " +
                             std::to_string(rank) + " has not been heard from for 1[5-9] s" + last + "\n" +
                             // mpirun continues the stopped process to end it, which may print this.
                             "(process " + std::to_string(rank) + ": ended by SIGTERM[^\n]*\n)?"));
    expect_goes_on(folder, plan);
  }
}

// Stopped once, then repeatedly: the others wait, and the results do not change.
TEST_F(MpiTrain, AProcessThatIsSlowChangesNothing) {
  const Words words{"--dp=2", "--pp=2", "--steps=150"};
  const auto alone = train(0, words);
  for (const int rank : {3, 0}) {
    const pid_t run = start(command(4, words));
    wait_for("\"step\":2,");
    const pid_t process = process_of(run, rank);
    ASSERT_GT(process, 0) << err();
    const auto stop_for = [&](std::chrono::milliseconds time) {
      kill(process, SIGSTOP);
      std::this_thread::sleep_for(time);
      kill(process, SIGCONT);
      std::this_thread::sleep_for(time / 20);
    };
    stop_for(std::chrono::milliseconds(3000));
    for (int i = 0; i < 10; ++i) stop_for(std::chrono::milliseconds(100));
    EXPECT_EQ(end_of(run), 0) << err();
    EXPECT_EQ(losses(), alone) << "rank " << rank;
  }
}

TEST_F(MpiTrain, LongAProcessThatStopsBeforeMpiBeginsEndsTheRun) {
  for (const int rank : {1, 0}) {
    const std::string shell = "[ $rank = " + std::to_string(rank) + " ] && kill -STOP $$";
    expect_end(1, command(3, {"--dp=4"}, shell), 3,
               rank == 1 ? "boxcar: process 0: MPI_Init has waited 60 s for all 3 processes to start (one is "
                           "stopped, or its machine cannot be reached)\n"
                         : "boxcar: process 1: MPI_Init has waited 62 s for all 3 processes to start (one is "
                           "stopped, or its machine cannot be reached)\n");
  }
}

TEST_F(MpiTrain, BadInputIsSaidOnce) {
  const std::string data = "--data=" + (folder_ / "nix.txt").string();
  const std::string missing =
      (folder_ / "nix.txt").string() + ": cannot be read: No such file or directory\n";
  expect_end(2, command(4, {"--dp=4", data}), 2, "boxcar: " + missing);
  expect_end(1, command(3, {"--dp=2"}), 2, "boxcar: devices: 2 for 3 processes; start at most 2\n");
  expect_end(1, command(4, {"--dq=2"}), 2,
             "boxcar: --dq: unknown flag (did you mean --dp?); `boxcar train --help` lists all\n");
}

TEST_F(MpiTrain, BadInputOfOneProcessNamesIt) {
  const std::string data = (folder_ / "nix.txt").string();
  for (const int rank : {0, 1, 3}) {
    const std::string shell = "[ $rank = " + std::to_string(rank) + " ] && set -- \"$@\" --data=" + data;
    expect_end(1, command(4, {"--dp=4", "--steps=2"}, shell), 2,
               "boxcar: process " + std::to_string(rank) + ": " + data +
                   ": cannot be read: No such file or directory\n");
  }
}

// Otherwise they would wait for each other's steps, or train on different input.
TEST_F(MpiTrain, ProcessesWithOtherFlagsOrFilesDoNotBegin) {
  const auto differ = [&](const std::string& shell, const Words& more, const std::string& message) {
    Words words{"--dp=3", "--global-batch=6"};
    words.insert(words.end(), more.begin(), more.end());
    expect_end(1, command(3, words, shell), 2,
               MatchesRegex("boxcar: (process 0: )?process 1: " + message +
                            " .processes need the same flags and files.\n"));
  };
  const auto flag = [](const std::string& flag) { return "[ $rank = 1 ] && set -- \"$@\" " + flag; };
  differ(flag("--steps=4"), {"--steps=2"}, "run.steps: is 4, process 0 has 2");
  differ(flag("--layers=3"), {"--steps=2"}, "model.layers: is 3, process 0 has 2");

  const std::string other = folder_ / "other";
  fs::create_directories(other);
  std::ofstream(other + "/text.txt") << content_of(folder_ / "text.txt") << "!";
  differ("cd " + folder_.string() + "; [ $rank = 1 ] && cd other", {"--steps=2", "--data=text.txt"},
         "run.data: is [0-9]+ tokens of fingerprint [0-9a-f]+, process 0 has [0-9]+ tokens of fingerprint "
         "[0-9a-f]+");

  // Machines without a shared folder: the first process wrote the checkpoint, and only its machine has it.
  const Words before{"--dp=3", "--global-batch=6", "--steps=2",
                     "--checkpoint-dir=" + (folder_ / "run").string()};
  EXPECT_EQ(train(0, before).size(), 2U);
  const Words resume{"--steps=4", "--checkpoint-dir=run", "--resume"};
  const std::string weights = "step [02], weights of fingerprint [0-9a-f]+";
  differ("cd " + folder_.string() + "; [ $rank = 1 ] && cd other", resume,
         "run.resume: is " + weights + ", process 0 has " + weights);
  fs::copy(folder_ / "run", folder_ / "other" / "run", fs::copy_options::recursive);
  EXPECT_EQ(
      end_of(start(command(3, {"--dp=3", "--global-batch=6", "--steps=4", "--checkpoint-dir=run", "--resume"},
                           "cd " + folder_.string() + "; [ $rank = 1 ] && cd other"))),
      0)
      << err();
}

TEST_F(MpiTrain, ACheckpointThatCannotBeReadIsSaidOnce) {
  const std::string folder = folder_ / "checkpoints";
  const Words words{"--dp=4", "--checkpoint-dir=" + folder, "--steps=2"};
  train(4, words);
  Words other = words;
  other.insert(other.end(), {"--resume", "--seed=5"});
  expect_end(1, command(4, other), 2, "boxcar: --seed: is 5, the checkpoint was begun with 1\n");
  const std::string optimizer = folder + "/step-000002/optimizer.safetensors";
  fs::resize_file(optimizer, 1000);
  other.back() = "--steps=4";
  expect_end(2, command(4, other), 2,
             "boxcar: " + optimizer +
                 ": is not a safetensors file: its header is said to have 4416 bytes, and 992 follow\n");
}

TEST_F(MpiTrain, ALastCheckpointThatCannotBeWrittenIsAFault) {
  const std::string folder = folder_ / "checkpoints";
  fs::create_directories(folder + "/latest.tmp");  // blocks a file's name
  expect_end(2, command(4, {"--dp=4", "--steps=2", "--checkpoint-dir=" + folder, "--resume"}), 3,
             "boxcar: process 0: " + folder + "/latest.tmp: cannot be created: Is a directory\n");
}

TEST_F(MpiTrain, ALossThatIsNoNumberIsSaidOnceByItsCause) {
  const std::string folder = folder_ / "checkpoints";
  const Words words{"--dp=2",
                    "--pp=2",
                    "--learning-rate=1000000",
                    "--steps=200",
                    "--checkpoint-dir=" + folder,
                    "--checkpoint-every=1"};
  for (int i = 0; i < 2; ++i) {
    fs::remove_all(folder);
    expect_end(
        1, command(4, words), 3,
        MatchesRegex(
            "boxcar: process [0-3]: (device [0-3]: [a-z0-9_.]+: )?step [0-9]+: (the loss is -?(nan|inf)|"
            "[a-z0-9_.]+ has a -?(nan|inf)) .use a lower learning_rate, warmup_steps or another "
            "precision.(; the last checkpoint is [^\n]*/step-[0-9]+)?\n"));
  }
}

}  // namespace
}  // namespace boxcar::tests
