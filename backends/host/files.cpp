#include "backends/host/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int reason = errno) {
  throw Error::fault(path, fmt::format("cannot {}: {}", what, std::strerror(reason)));
}

// A descriptor that is closed, and its file removed, unless kept. What stands there already goes first, so
// that a link of its name is not written through.
class Beside {
 public:
  explicit Beside(std::string path) : path_(std::move(path)) {
    unlink(path_.c_str());
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(path_, "be created");
  }
  ~Beside() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!kept_) unlink(path_.c_str());
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  void write(Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) fail(path_, "be written");
      if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  void rename_to(const std::string& path) {
    if (fsync(descriptor_) != 0) fail(path_, "be synced");
    if (close(std::exchange(descriptor_, -1)) != 0) fail(path_, "be closed");
    if (rename(path_.c_str(), path.c_str()) != 0) fail(path, "be replaced");
    kept_ = true;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

}  // namespace

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sync_folder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail(path, "be opened");
  const int reason = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  if (reason != 0 && reason != EINVAL) fail(path, "be synced", reason);  // EINVAL: nothing to sync here
}

void write_whole(const std::string& path, const std::vector<Bytes>& parts) {
  Beside file(path + ".tmp");
  for (Bytes part : parts) file.write(part);
  file.rename_to(path);
  sync_folder(folder_of(path));
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  struct stat about {};
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused, not waited for
  const bool known = descriptor_ >= 0 && fstat(descriptor_, &about) == 0;
  const std::string reason = !known                   ? std::strerror(errno)
                             : S_ISREG(about.st_mode) ? ""
                             : S_ISDIR(about.st_mode) ? "it is a folder"
                                                      : "it is not a file";
  size_ = about.st_size;
  if (reason.empty()) return;
  if (descriptor_ >= 0) close(descriptor_);
  throw Error::input(path_, fmt::format("cannot be read: {}", reason));
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = pread(descriptor_, to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error::input(path_, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (n == 0) throw Error::input(path_, "cannot be read: it became shorter meanwhile");
    offset += n;
    to = to.subspan(static_cast<size_t>(n));
  }
}

std::string read_text(const std::string& path) {
  const InputFile file(path);
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace boxcar::backends::host
