#include "planner/search/points.h"

#include <algorithm>
#include <cmath>

#include "sim/models/collective_time.h"

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
    if (!is_pinned("stage_layers")) point_.parallel.stage_layers.clear();
  }

  void run() {
    const ir::models::Transformer& m = job_.model;
    Hints& h = point_.parallel;
    choose("tp", h.tp, divisors(job_.gpus, job_.cluster.node.gpus), [&] {
      if (m.heads % h.tp != 0 || m.kv_heads % h.tp != 0 || m.ffn % h.tp != 0) return;
      choose("cp", h.cp, divisors(job_.gpus / h.tp, m.seq >= long_sequence ? 16 : 1), [&] {
        if (m.seq % h.cp != 0) return;
        for (const bool split : {true, false}) {
          if (split && (h.tp == 1 || m.seq % (int64_t{h.tp} * h.cp) != 0)) continue;
          if (is_pinned("sequence_parallel") && split != (job_.parallel.sequence_parallel && h.tp > 1))
            continue;
          h.sequence_parallel = split;
          recompute();
        }
      });
    });
  }

 private:
  bool is_pinned(const char* key) const { return fixed_.pinned.count(key) > 0; }

  bool in_range(const char* key, int value) const {
    const auto range = fixed_.ranges.find(key);
    return range == fixed_.ranges.end() || (range->second.first <= value && value <= range->second.second);
  }

  static std::vector<int> divisors(int64_t number, int64_t most) {
    std::vector<int> result;
    for (int64_t d = 1; d <= std::min(number, most); ++d)
      if (number % d == 0) result.push_back(static_cast<int>(d));
    return result;
  }

  template <typename Then>
  void choose(const char* key, int& value, const std::vector<int>& values, const Then& then) {
    if (is_pinned(key)) return then();
    for (const int v : values) {
      if (!in_range(key, v)) continue;
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
    for (const Recompute kind : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (is_pinned("recompute") && kind != job_.train.recompute) continue;
      if (!is_pinned("recompute") && kind == Recompute::selective && job_.model.flash) continue;  // has none
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
      const auto dp = static_cast<int>(outside / h.pp);
      if ((is_pinned("dp") && dp != job_.parallel.dp) || !in_range("dp", dp)) return;
      if (dp % h.ep != 0 || job_.global_batch % (int64_t{dp} * h.micro_batch) != 0) return;
      h.dp = dp;
      choose("zero", h.zero, shardings(), [&] {
        choose("virtual_stages", h.virtual_stages, divisors(job_.model.layers, job_.model.layers / h.pp),
               [&] {
                 const int64_t micro_batches = job_.global_batch / (int64_t{dp} * h.micro_batch);
                 const int64_t stages = int64_t{h.pp} * h.virtual_stages;
                 if (h.virtual_stages > 1 &&
                     (h.pp == 1 || micro_batches % h.pp != 0 || job_.model.layers % stages != 0))
                   return;
                 ++seen_;
                 fitting_ += visit_(point_) ? 1 : 0;
               });
      });
    });
  }

  // With stages, gradients that are sharded are reduced every micro-batch, which never pays.
  std::vector<int> shardings() const {
    const Hints& h = point_.parallel;
    if (h.dp == 1) return {0};
    return h.pp == 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1};
  }

  const Job& job_;
  const Fixed& fixed_;
  const std::function<bool(const Job&)>& visit_;
  Job point_;
  int seen_ = 0, fitting_ = 0;  // points of a micro-batch
};

StageCost stage_of(const ModelCost& cost, int layers, bool first, bool last) {
  StageCost stage;
  const auto add = [&](const StageCost& part, double times) {
    stage.forward += times * part.forward;
    stage.backward += times * part.backward;
    stage.update += times * part.update;
    stage.elements += times * part.elements;
    for (size_t kind = 0; kind < stage.bytes.size(); ++kind) stage.bytes[kind] += times * part.bytes[kind];
  };
  add(cost.layer, layers);
  if (first) add(cost.first, 1);
  if (last) add(cost.last, 1);
  return stage;
}

// Micro-batches, or parts of one, whose activations a stage holds at most.
double in_flight(const Hints& h, int stage, double micro_batches) {
  const double before = h.pp - stage - 1;
  if (h.schedule == "gpipe") return micro_batches;
  if (h.virtual_stages == 1) return std::min(micro_batches, before + 1);
  const double chunks = 2 * before + (h.virtual_stages - 1) * h.pp + 1;
  return std::min(micro_batches, chunks / h.virtual_stages);
}

