#include "backends/host/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace boxcar::backends::host {
namespace {

namespace fs = std::filesystem;

// The folder that holds `path`: "out" of "out/latest", "." of "latest".
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_folder(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

// Makes creations, renames and removals in a folder durable.
void flush_folder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) throw FileError(path, "be opened", errno);
  const int reason = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  if (reason != 0 && reason != EINVAL)
    throw FileError(path, "be flushed", reason);  // EINVAL: nothing to flush
}

}  // namespace

FileError::FileError(const std::string& path, const char* what, int reason)
    : Error(fault(path, fmt::format("cannot {}: {}", what, std::strerror(reason)))),
      reason_(std::strerror(reason)) {}

// Removes an existing file first, so that a link of its name is not written through.
NewFile::NewFile(std::string path) : path_(std::move(path)) {
  if (unlink(path_.c_str()) != 0 && errno != ENOENT) throw FileError(path_, "be created", errno);
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw FileError(path_, "be created", errno);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!kept_) unlink(path_.c_str());
}

void NewFile::write(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) throw FileError(path_, "be written", errno);
    if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void NewFile::put_in_place(const std::string& path) {
  if (fsync(descriptor_) != 0) throw FileError(path_, "be flushed", errno);
  if (close(std::exchange(descriptor_, -1)) != 0) throw FileError(path_, "be closed", errno);
  if (rename(path_.c_str(), path.c_str()) != 0) throw FileError(path, "be replaced", errno);
  kept_ = true;
  flush_folder(folder_of(path));
}

void write_whole(const std::string& path, const std::vector<Bytes>& parts) {
  NewFile file(path + ".tmp");
  for (Bytes part : parts) file.write(part);
  file.put_in_place(path);
}

// A folder from a run that was killed before flushing it looks the same, so all folders above are flushed,
// except those that only others may read.
void make_folder(const std::string& path) {
  const std::string above = folder_of(path);
  if (above != "." && above != "/") make_folder(above);
  const int reason = mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  if (reason != 0 && !is_folder(path))
    throw FileError(path, "be created", reason == EEXIST ? ENOTDIR : reason);
  if (access(above.c_str(), R_OK) == 0) flush_folder(above);
}

void put_folder_in_place(const std::string& from, const std::string& path) {
  std::error_code none;
  const bool replaces = fs::exists(fs::symlink_status(path, none));
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), replaces ? RENAME_EXCHANGE : 0) != 0)
    throw FileError(path, replaces ? "be replaced" : "be created", errno);
  flush_folder(folder_of(path));
  if (replaces) remove_folder(from);
}

void remove_folder(const std::string& path) {
  flush_folder(folder_of(path));
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw FileError(path, "be removed", error.value());
}

std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename());
  if (error) throw FileError(folder, "be listed", error.value());
  return names;
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
