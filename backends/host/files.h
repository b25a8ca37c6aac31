// Files and folders that are either complete or absent, even after a crash of the machine, and the system's
// reason if an operation fails. Everything that anything relies on is written by these.
//
//   write_whole("out/latest", {bytes_of("step-000020\n")});   // out/latest.tmp: flush, rename, flush out
//   std::string text = read_text("out/latest");               // "step-000020\n"
//
// The rule: contents are on disk before their name is, and the name before anything relies on it. A crash may
// keep any part of unflushed data, in any order (tests/host/crash_test.cpp).
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

// The system's refusal of a file operation, a fault: "out/latest.tmp: cannot be written: No space left on
// device".
class FileError : public Error {
 public:
  FileError(const std::string& path, const char* what, int reason);  // "be written", ENOSPC
  const std::string& reason() const { return reason_; }              // "No space left on device"

 private:
  std::string reason_;
};

// A file while it is written, beside its final place; removed unless put there. Throws FileError.
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
  // Closes the file and names it `path`, replacing any file there. It is then on disk with that name.
  void put_in_place(const std::string& path);

 private:
  std::string path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

// Writes the parts one after the other. An earlier file stays until the new one is completely on disk. Throws
// FileError.
void write_whole(const std::string& path, const std::vector<Bytes>& parts);

// Makes a folder and missing folders above it. They are then on disk with all their names. Throws FileError.
void make_folder(const std::string& path);
// Renames folder `from`, all of which is on disk, to `path` in one step; a folder there is replaced, then
// removed. The new name is then on disk. Throws FileError.
void put_folder_in_place(const std::string& from, const std::string& path);
// Removes a folder whose name no longer counts, and all in it. Earlier renames are flushed first, since the
// removal could reach the disk before the name of its replacement. Throws FileError.
void remove_folder(const std::string& path);
// Names in a folder, in no order. Throws FileError.
std::vector<std::string> names_in(const std::string& folder);

// A file open for reading. Throws Error (bad input) if it is missing, a folder or unreadable.
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
