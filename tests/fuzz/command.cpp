// Command lines of every command, a word on each line, in a folder with a file of every kind: parsed, read
// and checked, but not executed. Output stays in the folder, since words have no slashes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "cli/program.h"
#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(std::string_view input) {
  std::vector<std::string> words{"boxcar"};
  for (size_t begin = 0; begin < input.size() && words.size() < 64;) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    std::string word(input.substr(begin, end - begin));
    std::erase_if(word, [](char c) { return c == '/' || c == '\0'; });
    words.push_back(std::move(word));
    begin = end + 1;
  }
  return words;
}

using Times = std::map<std::string, fs::file_time_type>;

// Files of a folder, with modification times.
Times times(const std::string& of) {
  Times found;
  for (const auto& file : fs::directory_iterator(of)) found[file.path().filename()] = file.last_write_time();
  return found;
}

// A folder to run in, always in its original state: it is made again where something was written.
class Inside {
 public:
  Inside() : before_(fs::current_path()) {
    static const std::string inside = folder() + "/inside";
    static Times made;
    if (!fs::exists(inside) || times(inside) != made) {
      fs::remove_all(inside);
      fs::create_directories(inside);
      const fs::path from = fs::path(BOXCAR_SOURCE_DIR) / "tests/fuzz/files";
      for (const auto& file : fs::directory_iterator(from))
        fs::copy_file(file, inside + "/" + file.path().filename().string());
      made = times(inside);
    }
    fs::current_path(inside);
  }
  ~Inside() { fs::current_path(before_); }

 private:
  fs::path before_;
};

}  // namespace

void fuzz_command(std::string_view input) {
  const std::vector<std::string> words = words_of(input);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const Inside inside;
  ends([&] { cli::run_program(static_cast<int>(argv.size()), argv.data(), cli::Extent::reading); });
}

}  // namespace boxcar::fuzz
