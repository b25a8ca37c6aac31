// A test's own folder, removed at the end, and files in it. In memory where possible: syncing a disk would
// take most of the time, and no test needs it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "sbp/error.h"

namespace boxcar::tests {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::is_directory("/dev/shm") ? "/dev/shm/" : testing::TempDir()) +
              "boxcar-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Makes a file and returns its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The exit code and message that `run` throws, as "2: out/latest: ...", without `folder` and its slash; "" if
// it throws nothing.
template <class Run>
std::string message_of(const TemporaryFolder& folder, Run run) {
  try {
    run();
  } catch (const Error& error) {
    std::string text = std::to_string(static_cast<int>(error.code())) + ": " + error.what();
    const std::string prefix = folder.path() + "/";
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  return "";
}

}  // namespace boxcar::tests
