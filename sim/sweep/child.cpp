#include "sim/sweep/child.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>
#include <csignal>
#include <cstring>

#include "sbp/error.h"

namespace boxcar::sweep {

pid_t start_child() {
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw Error::fault("", fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child > 0) return child;
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(0);  // the parent died before that
  return 0;
}

std::string end_text(int status) {
  return WIFSIGNALED(status)
             ? fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
             : fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace boxcar::sweep
