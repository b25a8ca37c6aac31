// Predictions of published training runs are as pinned in experiments/predictions/. Where a model changed on
// purpose, `experiments/validate --pin` writes them anew.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "backends/cluster.h"
#include "cli/keys.h"

namespace boxcar::cli {
namespace {

std::string experiment(const std::string& name, const std::string& arguments) {
  const std::string command = fmt::format("BOXCAR='{}' '{}' '{}/experiments/{}' {} 2>&1", BOXCAR_PROGRAM,
                                          BOXCAR_PYTHON, BOXCAR_SOURCE_DIR, name, arguments);
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "cannot be started";
  std::string text;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

TEST(Fidelity, ASampleOfPredictionsIsAsPinned) {
  EXPECT_EQ(experiment("validate", "--check --every 60"), "all predictions are as pinned\n");
}

TEST(Fidelity, LongAllPredictionsAreAsPinned) {
  EXPECT_EQ(experiment("validate", "--check"), "all predictions are as pinned\n");
}

TEST(Fidelity, FamiliesHaveNames) {
  const std::string said = experiment("validate", "megatron");
  EXPECT_NE(said.find("validate: error: no family is named megatron; known are vtrain_single_node, "),
            std::string::npos)
      << said;
}

TEST(Fidelity, StacksSetKeysThatThereAre) {
  for (const std::string& name : backends::stack_names()) {
    Request request;
    for (const auto& [path, text] : backends::load_stack(name).defaults) {
      const size_t dot = path.find('.');
      const Key* key = find_key(path.substr(0, dot), path.substr(dot + 1));
      ASSERT_NE(key, nullptr) << name << ": " << path;
      set(*key, request, name, text);
    }
  }
}

// What a person with a GPU runs, on the CPU backend.
TEST(GpuCompare, PutsTheSimulatedStepBesideTheMeasuredOne) {
  const std::string device =
      fmt::format("--device '{}/backends/presets/devices/cpu.yaml'", BOXCAR_SOURCE_DIR);
  const auto pattern = [](const std::string& model) {
    return model +
           " acts    simulated +[0-9.]+ ms  measured +[0-9.]+ ms  error +[-+][0-9.]+%  pytorch +- ms\n"
           "    not for this model\n";
  };
  EXPECT_THAT(experiment("gpu/compare",
                         fmt::format("--boxcar '{}' {} --backend cpu --small", BOXCAR_PROGRAM, device)),
              ::testing::MatchesRegex(pattern("GPT, 2 layers ") + pattern("ResNet-50, small")));
  const auto failed = [](const char* model) {
    return fmt::format(
        "{} acts    simulated        - ms  measured        - ms  error       -  pytorch        - ms\n"
        "    exit code 1\n    exit code 1\n    not for this model\n",
        model);
  };
  EXPECT_EQ(experiment("gpu/compare", fmt::format("--boxcar false {} --backend cpu --small", device)),
            failed("GPT, 2 layers ") + failed("ResNet-50, small"));
}

}  // namespace
}  // namespace boxcar::cli
