// Why a plan is as it is: as values, as text for people, as one document for programs.
//
//   boxcar explain best.txt --op h3.attn.qkv
//
//   tp, 2 devices
//       signature                                     kernel    boxing  what moves
//     * B, S(1) -> S(2)                             422.7 us         -
//       S(2), S(0) -> P(sum)                        436.1 us  543.5 us  ...
//     the boxing of %h3.attn.qkv decided: with S(2), S(0) -> P(sum), the next, it goes from P(sum) to S(2)
//     (...)
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backends/cluster.h"
#include "cli/report.h"
#include "planner/laid_out.h"

namespace boxcar::cli {

// Labels of a plan that a search found: "20.18 s, 2.2 % slower: --dp 16 ...".
inline constexpr const char* runner_up = "search.runner_up.";

// --- the plan

// What the ops of a stage have: a layout, and its part of the bytes of a device.
using LayoutShares = std::vector<std::pair<std::string, double>>;  // most first

// One program: a stage, or a part of one that differs ("stage0.1").
struct StageExplanation {
  StageReport report;
  std::string layers;  // "0-3, 8-11"; empty where the plan has no job
  std::string mesh;    // "dp 2 x tp 4"
  int in_flight = 0;   // micro-batches that there is room for
  LayoutShares parameters, activations;
};

struct Communication {  // of one device in a step, layers taken together
  std::string name, stage, over, why;
  double seconds = 0, bytes = 0;
  int64_t acts = 0;
};

struct PlanExplanation {
  Report report;
  std::vector<StageExplanation> stages;
  std::vector<std::string> runners_up;
  std::vector<Communication> communications;  // the ten that take most time
  std::string slow_stages;                    // a line for people; empty where no device is slow
};

// `laid` may be null: the plan was not compiled from a job.
PlanExplanation explain_plan(const ir::Plan& plan, const backends::Cluster& cluster, const Report& report,
                             const planner::LaidOut* laid);
std::string to_text(const PlanExplanation& explanation);
nlohmann::ordered_json to_json(const PlanExplanation& explanation);

// --- an op

// The step by the time models, in s, with these signatures of the op, by mesh dimension, of which one is
// open, on a cluster, and with `free_memory` where bytes cost nothing; infinite where nothing goes with them.
struct StepWith {
  std::function<double(size_t dimension, const std::vector<sbp::Signature>& signatures,
                       const backends::Cluster& cluster, bool free_memory)>
      seconds;             // may be null: not known
  bool anew = false;       // all other ops are laid out anew with it; else they stay as they are
  bool by_memory = false;  // layouts were chosen with a price of bytes
  bool quick = true;       // may be asked some dozen times
};

struct SignatureCost {
  sbp::Signature signature;
  bool chosen = false;
  double kernel = 0;  // s, of an act
  struct Boxing {
    size_t tensor = 0;  // of the op: its inputs, then its outputs
    std::string name;
    sbp::Sbp from, to;
    double seconds = 0;
  };
  std::vector<Boxing> moved;
  double boxing = 0;  // all of it
  double step = 0;    // by how much the step would grow; infinite where nothing goes with it
};

struct DimensionExplanation {
  std::string name;
  int64_t devices = 1;
  std::vector<SignatureCost> signatures;  // cheapest first
  std::string decided;                    // which tensor's boxing
  std::vector<std::string> would_change;  // what would let the next one win
  // Of it the constant that changes by the smallest factor, as --what-if calls it; empty: none does.
  std::string constant;
  double times = 1;
};

struct OpExplanation {
  std::string op;  // "h3.attn.qkv = matmul(%h3.ln1, ...)"
  std::vector<DimensionExplanation> dimensions;
  bool steps = false, anew = false;
};

// The legal signatures of an op on every dimension of its mesh with what each would cost here, boxing of what
// it reads and writes included, the other dimensions as they are. Throws Error (bad input) with the nearest
// name.
OpExplanation explain_op(const planner::LaidOut& laid, const backends::Cluster& cluster,
                         const std::string& name, const StepWith& step = {});
std::string to_text(const OpExplanation& explanation);
nlohmann::ordered_json to_json(const OpExplanation& explanation);

// --- a tensor

struct TensorExplanation {
  std::string name, type;
  int stage = 0;
  std::vector<int> devices;
  std::vector<std::string> layout;  // "dp 2: S(0)", by mesh dimension
  std::map<std::vector<sbp::Range>, std::vector<int>> blocks;
};

// Which device of a stage holds which block of a tensor. Throws as explain_op.
TensorExplanation explain_tensor(const planner::LaidOut& laid, const std::string& name);
std::string to_text(const TensorExplanation& explanation);
nlohmann::ordered_json to_json(const TensorExplanation& explanation);

// "0-3, 8"
std::string ranges_text(const std::vector<int>& numbers);

// "h3.attn.proj.all_reduce" -> "h*.attn.proj.all_reduce": layers are told together.
std::string without_layer(const std::string& name);

}  // namespace boxcar::cli
