// One op's layouts on a mesh: a signature for each mesh dimension, and whether these are legal together.
//
// Signatures apply one after the other, in the order in which the dimensions split: (S(1,inner), S(1)) is cut
// by the second dimension first. So the choice for the first dimension depends on the part left by the
// second. With 4 query heads, 2 key heads and a mesh {cp 2, tp 2}:
//
//   q (S(1,inner), S(1)), k (B, S(1))           legal: tp leaves 2 query heads and the key head that they
//                                               use, of which cp cuts the query heads
//   q (S(1,inner), S(1)), k (S(1), B)           illegal: after tp, cp would have to cut key heads that are
//                                               whole on every device beside query heads that are not
//
// An op's layout is legal under two conditions. Each signature is one that the op offers for every part that
// the signatures before it leave, with that part's attributes. And signatures with partial operands do not
// conflict: two copies of a P may hold different partials (sbp/sbp.h), so an input that is P on one dimension
// cannot be multiplied by another one that is P elsewhere. Sums of maxima are also not maxima of sums.
// `deduce` gives only legal layouts.
#pragma once

#include <vector>

#include "ir/op.h"
#include "planner/mesh.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

struct OpLayout {
  std::vector<sbp::NdSbp> inputs, outputs;  // layouts as the op reads and writes them
  std::vector<sbp::Signature> signatures;   // by mesh dimension
};

// Mesh dimensions in the order in which they split: a dimension that splits inside another comes after it.
std::vector<size_t> split_order(const OpLayout& layout);

// Narrows each type to part `index` of `parts`.
void take_part(ir::Types& types, const std::vector<sbp::Sbp>& layouts, int64_t parts, int64_t index);

// Types and attributes are global. Only as many dimensions of `mesh` count as the layout has signatures.
bool is_legal(const ir::OpDef& def, const ir::Types& inputs, const ir::Attrs& attrs, const OpLayout& layout,
              const sbp::Shape& mesh);

// Every legal layout of an op on a mesh whose dimensions cut in their order, without `inner`. On two
// dimensions, a product gets its result {S(0), S(1)} from x {S(0), B} and w {B, S(1)}.
std::vector<OpLayout> legal_layouts(const ir::OpDef& def, const ir::Types& inputs, const ir::Attrs& attrs,
                                    const sbp::Shape& mesh);

// Signatures that the registry offers an op of these types and attributes on dimension `d` of a mesh. Batch
// statistics that are declared local to each device (batch_norm, `local`) always cover one part of data
// parallelism: its dimensions cut the batch, and tp and cp do not cut it further.
std::vector<sbp::Signature> offered(const ir::OpDef& def, const ir::Types& inputs, const ir::Attrs& attrs,
                                    const Mesh& mesh, size_t d);

}  // namespace boxcar::planner
