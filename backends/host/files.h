// Files and folders that are either there whole or not at all, after a crash of the machine too, and what the
// system says where one cannot be had. Whatever somebody relies on is written by these.
//
//   write_whole("out/latest", {bytes_of("step-000020\n")});   // out/latest.tmp, flushed, renamed, out
//   flushed std::string text = read_text("out/latest");               // "step-000020\n"
//
// The rule: what a name stands for is on disk before the name is, and the name before anything relies on it.
// A crash may keep any part of what was not flushed, in any order (tests/host/crash_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sbp/error.h"

namespace boxcar::backends::host {

using Bytes = std::span<const std::byte>;
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// What the system refuses to do with a file, a fault: "out/latest.tmp: cannot be written: No space left on
// device".
class FileError : public Error {
 public:
  FileError(const std::string& path, const char* what, int reason);  // "be written", ENOSPC
  const std::string& reason() const { return reason_; }              // "No space left on device"

 private:
  std::string reason_;
};

// A file while it is written, beside its place; removed unless it was put there. Throws FileError.
//
//   NewFile file("plan.txt.part");
//   file.write(bytes_of("plan 1\n"));
//   file.put_in_place("plan.txt");
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(Bytes bytes);
  // Closed, named `path`, in place of what was there, and on disk with that name.
  void put_in_place(const std::string& path);

 private:
  std::string path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

// The parts one after the other. A file that was there stays until the new one is on disk whole. Throws
// FileError.
void write_whole(const std::string& path, const std::vector<Bytes>& parts);

// Makes a folder, and those above it, where they are not; on disk with all their names. Throws FileError.
void make_folder(const std::string& path);
// Names a folder `path`, all of which is on disk: in one step in place of the folder that was there, which is
// removed after. On disk with that name. Throws FileError.
void put_folder_in_place(const std::string& from, const std::string& path);
// Removes a folder and all in it, whose name no longer counts: what was renamed before is on disk first, as
// its removal may be there before the name of what took its place. Throws FileError.
void remove_folder(const std::string& path);
// What is in a folder, in no order. Throws FileError.
std::vector<std::string> names_in(const std::string& folder);

// A file open for reading. Throws Error (bad input) where it is missing, a folder or unreadable.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Fills `to` with the bytes from `offset` on, all of which must lie in the file.
  void read(int64_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

std::string read_text(const std::string& path);

}  // namespace boxcar::backends::host
