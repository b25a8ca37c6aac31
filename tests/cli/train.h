// `boxcar train` in a folder with a text to train on.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/run_program.h"

namespace boxcar::tests {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Words = std::vector<std::string>;

// A graph of docs/examples with these words in place of others.
inline std::string small_example(const std::string& name,
                                 const std::vector<std::pair<const char*, const char*>>& words) {
  std::ifstream file(BOXCAR_SOURCE_DIR "/docs/examples/" + name);
  std::string text(std::istreambuf_iterator<char>(file), {});
  for (const auto& [from, to] : words) text = replace_all(text, from, to);
  return text;
}

// 16 classes in four parts, each of which draws three: room for three labels.
inline std::string small_partial_fc() {
  return small_example("partial_fc.txt",
                       {{"1000000", "16"}, {"100000", "12"}, {"parts=8", "parts=4"}, {"512", "8"}});
}

// A graph in which %j, a sum of indices into a table of 5 rows, is read by `op`: "embedding(%w, %j)".
inline std::string graph_of_computed_indices(const std::string& j, const std::string& op) {
  return "graph g\n%i: int64[batch] = input()\n%w: float32[5, 4] = parameter()\n"
         "%k = slice(%i) {starts=[0], ends=[batch]}\n%j = " +
         j + "\n%own = embedding(%w, %k)\n%e = " + op + "\n" +
         (op.starts_with("cross_entropy")
              ? "%loss = reduce_mean(%e) {axes=[0]}\n"
              : "%both = mul(%e, %own)\n%loss = reduce_mean(%both) {axes=[0, 1]}\n");
}

// In a child process: becomes the program, with its output in `out`.
[[noreturn]] inline void run(const Words& words, const char* out = "/dev/null") {
  std::vector<char*> argv{const_cast<char*>(BOXCAR_PROGRAM)};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  if (!freopen(out, "w", stdout)) _exit(126);
  execv(BOXCAR_PROGRAM, argv.data());
  _exit(127);
}

// A folder with a text to train on.
class Train : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("boxcar-train-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    std::ofstream text(data());
    for (int i = 0; i < 60; ++i) text << "the trains run on time, line " << i << ", and so do the boxcars\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string data() const { return path("text.txt"); }

  Words arguments(const Words& more) const {
    Words words{"train",       "--model=gpt", "--layers=2",       "--hidden=16", "--heads=4",      "--seq=16",
                "--vocab=256", "--steps=6",   "--data=" + data(), "--json",      "--micro-batch=2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The losses by step, of training or validation.
  static std::map<int, double> losses(const std::string& out, const std::string& event = "step") {
    std::map<int, double> result;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line);
      if (j.at("event") == event) result[j.at("step")] = j.at("loss");
    }
    return result;
  }

  std::map<int, double> train(const Words& more) const {
    const Output output = run_program(arguments(more));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return losses(output.out);
  }

  static std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // All files of the newest checkpoint.
  static std::map<std::string, std::string> checkpoint(const std::string& folder) {
    std::map<std::string, std::string> files;
    std::ifstream latest(folder + "/latest");
    std::string name;
    latest >> name;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / name))
      files[entry.path().filename()] = bytes_of(entry.path());
    return files;
  }

  fs::path folder_;
};

}  // namespace boxcar::tests
