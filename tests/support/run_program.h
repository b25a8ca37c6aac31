// Runs the built program as a user would and keeps what it says.
#pragma once

#include <string>
#include <vector>

namespace boxcar::testing {

struct Output {
  int exit_code = -1;
  std::string out, err;
};

// Runs BOXCAR_PROGRAM with these arguments (no shell), standard input empty, in a folder of its own that is
// removed after.
Output run_program(const std::vector<std::string>& arguments);
// Another program, by its path.
Output run_another(const std::string& program, const std::vector<std::string>& arguments);

// A new empty folder, the caller's to remove.
std::string temporary_folder();

// A file that lives as long as this does.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& content);
  ~TemporaryFile();
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

std::string replace_all(std::string text, const std::string& from, const std::string& to);

}  // namespace boxcar::testing
