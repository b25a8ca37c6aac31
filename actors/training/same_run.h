// Facts that the processes of a run must share: flags, the plan, data and weights. They are compared before
// the run starts. Otherwise the processes could wait for each other forever, or train something unintended.
//
//   expect_same_run(transport, {{"run.steps", "9"}, {"run.resume", "step 0"}});
//   // throws in all: "process 1: run.resume: is step 0, process 0 has step 6 (processes need the same flags
//   // and files)"
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "actors/training/beginning.h"
#include "actors/training/train_run.h"
#include "backends/backend.h"
#include "backends/host/checkpoint.h"
#include "backends/transport.h"
#include "ir/plan.h"

namespace boxcar::training {

// The fact that names a process's GPU.
inline constexpr const char* gpu_fact = "GPU";

// `facts`: by the path of a key, or by another name if no key decides it. All processes call it before the
// transport starts. If facts differ it throws the same Error (input) in all.
void expect_same_run(backends::Transport& transport, const std::map<std::string, std::string>& facts);

// The facts that all processes must share. `configuration`: keys by path. Keys that are paths count by their
// content: `data` is Data::all, and `begin` the beginning of the run.
std::map<std::string, std::string> run_facts(const std::map<std::string, std::string>& configuration,
                                             const TrainRun& run, const ir::Plan& plan,
                                             const std::string& data, const Beginning& begin,
                                             backends::Backend& backend);

// Hash of names, types and values.
uint64_t fingerprint(const backends::host::GlobalTensors& tensors);
uint64_t fingerprint(std::span<const std::byte> bytes);

}  // namespace boxcar::training
