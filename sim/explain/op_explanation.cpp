#include "sim/explain/op_explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "backends/machines/named_constants.h"
#include "ir/op.h"
#include "ir/units.h"
#include "planner/estimate/layout_costs.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::explain {
namespace {

using sbp::Sbp;

// Constants of the cluster that are varied by a factor, by their --what-if names.
constexpr const char* constants[] = {
    "flops", "bandwidth.memory", "bandwidth.link", "bandwidth.network", "latency.link", "latency.network"};
constexpr double most_times = 64;

// The limit on nodes of problems for a model whose layouts can be found dozens of times.
constexpr int most_solved = 2000;

double local(const SignatureCost& cost) { return cost.kernel + cost.boxing; }

class OpTable {
 public:
  OpTable(const planner::LaidOut& laid, const backends::Cluster& cluster, size_t op, const StepWith& step)
      : laid_(laid), cluster_(cluster), op_(laid.graph.ops[op]), layout_(laid.layouts.ops[op]), step_(step) {
    tensors_ = op_.inputs;
    tensors_.insert(tensors_.end(), op_.outputs.begin(), op_.outputs.end());
    for (sbp::Signature& signature : others_)
      for (std::vector<Sbp>* side : {&signature.inputs, &signature.outputs})
        for (Sbp& s : *side) s.inner = 0;  // it does not say the size of a part
  }

  OpExplanation explain() {
    std::vector<std::string> reads;
    for (const ir::TensorId t : op_.inputs) reads.push_back("%" + laid_.graph.tensor(t).name);
    OpExplanation e;
    e.op = fmt::format("{} = {}({})", op_.name, op_.type, fmt::join(reads, ", "));
    e.steps = step_.seconds != nullptr;
    e.anew = step_.anew;
    for (size_t d = 0; d < laid_.mesh.dims(); ++d) e.dimensions.push_back(dimension(d));
    return e;
  }

 private:
  struct Dimension {
    size_t d;
    std::vector<Sbp> kept;  // how tensors of the op are kept there
  };

  // Its signatures on a dimension, with the others unchanged.
  const std::vector<search::OpChoice>& choices(search::LayoutCosts& costs, size_t d) const {
    search::LayoutCosts::Given given;
    for (const sbp::Signature& signature : others_) given.push_back(&signature);
    given[d] = nullptr;
    return costs.choices(laid_.graph, op_, given);
  }

  SignatureCost cost(search::LayoutCosts& costs, const search::OpChoice& choice, const Dimension& dim) const {
    const sbp::Signature& signature = choice.layout.signatures[dim.d];
    SignatureCost cost{signature, is_chosen(signature, dim.d), choice.seconds, {}, 0, 0};
    const size_t inputs = op_.inputs.size();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const sbp::NdSbp& own = i < inputs ? choice.layout.inputs[i] : choice.layout.outputs[i - inputs];
      sbp::NdSbp kept = own;
      kept[dim.d] = dim.kept[i];
      if (kept[dim.d].is_split() && own[dim.d].is_split() && kept[dim.d].axis == own[dim.d].axis) continue;
      const ir::Tensor& tensor = laid_.graph.tensor(tensors_[i]);
      const search::Boxing boxing =
          i < inputs ? costs.boxing(tensor.type, kept, own) : costs.boxing(tensor.type, own, kept);
      const double seconds = boxing.compute + boxing.communication;
      const Sbp from = i < inputs ? kept[dim.d] : own[dim.d], to = i < inputs ? own[dim.d] : kept[dim.d];
      if (seconds > 0) cost.moved.push_back({i, tensor.name, from, to, seconds});
      cost.boxing += seconds;
    }
    return cost;
  }

