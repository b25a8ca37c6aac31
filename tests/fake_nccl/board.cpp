#include "fake_nccl/board.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace fake_nccl {

std::string new_folder() {
  const char* const wanted = std::getenv("TMPDIR");
  const std::string memory = "/dev/shm";
  std::error_code none;
  std::string name = wanted                                        ? std::string(wanted)
                     : std::filesystem::is_directory(memory, none) ? memory
                                                                   : std::string("/tmp");
  name += "/boxcar-nccl-XXXXXX";
  return mkdtemp(name.data()) ? name : "";
}

void Board::put(const std::string& name, const std::string& bytes) const {
  const std::string path = folder_ + "/" + name, part = path + ".part";
  std::FILE* const file = std::fopen(part.c_str(), "wb");
  const bool written = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = file && std::fclose(file) == 0;
  if (!written || !closed || std::rename(part.c_str(), path.c_str()) != 0)
    throw std::runtime_error(path + ": cannot be written");
}

std::optional<std::string> Board::find(const std::string& name) const {
  const int file = open((folder_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat facts {};
  std::string bytes;
  if (fstat(file, &facts) == 0) bytes.resize(static_cast<size_t>(facts.st_size));
  size_t got = 0;
  for (ssize_t part = 1; got < bytes.size() && part > 0; got += static_cast<size_t>(part))
    part = std::max<ssize_t>(::read(file, bytes.data() + got, bytes.size() - got), 0);
  close(file);
  if (got < bytes.size()) throw std::runtime_error(folder_ + "/" + name + ": cannot be read");
  return bytes;
}

void Board::remove(const std::string& name) const { unlink((folder_ + "/" + name).c_str()); }

void Board::clear() const {
  std::error_code gone;
  std::filesystem::remove_all(folder_, gone);
}

}  // namespace fake_nccl
