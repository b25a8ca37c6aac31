// Options for running a compiled plan with `boxcar train`: the keys of section "run". None of them changes
// the plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace boxcar::training {

struct TrainRun {
  std::string backend = "cpu";
  bool share_gpus = false;             // several devices on one GPU, in one process
  bool fast = false;                   // choose kernels by time; runs do not repeat bit by bit
  bool require_fast = false;           // no kernel may be slower than the backend's fastest for its op
  std::string algorithms;              // of fast: a file that keeps the timings; empty: none
  bool cuda_graph = false;             // steps are recorded and launched as one act each
  double collective_timeout = 600;     // seconds that a collective of NCCL may take
  double library_memory = 1.5e9;       // bytes of a GPU kept free for libraries' modules and workspaces
  std::vector<std::string> data;       // text, or .bin of uint16 tokens or of images; "random": random data
  int64_t decoders = 1;                // of encoded images: threads of each device that decode
  int64_t prefetch = 2;                // micro-batches of encoded images that are read and decoded ahead
  bool augment = true;                 // encoded images are cropped and mirrored at random
  bool spans = false;                  // of T5: text with missing spans, else text and its continuation
  int64_t document_end = -1;           // the token that ends a document; -1: the vocabulary's last
  int64_t steps = 100;                 // optimizer steps in all, including those before a resumed checkpoint
  int64_t seed = 1;                    // of weights, dropout and the order of the data
  std::string lr_schedule = "cosine";  // cosine: down to min_learning_rate at the last step | constant
  int64_t warmup_steps = 0;            // the rate grows linearly over these
  double min_learning_rate = 0;
  int64_t validate_every = 0;         // steps; 0: no validation, and all data is for training
  double validation_fraction = 0.05;  // the last part of the data
  int64_t validation_batches = 2;     // global batches in the mean of a validation loss
  int64_t log_every = 1;              // steps to a line
  std::string checkpoint_dir;         // empty: no checkpoints
  int64_t checkpoint_every = 0;       // steps; 0: only at the end
  int64_t keep_checkpoints = 2;       // newest kept; 0: all
  bool resume = false;                // continue from the newest checkpoint, if there is one
  std::string init_from;              // model.safetensors beside its config.json; for a graph, with its names
};

// The rate of a step, counted from 0: warm-up to `peak`, then the schedule; cosine reaches
// run.min_learning_rate at the last of run.steps.
double learning_rate(const TrainRun& run, double peak, int64_t step);

}  // namespace boxcar::training
