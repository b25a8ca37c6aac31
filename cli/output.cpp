#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sbp/error.h"

namespace boxcar::cli {

namespace {

std::string name_beside(const std::string& path) { return fmt::format("{}.{}.part", path, getpid()); }

std::ofstream open_beside(const std::string& path) {
  std::ofstream out(name_beside(path), std::ios::binary);
  if (!out) throw Error::input(path, fmt::format("cannot be written: {}", std::strerror(errno)));
  return out;
}

}  // namespace

void check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error::input(path, fmt::format("cannot be written: {}", std::strerror(EISDIR)));
  open_beside(path);
  std::remove(name_beside(path).c_str());
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  const std::string beside = name_beside(path);
  std::ofstream out = open_beside(path);
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
