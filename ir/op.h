// The op registry: one row per op. A row holds everything the compiler knows about its op, including
// signatures that no index map can express, with the reason.
//
//   const OpDef& matmul = op("matmul");
//   matmul.infer({f32[4,6], f32[6,8]}, {}) == {f32[4,8]}
//   signatures(matmul, ...) == B,B->B; S(0),B->S(0); B,S(1)->S(1); S(1),S(0)->P(sum); P(sum),B->P(sum);
//   B,P(sum)->P(sum)
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types.h"
#include "sbp/index_map.h"

namespace boxcar::ir {

// Time model of a kernel.
enum class Family : uint8_t { matmul, attention, convolution, memory, none };

// Work of one kernel on local tensors.
struct Work {
  double flops = 0;
  double bytes = 0;  // read and written, each tensor once unless the op says otherwise
};

using Types = std::vector<TensorType>;

// Values that an operand may hold in a sample: multiples of `step` counted from `low`, up to `high`. The
// default has both signs and zero; {-3.5, 3.5, 1} has no zero; {0, extent - 1, 1} holds indices. With
// `infinite` one tensor in two has an infinite element.
struct Domain {
  double low = -4, high = 4, step = 1;
  bool infinite = false;
};

// One example call. Law 1 is checked on it, and it documents the op.
struct Sample {
  Types inputs = {};
  Attrs attrs = {};                  // completed by the caller
  std::vector<Domain> domains = {};  // one per input; missing ones are the default
};

// Draws a new extent, 2 to 7, at each call.
using Extent = std::function<int64_t()>;

// Signatures that are valid but not offered, and why. Law 1 expects exactly these to be missing.
struct Omission {
  std::string reason = {};  // one line
  std::function<bool(const sbp::Signature&)> covers = {};
};

struct OpDef {
  std::string name = {};
  // Operand names, for messages; a trailing "..." repeats the last, "?" is optional.
  std::vector<std::string> inputs = {}, outputs = {};
  Attrs attrs = {};  // every attribute with its default; no others are allowed
  Family family = Family::memory;

  // Output types from input types; `attrs` are complete. Throws Error (bad input) naming op, operand and both
  // shapes. The registry adds checks of the number of inputs and of all numbers (ir/limits.h).
  std::function<Types(const Types& inputs, const Attrs&)> infer = {};
  // The index map for these types. Shapes are global.
  std::function<sbp::IndexMap(const Types& inputs, const Attrs&)> index_map = {};
  // Signatures an index map cannot express (split vocabulary, reshape, ...), for `parts` devices; may be
  // empty.
  std::function<std::vector<sbp::Signature>(const Types& inputs, const Attrs&, int64_t parts)> extra = {};
  std::string extra_reason = {};  // one line, required if extra is set
  // Attributes of part `index` of `parts` under `signature`, if they differ from the global ones: global
  // counts and offsets. `inputs` are the global types before this mesh dimension. Empty: unchanged.
  std::function<Attrs(const Types& inputs, const Attrs&, const sbp::Signature&, int64_t parts, int64_t index)>
      localize = {};
  // Work on local types. Empty: bytes of inputs and outputs once, no flops.
  std::function<Work(const Types& inputs, const Types& outputs, const Attrs&)> work = {};
  double tolerance = 0;  // law 1: relative; 0 if the op is exact on small integers
  std::function<std::vector<Sample>(const Extent& extent)> samples = {};  // at least one; for law 1
  std::vector<Omission> omitted = {};
};

// The registry, by name; a plain immutable table, built on first use. Throws Error (bad input) with the
// nearest name if `name` is unknown.
const OpDef& op(std::string_view name);
bool has_op(std::string_view name);
std::span<const OpDef> all_ops();  // in name order

// attrs with defaults filled in; throws on an unknown attribute or a wrong type, naming the known ones.
Attrs complete(const OpDef& def, const Attrs& attrs);

// All legal signatures on one mesh dimension of `parts` devices: derived ones, then extra ones, without
// duplicates.
std::vector<sbp::Signature> signatures(const OpDef& def, const Types& inputs, const Attrs& attrs,
                                       int64_t parts);

// Attributes of part `index`; `attrs` itself if the op has no localize.
Attrs localize(const OpDef& def, const Types& inputs, const Attrs& attrs, const sbp::Signature& signature,
               int64_t parts, int64_t index);

Work work(const OpDef& def, const Types& inputs, const Types& outputs, const Attrs& attrs);

}  // namespace boxcar::ir