  // The same on another cluster, for signatures that are known to be possible.
  SignatureCost cost(const backends::Cluster& cluster, const sbp::Signature& signature,
                     const Dimension& dim) const {
    search::LayoutCosts costs(cluster, laid_.mesh);
    const auto& all = choices(costs, dim.d);
    return cost(costs,
                *std::find_if(all.begin(), all.end(),
                              [&](const search::OpChoice& choice) {
                                return choice.layout.signatures[dim.d] == signature;
                              }),
                dim);
  }

  double step(const sbp::Signature& signature, size_t d, const backends::Cluster& cluster,
              bool free_memory = false) const {
    std::vector<sbp::Signature> signatures = layout_.signatures;
    signatures[d] = signature;
    return step_.seconds(d, signatures, cluster, free_memory);
  }

  DimensionExplanation dimension(size_t d) const {
    Dimension dim{d, {}};
    for (const ir::TensorId t : tensors_) dim.kept.push_back(at(laid_.layouts.stored, t)[d]);
    DimensionExplanation e{laid_.mesh.names[d], laid_.mesh.extents[d], {}, "", {}, "", 1};
    search::LayoutCosts costs(cluster_, laid_.mesh);
    for (const search::OpChoice& choice : choices(costs, d))
      if (SignatureCost c = cost(costs, choice, dim); std::isfinite(c.boxing))  // otherwise whole to partial
        e.signatures.push_back(std::move(c));
    if (step_.seconds) {
      const double now = step_.seconds(d, layout_.signatures, cluster_, false);
      for (SignatureCost& c : e.signatures) c.step = c.chosen ? 0 : step(c.signature, d, cluster_) - now;
    }
    std::stable_sort(e.signatures.begin(), e.signatures.end(),
                     [](const SignatureCost& a, const SignatureCost& b) {
                       return std::pair(a.step, local(a)) < std::pair(b.step, local(b));
                     });
    const SignatureCost *chosen = nullptr, *next = nullptr;
    for (const SignatureCost& c : e.signatures) {
      if (c.chosen) chosen = &c;
      if (!c.chosen && !next && std::isfinite(c.step)) next = &c;
    }
    if (!chosen || !next) {
      e.decided = "no other signature goes here";
      return e;
    }
    e.decided = decided(*chosen, *next);
    if (next->step >= 0) would_change(*chosen, *next, dim, e);
    return e;
  }

  // The boxing, or the kernel, in which the chosen one gains most over the next.
  static std::string decided(const SignatureCost& chosen, const SignatureCost& next) {
    std::string text = fmt::format("the next is {}", signature_text(next.signature));
    if (next.step < 0)
      return text +
             fmt::format(", with which the step would take {} less by the time models: degrees decided",
                         ir::format_seconds(-next.step));
    if (local(next) < local(chosen))
      return text + fmt::format(", {} less by its own kernel and boxing: what other ops need decided",
                                ir::format_seconds(local(chosen) - local(next)));
    const auto boxing = [](const SignatureCost& c, size_t tensor) -> const SignatureCost::Boxing* {
      for (const SignatureCost::Boxing& b : c.moved)
        if (b.tensor == tensor) return &b;
      return nullptr;
    };
    double most = next.kernel - chosen.kernel;
    std::string by = fmt::format("the kernel decided ({} less)", ir::format_seconds(std::max(0.0, most)));
    for (const SignatureCost::Boxing& b : next.moved) {
      const SignatureCost::Boxing* own = boxing(chosen, b.tensor);
      const double gain = b.seconds - (own ? own->seconds : 0);
      if (gain <= most) continue;
      most = gain;
      by = fmt::format("the boxing of %{} decided, {} -> {} in {} there", b.name, to_text(b.from),
                       to_text(b.to), ir::format_seconds(b.seconds));
    }
    return text + (most <= 0 ? ", which costs as much here" : "; " + by);
  }

