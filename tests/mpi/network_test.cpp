// Two hosts, each with its own network and a wire between them, and a run over both: the wire is cut for a
// while and permanently.
#include <sched.h>
#include <sys/prctl.h>

#include "mpi_train.h"

namespace boxcar::tests {
namespace {

using ::testing::HasSubstr;

// "alpha" and "beta": processes that each hold a network and a host name until the test ends.
class TwoHosts : public MpiTrain {
 protected:
  void SetUp() override {
    MpiTrain::SetUp();
    if (IsSkipped()) return;
    if (!does("command -v ip && command -v nsenter"))
      GTEST_SKIP() << "no ip (iproute2) or nsenter (util-linux)";
    for (const char* name : {"alpha", "beta"}) hosts_.push_back(host(name));
    if (!holds(hosts_[0]) || !holds(hosts_[1])) GTEST_SKIP() << "no network namespace is allowed here";
    const std::string alpha = std::to_string(hosts_[0]), beta = std::to_string(hosts_[1]);
    if (!does("ip link add wire netns " + alpha + " type veth peer name wire netns " + beta))
      GTEST_SKIP() << "no pair of virtual interfaces is allowed here";
    for (int h : {0, 1})
      ASSERT_TRUE(
          on(h, "ip addr add " + address(h) + "/24 dev wire; ip link set lo up; ip link set wire up"));
    // Stands in for mpirun's ssh: the first word is the host.
    std::ofstream(folder_ / "agent") << "#!/bin/sh\nshift\nexec nsenter -t " << beta
                                     << " -n -u sh -c \"$*\"\n";
    fs::permissions(folder_ / "agent", fs::perms::owner_all);
  }
  void TearDown() override {
    for (const pid_t host : hosts_) kill(host, SIGKILL), waitpid(host, nullptr, 0);
    MpiTrain::TearDown();
  }

  static std::string address(int host) { return "10.77.0." + std::to_string(host + 1); }
  static bool does(const std::string& command) {
    return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
  }
  bool on(int host, const std::string& command) const {
    return does("nsenter -t " + std::to_string(hosts_.at(static_cast<size_t>(host))) + " -n sh -c '" +
                command + "'");
  }
  // Drops frames in both directions.
  bool cut() const {
    const auto lost = [&](int h) {
      return on(h, "ip neigh replace " + address(1 - h) + " lladdr 02:00:00:00:00:99 dev wire nud permanent");
    };
    return lost(0) && lost(1);
  }
  bool mend() const {
    const auto found = [&](int h) { return on(h, "ip neigh del " + address(1 - h) + " dev wire"); };
    return found(0) && found(1);
  }

  // Four processes, 0 and 1 on alpha.
  Words over_both(const Words& more, const Words& for_mpirun = {}) const {
    Words words{"/usr/bin/env", "nsenter", "-t", std::to_string(hosts_[0]), "-n", "-u"};
    Words run = command(4, more);
    const std::string network = "10.77.0.0/24";
    Words hosts{"--host",
                address(0) + ":2," + address(1) + ":2",
                "--mca",
                "plm_rsh_agent",
                folder_ / "agent",
                "--mca",
                "btl",
                "tcp,self",
                "--mca",
                "btl_tcp_if_include",
                network,
                "--mca",
                "oob_tcp_if_include",
                network};
    hosts.insert(hosts.end(), for_mpirun.begin(), for_mpirun.end());
    run.insert(run.begin() + 1, hosts.begin(), hosts.end());
    words.insert(words.end(), run.begin(), run.end());
    return words;
  }
  // Seconds until all processes of the run have ended, on both hosts.
  double seconds_until_all_ended() const {
    const auto begun = Clock::now();
    const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
    while (!processes_of_this_test().empty() && since() < 100)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return since();
  }
  std::vector<pid_t> processes_of_this_test() const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string words = content_of(entry.path() / "cmdline");
      if (words.starts_with(BOXCAR_PROGRAM) && words.find(folder_.string() + "/") != std::string::npos)
        found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
  }

