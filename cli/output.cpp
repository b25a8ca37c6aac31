#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "sbp/error.h"

namespace boxcar::cli {

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::string beside = fmt::format("{}.{}.part", path, getpid());
  std::ofstream out(beside, std::ios::binary);
  if (!out) throw Error::input(path, fmt::format("cannot be written: {}", std::strerror(errno)));
  write(out);
  out.close();
  if (!out || std::rename(beside.c_str(), path.c_str()) != 0) {
    std::string reason = std::strerror(errno);
    std::remove(beside.c_str());
    throw Error::input(path, fmt::format("cannot be written: {}", reason));
  }
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text) throw Error::input(path, "cannot be read; check the path");
  return text.str();
}

Progress::Progress() : shown_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::step(const std::string& what) {
  if (shown_) std::fprintf(stderr, "\r\033[K%s...", what.c_str()), std::fflush(stderr);
}

}  // namespace boxcar::cli
