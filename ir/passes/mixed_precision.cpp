// Compute in 16 bits: parameters are read as half copies of float32 master weights, products and activations
// are half, losses and sums float32.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/passes/pass.h"

namespace boxcar::ir {
namespace {

// Ops that run in float32 whatever their operands are: losses, and sums over many elements.
constexpr const char* float_ops[] = {"reduce_max", "reduce_min", "reduce_mean",   "reduce_sum", "sum_exp",
                                     "pick",       "nll",        "cross_entropy", "exp",        "log"};

bool runs_in_float(const std::string& type) {
  return std::any_of(std::begin(float_ops), std::end(float_ops),
                     [&](const char* name) { return type == name; });
}

class Mixer {
 public:
  Mixer(Step& step, DType half) : half_(half), rewrite_(step.graph) {}

  Rewriter& run() {
    for (Op& op : rewrite_.old_ops()) {
      if (op.type == "parameter")
        parameter(std::move(op));
      else if (op.inputs.empty())
        rewrite_.keep(std::move(op));
      else
        compute(std::move(op));
    }
    return rewrite_;
  }

 private:
  Tensor& tensor(TensorId id) { return rewrite_.graph().tensor(id); }

  void parameter(Op op) {
    const TensorId master = op.outputs[0];
    const Op like = op;
    rewrite_.keep(std::move(op));
    if (tensor(master).type.dtype != DType::float32) return;
    Op update = like;
    update.phase = Phase::update;
    const TensorId copy = cast(master, half_, tensor(master).name + ".half", update);
    tensor(master).role = Role::optimizer;
    tensor(copy).role = Role::parameter;
    tensor(copy).sbp = tensor(master).sbp;
    rewrite_.replace(master, copy);
  }

  void compute(Op op) {
    if (op.type != "cast" && op.type != "to_global") {
      const bool in_float = runs_in_float(op.type);
      const bool any_half = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
        return tensor(rewrite_.current(input)).type.dtype == half_;
      });
      for (TensorId& input : op.inputs)
        if (any_half) input = operand(rewrite_.current(input), in_float ? DType::float32 : half_, op);
    }
    rewrite_.renew(std::move(op));
  }

  TensorId operand(TensorId input, DType wanted, const Op& reader) {
    const DType dtype = tensor(input).type.dtype;
    if (dtype == wanted || (dtype != half_ && dtype != DType::float32)) return input;
    const auto found = casts_.find(input);
    if (found != casts_.end()) return found->second;
    const std::string name = tensor(input).name + (wanted == half_ ? ".half" : ".float");
    return casts_[input] = cast(input, wanted, name, reader);
  }

  TensorId cast(TensorId input, DType to, const std::string& name, const Op& like) {
    return rewrite_.add({"cast", {input}, {{"to", to_text(to)}}, name, {}}, like)[0];
  }

  DType half_;
  Rewriter rewrite_;
  std::unordered_map<TensorId, TensorId> casts_;  // a tensor in the other type
};

}  // namespace

void mixed_precision(Step& step) {
  if (!is_mixed(step.options)) return;
  Mixer mixer(step, step.options.precision == Precision::fp16 ? DType::float16 : DType::bfloat16);
  step.finish(mixer.run());
}

}  // namespace boxcar::ir
