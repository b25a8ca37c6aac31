// Command lines of every command, a word on each line, in a folder with a file of every kind: parsed, read
// and checked, up to where the work begins. What is written stays in the folder: words have no slashes.
#include <algorithm>
#include <filesystem>
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

// A folder to run in, as it was before, whatever ran there.
class Inside {
 public:
  Inside() : before_(fs::current_path()) {
    fs::create_directories(folder() + "/inside");
    const fs::path from = fs::path(BOXCAR_SOURCE_DIR) / "tests/fuzz/files";
    for (const auto& file : fs::directory_iterator(from))
      fs::copy_file(file, folder() + "/inside/" + file.path().filename().string(),
                    fs::copy_options::overwrite_existing);
    fs::current_path(folder() + "/inside");
  }
  ~Inside() {
    fs::current_path(before_);
    fs::remove_all(folder() + "/inside");
  }

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
