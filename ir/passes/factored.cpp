// The direction of a factored optimizer's step (adafactor), and the moments that it keeps. For a matrix,
// means of squared gradients over its columns and over its rows stand for those of all elements; vectors keep
// all.
//
//   %w.squares = fused(%w.grad.sum, %grad_scale) {program="mul(0, 1); mul(2, 2)"}
//   %w.r.next = second_moment(reduce_mean(%w.squares) {axes=[-1]}, %w.r, finite?)       [rows, 1]
//   %w.c.next = second_moment(reduce_mean(%w.squares) {axes=[-2]}, %w.c, finite?)       [1, columns]
//   %w.direction = g scale / sqrt(%w.r.next / mean(%w.r.next)) / sqrt(%w.c.next)
//   %w.clip = clip_scale(square_sum(%w.direction)) {max_norm=sqrt(elements)}            1 / max(1, RMS)
//   %w.next = adafactor(%w, %w.direction, %w.clip, finite?)
//
// with reductions that keep their axes. The last two axes of a tensor of higher rank are its rows and
// columns, so experts are matrices of their own, except that one RMS clips them together. A device with a
// part of a matrix has a part of each sum; boxing adds them up.
#include <cmath>
#include <string>
#include <utility>

#include "ir/derived_name.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

class Factorer {
 public:
  Factorer(const Step& step, Rewriter& rewrite, TensorId gradient, const Op& like)
      : step_(step), rewrite_(rewrite), like_(like), type_(type(like.outputs[0])) {
    const DType whole = wide(type_.dtype);
    // With mixed precision a plan may reduce the gradient in 16 bits.
    gradient_ = type(gradient).dtype == whole && !is_mixed(step.options)
                    ? gradient
                    : add("cast", {gradient}, ".grad_wide", {{"to", to_text(whole)}});
  }

  Direction run(bool is_vector) {
    const TensorId squares = step_.scale < 0
                                 ? add("mul", {gradient_, gradient_}, ".squares")
                                 : fused({gradient_, step_.scale}, "mul(0, 1); mul(2, 2)", ".squares");
    result_.direction = is_vector ? of_all(squares) : of_means(squares);
    const TensorId norm2 = add("square_sum", {result_.direction}, ".direction2");
    result_.scale =
        add("clip_scale", {norm2}, ".clip", {{"max_norm", std::sqrt(static_cast<double>(type_.elements()))}});
    return std::move(result_);
  }

 private:
  const TensorType& type(TensorId t) const { return rewrite_.graph().tensor(t).type; }

  TensorId add(const char* op, std::vector<TensorId> operands, const std::string& ending, Attrs attrs = {}) {
    return rewrite_.add({op, std::move(operands), std::move(attrs), like_.name + ending, {}}, like_)[0];
  }
  TensorId fused(std::vector<TensorId> operands, const char* program, const char* ending) {
    return add("fused", std::move(operands), ending, {{"program", std::string(program)}});
  }
  TensorId mean(TensorId of, int64_t axis, const std::string& ending) {
    return add("reduce_mean", {of}, ending, {{"axes", Shape{axis}}, {"keepdims", true}});
  }

  // The moment after the step.
  TensorId moment(TensorId means, const std::string& ending) {
    Graph& graph = rewrite_.graph();
    const TensorId state = rewrite_.add_source("parameter", like_.name + ending, TensorType(type(means)),
                                               Role::optimizer, {}, like_);
    if (!like_.replica_of.empty()) rewrite_.new_ops().back().replica_of = like_.replica_of + ending;
    std::vector<TensorId> operands{means, state};
    if (step_.finite >= 0) operands.push_back(step_.finite);
    const TensorId next = rewrite_.add({"second_moment",
                                        operands,
                                        {},
                                        like_.name + ending + ".update",
                                        {derived_name(like_.name + ending, Derived::next)}},
                                       like_)[0];
    graph.tensor(next).role = Role::optimizer;
    result_.moments.push_back({state, next});
    return next;
  }

  TensorId of_all(TensorId squares) {
    const TensorId v = moment(squares, ".v");
    return step_.scale < 0
               ? fused({gradient_, v}, "sqrt(1); div(0, 2)", ".direction")
               : fused({gradient_, step_.scale, v}, "mul(0, 1); sqrt(2); div(3, 4)", ".direction");
  }

  // The two roots divide one after the other, since their product may be too small for float32.
  TensorId of_means(TensorId squares) {
    const TensorId r = moment(mean(squares, -1, ".row_squares"), ".r");
    const TensorId c = moment(mean(squares, -2, ".column_squares"), ".c");
    const TensorId rows = fused({r, mean(r, -2, ".r.mean")}, "div(0, 1); sqrt(2)", ".row_factors");
    const TensorId columns = add("sqrt", {c}, ".column_factors");
    return step_.scale < 0 ? fused({gradient_, rows, columns}, "div(0, 1); div(3, 2)", ".direction")
                           : fused({gradient_, step_.scale, rows, columns}, "mul(0, 1); div(4, 2); div(5, 3)",
                                   ".direction");
  }

  const Step& step_;
  Rewriter& rewrite_;
  const Op like_;
  const TensorType type_;
  TensorId gradient_ = -1;
  Direction result_;
};

}  // namespace

Direction factored_direction(const Step& step, Rewriter& rewrite, TensorId gradient, const Op& like,
                             bool is_vector) {
  return Factorer(step, rewrite, gradient, like).run(is_vector);
}

}  // namespace boxcar::ir
