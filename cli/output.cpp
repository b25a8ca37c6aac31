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
#include <span>
#include <streambuf>

#include "backends/host/files.h"
#include "backends/machines/is_device.h"
#include "sbp/error.h"

namespace boxcar::cli {

namespace {

namespace fs = std::filesystem;
using backends::host::FileError;
using backends::host::NewFile;

// A file that is being written beside its path, for signals that end the process meanwhile.
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

// Writes an ostream's bytes into a file. A refusal is thrown through the stream.
class Buffer : public std::streambuf {
 public:
  explicit Buffer(NewFile& file) : file_(file) { setp(bytes_.data(), bytes_.data() + bytes_.size()); }

 protected:
  int sync() override {
    file_.write(std::as_bytes(std::span(pbase(), pptr())));
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return 0;
  }
  int_type overflow(int_type c) override {
    sync();
    return traits_type::eq_int_type(c, traits_type::eof()) ? 0 : sputc(traits_type::to_char_type(c));
  }

 private:
  NewFile& file_;
  std::vector<char> bytes_ = std::vector<char>(1 << 16);
};

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error::input(path, "cannot be written: " + reason);
}

// A file is written beside its path and put in place. A link remains, and its target is replaced. A device or
// a pipe is written to directly.
class Destination {
 public:
  explicit Destination(const std::string& path) : name_(path), path_(path) {
    std::error_code none;
    if (fs::is_symlink(path, none))
      path_ = (fs::path(path).parent_path() / fs::read_symlink(path, none)).string();
    const fs::file_type type = fs::status(path_, none).type();
    if (type == fs::file_type::directory) refuse(path, std::strerror(EISDIR));
    beside_ = type == fs::file_type::not_found || type == fs::file_type::regular;
  }

  void write(const std::function<void(std::ostream&)>& write) {
    if (!beside_) return write_through(write);
    const std::string part = fmt::format("{}.{}.part", path_, getpid());
    const Leftover leftover(part);
    NewFile file(part);
    Buffer buffer(file);
    std::ostream out(&buffer);
    out.exceptions(std::ios::badbit);
    write(out);
    out.flush();
    file.put_in_place(path_);
  }
  // Tests, without leaving a file, whether one could be put there.
  void try_out() {
    if (!beside_) return write_through([](std::ostream&) {});
    const std::string part = fmt::format("{}.{}.part", path_, getpid());
    const Leftover leftover(part);
    const NewFile file(part);
  }

 private:
  void write_through(const std::function<void(std::ostream&)>& write) const {
    std::ofstream out(path_, std::ios::binary);
    if (!out) refuse(name_, std::strerror(errno));
    errno = 0;  // writing leaves its reason there if it fails
    write(out);
    out.close();
    if (!out) refuse(name_, std::strerror(errno));
  }

  std::string name_, path_;
  bool beside_ = false;
};

}  // namespace

void check_writable(const std::string& path) {
  if (path.starts_with('-'))
    throw Error::input(path, fmt::format("is taken for a file's name (write ./{} if it is meant)", path));
  std::error_code none;
  const fs::file_type type = fs::status(path, none).type();
  if (type == fs::file_type::fifo || type == fs::file_type::character) return;
  try {
    Destination(path).try_out();
  } catch (const FileError& error) {
    refuse(path, error.reason());
  }
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  try {
    Destination(path).write(write);
  } catch (const FileError& error) {
    refuse(path, error.reason());
  }
}

void print(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error::fault("standard output", fmt::format("cannot be written: {}", std::strerror(errno)));
}

namespace {
TellOnce* telling_once = nullptr;
}

TellOnce::TellOnce() { telling_once = this; }
TellOnce::~TellOnce() { telling_once = nullptr; }

void tell(const std::string& text) {
  if (telling_once && !telling_once->told_.insert(text).second) return;
  std::fputs(("boxcar: " + text + "\n").c_str(), stderr);
}

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
  if (backends::is_device(path)) throw Error::input(path, "cannot be read: it is not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path, none)) throw Error::input(path, "cannot be read; check the path");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string other_kind(std::string_view text) {
  constexpr std::pair<std::string_view, const char*> kinds[] = {
      {"plan ", "a saved plan"},
      {"SQLite format 3", "a file of runs, which `boxcar table` and `boxcar report` read"},
      {"<", "a page for a browser"},
  };
  for (const auto& [begin, kind] : kinds)
    if (text.starts_with(begin)) return fmt::format("; it is {}", kind);
  return "";
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

void Progress::part(const std::string& what, std::chrono::seconds every) {
  step(what);
  if (shown_ || Clock::now() - told_ < every) return;
  tell(what);
  told_ = Clock::now();
}

}  // namespace boxcar::cli
