// Code shared by the rows of neural-network ops: index maps written once for every rank, signatures written
// as text, and the splits that keep groups of heads or channels together.
//
//   ranked("* _, _ -> * _, *, *", 0, 1)   for x[2, 3, 8] is  "d0 d1 _, _ -> d0 d1 _, d0 d1, d0 d1"
//   aligned(6, 3, 2) == false             6 heads in 3 groups: parts have 3 heads each, but 2 and 1 groups
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ir/ops/ops.h"

namespace boxcar::ir {

// The rows of nn.cpp, by subject; add_nn_ops calls them all.
void add_dropout_ops(std::vector<OpDef>& out);    // nn_dropout.cpp
void add_gated_ops(std::vector<OpDef>& out);      // nn_gated.cpp
void add_softmax_ops(std::vector<OpDef>& out);    // nn_softmax.cpp
void add_norm_ops(std::vector<OpDef>& out);       // nn_norm.cpp
void add_embedding_ops(std::vector<OpDef>& out);  // nn_embedding.cpp
void add_loss_ops(std::vector<OpDef>& out);       // nn_loss.cpp
void add_sampling_ops(std::vector<OpDef>& out);   // nn_sampling.cpp
void add_moe_ops(std::vector<OpDef>& out);        // nn_moe.cpp
// Further rows of conv.cpp.
void add_pool_ops(std::vector<OpDef>& out);        // conv_pool.cpp
void add_batch_norm_ops(std::vector<OpDef>& out);  // conv_batch_norm.cpp

using MapFunction = std::function<sbp::IndexMap(const Types&, const Attrs&)>;
using ExtraFunction = std::function<std::vector<sbp::Signature>(const Types&, const Attrs&, int64_t)>;

// An index map for every rank of input `operand`. A "*" stands for one named index for each dimension of that
// input beyond `trailing`; a "~" stands for the same number of indices that no rule may split. "; sum *" sums
// each of them.
MapFunction ranked(std::string_view text, size_t operand = 0, size_t trailing = 0);

// Signatures that hold for every shape and number of devices.
ExtraFunction always(std::initializer_list<std::string_view> signatures);
std::vector<sbp::Signature> parse_all(std::initializer_list<std::string_view> signatures);

// Operand checks, in the manner of ops.h.
void exact_rank(std::string_view op, std::string_view operand, const TensorType& got, size_t rank);
void need_float(std::string_view op, std::string_view operand, const TensorType& got);
void need_indices(std::string_view op, std::string_view operand, const TensorType& got);
// `got` must have `shape`, which follows from `other`.
void need_shape(std::string_view op, std::string_view operand, const TensorType& got, const Shape& shape,
                std::string_view other, const TensorType& other_type);

Shape without_last(Shape shape);

// The attribute "window" of attention's masks: query s sees the `window` keys up to s + offset, 0: all up to
// there. Throws if it is negative, or is not 0 without a causal mask.
void check_window(std::string_view op, const Attrs& attrs);

// Whether splitting `extent`, made of `groups` equal groups, gives the same parts as splitting the groups.
bool aligned(int64_t extent, int64_t groups, int64_t parts);

bool split_at(sbp::Sbp sbp, int64_t axis);
// Part `index` of `parts` of one axis.
sbp::Range part_of(const TensorType& type, size_t axis, int64_t parts, int64_t index);
// `attrs` with the integer `name` larger by `value`.
Attrs advanced(Attrs attrs, std::string_view name, int64_t value);

// Random ops draw from a counter: (seed, step, op, element), where element is the row-major position in the
// global tensor, counted on over micro-batches. "shape" is that of the global tensor, "starts" the place of
// this part in it. Empty: the part is the whole.
Attrs random_attrs();
// Sets these attributes for the part of a tensor of type `drawn` that `layout` gives.
Attrs localize_random(const TensorType& drawn, Attrs attrs, sbp::Sbp layout, int64_t parts, int64_t index);
// Throws unless the attributes place a tensor of type `drawn` inside the global one and p is in [0, 1).
void check_random(std::string_view op, const Attrs& attrs, const TensorType& drawn);

}  // namespace boxcar::ir
