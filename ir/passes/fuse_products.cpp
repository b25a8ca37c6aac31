// Moves work into a product's kernel if options.epilogues is set: the sum with a bias, if it is the product's
// only reader, and the bias's gradient, which sums an operand of the weight's gradient.
//
//   add(matmul(x, w), bias)                                      matmul_bias(x, w, bias)
//   matmul_weight_grad(x, dy), reduce_sum(dy, all but columns)    matmul_bias_grad(x, dy)
//
// A residual, if nothing is dropped and no device has only a part of the product (options.whole_products):
//
//   add(matmul(x, w), r)                                          matmul_add(x, w, r)
//   bias_dropout_add(matmul(x, w), bias, r), p = 0                matmul_add(x, w, r, bias)
//
// GELU in its tanh form, which products' kernels have:
//
//   y = bias_gelu(x = matmul(a, w), bias)                         y, x + bias = matmul_bias_gelu(a, w, bias)
//   dx = bias_gelu_grad(dy = matmul(dz, v), x, bias),             dx, db = matmul_dgelu(dz, v, x + bias)
//     db = reduce_sum(dx, all but columns)
//
// Other biases (bias_dropout_add) are already fused with the ops after them. Results keep their names; x +
// bias is named like x.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

class Products {
 public:
  explicit Products(Step& step) : step_(step), graph_(step.graph), consumers_(consumers(step.graph)) {
    find();
  }

  void run() {
    if (fused_.empty()) return;
    Rewriter rewrite(graph_);
    std::vector<Op>& old = rewrite.old_ops();
    for (size_t i = 0; i < old.size(); ++i) {
      const auto found = fused_.find(static_cast<OpId>(i));
      if (found == fused_.end()) {
        if (!gone_[i]) rewrite.keep(std::move(old[i]));
        continue;
      }
      Fused& fused = found->second;
      for (const TensorId result : fused.results)
        fused.op.outputs.push_back(rewrite.graph().tensor(result).name);
      const std::vector<TensorId> results = rewrite.add(std::move(fused.op), old[i]);
      for (size_t r = 0; r < results.size(); ++r) {
        Tensor &from = rewrite.graph().tensor(fused.results[r]), &to = rewrite.graph().tensor(results[r]);
        to.role = from.role, to.sbp = from.sbp;
        rewrite.replace(fused.results[r], results[r]);
      }
      rewrite.new_ops().back().runs_again = old[i].runs_again;
      rewrite.new_ops().back().recomputed = old[i].recomputed;
    }
    step_.finish(rewrite);
  }

 private:
  struct Fused {
    NewOp op;
    std::vector<TensorId> results;  // replaced results
  };

  const Op& op(OpId id) const { return at(graph_.ops, id); }
  const TensorType& type(TensorId tensor) const { return graph_.tensor(tensor).type; }
  bool beside(const Op& a, const Op& b) const {
    return a.layer == b.layer && a.phase == b.phase && a.placement == b.placement &&
           a.recomputed == b.recomputed;
  }

  bool is_gone(OpId id) const { return at(gone_, id); }
  // Whether a product may be replaced beside `reader`.
  bool is_free_product(TensorId y, const Op& reader) const {
    const Op& product = op(graph_.tensor(y).producer);
    return product.type == "matmul" && beside(product, reader) && !graph_.tensor(y).sbp && y != step_.loss;
  }
  // Whether it sums over all axes except the last.
  bool sums_columns(OpId id) const {
    if (op(id).type != "reduce_sum") return false;
    Shape leading(type(op(id).inputs[0]).shape.size() - 1);
    std::iota(leading.begin(), leading.end(), 0);
    return !leading.empty() && attr_ints(op(id).attrs, "axes") == leading &&
           !attr_bool(op(id).attrs, "keepdims");
  }

