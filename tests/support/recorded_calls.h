// System calls by which a piece of work changes files, as the kernel sees them: recorded in a traced child
// process, so that none is missed.
//
//   const auto calls = recorded_calls([] { write_whole("/dev/shm/t/latest", {bytes_of("a\n")}); });
//   // create 3 "/dev/shm/t/latest.tmp"; write 3 "a\n"; flush 3;
//   // rename "/dev/shm/t/latest.tmp" -> "/dev/shm/t/latest"; ...
//
// Nothing if the system forbids tracing. Throws on calls that change files in a way not handled here.
#pragma once

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace boxcar::tests {

struct FileCall {
  enum class Kind { make_folder, create, truncate, write, flush, rename, exchange, remove, remove_folder };
  Kind kind;
  std::string path = {}, to = {};  // absolute; `to` of rename and exchange
  int64_t offset = 0;              // of write
  std::string bytes = {};
};

class CallRecorder {
 public:
  static std::optional<std::vector<FileCall>> record(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) run(work);
    return CallRecorder(child).follow();
  }

 private:
  using Kind = FileCall::Kind;
  static constexpr int not_allowed = 99;

  [[noreturn]] static void run(const std::function<void()>& work) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(not_allowed);
    raise(SIGSTOP);
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }

  explicit CallRecorder(pid_t child) : child_(child) {}

  std::optional<std::vector<FileCall>> follow() {
    int status = 0;
    waitpid(child_, &status, 0);
    if (!WIFSTOPPED(status)) return std::nullopt;
    ptrace(PTRACE_SETOPTIONS, child_, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    __ptrace_syscall_info entry{};
    while (true) {
      ptrace(PTRACE_SYSCALL, child_, nullptr, nullptr);
      waitpid(child_, &status, 0);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::move(calls_);
      if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80))
        throw std::runtime_error("the recorded work failed");
      __ptrace_syscall_info info{};
      if (ptrace(PTRACE_GET_SYSCALL_INFO, child_, sizeof info, &info) <= 0) {
        kill(child_, SIGKILL);
        waitpid(child_, &status, 0);
        return std::nullopt;
      }
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        entry = info;
        arguments_ = entry.entry.args;
        called(static_cast<long>(entry.entry.nr));  // reads paths and bytes before they may change
      } else {
        if (info.exit.rval >= 0 && next_) done(*std::move(next_), info.exit.rval);
        next_.reset();
      }
    }
  }

  // --- at the call's entry

  int64_t number(int argument) const { return static_cast<int64_t>(arguments_[argument]); }
  std::string memory(uint64_t at, size_t size) const {
    std::string bytes(size, '\0');
    const iovec here{bytes.data(), size}, there{reinterpret_cast<void*>(at), size};
    const ssize_t n = process_vm_readv(child_, &here, 1, &there, 1, 0);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
  }
  // The path in argument `text`, relative to descriptor `folder` or to the working folder.
  std::string path(int text, int folder = -1) const {
    std::string name;
    const uint64_t begin = arguments_[text];
    while (name.size() < PATH_MAX && name.find('\0') == std::string::npos) {
      const uint64_t at = begin + name.size();
      name += memory(at, std::min<uint64_t>(64, 4096 - at % 4096));  // the next page may not exist
    }
    name.resize(std::min(name.find('\0'), name.size()));
    if (name.starts_with('/')) return name;
    const int descriptor = folder < 0 ? AT_FDCWD : static_cast<int>(number(folder));
    const std::string base =
        descriptor == AT_FDCWD ? std::filesystem::current_path().string() : open_.at(descriptor).path;
    return (std::filesystem::path(base) / name).lexically_normal().string();
  }

  void called(long call) {
    switch (call) {
#ifdef SYS_open
      case SYS_open:
        return opens(path(0), number(1));
      case SYS_creat:
        return opens(path(0), O_CREAT | O_WRONLY | O_TRUNC);
      case SYS_mkdir:
        return expect({Kind::make_folder, path(0)});
      case SYS_rmdir:
        return expect({Kind::remove_folder, path(0)});
      case SYS_unlink:
        return expect({Kind::remove, path(0)});
      case SYS_rename:
        return expect({Kind::rename, path(0), path(1)});
#endif
      case SYS_openat:
        return opens(path(1, 0), number(2));
      case SYS_mkdirat:
        return expect({Kind::make_folder, path(1, 0)});
      case SYS_unlinkat:
        return expect({number(2) & AT_REMOVEDIR ? Kind::remove_folder : Kind::remove, path(1, 0)});
#ifdef SYS_renameat
      case SYS_renameat:
        return expect({Kind::rename, path(1, 0), path(3, 2)});
#endif
      case SYS_renameat2:
        return expect({number(4) & RENAME_EXCHANGE ? Kind::exchange : Kind::rename, path(1, 0), path(3, 2)});
      case SYS_write:
        if (open_.contains(descriptor()))
          expect({Kind::write, open_[descriptor()].path, "", append, memory(arguments_[1], arguments_[2])});
        return;
      case SYS_pwrite64:
        if (open_.contains(descriptor()))
          expect(
              {Kind::write, open_[descriptor()].path, "", number(3), memory(arguments_[1], arguments_[2])});
        return;
      case SYS_ftruncate:
        if (number(1) != 0) unknown(call);
        if (open_.contains(descriptor())) expect({Kind::truncate, open_[descriptor()].path});
        return;
      case SYS_fsync:
      case SYS_fdatasync:
        if (open_.contains(descriptor())) expect({Kind::flush, open_[descriptor()].path});
        return;
      case SYS_close:
        open_.erase(descriptor());
        return;
      case SYS_writev:
      case SYS_pwritev:
      case SYS_pwritev2:
      case SYS_truncate:
      case SYS_fallocate:
      case SYS_linkat:
      case SYS_symlinkat:
      case SYS_mknodat:
      case SYS_sendfile:
      case SYS_copy_file_range:
      case SYS_splice:
      case SYS_openat2:
      case SYS_sync:
      case SYS_syncfs:
      case SYS_sync_file_range:
      case SYS_dup:
      case SYS_dup3:
        unknown(call);
      default:
        return;
    }
  }
  [[noreturn]] static void unknown(long call) {
    throw std::runtime_error("system call " + std::to_string(call) +
                             " is not known to tests/support/recorded_calls.h");
  }
  int descriptor() const { return static_cast<int>(number(0)); }
  void expect(FileCall call) { next_ = {std::move(call), false, true}; }
  void opens(const std::string& path, int64_t flags) {
    const bool there = std::filesystem::exists(path), created = !there && (flags & O_CREAT) != 0;
    next_ = {{created ? Kind::create : Kind::truncate, path}, true, created || (flags & O_TRUNC) != 0};
  }

  // --- at the call's exit

  struct Next {
    FileCall call;
    bool opens, changes;
  };
  struct Open {
    std::string path;
    int64_t offset = 0;
  };
  static constexpr int64_t append = -1;

  void done(Next next, int64_t result) {
    FileCall& call = next.call;
    if (next.opens) open_[static_cast<int>(result)] = {call.path};
    if (call.kind == Kind::write) {
      call.bytes.resize(static_cast<size_t>(result));
      int64_t& offset = open_.at(descriptor()).offset;
      if (call.offset == append) call.offset = std::exchange(offset, offset + result);
    }
    for (auto& [descriptor, file] : open_)  // later writes go to the file's new name
      if (call.kind == Kind::rename && file.path == call.path) file.path = call.to;
    if (next.changes) calls_.push_back(std::move(call));
  }

  pid_t child_;
  const uint64_t* arguments_ = nullptr;
  std::optional<Next> next_;
  std::map<int, Open> open_;
  std::vector<FileCall> calls_;
};

inline std::optional<std::vector<FileCall>> recorded_calls(const std::function<void()>& work) {
  return CallRecorder::record(work);
}

}  // namespace boxcar::tests
