// Predictions of published training runs are as pinned in experiments/predictions/. After an intended change
// of a model, `experiments/validate --pin` rewrites them.
#include <gtest/gtest.h>

#include <string>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
#include "cli/keys.h"
#include "run_experiment.h"

namespace boxcar::cli {
namespace {

TEST(Fidelity, ASampleOfPredictionsIsAsPinned) {
  EXPECT_EQ(experiment("validate", "--check --every 60"), "all predictions are as pinned\n");
}

TEST(Fidelity, LongAllPredictionsAreAsPinned) {
  EXPECT_EQ(experiment("validate", "--check"), "all predictions are as pinned\n");
}

TEST(Fidelity, RowsThatContradictEachOtherAreNamed) {
  const std::string said = experiment("contradictions", "");
  EXPECT_NE(said.find("| s2048 on 64 trial 132337 | s2048 on 64 trial 97401 | 72.8 | 44.7 | 39 |"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("| l48 h8192 b1536 dp8 tp4 pp16 mb12 | l48 h8192 b1536 dp16 tp4 pp8 mb12 | 27.8 | "),
            std::string::npos)
      << said;
  EXPECT_NE(experiment("contradictions", "internevo")
                .find("error: no rules for a family internevo; there are for "),
            std::string::npos);
}

TEST(Fidelity, FamiliesHaveNames) {
  const std::string said = experiment("validate", "megatron");
  EXPECT_NE(said.find("validate: error: no family is named megatron; known are vtrain_single_node, "),
            std::string::npos)
      << said;
}

TEST(Fidelity, FrameworksSetKeysThatThereAre) {
  for (const std::string& name : backends::framework_names()) {
    Request request;
    for (const auto& [path, text] : backends::load_framework(name).defaults) {
      const size_t dot = path.find('.');
      const Key* key = find_key(path.substr(0, dot), path.substr(dot + 1));
      ASSERT_NE(key, nullptr) << name << ": " << path;
      set(*key, request, name, text);
    }
  }
}

}  // namespace
}  // namespace boxcar::cli