  void find() {
    gone_.assign(graph_.ops.size(), false);
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      if (graph_.ops[i].type == "bias_gelu") bias_gelu(static_cast<OpId>(i));
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      if (graph_.ops[i].type == "add") add(static_cast<OpId>(i));
      if (graph_.ops[i].type == "bias_dropout_add") residual(static_cast<OpId>(i), 0);
      if (graph_.ops[i].type == "reduce_sum") sum(static_cast<OpId>(i));
    }
  }

  void add(OpId id) {
    for (const size_t side : {0u, 1u}) {
      const TensorId y = op(id).inputs[side], bias = op(id).inputs[1 - side];
      const Op& product = op(graph_.tensor(y).producer);
      const bool fits = is_free_product(y, op(id)) && at(consumers_, y).size() == 1 &&
                        type(bias).dtype == type(y).dtype && type(bias).shape == Shape{type(y).shape.back()};
      if (!fits) continue;
      at(gone_, graph_.tensor(y).producer) = true;
      fused_[id] = {{"matmul_bias", {product.inputs[0], product.inputs[1], bias}, product.attrs, op(id).name},
                    {op(id).outputs[0]}};
      return;
    }
    for (const size_t side : {0u, 1u}) residual(id, side);
  }

  // Fuses the product on this side with the residual and the bias.
  void residual(OpId id, size_t side) {
    const std::vector<TensorId>& in = op(id).inputs;
    const bool biased = op(id).type == "bias_dropout_add";
    const TensorId y = in[side], r = biased ? in[2] : in[1 - side];
    if (!step_.options.whole_products || fused_.contains(id) || !is_free_product(y, op(id)) ||
        at(consumers_, y).size() != 1 || r == y || type(r) != type(y) ||
        (biased && (attr_float(op(id).attrs, "p") > 0 || type(in[1]).dtype != type(y).dtype)))
      return;
    const Op& product = op(graph_.tensor(y).producer);
    std::vector<TensorId> operands = {product.inputs[0], product.inputs[1], r};
    if (biased) operands.push_back(in[1]);
    at(gone_, graph_.tensor(y).producer) = true;
    fused_[id] = {{"matmul_add", operands, product.attrs, op(id).name}, {op(id).outputs[0]}};
  }

  // Fuses bias_gelu, together with the gradients that read the same product.
  void bias_gelu(OpId id) {
    const TensorId x = op(id).inputs[0], bias = op(id).inputs[1];
    const std::vector<OpId>& readers = at(consumers_, x);
    const bool alone = std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
      return reader == id || (op(reader).type == "bias_gelu_grad" && op(reader).inputs[1] == x &&
                              op(reader).inputs[2] == bias && op(reader).inputs[0] != x);
    });
    if (!attr_bool(op(id).attrs, "tanh") || !alone || !is_free_product(x, op(id)) ||
        type(bias).dtype != type(x).dtype)
      return;
    const Op& product = op(graph_.tensor(x).producer);
    at(gone_, graph_.tensor(x).producer) = true;
    fused_[id] = {
        {"matmul_bias_gelu", {product.inputs[0], product.inputs[1], bias}, product.attrs, op(id).name},
        {op(id).outputs[0], x}};
    for (const OpId reader : readers)
      if (reader != id) gelu_grad(reader);
  }

  void gelu_grad(OpId id) {
    const TensorId dy = op(id).inputs[0], x = op(id).inputs[1], dx = op(id).outputs[0];
    const std::vector<OpId>& readers = at(consumers_, dx);
    const auto sum = std::find_if(readers.begin(), readers.end(), [&](OpId reader) {
      return sums_columns(reader) && beside(op(reader), op(id));
    });
    if (sum == readers.end() || !is_free_product(dy, op(id)) || type(dy) != type(x) ||
        at(consumers_, dy).size() != 1) {
      fused_[id] = {{"gelu_grad", {dy, x}, op(id).attrs, op(id).name}, {dx}};
      return;
    }
    const Op& product = op(graph_.tensor(dy).producer);
    at(gone_, graph_.tensor(dy).producer) = at(gone_, *sum) = true;
    fused_[id] = {{"matmul_dgelu", {product.inputs[0], product.inputs[1], x}, product.attrs, product.name},
                  {dx, op(*sum).outputs[0]}};
  }

  // Moves the bias's gradient into the kernel of the weight's gradient, before or after it.
  void sum(OpId id) {
    if (is_gone(id) || !sums_columns(id)) return;
    const TensorId dy = op(id).inputs[0];
    for (const OpId reader : at(consumers_, dy)) {
      const Op& product = op(reader);
      if (product.type != "matmul_weight_grad" || product.inputs[1] != dy || !beside(product, op(id)) ||
          fused_.contains(reader) || is_gone(reader))
        continue;
      const OpId place = place_of_both(reader, id);
      if (place < 0) continue;
      at(gone_, place == reader ? id : reader) = true;
      fused_[place] = {{"matmul_bias_grad", product.inputs, {}, product.name},
                       {product.outputs[0], op(id).outputs[0]}};
      return;
    }
  }

  // The place for one op in place of both: after the ops that they read and before their readers; -1 if there
  // is none.
  OpId place_of_both(OpId a, OpId b) const {
    const OpId first = std::min(a, b), last = std::max(a, b);  // a lambda may not capture a binding
    const auto& late = op(last).inputs;
    if (std::all_of(late.begin(), late.end(), [&](TensorId t) { return graph_.tensor(t).producer < first; }))
      return first;
    for (const TensorId result : op(first).outputs)
      for (const OpId reader : at(consumers_, result))
        if (reader < last) return -1;
    return last;
  }

  Step& step_;
  Graph& graph_;
  const std::vector<std::vector<OpId>> consumers_;
  std::vector<bool> gone_;
  std::unordered_map<OpId, Fused> fused_;
};

}  // namespace

void fuse_products(Step& step) {
  if (step.options.epilogues) Products(step).run();
}

}  // namespace boxcar::ir
