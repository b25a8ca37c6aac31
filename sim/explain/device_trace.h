// Timelines that other programs wrote, as spans of work: PyTorch's profiler (Kineto) and Boxcar's own.
//
//   {"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 9000},
//                    {"ph": "X", "cat": "kernel", "name": "nvjet_tst_256x128", "ts": 12, "dur": 300,
//                     "args": {"device": 0, "stream": 7}}, ...]}
//
// is a trace of PyTorch: kernels are classified by words in their names, the steps are those of its
// annotations. A trace of Boxcar has the acts of one step by the names of a plan's actors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "sim/explain/step_profile.h"

namespace boxcar::explain {

struct DeviceTrace {
  bool is_boxcar = false;
  std::string device;  // as the trace names it
  int steps = 1;
  double begin = 0, end = 0;  // s
  std::vector<Span> spans;
  std::vector<std::string> unknown;  // kernels' names without a word of the table, the longest total first
};

// The class of a kernel by its name, as cuBLAS, cuDNN, CUTLASS, FlashAttention, NCCL and Triton name them.
// Nothing if no word is known: such kernels count as others.
std::optional<WorkClass> class_of_kernel(const std::string& name);

// `device`: the number or name of one of several in the trace; empty: the one with the most work. The plan's
// actors are looked up for a trace of Boxcar's. Throws Error (bad input) at `path` if it is no trace, or says
// nothing of a device.
DeviceTrace read_trace(const std::string& text, const std::string& path, const std::string& device,
                       const ir::Plan& plan);

}  // namespace boxcar::explain
