// Hugging Face's config.json, as the model of a job.
#include "cli/config_file.h"
#include "cli/job.h"
#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_model_config(std::string_view input) {
  const std::string path = put("config.json", input);
  if (ends([&] { cli::read_model_config(path); }))
    ends([&] {
      cli::resolve({{"model.family", {path, "--model"}},
                    {"cluster.preset", {"dgx-a100-80g", "--cluster"}},
                    {"cluster.gpus", {"8", "--gpus"}}});
    });
}

}  // namespace boxcar::fuzz
