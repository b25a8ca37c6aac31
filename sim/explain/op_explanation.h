// Why an op of a plan has the signature that it has, and what would let another one win.
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

// By solving for layouts: where `layouts` were found (as `found`), all others are found anew with the op's;
// where hints decided, they stay. `laid` outlives what is returned.
StepWith step_with(const planner::Job& job, const planner::LaidOut& laid, const std::string& op,
                   const std::optional<search::LayoutRequest>& layouts, const search::FoundLayouts& found);

std::string signature_text(const sbp::Signature& signature);  // "S(2), S(0) -> P(sum)"

}  // namespace boxcar::explain