double stage_bytes(const Job& job, const ModelCost& cost, const StageCost& stage, int layers, int index) {
  const Hints& h = job.parallel;
  const auto kind = [](ir::MemoryKind k) { return static_cast<size_t>(k); };
  const double dp = h.dp;
  const double each = cost.layer.bytes[kind(ir::MemoryKind::activations)] * layers;
  const double ends = std::max(cost.first.bytes[kind(ir::MemoryKind::activations)],
                               cost.last.bytes[kind(ir::MemoryKind::activations)]);
  double bytes = in_flight(h, index, job.train.micro_batches) * each + ends;
  bytes += stage.bytes[kind(ir::MemoryKind::optimizer)] / (h.zero >= 1 ? dp : 1);
  bytes += stage.bytes[kind(ir::MemoryKind::gradients)] / (h.zero >= 2 ? dp : 1);
  bytes += stage.bytes[kind(ir::MemoryKind::parameters)] / (h.zero >= 3 ? dp : 1);
  if (h.zero >= 3) bytes += 2 * cost.layer.bytes[kind(ir::MemoryKind::parameters)];
  return bytes;
}

// What is left of a communication that runs behind other work; its last part has nothing to hide behind.
double exposed(double seconds, double behind) { return std::max(seconds - behind, 0.05 * seconds); }

// The communication of data parallelism and the update, of the slowest stage.
double state_seconds(const Job& job, const StageCost& stage) {
  const Hints& h = job.parallel;
  const double update = stage.update / (h.zero >= 1 ? h.dp : 1);
  if (h.dp == 1) return update;
  std::vector<int> group;
  for (int d = 0; d < h.dp; ++d) group.push_back(d * h.tp * h.cp);
  const sim::Span span = sim::span_of(job.cluster, group);
  const auto seconds = [&](sbp::Collective collective, double bytes) {
    return sim::collective_time(job.cluster, collective, static_cast<int64_t>(bytes), span).seconds();
  };
  const bool mixed = job.train.precision == ir::Precision::fp16 || job.train.precision == ir::Precision::bf16;
  const double size = job.train.precision == ir::Precision::fp64 ? 8 : 4;
  if (h.zero == 0) {
    const double reduce = seconds(sbp::Collective::all_reduce, stage.elements * size);
    return update + (h.overlap_grad ? exposed(reduce, stage.backward) : reduce);
  }
  const double reduce = seconds(sbp::Collective::reduce_scatter, stage.elements * size);
  const double gather = seconds(sbp::Collective::all_gather, stage.elements * (mixed ? 2 : size));
  const double once = exposed(gather, h.overlap_param ? stage.forward : 0);
  if (h.zero == 1) return update + once + (h.overlap_grad ? exposed(reduce, stage.backward) : reduce);
  const double m = job.train.micro_batches;
  if (h.zero == 2) return update + once + m * exposed(reduce, stage.backward);
  return update + m * (exposed(gather, stage.forward) + exposed(gather + reduce, stage.backward));
}

}  // namespace

void each_point(const Job& job, const Fixed& fixed, const std::function<bool(const Job&)>& visit) {
  Points(job, fixed, visit).run();
}

CostKey cost_key(const Job& job) {
  const Hints& h = job.parallel;
  return {h.tp,
          h.cp,
          h.ep,
          h.sequence_parallel ? 1 : 0,
          h.micro_batch,
          static_cast<int>(job.train.recompute),
          job.cluster.node.gpus};
}

Estimate estimate(const Job& job, const ModelCost& cost) {
  const Hints& h = job.parallel;
  const auto stages = static_cast<int>(h.stage_layers.size());
  const double m = job.train.micro_batches;
  std::vector<double> times(static_cast<size_t>(h.pp)), layers(static_cast<size_t>(h.pp));
  Estimate result;
  double slowest = 0, state = 0;
  for (int s = 0; s < h.pp; ++s) {
    int here = 0;
    for (int v = s; v < stages; v += h.pp) here += h.stage_layers[static_cast<size_t>(v)];
    const StageCost stage = stage_of(cost, here, s == 0, s + 1 == h.pp);
    times[static_cast<size_t>(s)] = stage.forward + stage.backward;
    slowest = std::max(slowest, stage.forward + stage.backward);
    state = std::max(state, state_seconds(job, stage));
    const double bytes = stage_bytes(job, cost, stage, here, s);
    if (bytes > result.bytes) result.bytes = bytes, result.fullest_stage = s;
  }
  double fill = -slowest;
  for (const double time : times) fill += time;
  result.seconds = m * slowest + fill / h.virtual_stages + state;
  if (h.pp > 1) {
    const int next = h.dp * h.tp * h.cp;
    const double hop =
        sim::transfer_time(job.cluster, static_cast<int64_t>(cost.boundary_bytes), 0, next).seconds();
    result.seconds += 2 * (h.pp - 1) * hop;
  }
  return result;
}

std::vector<int> level_layers(int64_t layers, int stages, const ModelCost& cost) {
  const double each = cost.layer.forward + cost.layer.backward;
  std::vector<double> times(static_cast<size_t>(stages), each);
  std::vector<int> result(static_cast<size_t>(stages), 1);
  times.front() += cost.first.forward + cost.first.backward;
  times.back() += cost.last.forward + cost.last.backward;
  for (int64_t left = layers - stages; left > 0; --left) {
    // Of equals the last: the first stages hold the most micro-batches.
    const auto least = std::min_element(times.rbegin(), times.rend());
    const auto at = static_cast<size_t>(times.rend() - least - 1);
    times[at] += each;
    ++result[at];
  }
  return result;
}

}  // namespace boxcar::search
