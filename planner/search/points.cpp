#include "planner/search/points.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/models/conv_net.h"
#include "planner/mesh.h"
#include "planner/schedule.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

constexpr int64_t most_sequences = 64;    // in a micro-batch
constexpr int64_t long_sequence = 16384;  // from here on it may be shared

class Points {
 public:
  Points(const Job& job, const Fixed& fixed, const std::function<bool(const Job&)>& visit)
      : job_(job), fixed_(fixed), visit_(visit), point_(job) {
    if (!fixed_.is_pinned("stage_layers")) point_.parallel.stage_layers.clear();
    if (!fixed_.is_pinned("mesh_order")) point_.parallel.mesh_order = Hints().mesh_order;
    under_way_ = planner::under_way_of(job.parallel.schedule);
  }

  void run() {
    const ir::models::Transformer& m = job_.model;
    Hints& h = point_.parallel;
    choose("tp", h.tp, divisors(job_.gpus, job_.cluster.node.gpus), [&] {
      if (m.heads % h.tp != 0 || m.kv_heads % h.tp != 0 || m.ffn % h.tp != 0) return;
      choose("cp", h.cp, divisors(job_.gpus / h.tp, m.seq >= long_sequence ? 16 : 1), [&] {
        if (m.seq % h.cp != 0 || m.decoder_seq % h.cp != 0) return;
        choose("ep", h.ep, divisors(m.experts == 0 ? 1 : m.experts, job_.gpus / (int64_t{h.tp} * h.cp)),
               [&] { sequence_parallel(); });
      });
    });
  }

 private:
  void sequence_parallel() {
    const ir::models::Transformer& m = job_.model;
    Hints& h = point_.parallel;
    for (const bool split : {true, false}) {
      const int64_t ranks = int64_t{h.tp} * h.cp;
      if (split && (h.tp == 1 || m.seq % ranks != 0 || m.decoder_seq % ranks != 0)) continue;
      if (fixed_.is_pinned("sequence_parallel") && split != (job_.parallel.sequence_parallel && h.tp > 1))
        continue;
      h.sequence_parallel = split;
      recompute();
    }
  }

  static std::vector<int> divisors(int64_t number, int64_t most) {
    std::vector<int> result;
    for (int64_t d = 1; d <= std::min(number, most); ++d)
      if (number % d == 0) result.push_back(static_cast<int>(d));
    return result;
  }

  template <typename Then>
  void choose(const char* key, int& value, const std::vector<int>& values, const Then& then) {
    if (fixed_.is_pinned(key)) return then();
    for (const int v : values) {
      if (!fixed_.in_range(key, v)) continue;
      value = v;
      then();
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
      const bool has_selective = !job_.model.flash && !ir::models::is_conv_net(job_.model.family);
      if (!fixed_.is_pinned("recompute") && kind == Recompute::selective && !has_selective) continue;
      if (!fixed_.is_pinned("recompute") && kind == Recompute::ops) continue;  // simulated where asked for
      kinds.push_back({kind});
    }
    choose("micro_batch", point_.parallel.micro_batch, divisors(job_.global_batch, most_sequences), [&] {
      for (Kind& kind : kinds) {
        if (!kind.fits) continue;
        point_.train.recompute = kind.recompute;
        seen_ = fitting_ = 0;
        pipelines();
        if (seen_ > 0 && fitting_ == 0) kind.fits = false;
        if (seen_ == fitting_ && !fixed_.more_recompute) break;  // computing more again would be slower
      }
    });
  }

  void pipelines() {
    Hints& h = point_.parallel;
    const int64_t inside = int64_t{h.tp} * h.cp;
    if (job_.gpus % inside != 0) return;
    const int64_t outside = job_.gpus / inside;
    choose("pp", h.pp, divisors(outside, job_.model.layers), [&] {
      if (outside % h.pp != 0) return;
      if (!under_way_.empty() && under_way_.size() != static_cast<size_t>(h.pp)) return;
      const auto dp = static_cast<int>(outside / h.pp);
      if ((fixed_.is_pinned("dp") && dp != job_.parallel.dp) || !fixed_.in_range("dp", dp)) return;
      if (dp % h.ep != 0 || job_.global_batch % (int64_t{dp} * h.micro_batch) != 0) return;
      h.dp = dp;
      std::set<int> fit;  // virtual stages with which ZeRO 1 does
      choose("zero", h.zero, shardings(), [&] {
        choose("virtual_stages", h.virtual_stages, divisors(job_.model.layers, job_.model.layers / h.pp),
               [&] {
                 const int64_t micro_batches = job_.global_batch / (int64_t{dp} * h.micro_batch);
                 const int64_t stages = int64_t{h.pp} * h.virtual_stages;
                 if (h.virtual_stages > 1 && job_.model.decoder_layers > 0) return;
                 if (!h.stage_layers.empty() && !is_cut_into(stages)) return;
                 if (h.virtual_stages > 1 && (h.pp == 1 || h.schedule != "1f1b" ||
                                              micro_batches % h.pp != 0 || job_.model.layers % stages != 0))
                   return;
                 if (h.pp > 1 && h.zero > 1 && fit.count(h.virtual_stages)) return;
                 const bool fits = visit_(point_);
                 if (fits && h.zero == 1) fit.insert(h.virtual_stages);
                 ++seen_;
                 fitting_ += fits ? 1 : 0;
               });
      });
    });
  }

