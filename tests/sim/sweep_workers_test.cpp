// Processes of a sweep: which number comes next, children, and ranks that join.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "sbp/error.h"
#include "sim/sweep/child.h"
#include "sim/sweep/line.h"
#include "sim/sweep/ranks.h"
#include "sim/sweep/workers.h"
#include "support/run_program.h"

namespace boxcar::sweep {
namespace {

const Program program{"tester", "1.0"};

TEST(SweepQueue, KeepsGroupsTogetherAndLeavesNothing) {
  GroupQueue queue({{1, 2, 3}, {4}, {5, 6}});
  EXPECT_EQ(queue.take(-1).number, 1);
  EXPECT_EQ(queue.take(-1).number, 4);
  EXPECT_EQ(queue.take(0).number, 2);
  EXPECT_EQ(queue.take(1).number, 5);
  EXPECT_EQ(queue.take(0).number, 3);
  EXPECT_EQ(queue.take(0).number, 6) << "of a group that another one has begun";
  EXPECT_EQ(queue.take(0).group, -1);
  EXPECT_EQ(GroupQueue({}).take(-1).group, -1);
}

TEST(SweepQueue, ALostNumberIsTakenOnceMore) {
  GroupQueue queue({{1, 2}, {3}});
  EXPECT_EQ(queue.left(), 3u);
  EXPECT_EQ(queue.take(-1).number, 1);
  EXPECT_FALSE(queue.lost(1));
  EXPECT_EQ(queue.take(0).number, 1);
  EXPECT_TRUE(queue.lost(1)) << "twice";
  EXPECT_EQ(queue.left(), 2u);
  EXPECT_FALSE(queue.lost(1)) << "is given up already";
  EXPECT_FALSE(queue.done(1));
  EXPECT_EQ(queue.take(0).number, 2);
  EXPECT_TRUE(queue.done(2));
  EXPECT_FALSE(queue.done(2));
  EXPECT_EQ(queue.left(), 1u);
}

TEST(SweepQueue, ALateNumberMayBeTakenTwiceAndIsDoneOnce) {
  GroupQueue queue({{1}, {2}});
  EXPECT_EQ(queue.take(-1).number, 1);
  queue.late(1), queue.late(1);
  EXPECT_EQ(queue.take(0).number, 1);
  queue.late(1);
  EXPECT_EQ(queue.take(0).number, 2) << "1 was taken twice";
  EXPECT_FALSE(queue.lost(1)) << "the other one may answer";
  EXPECT_TRUE(queue.done(1));
  queue.late(2);
  EXPECT_TRUE(queue.done(2));
  EXPECT_EQ(queue.take(-1).group, -1) << "2 was done before another one took it";
  EXPECT_EQ(queue.left(), 0u);
}

TEST(SweepWorkers, AnswerEveryNumberAndSurviveFaults) {
  std::vector<std::vector<int64_t>> groups;
  for (int64_t g = 0; g < 20; ++g) groups.push_back({2 * g, 2 * g + 1});
  const auto work = [](int64_t n) -> std::string {
    if (n == 7) throw Error::fault("seven", "is out of luck");
    if (n == 11) raise(SIGKILL);
    if (n == 12) _exit(4);
    return std::string(static_cast<size_t>(n) * 10'000, 'a');
  };
  for (const int processes : {1, 3}) {
    std::map<int64_t, std::string> faults;
    std::map<int64_t, size_t> sizes;
    run_in_processes(groups, {.here = processes}, work, [&](const std::vector<Finished>& some) {
      for (const Finished& one : some)
        EXPECT_TRUE(one.fault.empty() ? sizes.emplace(one.number, one.text.size()).second
                                      : faults.emplace(one.number, one.fault).second);
      return true;
    });
    EXPECT_EQ(sizes.size(), 37u);
    for (const auto& [number, size] : sizes) EXPECT_EQ(size, static_cast<size_t>(number) * 10'000);
    EXPECT_EQ(faults, (std::map<int64_t, std::string>{{7, "seven: is out of luck"},
                                                      {11, "ended by signal 9 (Killed)"},
                                                      {12, "ended with code 4"}}));
  }
}

TEST(SweepWorkers, ANumberGoesToAnotherWhenOneDiesOrStops) {
  const std::string folder = tests::temporary_folder();
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const std::string mark = folder + "/" + std::to_string(signal);
    const auto work = [&](int64_t n) {
      if (n == 3 && !std::filesystem::exists(mark)) std::ofstream(mark).flush(), raise(signal);
      return std::to_string(n);
    };
    std::map<int64_t, std::string> texts;
    std::vector<std::string> told;
    run_in_processes({{1, 2}, {3, 4}, {5}},
                     {.here = 2,
                      .patience = std::chrono::milliseconds(50),
                      .tell = [&](const auto& t) { told.push_back(t); }},
                     work, [&](const std::vector<Finished>& some) {
                       for (const Finished& one : some)
                         EXPECT_TRUE(texts.emplace(one.number, one.text).second);
                       return true;
                     });
    EXPECT_EQ(texts, (std::map<int64_t, std::string>{{1, "1"}, {2, "2"}, {3, "3"}, {4, "4"}, {5, "5"}}));
    EXPECT_EQ(told, signal == SIGSTOP
                        ? std::vector<std::string>{}
                        : std::vector<std::string>{"a process ended by signal 9 (Killed); another process "
                                                   "runs its point"});
  }
  std::filesystem::remove_all(folder);
}

TEST(SweepWorkers, EndWhenTheyAreTold) {
  std::vector<int64_t> many(1000);
  std::iota(many.begin(), many.end(), 0);
  size_t done = 0;
  run_in_processes(
      {many}, {.here = 2}, [](int64_t) { return std::string("x"); },
      [&](const std::vector<Finished>& some) { return (done += some.size()) < 10; });
  EXPECT_LT(done, 1000u);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

// The pipe is closed when the last process that has it has ended, so when the child of the killed parent has.
TEST(SweepWorkers, AChildEndsWithItsParent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ends[0]);
    if (start_child() == 0 && write(ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);  // the child runs
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  pollfd ended{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 20'000), 1) << "the child still runs";
  close(ends[0]);
}

// Two ranks join this one. One has two workers; the other has one, and dies with it of a number that ends
// in 7. With two, both could die of the same number, which is then given up.
TEST(SweepRanks, JoinAndDie) {
  const std::string runs = tests::temporary_folder() + "/runs.db";
  const auto launch = [](int rank) { return Launch{rank, 3, "here"}; };
  std::vector<pid_t> ranks;
  for (const int rank : {1, 2})
    if (const pid_t child = fork(); child > 0) {
      ranks.push_back(child);
    } else {
      const auto worker_of = [&](const std::string& text) {
        return [=](int64_t n) {
          if (rank == 2 && n % 10 == 7) kill(getppid(), SIGKILL), raise(SIGKILL);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return text + std::to_string(rank);
        };
      };
      join(runs, launch(rank), program, {.workers = rank == 1 ? 2 : 1, .worker_of = worker_of});
      _exit(0);
    }
  std::vector<int64_t> numbers(400);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::map<int64_t, std::string> texts;
  std::vector<std::string> told;
  {
    Meeting meeting(runs, launch(0), program, "sweep ");
    EXPECT_EQ(std::filesystem::status(runs + ".ranks").permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const auto work = [](int64_t) {  // so slow that the others take nearly all
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return std::string("sweep 0");
    };
    run_in_processes(
        {numbers}, {.door = &meeting.door(), .tell = [&](const auto& t) { told.push_back(t); }}, work,
        [&](const std::vector<Finished>& some) {
          for (const Finished& one : some)
            EXPECT_TRUE(texts.emplace(one.number, one.fault.empty() ? one.text : one.fault).second);
          return true;
        });
  }
  EXPECT_EQ(texts.size(), numbers.size());
  std::map<std::string, int> by;
  for (const auto& [number, text] : texts) ++by[text];
  EXPECT_GT(by["sweep 1"], 0);
  EXPECT_EQ(by["sweep 0"] + by["sweep 1"] + by["sweep 2"], 400) << testing::PrintToString(by);
  for (const std::string& text : told)
    EXPECT_THAT(text, ::testing::MatchesRegex("rank 2 on .* was lost; another process runs its point"));
  for (const pid_t rank : ranks) waitpid(rank, nullptr, 0);
  EXPECT_FALSE(std::filesystem::exists(runs + ".ranks"));
  std::filesystem::remove_all(std::filesystem::path(runs).parent_path());
}

TEST(SweepRanks, StrangersAreNotAnswered) {
  const std::string runs = tests::temporary_folder() + "/runs.db";
  Meeting meeting(runs, {0, 2, "here"}, program, "");
  EXPECT_TRUE(greet(meeting.door(), meeting.door().password + "rank 1 on a"));
  EXPECT_FALSE(greet(meeting.door(), "guess"));
  sockaddr_in to{};
  socklen_t size = sizeof to;
  ASSERT_EQ(getsockname(meeting.door().listener, reinterpret_cast<sockaddr*>(&to), &size), 0);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int guesser = socket(AF_INET, SOCK_STREAM, 0), flooder = socket(AF_INET, SOCK_STREAM, 0);
  for (const int line : {guesser, flooder})
    ASSERT_EQ(connect(line, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  EXPECT_TRUE(send_answer(guesser, {"guess"}));
  EXPECT_TRUE(send_answer(flooder, {std::string(5000, 'a')}));
  size_t done = 0;
  run_in_processes(
      {{1, 2, 3}}, {.door = &meeting.door()},
      [](int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return std::string();
      },
      [&](const std::vector<Finished>& some) { return done += some.size(), true; });
  EXPECT_EQ(done, 3u);
  char byte = 0;
  for (const int line : {guesser, flooder}) {
    EXPECT_LE(recv(line, &byte, 1, 0), 0) << "was given a number";
    close(line);
  }
  std::filesystem::remove_all(std::filesystem::path(runs).parent_path());
}

TEST(SweepRanks, AreOfOneVersion) {
  const std::string runs = tests::temporary_folder() + "/runs.db";
  const Launch launch{1, 2, "here"};
  Meeting meeting(runs, {0, 2, "here"}, program, "");
  meeting.expect_no_more();
  std::string why;
  try {
    join(runs, launch, {"tester", "1.1"}, {.worker_of = [](const std::string&) { return NumberWork(); }});
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_THAT(why, ::testing::MatchesRegex("rank 1 on .* is tester 1.1, and rank 0 is 1.0"));
  std::filesystem::remove_all(std::filesystem::path(runs).parent_path());
}

TEST(SweepRanks, AreKnownByTheirLaunchersVariables) {
  const auto launch_with = [](const std::map<std::string, std::string>& variables) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
                             "PMI_RANK", "PMI_SIZE"})
      unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const Launch launch = started_together();
    for (const auto& [name, value] : variables) unsetenv(name.c_str());
    return std::to_string(launch.rank) + " of " + std::to_string(launch.size) + ": " + launch.id;
  };
  const std::map<std::string, std::string> slurm{
      {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_JOB_ID", "71"}, {"SLURM_STEP_ID", "2"}};
  EXPECT_EQ(launch_with({}), "0 of 1: ");
  EXPECT_EQ(launch_with(slurm), "3 of 8: SLURM_PROCID 71 2 ");
  EXPECT_EQ(launch_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), "0 of 1: ") << "a batch script";
  EXPECT_EQ(launch_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "1 of 2: PMI_RANK");
  std::map<std::string, std::string> under = slurm;  // mpirun under Slurm
  under.insert({{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "16"}, {"PMIX_NAMESPACE", "9"}});
  EXPECT_EQ(launch_with(under), "5 of 16: OMPI_COMM_WORLD_RANK 9");
}

}  // namespace
}  // namespace boxcar::sweep
