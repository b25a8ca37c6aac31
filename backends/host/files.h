// Files that are either there whole or not at all, and what the system says where one cannot be had.
//
//   write_whole("out/latest", {bytes_of("step-000020\n")});   // out/latest.tmp, synced, renamed, folder
//   synced std::string text = read_text("out/latest");               // "step-000020\n"
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar::backends::host {

using Bytes = std::span<const std::byte>;
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The parts one after the other. A file that was there stays until the new one is on disk whole. Throws Error
// (fault) with the system's reason.
void write_whole(const std::string& path, const std::vector<Bytes>& parts);
// Makes what was created, renamed or removed in a folder last. Throws Error (fault).
void sync_folder(const std::string& path);
// The folder that holds `path`: "out" of "out/latest", "." of "latest".
std::string folder_of(const std::string& path);

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
