// Backends that execute plans, a row for each. Keys and flags take a row's words, `boxcar train` makes the
// backend, `boxcar profile` measures its devices. A new backend is a folder of backends/ and a row.
//
//   backend_row("cuda").make(run, 4, nullptr)   four devices on this process's GPUs; throws Error (cannot
//                                               run) if there are none
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/training/train_run.h"
#include "backends/backend.h"
#include "backends/measure/samples.h"
#include "backends/transport.h"

namespace boxcar::cli {

// Options of `boxcar profile` for GPUs.
struct Profiling {
  bool fast = false;     // the kernels of `train --fast`
  double memory = 32e9;  // the most bytes that it takes
};

struct BackendRow {
  std::string name;
  std::vector<std::string> meant;  // other names that people use
  std::vector<std::string> keys;   // keys of section run only for this backend
  bool gpus = false;               // its devices have memory of their own; otherwise they take the machine's
  int64_t pad_vocab = 1;  // training's default: products with tables of so many words have fast kernels
  // Called before anything (MPI too) is started; null if there is nothing to prepare. `processes`: of the
  // run.
  void (*prepare)(int processes) = nullptr;
  // The caller keeps the transport if this throws.
  std::unique_ptr<backends::Backend> (*make)(const training::TrainRun& run, int devices,
                                             std::unique_ptr<backends::Transport>&& transport);
  measure::Samples (*measure)(const Profiling& profiling);
};

const std::vector<BackendRow>& backend_rows();
std::vector<std::string> backend_names();
// "cuda": the names of those whose devices have memory of their own, with "or" between them.
std::string gpu_backend_names();
// Throws Error (bad input) at --backend for an unknown name.
const BackendRow& backend_row(const std::string& name);

}  // namespace boxcar::cli
