#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "sbp/error.h"

namespace boxcar::cli {

namespace {

namespace fs = std::filesystem;

// A file that is being written beside, for signals that end the process meanwhile.
class Leftover {
 public:
  explicit Leftover(const std::string& path) {
    if (path.size() >= sizeof(path_) || path_[0] != 0) return;
    path.copy(path_, path.size());
    path_[path.size()] = 0;
    mine_ = true;
    for (const int signal : signals)
      if (const auto before = std::signal(signal, end); before != SIG_DFL) std::signal(signal, before);
  }
  Leftover(const Leftover&) = delete;
  ~Leftover() {
    if (!mine_) return;
    for (const int signal : signals)
      if (const auto now = std::signal(signal, SIG_DFL); now != end) std::signal(signal, now);
    path_[0] = 0;
  }

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  static void end(int signal) {
    unlink(path_);
    std::signal(signal, SIG_DFL);
    raise(signal);
  }

  static inline char path_[4096] = {};
  bool mine_ = false;
};

// A file is written beside and renamed; a link stays one, what it names is replaced; a device or a pipe takes
// what is written itself.
class Destination {
 public:
  explicit Destination(const std::string& path) : path_(path) {
    std::error_code none;
    if (fs::is_symlink(path, none))
      path_ = (fs::path(path).parent_path() / fs::read_symlink(path, none)).string();
    const fs::file_type type = fs::status(path_, none).type();
    if (type == fs::file_type::directory) refuse(path, EISDIR);
    aside_ = type == fs::file_type::not_found || type == fs::file_type::regular;
    written_ = aside_ ? fmt::format("{}.{}.part", path_, getpid()) : path_;
    if (aside_) leftover_.emplace(written_);
    out_.open(written_, std::ios::binary);
    if (!out_) refuse(path, errno);
    errno = 0;  // what writing leaves there says why it failed
  }
  Destination(const Destination&) = delete;
  ~Destination() {
    if (aside_ && !done_) std::remove(written_.c_str());
  }

  std::ostream& out() { return out_; }
  void finish(const std::string& path) {
    out_.close();
    if (!out_ || (aside_ && std::rename(written_.c_str(), path_.c_str()) != 0)) refuse(path, errno);
    done_ = true;
  }

 private:
  [[noreturn]] static void refuse(const std::string& path, int error) {
    throw Error::input(path, fmt::format("cannot be written: {}", std::strerror(error)));
  }

  std::string path_, written_;
  bool aside_ = false, done_ = false;
  std::ofstream out_;
  std::optional<Leftover> leftover_;
};

}  // namespace

void check_writable(const std::string& path) {
  if (path.starts_with('-'))
    throw Error::input(path, fmt::format("is taken for a file's name (write ./{} if it is meant)", path));
  std::error_code none;
  const fs::file_type type = fs::status(path, none).type();
  if (type != fs::file_type::fifo && type != fs::file_type::character) Destination ignored(path);
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  Destination destination(path);
  write(destination.out());
  destination.finish(path);
}

void print(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error::fault("standard output", fmt::format("cannot be written: {}", std::strerror(errno)));
}

void tell(const std::string& text) { std::fputs(("boxcar: " + text + "\n").c_str(), stderr); }

void check_apart(const std::vector<std::pair<std::string, std::string>>& files) {
  for (size_t a = 0; a < files.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      std::error_code none;
      const std::string &one = files[a].second, &other = files[b].second;
      if (one.empty() || other.empty()) continue;
      const bool same = one == other || fs::equivalent(one, other, none);
      if (same && (fs::is_regular_file(one, none) || !fs::exists(one, none)))
        throw Error::input(files[a].first, fmt::format("{} is the same file as {}", one, files[b].first));
    }
  }
}

std::string read_file(const std::string& path) {
  std::error_code none;
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path, none)) throw Error::input(path, "cannot be read; check the path");
  return {std::istreambuf_iterator<char>(in), {}};
}

Progress::Progress() : shown_(isatty(STDERR_FILENO) != 0) {
  const char* no_color = std::getenv("NO_COLOR");
  plain_ = no_color != nullptr && *no_color != 0;
}

Progress::~Progress() {
  if (shown_) clear();
}

void Progress::clear() {
  const std::string blank = plain_ ? std::string(width_, ' ') + "\r" : "\033[K";
  std::fputs(("\r" + blank).c_str(), stderr);
}

void Progress::step(const std::string& what) {
  if (!shown_) return;
  clear();
  const std::string line = what + "...";
  width_ = line.size();
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace boxcar::cli