  void would_change(const SignatureCost& chosen, const SignatureCost& next, const Dimension& dim,
                    DimensionExplanation& e) const {
    if (const std::string text = if_kept(chosen, next, dim); !text.empty()) e.would_change.push_back(text);
    if (step_.seconds && step_.by_memory) {
      const double gain =
          step(chosen.signature, dim.d, cluster_, true) - step(next.signature, dim.d, cluster_, true);
      if (gain > 0)
        e.would_change.push_back(
            fmt::format("the next would win by {} if memory were free", ir::format_seconds(gain)));
    }
    if (!in_whole() && local(next) < local(chosen)) return;  // it already wins here; other ops decided
    by_a_constant(chosen, next, dim, e);
    const char* by = in_whole() ? "" : " by its kernel and boxing";
    e.would_change.push_back(
        e.constant.empty()
            ? fmt::format("no constant of the cluster, at 1/{0:g} to {0:g} times, lets the next win{1}",
                          most_times, by)
            : fmt::format("the next would win{} with {} at {:.3g} times", by, e.constant, e.times));
  }

  // The next signature, if tensors that it needs boxed were kept as it needs them: the one tensor that gains
  // most, otherwise all.
  std::string if_kept(const SignatureCost& chosen, const SignatureCost& next, const Dimension& dim) const {
    const auto gain = [&](const std::vector<SignatureCost::Boxing>& tensors) {
      Dimension otherwise = dim;
      for (const SignatureCost::Boxing& b : tensors)
        otherwise.kept[b.tensor] = b.tensor < op_.inputs.size() ? b.to : b.from;
      return local(cost(cluster_, chosen.signature, otherwise)) -
             local(cost(cluster_, next.signature, otherwise));
    };
    const auto text = [&](const std::vector<SignatureCost::Boxing>& tensors, double seconds) {
      std::vector<std::string> kept;
      for (const SignatureCost::Boxing& b : tensors)
        kept.push_back(
            fmt::format("%{} were kept {}", b.name, to_text(b.tensor < op_.inputs.size() ? b.to : b.from)));
      return fmt::format("the next would win{} here if {}",
                         std::isfinite(seconds) ? " by " + ir::format_seconds(seconds) : "",
                         fmt::join(kept, " and "));
    };
    std::vector<SignatureCost::Boxing> best;
    double most = 0;
    for (const SignatureCost::Boxing& b : next.moved)
      if (const double seconds = gain({b}); seconds > most) most = seconds, best = {b};
    if (best.empty() && next.moved.size() > 1 && gain(next.moved) > 0) best = next.moved, most = gain(best);
    return best.empty() ? "" : text(best, most);
  }

  bool in_whole() const { return step_.seconds && step_.quick; }

  bool wins(const SignatureCost& chosen, const SignatureCost& next, const Dimension& dim,
            const char* constant, double times) const {
    backends::Cluster cluster = cluster_;
    if (!backends::scale(cluster, constant, times)) return false;  // no cluster is like that
    if (in_whole()) return step(next.signature, dim.d, cluster) < step(chosen.signature, dim.d, cluster);
    return local(cost(cluster, next.signature, dim)) < local(cost(cluster, chosen.signature, dim));
  }

  // The constant that has to change by the smallest factor for the next one to win, to 1 %.
  void by_a_constant(const SignatureCost& chosen, const SignatureCost& next, const Dimension& dim,
                     DimensionExplanation& e) const {
    double least = std::log(most_times);
    for (const char* constant : constants) {
      if (cluster_.nodes == 1 && std::string_view(constant).ends_with("network")) continue;
      for (const double sign : {1.0, -1.0}) {
        const auto at_least = [&](double size) {
          return wins(chosen, next, dim, constant, std::exp(sign * size));
        };
        if (!at_least(least)) continue;
        double below = 0;  // a factor at which it does not win
        while (least - below > 0.01) {
          const double middle = (below + least) / 2;
          (at_least(middle) ? least : below) = middle;
        }
        e.constant = constant;
        e.times = std::exp(sign * least);
      }
    }
  }

