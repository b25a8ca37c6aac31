// User mistakes on the command line or in a file, each with its whole error message. The program runs as a
// user runs it: one line on stderr, nothing on stdout, exit 1 or 2, and no file written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace boxcar::tests {

using Words = std::vector<std::string>;

// A job that runs, as flags and as a file.
inline const Words job_flags{"--model=gpt", "--layers=4",   "--hidden=256",           "--heads=8",
                             "--seq=128",   "--vocab=1000", "--cluster=dgx-a100-80g", "--gpus=8"};

inline const std::string job_file =
    "model: {family: gpt, layers: 4, hidden: 256, heads: 8, seq: 128, vocab: 1000}\ncluster: {preset: "
    "dgx-a100-80g, gpus: 8}\n";

// The end of a message about an unknown cluster.
inline const std::string known_clusters =
    "known: a100-80g-400g, a100-80g-800g, alps-gh200, dgx-1-v100-16g, dgx-1-v100-32g, dgx-2-v100-32g, "
    "dgx-a100-40g, dgx-a100-80g, dgx-h100, gb200-nvl72, gb300-nvl72, h100-80g-800g, hgx-b200, hgx-b300, "
    "hgx-h200, hgx-h800, local, "
    "p3-16xlarge, pcie-a100-80g; or give a path to a .yaml file";

// The message names `path` as `shown_path`.
void expect_refused(const Words& arguments, int exit_code, const std::string& message,
                    const std::string& shown_path = "", const std::string& path = "");

struct CommandCase {
  Words arguments;
  int exit_code;
  std::string message;
};
// Prefixes each case's arguments with `beginning`.
void expect_refused(const Words& beginning, std::span<const CommandCase> cases);

}  // namespace boxcar::tests
