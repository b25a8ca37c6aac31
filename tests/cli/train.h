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
