// The groups of the op registry, one file and one function each, and code that their rows share.
//
//   out.push_back({.name = "neg", .inputs = {"x"}, .outputs = {"y"}, .infer = same_as_first,
//                  .index_map = elementwise(";linear 0;decreasing 0"), .samples = ...});
//
// A row is complete: shapes, index map, work, samples. See README.md for how to add one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "sbp/error.h"

namespace boxcar::ir {

void add_matmul_ops(std::vector<OpDef>& out);       // matmul.cpp
void add_elementwise_ops(std::vector<OpDef>& out);  // elementwise.cpp
void add_pointwise_ops(std::vector<OpDef>& out);    // pointwise.cpp
void add_reduce_ops(std::vector<OpDef>& out);       // reduce.cpp
void add_shape_ops(std::vector<OpDef>& out);        // shape.cpp
void add_index_ops(std::vector<OpDef>& out);        // index.cpp
void add_update_ops(std::vector<OpDef>& out);       // update.cpp
void add_update_all(std::vector<OpDef>& out);       // update_all.cpp: of the optimizers in `out`
void add_update_rows(std::vector<OpDef>& out);      // update_rows.cpp: of the optimizers in `out`
void add_nn_ops(std::vector<OpDef>& out);           // nn.cpp
void add_attention_ops(std::vector<OpDef>& out);    // attention.cpp
void add_conv_ops(std::vector<OpDef>& out);         // conv.cpp
void add_packed_ops(std::vector<OpDef>& out);       // packed.cpp
void add_fused_ops(std::vector<OpDef>& out);        // fused.cpp

// --- messages

// "matmul: b is float32[5, 8], expected 6 rows, the columns of a float32[4, 6]"
[[noreturn]] void refuse(std::string_view op, std::string_view operand, const TensorType& got,
                         std::string_view expected);
// "... expected <expected> as <other> float32[4, 6]"
[[noreturn]] void refuse(std::string_view op, std::string_view operand, const TensorType& got,
                         std::string_view expected, std::string_view other, const TensorType& other_type);
// "reduce_sum: axes is [3], expected axes of x float32[4, 6]"
[[noreturn]] void refuse_attr(std::string_view op, std::string_view attr, const Attrs& attrs,
                              std::string_view expected);

// --- types

inline TensorType f32(Shape shape) { return {std::move(shape), DType::float32}; }
inline TensorType i64(Shape shape) { return {std::move(shape), DType::int64}; }

// Throws unless `got` has the same shape (same_shape), or shape and type (same_type), as `other`.
void same_shape(std::string_view op, std::string_view operand, const TensorType& got, std::string_view other,
                const TensorType& other_type);
void same_type(std::string_view op, std::string_view operand, const TensorType& got, std::string_view other,
               const TensorType& other_type);
void need_rank(std::string_view op, std::string_view operand, const TensorType& got, size_t at_least);
// -1 is the last axis. Throws naming the attribute if it is out of range.
int64_t normal_axis(std::string_view op, std::string_view attr, int64_t axis, const TensorType& type);

// --- index maps

using Indices = std::vector<sbp::Index>;

// {"a0", "a1", "a2"}
Indices indices(std::string_view prefix, size_t count);
// i0 i1, i0 i1 -> i0 i1: operands and result have one shape.
sbp::IndexMap pointwise_map(const Types& in);
// i0 i1, i0 i1 -> i0 i1 for a mean of the first two operands with positive weights; a third is a flag.
sbp::IndexMap moving_average_map(const Types& in, const Attrs&);
// The same map for all types, parsed once.
std::function<sbp::IndexMap(const Types&, const Attrs&)> fixed_map(std::string_view text);

// --- signatures

bool has_extremum(const sbp::Signature& signature);  // some input is P(max) or P(min)
bool has_partial(const sbp::Signature& signature);   // some input is P of any kind

// --- attributes

inline Attrs with(Attrs attrs, std::string_view name, Attr value) {
  attrs.insert_or_assign(std::string(name), std::move(value));
  return attrs;
}

// --- work

double bytes_of(const Types& types);
// `flops` floating point operations per element of the largest tensor; bytes of each tensor once.
std::function<Work(const Types&, const Types&, const Attrs&)> per_element(double flops);

}  // namespace boxcar::ir
