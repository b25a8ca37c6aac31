#include "planner/search/points.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "planner/mesh.h"
#include "planner/resolve.h"
#include "planner/search/slow_stages.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

// In which they are chosen; a rule is asked as soon as all of its keys are.
constexpr const char* order[] = {"tp", "cp", "ep",   "sequence_parallel", "micro_batch",
                                 "pp", "dp", "zero", "virtual_stages"};
constexpr int most_of_range = 64;  // where a rule that is left out would say which

constexpr int64_t largest_degree = 1 << 20;

std::vector<int> divisors(int64_t number) {
  std::vector<int> small, large;
  for (int64_t d = 1; d * d <= number && d <= largest_degree; ++d) {
    if (number % d != 0) continue;
    small.push_back(static_cast<int>(d));
    if (d * d < number && number / d <= largest_degree) large.push_back(static_cast<int>(number / d));
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<int> up_to(int first, int last) {
  std::vector<int> all(static_cast<size_t>(std::max(0, last - first + 1)));
  std::iota(all.begin(), all.end(), first);
  return all;
}

class Points {
 public:
  using VisitBranch = std::function<void(const Hints&)>;

  // With `first` it ends with the first point. All rules but some: `loose`, where values are tried too that
  // only the others rule out.
  Points(const Job& job, const Fixed& fixed, const std::vector<const Rule*>& rules, bool loose, bool first,
         const Visit& visit)
      : job_(job), fixed_(fixed), visit_(visit), first_(first), point_(job) {
    Hints& h = point_.parallel;
    if (!fixed_.is_pinned("stage_layers")) h.stage_layers.clear();
    if (!fixed_.is_pinned("mesh_order")) h.mesh_order = Hints().mesh_order;
    if (!fixed_.is_pinned("stage_order")) h.stage_order.clear();
    for (const Rule* rule : rules) {
      const auto last = std::find_if(std::rbegin(order), std::rend(order), [&](const char* key) {
        return std::count(rule->keys.begin(), rule->keys.end(), key) > 0;
      });
      rules_[last == std::rend(order) ? "" : *last].push_back(rule);
    }
    const std::vector<int> shares = divisors(job_.gpus),
                           experts = divisors(std::max<int64_t>(1, job.model.experts)),
                           layers = divisors(job.model.layers);
    values_ = {{"tp", shares},
               {"cp", shares},
               {"pp", shares},
               {"dp", shares},
               {"ep", experts},
               {"zero", up_to(0, 3)},
               {"virtual_stages", layers},
               {"micro_batch", divisors(job.global_batch)}};
    if (loose) {
      std::vector<int>& dp = values_["dp"];
      dp.insert(dp.end(), experts.begin(), experts.end());
      values_["pp"] = up_to(1, static_cast<int>(job.model.layers));
      values_["pp"].insert(values_["pp"].end(), shares.begin(), shares.end());
    }
    for (auto& [key, values] : values_) {
      const auto range = fixed_.ranges.find(key);
      if (range == fixed_.ranges.end()) continue;
      const int least = range->second.first, most = range->second.second;
      std::erase_if(values, [&](int v) { return v < least || v > most; });
      if (!loose) continue;
      for (const int v : up_to(least, std::min(most, least + most_of_range))) values.push_back(v);
    }
  }

  void branches(const VisitBranch& visit) {
    if (!keeps("")) return;
    Hints& h = point_.parallel;
    choose("tp", h.tp,
           [&] { choose("cp", h.cp, [&] { choose("ep", h.ep, [&] { sequence_parallel(visit); }); }); });
  }

  // All points of a branch.
  void run(const Hints& branch) {
    point_.parallel = branch;
    recompute();
  }

  bool any() {
    branches([&](const Hints&) { recompute(); });
    return any_;
  }

 private:
  bool keeps(const std::string& key) const {
    const auto rules = rules_.find(key);
    return rules == rules_.end() || std::all_of(rules->second.begin(), rules->second.end(),
                                                [&](const Rule* rule) { return rule->holds(point_); });
  }

  template <typename Then>
  void choose(const std::string& key, int& value, const Then& then) {
    if (fixed_.is_pinned(key)) {
      if (keeps(key)) then();
      return;
    }
    for (const int v : values_.at(key)) {
      if (any_ && first_) return;
      value = v;
      if (keeps(key)) then();
    }
  }

  void sequence_parallel(const VisitBranch& visit) {
    Hints& h = point_.parallel;
    for (const bool split : {true, false}) {
      if (split && h.tp == 1) continue;
      if (fixed_.is_pinned("sequence_parallel") && split != (job_.parallel.sequence_parallel && h.tp > 1))
        continue;
      h.sequence_parallel = split;
      if (keeps("sequence_parallel")) visit(h);
    }
  }

  void recompute() {
    using ir::Recompute;
    struct Kind {
      Recompute recompute;
      bool fits = true;  // with smaller micro-batches
    };
    std::vector<Kind> kinds;
    for (const Recompute kind : {Recompute::none, Recompute::selective, Recompute::ops, Recompute::full}) {
      if (fixed_.is_pinned("recompute") && kind != job_.train.recompute) continue;
      const bool has_selective = ir::models::has_attention_core(job_.model);
      if (!fixed_.is_pinned("recompute") && kind == Recompute::selective && !has_selective) continue;
      if (!fixed_.is_pinned("recompute") && kind == Recompute::ops) continue;  // simulated where asked for
      kinds.push_back({kind});
    }
    choose("micro_batch", point_.parallel.micro_batch, [&] {
      for (Kind& kind : kinds) {
        if (!kind.fits) continue;
        point_.train.recompute = kind.recompute;
        seen_ = fitting_ = 0;
        pipelines();
        if (seen_ > 0 && fitting_ == 0) kind.fits = false;
        if (seen_ > 0 && seen_ == fitting_ && !fixed_.more_recompute)
          break;  // computing more again would be slower
      }
    });
  }

  // With stages, parameters that are sharded are gathered every micro-batch: of several only where memory
  // asks for it.
  void pipelines() {
    Hints& h = point_.parallel;
    choose("pp", h.pp, [&] {
      choose("dp", h.dp, [&] {
        std::set<int> fit;  // virtual stages with which less sharding does
        choose("zero", h.zero, [&] {
          choose("virtual_stages", h.virtual_stages, [&] {
            if (h.pp == 1 && h.virtual_stages > 1 && !fixed_.is_given("virtual_stages")) return;
            const bool often = h.pp > 1 && planner::micro_batches(point_) > 1;
            if (often && h.zero > 2 && fit.count(h.virtual_stages)) return;
            const std::optional<bool> fits = visit_(point_);
            any_ = true;
            if (!fits) return;
            if (*fits) fit.insert(h.virtual_stages);
            ++seen_;
            fitting_ += *fits ? 1 : 0;
          });
        });
      });
    });
  }

  const Job& job_;
  const Fixed& fixed_;
  const Visit& visit_;
  bool first_;
  Job point_;
  std::map<std::string, std::vector<const Rule*>> rules_;  // by the key that is chosen last
  std::map<std::string, std::vector<int>> values_;
  bool any_ = false;
  int seen_ = 0, fitting_ = 0;  // points of a micro-batch
};

}  // namespace

namespace {

std::vector<const Rule*> all_of(const std::vector<Rule>& rules) {
  std::vector<const Rule*> all;
  for (const Rule& rule : rules) all.push_back(&rule);
  return all;
}

}  // namespace

std::vector<Hints> branches(const Job& job, const Fixed& fixed) {
  const std::vector<Rule> rules = rules_of(job, fixed);
  std::vector<Hints> result;
  Points(job, fixed, all_of(rules), false, false, nullptr).branches([&](const Hints& h) {
    result.push_back(h);
  });
  return result;
}

void each_point(const Job& job, const Fixed& fixed, const Hints& branch, const Visit& visit) {
  const std::vector<Rule> rules = rules_of(job, fixed);
  Points(job, fixed, all_of(rules), false, false, visit).run(branch);
}

void each_point(const Job& job, const Fixed& fixed, const Visit& visit) {
  for (const Hints& branch : branches(job, fixed)) each_point(job, fixed, branch, visit);
}

bool any_point(const Job& job, const Fixed& fixed, const std::vector<const Rule*>& rules) {
  const Visit visit = [](const Job&) { return true; };
  return Points(job, fixed, rules, true, true, visit).any();
}

namespace {

// By dimension, stages last: how many ranks of a group are on one node.
std::vector<int64_t> beside(const Hints& h, int node) {
  const planner::Mesh mesh = planner::mesh_of(h);
  const auto on_node = [&](int64_t ranks, int stride) {
    return std::min<int64_t>(ranks, std::max(1, node / std::max(1, stride)));
  };
  std::vector<int64_t> result;
  for (size_t d = 0; d < mesh.dims(); ++d) result.push_back(on_node(mesh.extents[d], mesh.strides[d]));
  result.push_back(on_node(h.pp, mesh.stage_stride));
  return result;
}

}  // namespace

std::vector<std::string> other_orders(const Job& job) {
  const int node = job.cluster.node.gpus;
  std::vector<std::string> orders;
  if (job.gpus <= node && slowest_device(job) == 1) return orders;
  Hints h = job.parallel;
  const auto standing = [&] { return std::pair(beside(h, node), slowness_by_stage(h, job.cluster)); };
  h.mesh_order = Hints().mesh_order;
  std::set known{standing()};
  std::vector<std::string> dims{"cp", "dp", "pp", "tp"};
  do {
    h.mesh_order = fmt::format("{}", fmt::join(dims, ","));
    if (known.insert(standing()).second) orders.push_back(h.mesh_order);
  } while (std::next_permutation(dims.begin(), dims.end()));
  return orders;
}

}  // namespace boxcar::search