 private:
  static pid_t host(const std::string& name) {
    const pid_t child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 || sethostname(name.c_str(), name.size()) != 0) _exit(1);
    while (true) pause();
  }
  // Whether the process has entered its network.
  static bool holds(pid_t host) {
    const std::string of = "/proc/" + std::to_string(host) + "/ns/uts";
    for (int i = 0; i < 500; ++i) {
      std::error_code none;
      if (waitpid(host, nullptr, WNOHANG) != 0) return false;
      if (fs::read_symlink(of, none) != fs::read_symlink("/proc/self/ns/uts", none)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  std::vector<pid_t> hosts_;
};

TEST_F(TwoHosts, LongACutOfFiveSecondsChangesNothing) {
  const Words words{"--dp=2", "--pp=2", "--steps=200"};
  const auto alone = train(0, words);
  const pid_t run = start(over_both(words));
  wait_for("\"step\":50,");
  ASSERT_TRUE(cut());
  const std::string before = out();
  std::this_thread::sleep_for(std::chrono::seconds(5));
  EXPECT_LE(out().size(), before.size() + 2000) << "nothing was cut";
  ASSERT_TRUE(mend());
  EXPECT_EQ(end_of(run), 0) << err();
  EXPECT_EQ(losses(), alone);
}

// The processes end within 15 s of silence, 5 s to agree, and 20 s for those that cannot be reached.
TEST_F(TwoHosts, LongACutForGoodEndsTheProcessesOnBothSides) {
  const std::string folder = folder_ / "checkpoints";
  const pid_t run = start(over_both(
      {"--dp=2", "--pp=2", "--steps=1000000", "--checkpoint-dir=" + folder, "--checkpoint-every=20"}));
  wait_for("\"checkpoint\"");
  ASSERT_TRUE(cut());
  EXPECT_LT(seconds_until_all_ended(), 60);  // 40 are promised; machines may be busy
  EXPECT_THAT(
      said(),
      ContainsRegex("boxcar: process [01]: device [01]: [a-z0-9_.]+: [^\n]*waits for [^\n]*process [0-3]"
                    "[^\n]*: process [23] has not been heard from for 1[5-9] s; the last checkpoint is " +
                    folder + "/step-[0-9]+\n"))
      << err();
  kill(run, SIGKILL);  // mpirun itself would wait for TCP to give up
  end_of(run);
  expect_goes_on(folder, {"--dp=2", "--pp=2"});
}

// mpirun, if told to watch its own connections, ends too, and first.
TEST_F(TwoHosts, LongACutForGoodEndsMpirunThatLooksAfterIt) {
  const std::string folder = folder_ / "checkpoints";
  const pid_t run = start(over_both(
      {"--dp=2", "--pp=2", "--steps=1000000", "--checkpoint-dir=" + folder, "--checkpoint-every=20"},
      {"--mca", "oob_tcp_keepalive_time", "5", "--mca", "oob_tcp_keepalive_intvl", "2", "--mca",
       "oob_tcp_keepalive_probes", "3"}));
  wait_for("\"checkpoint\"");
  ASSERT_TRUE(cut());
  EXPECT_GT(end_of(run), 0) << err();
  EXPECT_THAT(err(), HasSubstr("ORTE has lost communication with a remote daemon."));
  EXPECT_THAT(
      said(),
      ContainsRegex("process [01]: ended by SIGTERM, which mpirun sends when another process dies or it "
                    "is interrupted; [^\n]*device [01]: [a-z0-9_.]+[^\n]* waits for [^\n]*process [0-3]"));
  EXPECT_LT(seconds_until_all_ended(), 60);
  expect_goes_on(folder, {"--dp=2", "--pp=2"});
}

}  // namespace
}  // namespace boxcar::tests
