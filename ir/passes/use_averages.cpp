#include "ir/passes/use_averages.h"

#include <string>
#include <utility>
#include <vector>

#include "ir/images.h"
#include "ir/ops/batch_statistics.h"
#include "ir/rewrite.h"

namespace boxcar::ir {
namespace {

class Normaliser {
 public:
  Normaliser(Rewriter& rewrite, const Op& norm) : rewrite_(rewrite), norm_(norm) {}

  TensorId run() {
    const TensorId x = norm_.inputs[0], gamma = norm_.inputs[1], beta = norm_.inputs[2];
    const TensorId eps =
        rewrite_.add_source("constant", norm_.name + ".eps", {{}, statistic().dtype}, Role::constant,
                            {{"value", attr_float(norm_.attrs, "eps")}}, norm_);
    const TensorId mean = state(running_mean), variance = state(running_variance);
    const TensorId deviation = add("sqrt", {add("add", {variance, eps}, ".raised")}, ".deviation");
    const TensorId scale = add("div", {gamma, deviation}, ".scale");
    const TensorId shift = add("sub", {beta, add("mul", {mean, scale}, ".moved")}, ".shift");
    const TensorId scaled = add("mul", {x, by_channel(scale, ".scale_by_channel")}, ".scaled");
    return add("add", {scaled, by_channel(shift, ".shift_by_channel")}, ".normal");
  }

 private:
  const TensorType& type(TensorId t) const { return rewrite_.graph().tensor(t).type; }
  const TensorType& statistic() const { return type(norm_.outputs[1]); }

  TensorId state(std::string_view ending) {
    return rewrite_.add_source("parameter", norm_.name + std::string(ending), statistic(), Role::parameter,
                               {}, norm_);
  }

  TensorId add(const char* op, std::vector<TensorId> operands, const char* ending, Attrs attrs = {}) {
    return rewrite_.add({op, std::move(operands), std::move(attrs), norm_.name + ending, {}}, norm_)[0];
  }

  // In a shape that a tensor of x's is broadcast from along its channels.
  TensorId by_channel(TensorId t, const char* ending) {
    const Shape& x = type(norm_.inputs[0]).shape;
    Shape shape(x.size() - channel_axis(x, norm_.attrs), 1);
    if (shape.size() == 1) return t;
    shape[0] = type(t).shape[0];
    return add("reshape", {t}, ending, {{"shape", shape}});
  }

  Rewriter& rewrite_;
  const Op& norm_;
};

}  // namespace

Graph use_running_averages(Graph forward) {
  Rewriter rewrite(forward);
  for (Op& op : rewrite.old_ops()) {
    if (op.type != "batch_norm") {
      rewrite.keep(std::move(op));
      continue;
    }
    const TensorId normal = Normaliser(rewrite, op).run();
    rewrite.replace(op.outputs[0], normal);
  }
  rewrite.finish();
  verify(forward);
  return forward;
}

}  // namespace boxcar::ir
