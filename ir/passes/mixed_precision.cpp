// Compute in 16 bits. Parameters are read as half copies of float32 master weights; products and activations
// are half; losses and sums are float32. With half_logits the loss's kernels read the half logits and convert
// them to float32 themselves.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/derived_name.h"
#include "ir/passes/pass.h"

namespace boxcar::ir {
namespace {

// Ops that always run in float32: losses, and sums over many elements.
constexpr const char* float_ops[] = {
    "reduce_max",    "reduce_min", "reduce_mean", "reduce_sum",          "sum_exp",     "pick", "nll",
    "cross_entropy", "exp",        "log",         "cross_entropy_parts", "sum_exp_pick"};

// Those of them that read logits in a loss, or values made from logits.
constexpr const char* logit_ops[] = {"reduce_max",          "sum_exp",     "pick", "nll", "cross_entropy",
                                     "cross_entropy_parts", "sum_exp_pick"};

template <size_t n>
bool is_one_of(const char* const (&names)[n], const std::string& type) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* name) { return type == name; });
}

bool runs_in_float(const std::string& type) { return is_one_of(float_ops, type); }

class Mixer {
 public:
  Mixer(Step& step, DType half) : options_(step.options), half_(half), rewrite_(step.graph) {}

  Rewriter& run() {
    for (Op& op : rewrite_.old_ops()) {
      if (op.is(OpKind::parameter))
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
    if (tensor(master).role == Role::constant) {  // never updated, so it needs no master
      tensor(master).type.dtype = half_;
      return;
    }
    Op update = like;
    update.phase = Phase::update;
    const TensorId copy = cast(master, half_, derived_name(tensor(master).name, Derived::half), update);
    tensor(master).role = Role::optimizer;
    tensor(copy).role = Role::parameter;
    tensor(copy).sbp = tensor(master).sbp;
    rewrite_.replace(master, copy);
  }

  void compute(Op op) {
    const bool as_is = options_.half_logits && is_one_of(logit_ops, op.type);
    if (!op.is(OpKind::cast) && !op.is(OpKind::to_global) && !as_is) {
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
    const std::string& of = tensor(input).name;
    const std::string name = wanted == half_ ? derived_name(of, Derived::half) : of + ".float";
    return casts_[input] = cast(input, wanted, name, reader);
  }

  TensorId cast(TensorId input, DType to, const std::string& name, const Op& like) {
    return rewrite_.add({"cast", {input}, {{"to", to_text(to)}}, name, {}}, like)[0];
  }

  const TrainOptions& options_;
  DType half_;
  Rewriter rewrite_;
  std::unordered_map<TensorId, TensorId> casts_;  // by tensor: its copy in the other type
};

}  // namespace

void mixed_precision(Step& step) {
  if (!is_mixed(step.options)) return;
  Mixer mixer(step, step.options.precision == Precision::fp16 ? DType::float16 : DType::bfloat16);
  step.finish(mixer.run());
}

}  // namespace boxcar::ir