  bool is_cut_into(int64_t stages) const {
    const std::vector<int>& layers = point_.parallel.stage_layers;
    return static_cast<int64_t>(layers.size()) == stages &&
           std::accumulate(layers.begin(), layers.end(), int64_t{0}) == job_.model.layers;
  }

  // With stages, gradients that are sharded are reduced every micro-batch: only where memory asks for it.
  std::vector<int> shardings() const {
    return point_.parallel.dp == 1 ? std::vector<int>{0} : std::vector<int>{0, 1, 2, 3};
  }

  const Job& job_;
  const Fixed& fixed_;
  const std::function<bool(const Job&)>& visit_;
  Job point_;
  std::vector<int> under_way_;  // of the schedule
  int seen_ = 0, fitting_ = 0;  // points of a micro-batch
};

}  // namespace

void each_point(const Job& job, const Fixed& fixed, const std::function<bool(const Job&)>& visit) {
  Points(job, fixed, visit).run();
}

namespace {

// Keys that decide which points there are, but mesh_order, which goes with all.
constexpr const char* deciding[] = {"dp",   "tp",          "pp",           "cp",       "ep",
                                    "zero", "micro_batch", "stage_layers", "schedule", "virtual_stages"};

std::string value_of(const Job& job, const Fixed& fixed, const std::string& key) {
  const Hints& h = job.parallel;
  if (const auto range = fixed.ranges.find(key); range != fixed.ranges.end())
    return fmt::format("{} {}..{}", key, range->second.first, range->second.second);
  if (key == "stage_layers") return fmt::format("{} {}", key, fmt::join(h.stage_layers, ","));
  if (key == "schedule") return fmt::format("{} {}", key, h.schedule);
  const std::map<std::string, int> numbers{{"dp", h.dp},     {"tp", h.tp},
                                           {"pp", h.pp},     {"cp", h.cp},
                                           {"ep", h.ep},     {"micro_batch", h.micro_batch},
                                           {"zero", h.zero}, {"virtual_stages", h.virtual_stages}};
  return fmt::format("{} {}", key, numbers.at(key));
}

bool is_possible(Job job, const Fixed& fixed, const std::set<std::string>& keys) {
  Fixed some;
  for (const std::string& key : keys) {
    if (fixed.pinned.count(key) > 0) some.pinned.insert(key);
    if (const auto range = fixed.ranges.find(key); range != fixed.ranges.end()) some.ranges.insert(*range);
  }
  if (some.pinned.count("schedule") == 0) job.parallel.schedule = Hints().schedule;
  bool any = false;
  each_point(job, some, [&](const Job&) { return any = true; });
  return any;
}

}  // namespace

std::vector<std::string> in_the_way(const Job& job, const Fixed& fixed) {
  std::vector<std::string> given;
  for (const char* key : deciding)
    if (fixed.pinned.count(key) + fixed.ranges.count(key) > 0) given.push_back(key);
  for (const std::string& key : given)
    if (!is_possible(job, fixed, {key})) return {value_of(job, fixed, key)};
  for (size_t a = 0; a < given.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (!is_possible(job, fixed, {given[a], given[b]}))
        return {value_of(job, fixed, given[a]), value_of(job, fixed, given[b])};
  for (size_t a = 0; a < given.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      for (size_t c = 0; c < b; ++c)
        if (!is_possible(job, fixed, {given[a], given[b], given[c]}))
          return {value_of(job, fixed, given[a]), value_of(job, fixed, given[b]),
                  value_of(job, fixed, given[c])};
  return {};
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
  if (job.gpus <= node) return orders;
  Hints h = job.parallel;
  h.mesh_order = Hints().mesh_order;
  std::set<std::vector<int64_t>> known{beside(h, node)};
  std::vector<std::string> dims{"cp", "dp", "pp", "tp"};
  do {
    h.mesh_order = fmt::format("{}", fmt::join(dims, ","));
    if (known.insert(beside(h, node)).second) orders.push_back(h.mesh_order);
  } while (std::next_permutation(dims.begin(), dims.end()));
  return orders;
}

}  // namespace boxcar::search
