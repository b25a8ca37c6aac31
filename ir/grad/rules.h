// The table of gradient rules, one row per op, and a rule's view of the graph.
//
//   {"gelu", [](GradContext& g) { g.give(0, g.emit("x", "gelu_grad", {g.dy(), g.x(0)})); }}
//
// A rule runs once for each op through which the loss depends on a parameter. It adds backward ops and
// contributes to the gradients of the operands that need one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/rewrite.h"
#include "sbp/at.h"

namespace boxcar::ir {

class GradContext {
 public:
  // State of differentiate() during its walk backwards: contributions to every tensor's gradient.
  struct Pool {
    Rewriter& rewrite;
    std::vector<std::vector<TensorId>> contributions;  // by tensor
    std::vector<bool> wanted;                          // by tensor
    std::vector<OpId> producers;                       // by tensor: index into `ops`
    const std::vector<Op>& ops;                        // the forward ops
  };

  GradContext(Pool& pool, const Op& op, std::vector<TensorId> dy)
      : pool_(pool), op_(op), dy_(std::move(dy)) {}

  const Op& op() const { return op_; }
  const Attrs& attrs() const { return op_.attrs; }
  size_t inputs() const { return op_.inputs.size(); }
  TensorId x(size_t i) const { return op_.inputs.at(i); }
  TensorId y(size_t i = 0) const { return op_.outputs.at(i); }
  TensorId dy(size_t i = 0);  // the gradient of result i; zeros if the loss does not depend on it
  bool wants(size_t i) const { return at(pool_.wanted, x(i)); }
  // Returns a copy, because adding ops moves tensors.
  TensorType type(TensorId tensor) const { return pool_.rewrite.graph().tensor(tensor).type; }
  // The op that makes a tensor.
  const Op& producer(TensorId tensor) const;

  // Adds a backward op called "<op>.grad_<what>"; returns its first result.
  TensorId emit(const std::string& what, const char* type, std::vector<TensorId> inputs, Attrs attrs = {});
  std::vector<TensorId> emit_all(const std::string& what, const char* type, std::vector<TensorId> inputs,
                                 Attrs attrs = {});
  TensorId constant(const std::string& what, const TensorType& type, double value);
  // A contribution to the gradient of operand i, or of any earlier tensor. Ignored if that tensor needs no
  // gradient.
  void give(size_t i, TensorId gradient) { give_to(x(i), gradient); }
  void give_to(TensorId tensor, TensorId gradient);
  // `gradient` summed over the dimensions along which `to` was broadcast to its shape.
  TensorId unbroadcast(const std::string& what, TensorId gradient, const TensorType& to);

 private:
  Pool& pool_;
  const Op& op_;
  std::vector<TensorId> dy_;
};

struct GradRule {
  std::string_view op;
  void (*rule)(GradContext&);
  int outputs = 1;  // number of results whose gradients the rule reads; a gradient of a later one is an error
};

std::span<const GradRule> elementwise_gradients();  // elementwise.cpp
std::span<const GradRule> matmul_gradients();       // matmul.cpp
std::span<const GradRule> shape_gradients();        // shape.cpp: reductions, reshapes, slices, gathers
std::span<const GradRule> nn_gradients();           // nn.cpp: normalisations, attention, losses, convolutions

}  // namespace boxcar::ir
