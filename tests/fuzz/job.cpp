// Job files, up to checked jobs; a plan's labels read back as the same job.
#include "cli/job.h"

#include "cli/plan_file.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_job(std::string_view input) {
  const auto given = allowed([&] { return cli::parse_job(std::string(input), "job.yaml"); });
  if (!given) return;
  ends([&] { cli::open_request(*given); });
  const auto resolved = allowed([&] { return cli::resolve(*given); });
  if (!resolved) return;
  ir::Plan plan;
  plan.labels = resolved->labels;
  std::map<std::string, std::string> back;
  try {
    back = cli::job_of(plan, "plan.txt").labels;
  } catch (const Error& error) {
    throw Broken(std::string("the labels of a job are none: ") + error.what());
  }
  for (const auto& [key, value] : resolved->labels)
    if (back[key] != value) throw Broken(key + " is " + value + " and reads as " + back[key]);
}

}  // namespace boxcar::fuzz
