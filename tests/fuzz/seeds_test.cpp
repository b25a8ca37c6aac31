// Every harness on its seeds: real examples, and inputs that once broke a parser.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness.h"

namespace boxcar::fuzz {
namespace {

namespace fs = std::filesystem;

struct Harness {
  const char* name;
  void (*run)(std::string_view);
  const char* examples = nullptr;  // a folder of the project with more examples
};
const Harness harnesses[] = {{"checkpoint", fuzz_checkpoint},
                             {"cluster", fuzz_cluster, "backends/presets/clusters"},
                             {"command", fuzz_command},
                             {"config", fuzz_config},
                             {"device", fuzz_device, "backends/presets/devices"},
                             {"graph", fuzz_graph},
                             {"images", fuzz_images},
                             {"job", fuzz_job},
                             {"measurements", fuzz_measurements},
                             {"model_config", fuzz_model_config},
#ifdef BOXCAR_HAS_PROTOBUF
                             {"onnx", fuzz_onnx},
#endif

                             {"plan", fuzz_plan},
                             {"safetensors", fuzz_safetensors},
                             {"samples", fuzz_samples},
                             {"sbp", fuzz_sbp},
                             {"framework", fuzz_framework, "backends/presets/frameworks"},
                             {"tar", fuzz_tar},
                             {"tokenizer", fuzz_tokenizer, "tests/host/sentence_piece"},
                             {"tokens", fuzz_tokens}};

class Seeds : public testing::TestWithParam<Harness> {};

void run_all(const Harness& harness, const fs::path& folder) {
  ASSERT_TRUE(fs::is_directory(folder)) << folder;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    EXPECT_NO_THROW(harness.run(bytes.str())) << entry.path();
  }
}

TEST_P(Seeds, AreReadOrRefused) {
  const fs::path project = BOXCAR_SOURCE_DIR;
  run_all(GetParam(), project / "tests/fuzz/seeds" / GetParam().name);
  if (GetParam().examples) run_all(GetParam(), project / GetParam().examples);
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Seeds, testing::ValuesIn(harnesses),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::fuzz
