// An op's index map, from which SBP signatures are derived (docs/design.md, "Derived signatures").
//
//   matmul       m k, k n -> m n ; sum k ; linear 0 ; linear 1
//   add          i j, i j -> i j ; linear 0 1            (jointly linear)
//   mul          i j, i j -> i j ; linear 0 ; linear 1
//   linear with a fused bias   m k, k n, n -> m n ; sum k ; linear 0 2 ; linear 1 2 ; after 2
//   softmax      i _ -> i _                              (_ : a dimension that no rule may split)
//   relu         i j -> i j ; increasing 0
//   reduce_max   i j -> i ; max j ; increasing 0
//
// Each tensor names one loop index per dimension. An index is parallel if an output has it; `sum`, `max` and
// `min` name reduced indices. `linear A`: jointly linear in the inputs A with the others fixed. `increasing
// A`, `decreasing A`: element-wise monotone in input A with the others fixed. `after A`: input A is added
// after the reduction, so it is P if a reduced index is split.
//
// (A term added after a max or a min stays B.) A scalar has no indices: "i -> ; sum i".
//
// A dimension of extent 1 that is broadcast against a larger one is written 1. It is B if the others are
// split.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sbp/sbp.h"

namespace boxcar::sbp {

using Index = std::string;  // "m"; "_" for a dimension that is never split, "1" for a broadcast extent

struct ReducedIndex {
  Index index;
  Reduction reduction = Reduction::sum;
};

struct IndexMap {
  std::vector<std::vector<Index>> inputs, outputs;
  std::vector<ReducedIndex> reduced;
  std::vector<std::vector<int>> linear;
  std::vector<int> increasing, decreasing;
  std::vector<int> after;
};

IndexMap parse_index_map(
    std::string_view text);  // throws Error (bad input) that quotes the text and the place
std::string to_text(const IndexMap& map);

// One legal way to run an op on one mesh dimension: a layout per input and per output.
//   to_text: "S(1), S(0) -> P(sum)"
struct Signature {
  std::vector<Sbp> inputs, outputs;
  friend auto operator<=>(const Signature&, const Signature&) = default;
};
std::string to_text(const Signature& signature);
Signature parse_signature(std::string_view text);

// All signatures that follow from `map`, without duplicates, all-B first, then in the order: parallel
// indices, reduced indices, linear sets, monotone inputs. An output that a rule does not mention is B only if
// all inputs are B. A linear or monotone clause holds for every output. An index that one output has and
// another reduces (the gradient of layer_norm) splits the first and makes the second partial.
std::vector<Signature> derive(const IndexMap& map);

}  // namespace boxcar::sbp
