// Chains of elementwise ops as one kernel: an op goes into the only reader of its result, if both are
// elementwise and of one shape. The fused op replaces the last one and keeps its name and result.
#include <algorithm>
#include <utility>

#include "ir/ops/fused.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

constexpr size_t most_inputs = 6;

class Fuser {
 public:
  explicit Fuser(Step& step) : step_(step), rewrite_(step.graph) {}

  Rewriter& run() {
    std::vector<Op>& old = rewrite_.old_ops();
    const std::vector<int> into = readers(old);
    chains_.resize(old.size());
    for (size_t i = 0; i < old.size(); ++i) {
      if (!fits(old[i])) {
        rewrite_.keep(std::move(old[i]));
        continue;
      }
      Chain chain = join(old[i]);
      if (into[i] >= 0 && chain.inputs.size() <= most_inputs) {
        at(chains_, rewrite_.graph().tensor(old[i].outputs[0]).producer) = std::move(chain);
        continue;
      }
      close(std::move(old[i]), std::move(chain));
    }
    return rewrite_;
  }

 private:
  struct Value {
    bool step = false;
    size_t index = 0;  // into inputs or steps
  };
  struct Step_ {
    std::string op;
    std::vector<Value> operands;
    Attrs attrs;
  };
  struct Chain {
    std::vector<TensorId> inputs;
    std::vector<Step_> steps;
  };

  const TensorType& type(TensorId tensor) const { return rewrite_.graph().tensor(tensor).type; }

  bool fits(const Op& op) const {
    return op.phase == Phase::forward && is_fusable(op.type) && is_float(type(op.outputs[0]).dtype) &&
           std::all_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId input) { return is_float(type(input).dtype); });
  }

  // By op: the reader that it goes into, -1 if it stays.
  std::vector<int> readers(const std::vector<Op>& ops) const {
    std::vector<int> reader(rewrite_.graph().tensors.size(), -1);
    for (size_t i = 0; i < ops.size(); ++i)
      for (const TensorId input : ops[i].inputs) {
        int& known = at(reader, input);
        known = known == -1 || known == static_cast<int>(i) ? static_cast<int>(i) : -2;
      }
    std::vector<int> into(ops.size(), -1);
    for (size_t i = 0; i < ops.size(); ++i) {
      const int to = ops[i].outputs.empty() ? -1 : at(reader, ops[i].outputs[0]);
      if (to >= 0 && fits(ops[i]) && fits(at(ops, to)) && together(ops[i], at(ops, to))) into[i] = to;
    }
    return into;
  }

  bool together(const Op& op, const Op& reader) const {
    const Tensor& between = rewrite_.graph().tensor(op.outputs[0]);
    return op.layer == reader.layer && op.placement == reader.placement && !between.sbp &&
           op.outputs[0] != step_.loss && between.type.shape == type(reader.outputs[0]).shape;
  }

  // A chain of the chains that end in the op's operands, then the op.
  Chain join(const Op& op) {
    Chain chain;
    Step_ step{op.type, {}, op.attrs};
    for (const TensorId input : op.inputs) {
      const auto producer = static_cast<size_t>(rewrite_.graph().tensor(input).producer);
      if (const auto found = read_twice_.find(producer); found != read_twice_.end()) {
        step.operands.push_back(found->second);
        continue;
      }
      Chain before = producer < chains_.size() ? std::exchange(chains_[producer], {}) : Chain{};
      step.operands.push_back(before.steps.empty() ? input_of(chain, rewrite_.current(input))
                                                   : append(chain, before));
      if (!before.steps.empty()) read_twice_[producer] = step.operands.back();
    }
    read_twice_.clear();
    chain.steps.push_back(std::move(step));
    return chain;
  }

  static Value input_of(Chain& chain, TensorId tensor) {
    const auto found = std::find(chain.inputs.begin(), chain.inputs.end(), tensor);
    const Value value{false, static_cast<size_t>(found - chain.inputs.begin())};
    if (found == chain.inputs.end()) chain.inputs.push_back(tensor);
    return value;
  }

  static Value append(Chain& chain, const Chain& before) {
    const size_t base = chain.steps.size();
    for (Step_ step : before.steps) {
      for (Value& operand : step.operands)
        operand =
            operand.step ? Value{true, operand.index + base} : input_of(chain, before.inputs[operand.index]);
      chain.steps.push_back(std::move(step));
    }
    return {true, chain.steps.size() - 1};
  }

  void close(Op op, Chain chain) {
    if (chain.steps.size() == 1) return rewrite_.keep(std::move(op));
    FusedProgram program;
    for (Step_& step : chain.steps) {
      FusedStep fused{std::move(step.op), {}, std::move(step.attrs)};
      for (const Value& value : step.operands)
        fused.operands.push_back(
            static_cast<int>(value.step ? chain.inputs.size() + value.index : value.index));
      program.push_back(std::move(fused));
    }
    const TensorId result = op.outputs[0];
    NewOp spec{"fused",
               chain.inputs,
               {{"program", to_text(program)}},
               op.name,
               {rewrite_.graph().tensor(result).name}};
    const TensorId fused = rewrite_.add(std::move(spec), op)[0];
    rewrite_.graph().tensor(fused).sbp = rewrite_.graph().tensor(result).sbp;
    rewrite_.replace(result, fused);
  }

  Step& step_;
  Rewriter rewrite_;
  std::vector<Chain> chains_;           // by op: the chain that waits for its reader
  std::map<size_t, Value> read_twice_;  // producers that the op at hand reads twice
};

}  // namespace

void fuse_elementwise(Step& step) {
  Fuser fuser(step);
  step.finish(fuser.run());
}

}  // namespace boxcar::ir
