#include "planner/search/points.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "planner/estimate/slow_stages.h"
#include "planner/mesh.h"
#include "planner/resolve.h"
#include "planner/search/dimensions.h"
#include "planner/sharding.h"
#include "sbp/words.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

constexpr int most_of_range = 64;  // if the rule that would limit them is left out

std::vector<int> up_to(int first, int last) {
  std::vector<int> all(static_cast<size_t>(std::max(0, last - first + 1)));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Walks through the dimensions that have values, in the order in which they are chosen.
class Points {
 public:
  using VisitBranch = std::function<void(const Hints&)>;

  // With `first` it ends at the first point. `rules` are those to keep. `loose`: also tries values that only
  // other rules exclude.
  Points(const Job& job, const Fixed& fixed, const std::vector<const Rule*>& rules, bool loose, bool first,
         const Visit& visit)
      : fixed_(fixed), visit_(visit), loose_(loose), first_(first), point_(job) {
    for (const Dimension* d : ordered_by(&Dimension::chosen)) {
      if (d->values)
        levels_.push_back({d, {}});
      else if (!fixed_.is_pinned(d->key))
        set_default(*d, point_);
      if (d->values && d->branch) branch_end_ = levels_.size();
    }
    for (const Rule* rule : rules) {
      const auto last = std::find_if(levels_.rbegin(), levels_.rend(), [&](const Level& level) {
        return std::count(rule->keys.begin(), rule->keys.end(), level.dimension->key) > 0;
      });
      (last == levels_.rend() ? of_no_level_ : last->rules).push_back(rule);
    }
  }

  void branches(const VisitBranch& visit) {
    if (keeps(of_no_level_)) choose(0, branch_end_, [&] { visit(point_.parallel); });
  }

  // All points of a branch.
  void run(const Hints& branch) {
    point_.parallel = branch;
    too_large_.clear();
    choose(branch_end_, levels_.size(), [&] { visit(); });
  }

  bool any() {
    branches([&](const Hints& branch) { run(Hints(branch)); });
    return any_;
  }

 private:
  using Then = std::function<void()>;
  struct Level {
    const Dimension* dimension;
    std::vector<const Rule*> rules;  // checked as soon as all of their keys are chosen
  };

  bool keeps(const std::vector<const Rule*>& rules) const {
    return std::all_of(rules.begin(), rules.end(), [&](const Rule* rule) { return rule->holds(point_); });
  }

  std::vector<int> values(const Dimension& d) const {
    if (d.idle && d.idle(point_)) return {number_of(d, Job())};
    if (fixed_.is_pinned(d.key)) return {number_of(d, point_)};
    std::vector<int> all = d.values({point_, fixed_, loose_});
    const auto range = fixed_.ranges.find(d.key);
    if (range == fixed_.ranges.end()) return all;
    const int least = range->second.first, most = range->second.second;
    std::erase_if(all, [&](int v) { return v < least || v > most; });
    if (loose_)
      for (const int v : up_to(least, std::min(most, least + most_of_range))) all.push_back(v);
    return all;
  }

  void choose(size_t level, size_t end, const Then& then) {
    if (level == end) return then();
    const Dimension& d = *levels_[level].dimension;
    const int own = number_of(d, point_);
    if (d.shards) less_fits_.clear();
    for (const int value : values(d)) {
      if (any_ && first_) break;
      set_number(d, point_, value);
      if (!keeps(levels_[level].rules)) continue;
      if (!d.until_fits)
        choose(level + 1, end, then);
      else if (!recompute_more(level + 1, end, then))
        break;
    }
    set_number(d, point_, own);
  }

  // Whether to try more recomputation too. It would only be slower if all points of the micro-batch fit. If
  // no point of a micro-batch fits, no larger one does.
  bool recompute_more(size_t level, size_t end, const Then& then) {
    const ir::Recompute kind = point_.train.recompute;
    if (too_large_.count(kind)) return true;
    seen_ = fitting_ = 0;
    choose(level, end, then);
    if (seen_ > 0 && fitting_ == 0) too_large_.insert(kind);
    return seen_ == 0 || fitting_ < seen_ || fixed_.least_memory;
  }

  // With stages, sharded parameters are gathered every micro-batch. With several micro-batches they are tried
  // only if memory requires it.
  void visit() {
    const Hints& h = point_.parallel;
    const bool often = h.pp > 1 && planner::micro_batches(point_) > 1;
    if (often && planner::sharding_of(h).gathers_in_each_pass() && less_fits_.count(h.virtual_stages)) return;
    const std::optional<bool> fits = visit_(point_);
    any_ = true;
    if (!fits) return;
    if (*fits) less_fits_.insert(h.virtual_stages);
    ++seen_;
    fitting_ += *fits ? 1 : 0;
  }

  const Fixed& fixed_;
  const Visit& visit_;
  bool loose_, first_;
  Job point_;
  std::vector<Level> levels_;
  size_t branch_end_ = 0;
  std::vector<const Rule*> of_no_level_;
  bool any_ = false;
  std::set<ir::Recompute> too_large_;  // with smaller micro-batches
  std::set<int> less_fits_;            // virtual stages with which less sharding fits
  int seen_ = 0, fitting_ = 0;         // points of a micro-batch
};

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

// By dimension, stages last: the number of ranks of a group on one node.
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

std::vector<planner::MeshOrder> other_orders(const Job& job) {
  const int node = job.cluster.node.gpus;
  std::vector<planner::MeshOrder> orders;
  if (job.gpus <= node && slowest_device(job) == 1) return orders;
  Hints h = job.parallel;
  const auto standing = [&] { return std::pair(beside(h, node), slowness_by_stage(h, job.cluster)); };
  h.mesh_order = planner::usual_mesh_order;
  std::set known{standing()};
  using enum planner::MeshAxis;
  const auto by_word = [](planner::MeshAxis a, planner::MeshAxis b) { return word(a) < word(b); };
  planner::MeshOrder order{cp, dp, pp, tp};
  do {
    h.mesh_order = order;
    if (known.insert(standing()).second) orders.push_back(order);
  } while (std::next_permutation(order.begin(), order.end(), by_word));
  return orders;
}

}  // namespace boxcar::search
