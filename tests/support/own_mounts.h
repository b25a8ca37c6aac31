// Runs part of a test with private mounts, in a child process.
//
//   with_own_mounts([&] {
//     mount_small_disk("/tmp/t/disk", 262144);   // gone when the child ends
//     ...
//   });
//
// Expectations in the body count for the test, which is skipped if the system forbids mounting.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace boxcar::tests {

// Gives this process its own mounts from now on; a user who is not root becomes root of a new user namespace.
// False if the system refuses.
inline bool take_own_mounts() {
  const std::string user = std::to_string(getuid()), group = std::to_string(getgid());
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

inline void mount_small_disk(const std::string& folder, int64_t bytes) {
  std::filesystem::create_directories(folder);
  const std::string size = "size=" + std::to_string(bytes);
  if (mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) {
    std::perror("mount");
    _exit(2);
  }
}

inline void with_own_mounts(const std::function<void()>& body) {
  constexpr int not_allowed = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (!take_own_mounts()) _exit(not_allowed);
    body();
    std::fflush(stdout);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_allowed) GTEST_SKIP() << "no mounts are allowed here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above";
}

}  // namespace boxcar::tests
