#include "folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace boxcar::fuzz {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::error_code none;
    const fs::path memory = "/dev/shm";
    path = ((fs::is_directory(memory, none) ? memory : fs::temp_directory_path()) / "boxcar-fuzz-XXXXXX")
               .string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error(path + " cannot be made");
  }
  ~Folder() {
    std::error_code none;
    fs::remove_all(path, none);
  }
  std::string path;
};

}  // namespace

const std::string& folder() {
  static const Folder made;
  return made.path;
}

std::string put(const std::string& name, std::string_view bytes) {
  std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace boxcar::fuzz