  bool is_chosen(const sbp::Signature& signature, size_t d) const {
    const auto same = [](const std::vector<Sbp>& a, const std::vector<Sbp>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Sbp x, Sbp y) {
        return x.kind == y.kind && x.axis == y.axis && x.reduction == y.reduction;
      });
    };
    return same(signature.inputs, layout_.signatures[d].inputs) &&
           same(signature.outputs, layout_.signatures[d].outputs);
  }

  const planner::LaidOut& laid_;
  const backends::Cluster& cluster_;
  const ir::Op& op_;
  const planner::OpLayout& layout_;
  const StepWith& step_;
  std::vector<sbp::Signature> others_ = layout_.signatures;  // by mesh dimension
  std::vector<ir::TensorId> tensors_;                        // inputs first
};

// Every op except updates as it is.
search::LayoutRequest as_laid_out(const planner::LaidOut& laid) {
  search::LayoutRequest request;
  for (size_t o = 0; o < laid.graph.ops.size(); ++o)
    if (const ir::Op& op = laid.graph.ops[o]; ir::has_op(op.type) && op.phase != ir::Phase::update)
      request.ops[op.name] = laid.layouts.ops[o].signatures;
  return request;
}

}  // namespace

std::string signature_text(const sbp::Signature& signature) {
  std::vector<std::string> in, out;
  for (const Sbp s : signature.inputs) in.push_back(to_text(s));
  for (const Sbp s : signature.outputs) out.push_back(to_text(s));
  return fmt::format("{} -> {}", fmt::join(in, ", "), fmt::join(out, ", "));
}

OpExplanation explain_op(const planner::LaidOut& laid, const backends::Cluster& cluster,
                         const std::string& name, const StepWith& step) {
  for (size_t o = 0; o < laid.graph.ops.size(); ++o) {
    const ir::Op& op = laid.graph.ops[o];
    if (op.name == name && ir::has_op(op.type))
      return OpTable(laid, cluster, o, op.phase == ir::Phase::update ? StepWith{} : step).explain();
  }
  std::vector<std::string> names;
  for (const ir::Op& op : laid.graph.ops) {
    if (ir::has_op(op.type)) names.push_back(op.name);
    if (op.name == name)
      throw Error::input("--op",
                         fmt::format("{} is there from the start, and no op makes it; give an op that "
                                     "reads it, or --tensor {}",
                                     name, name));
  }
  throw Error::input("--op", fmt::format("the plan's graph has no {}{}", name, did_you_mean(name, names)));
}

StepWith step_with(const planner::Job& job, const planner::LaidOut& laid, const std::string& op,
                   const std::optional<search::LayoutRequest>& layouts, const search::FoundLayouts& found) {
  StepWith step;
  if (laid.mesh.devices() == 1) return step;
  const search::LayoutRequest base = layouts ? *layouts : as_laid_out(laid);
  step.anew = layouts.has_value();
  step.by_memory = base.weights.memory > 0;
  const planner::Layouts as = layouts ? found.layouts : planner::Layouts{laid.layouts.ops, {}};
  const auto find = [job, &laid, base, op, as](size_t dimension,
                                               const std::vector<sbp::Signature>& signatures,
                                               const backends::Cluster& cluster, bool free_memory) {
    planner::Job on = job;
    on.cluster = cluster;
    search::LayoutRequest request = base;
    request.dimension = dimension;
    request.as = as;
    if (!signatures.empty()) request.ops[op] = signatures;
    if (free_memory) request.weights.memory = 0;
    search::FoundLayouts solved;
    search::chooser(on, request, &solved)(laid.graph, on.parallel, laid.mesh);
    return solved;
  };
  step.quick = !layouts || find(0, {}, job.cluster, false).solved <= most_solved;
  step.seconds = [find](size_t dimension, const std::vector<sbp::Signature>& signatures,
                        const backends::Cluster& cluster,
                        bool free_memory) { return find(dimension, signatures, cluster, free_memory).value; };
  return step;
}

}  // namespace boxcar::explain
