// README shows a command and its output: the program prints the same.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace {

// The words of the command under `heading`, without the program, and the block below it without its indent.
// No words where the heading is missing.
struct Shown {
  std::vector<std::string> arguments;
  std::string out;
};

Shown shown_below(const std::string& heading) {
  std::ifstream file(BOXCAR_SOURCE_DIR "/README.md");
  Shown shown;
  std::string line;
  while (std::getline(file, line) && line != heading) {
  }
  bool goes_on = true;
  while (goes_on && std::getline(file, line)) {  // blank lines, then the command
    if (line.empty()) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word != "\\") shown.arguments.push_back(word);
    goes_on = line.back() == '\\';
  }
  if (shown.arguments.empty()) return shown;
  shown.arguments.erase(shown.arguments.begin());
  std::getline(file, line);
  while (std::getline(file, line) && (line.empty() || line.starts_with("    ")))
    shown.out += (line.empty() ? line : line.substr(4)) + "\n";
  return shown;
}

// Without the line that reports the simulator's own time, and blank lines at the end.
std::string without_its_time(std::string out) {
  const size_t line = out.find("\nsimulator:");
  if (line != std::string::npos) out.erase(line, out.find('\n', line + 1) - line);
  return out.substr(0, out.find_last_not_of('\n') + 1);
}

TEST(Readme, ShowsWhatTheProgramPrints) {
  const Shown shown = shown_below("## Simulate");
  ASSERT_FALSE(shown.arguments.empty()) << "README.md has no command under that heading";
  ASSERT_EQ(shown.arguments.at(0), "simulate");
  EXPECT_EQ(without_its_time(boxcar::tests::run_program(shown.arguments).out), without_its_time(shown.out))
      << "put what the command prints into README.md";
}

}  // namespace
