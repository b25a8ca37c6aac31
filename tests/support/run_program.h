// Runs the program as a user would and keeps its output. run_program has two definitions:
// tests/cli/run_forked.cpp and, if the commands are not linked, tests/support/run_built.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace boxcar::tests {

struct Output {
  int exit_code = -1;
  std::string out, err;
};

// Runs boxcar with these arguments (no shell) and empty standard input, in its own folder, which is removed
// afterwards. If the commands are linked, they run in a fork of the test: loading a program takes 80 ms, most
// of it for SimGrid.
Output run_program(const std::vector<std::string>& arguments);
// Another program, by its path.
Output run_another(const std::string& program, const std::vector<std::string>& arguments);
// Runs `body` in a fork. It returns the exit code; 125 if it throws.
Output run_in_child(const std::function<int()>& body);

// For `main` and `exec`: pointers into both, and a null pointer at the end.
std::vector<char*> words_of(const std::string& program, const std::vector<std::string>& arguments);

// Makes an empty folder, which the caller removes.
std::string temporary_folder();

// A file that exists as long as this object.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& content);
  ~TemporaryFile();
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

std::string replace_all(std::string text, const std::string& from, const std::string& to);

}  // namespace boxcar::tests
