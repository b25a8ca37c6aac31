// Why an op of a plan has its signature, and changes that would let another one win.
//
//   explain_op(laid, cluster, "h3.attn.qkv").dimensions[1]:
//     * B, S(1) -> S(2)           kernel 422.7 us
//       S(2), S(0) -> P(sum)      kernel 436.1 us, boxing 543.5 us
//     decided: the boxing of %h3.attn.qkv
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "planner/estimate/layout_request.h"
#include "planner/laid_out.h"

namespace boxcar::explain {

// The step in s by the time models, on a cluster, with these signatures of the op, by mesh dimension; layouts
// on `dimension` are open. With `free_memory` bytes cost nothing. Infinite if no layouts go with the
// signatures.
struct StepWith {
  std::function<double(size_t dimension, const std::vector<sbp::Signature>& signatures,
                       const backends::Cluster& cluster, bool free_memory)>
      seconds;             // may be null: not known
  bool anew = false;       // all other ops are laid out anew with it; otherwise they stay as they are
  bool by_memory = false;  // layouts were chosen with a price of bytes
  bool quick = true;       // may be called several dozen times
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
  double step = 0;    // growth of the step; infinite if no layouts go with the signature
};

struct DimensionExplanation {
  std::string name;
  int64_t devices = 1;
  std::vector<SignatureCost> signatures;  // cheapest first
  std::string decided;                    // the tensor whose boxing decided
  std::vector<std::string> would_change;  // changes that would let the next one win
  // The constant in would_change that changes by the smallest factor, by its --what-if name; empty: none.
  std::string constant;
  double times = 1;
};

struct OpExplanation {
  std::string op;  // "h3.attn.qkv = matmul(%h3.ln1, ...)"
  std::vector<DimensionExplanation> dimensions;
  bool steps = false, anew = false;
};

// The legal signatures of an op on every dimension of its mesh and the cost of each, with the boxing of
// inputs and outputs. The other dimensions stay as they are. Throws Error (bad input) with the nearest name.
OpExplanation explain_op(const planner::LaidOut& laid, const backends::Cluster& cluster,
                         const std::string& name, const StepWith& step = {});

// By solving for layouts. If `layouts` were searched (result: `found`), all other ops are laid out anew with
// this one; if hints decided, they stay. `laid` outlives the result.
StepWith step_with(const planner::Job& job, const planner::LaidOut& laid, const std::string& op,
                   const std::optional<search::LayoutRequest>& layouts, const search::FoundLayouts& found);

std::string signature_text(const sbp::Signature& signature);  // "S(2), S(0) -> P(sum)"

}  // namespace boxcar::explain
