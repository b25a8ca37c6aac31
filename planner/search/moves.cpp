#include "planner/search/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planner/mesh.h"
#include "planner/resolve.h"
#include "planner/sharding.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;
using Jobs = std::vector<Job>;

Job with(Job job, const char* key, int value) {
  set_number(dimension(key), job, value);
  return job;
}

Job with_schedule(Job job, planner::PipelineSchedule schedule) {
  job.parallel.schedule = std::move(schedule);
  return job;
}

bool is_plain_pipeline(const Job& job) { return job.parallel.pp > 1 && job.parallel.virtual_stages == 1; }
bool may_split(const Around& at) { return is_plain_pipeline(at.job) && !at.fixed.is_pinned("schedule"); }

Jobs shard_states(const Around& at) {
  Jobs jobs;
  for (const int zero : {0, 1, 2, 3})
    if (zero != at.job.parallel.zero && at.fixed.is_free("zero", zero))
      jobs.push_back(with(at.job, "zero", zero));
  return jobs;
}

int least_ep(const Hints& h) { return planner::deals_experts_over_tp(h) ? h.tp : 1; }

Jobs expert_groups(const Around& at) {
  const Hints& h = at.job.parallel;
  const int least = least_ep(h);
  Jobs jobs;
  for (const int ep : {least, h.ep / 2, 2 * h.ep})
    if (ep > 0 && ep != h.ep && ep % least == 0 && h.dp % (ep / least) == 0 &&
        ir::models::experts(at.job.model) % ep == 0 && at.fixed.is_free("ep", ep))
      jobs.push_back(with(at.job, "ep", ep));
  return jobs;
}

// With the layers cut for these stages.
Jobs on_other_stages(const Around& at) {
  const Hints& h = at.job.parallel;
  for (const Candidate& c : at.candidates) {
    const Hints& other = c.job.parallel;
    if (other.stage_order != h.stage_order && other.dp == h.dp && other.tp == h.tp && other.pp == h.pp &&
        other.cp == h.cp && other.micro_batch == h.micro_batch && other.zero == h.zero)
      return {with_schedule(c.job, h.schedule)};
  }
  return {};
}

Jobs split_backward(const Around& at) {
  Jobs jobs = with_split_backward(at.job, at.fixed);
  std::erase_if(jobs, [&](const Job& job) {
    return job.parallel.stage_layers.empty() || job.parallel.schedule == at.job.parallel.schedule;
  });
  return jobs;
}

Jobs move_a_layer(const Around& at) {
  Jobs jobs;
  for (size_t s = 0; s + 1 < at.job.parallel.stage_layers.size(); ++s)
    for (const int more : {1, -1}) {
      Job moved = at.job;
      int &one = moved.parallel.stage_layers[s], &next = moved.parallel.stage_layers[s + 1];
      one += more, next -= more;
      const int64_t stage = static_cast<int64_t>(s), stages = std::ssize(moved.parallel.stage_layers);
      const auto least = [&](int64_t of) { return planner::least_layers(moved.model, of, stages); };
      if (one >= least(stage) && next >= least(stage + 1)) jobs.push_back(std::move(moved));
    }
  return jobs;
}

// Layouts may split states themselves, or split samples on the tensor dimension, and then reduce whole
// gradients while degrees reduce shares of them. Starting from whole experts on each device gives other
// layouts than starting from groups of them. In pipelines, shares are reduced every micro-batch, which costs
// nothing if there is only one.
Jobs sharded_otherwise(const Around& at) {
  const Hints& h = at.job.parallel;
  const bool in_shares = h.pp == 1 || at.job.train.micro_batches == 1;
  std::set<int> zeros{h.zero}, experts{h.ep};
  if (is_short(at.job))
    zeros.insert({1, 2}), experts.insert(least_ep(h));
  else
    zeros.insert(h.zero > 1 ? 1 : 2);
  Jobs jobs;
  for (const int ep : experts)
    for (const int zero : zeros) {
      const bool free = (zero == h.zero || (at.fixed.is_free("zero", zero) && (in_shares || zero == 1))) &&
                        (ep == h.ep || at.fixed.is_free("ep", ep));
      if (free && (zero != h.zero || ep != h.ep)) jobs.push_back(with(with(at.job, "zero", zero), "ep", ep));
    }
  return jobs;
}

Jobs other_micro_batches(const Around& at) {
  const Hints& h = at.job.parallel;
  Jobs jobs;
  for (const int samples : {h.micro_batch / 2, 2 * h.micro_batch}) {
    if (samples == 0 || at.job.global_batch % (int64_t{h.dp} * samples) != 0) continue;
    if (!at.fixed.is_free("micro_batch", samples)) continue;
    jobs.push_back(with(at.job, "micro_batch", samples));
    jobs.back().train.micro_batches = planner::micro_batches(jobs.back());
  }
  return jobs;
}

bool may_shard(const Around& at) { return planner::shards_of(at.job.parallel) > 1; }
bool is_short_with_experts(const Around& at) {
  return is_short(at.job) && ir::models::experts(at.job.model) > 0;
}
bool is_short_pipeline(const Around& at) { return is_short(at.job) && is_plain_pipeline(at.job); }
bool may_move_layers(const Around& at) {
  return is_short_pipeline(at) && !at.fixed.is_pinned("stage_layers");
}
bool may_shard_by_layout(const Around& at) { return at.job.parallel.tp > 1 || is_short(at.job); }
bool always(const Around&) { return true; }

std::vector<Move> make_moves() {
  using enum MoveGroup;
  return {
      {"make-it-fit", own, "a plan does not fit, although its estimate did",
       "more layers recomputed on stages that have too much, or layouts that take less", "2 more tries"},
      {"recompute-less", own, "the best recomputes layers, and its plan leaves room",
       "the fewest layers of each stage that fit by the plan", "3 tries, twice"},
      {"recompute-more", own, "objective memory, recompute open and not full",
       "the most whole layers recomputed that the time allows", "a bisection"},
      {"other-kinds", own, "short steps, estimates within 10 % of the best",
       "for each kind of plan that was not tried, its best by estimate; a kind is tensor parallelism or not, "
       "stages or not, virtual stages or not, level of ZeRO",
       "8 plans"},
      {"split-backward", own,
       "a pipeline with up to two virtual stages, schedule open, objective time or cost",
       "zb-h1, zb-v and zb-h2 for the fastest pipelines", "3 pipelines, 6 of short steps"},
      {"shard-states", change, "dp x context_parallel above 1", "the other levels of ZeRO", "3 plans a start",
       may_shard, shard_states},
      {"expert-groups", change, "short steps, a model with experts",
       "all experts on every device; groups half and twice as large", "3 plans a start",
       is_short_with_experts, expert_groups},
      {"slow-stages", change, "short steps, a pipeline without virtual stages, a straggler",
       "the best point of the same degrees with the slow devices in other stages", "1 plan a start",
       is_short_pipeline, on_other_stages},
      {"move-a-layer", change, "short steps, a pipeline without virtual stages, stage_layers open",
       "one layer from each stage to a neighbour, both ways", "2 x (pp - 1) plans a start", may_move_layers,
       move_a_layer},
      {"lay-out-best", own, "more than one device", "the layout of every op, for the best plan", "1 plan"},
      {"lay-out-degrees", own, "short steps",
       "the layout of every op, for plans of other degrees that could win by it", "3 plans"},
      {"lay-out-meshes", own,
       "short steps, few runs of a layer, kernels below 85 % of the best step; if that is long, the estimate "
       "minus 60 % of its time beyond kernels is no longer",
       "the layout of every op, on meshes of several dimensions, inside nodes and across, and for replicas "
       "alone",
       "7 plans"},
      {"lay-out-over-nodes", own,
       "short steps, few runs of a layer, kernels below 85 % of the best step, replicas and stages fill a "
       "node",
       "the layout of every op, with the tensor dimension over nodes and all else inside them", "3 plans"},
      {"shard-and-lay-out", lay_out, "tensor parallelism, or short steps",
       "other ZeRO levels; of short steps experts on every device too", "1 plan each, 5 of short steps",
       may_shard_by_layout, sharded_otherwise},
      {"other-ways", own, "each plan that moves of layouts start from",
       "other dimensions of the mesh open; states at a tenth", "3 plans a start"},
      {"other-micro-batches", found, "short steps, layouts found", "half and twice the micro-batch",
       "2 plans a start", always, other_micro_batches},
      {"split-and-lay-out", found, "short steps, layouts found, a pipeline, schedule open", "zb-h1 and zb-h2",
       "2 plans a start", may_split, split_backward},
      {"bytes-first", own, "objective memory",
       "the smallest point of each set of degrees, bytes first in layouts", "as many plans as --simulate"},
      {"smallest-plan", own, "nothing fits",
       "the smallest point, then the smallest of other degrees, bytes first in layouts, until one fits",
       "as many plans as --simulate"},
      {"drop-slots", own, "at most 4,000 acts", "the fewest slots that keep the period",
       "1 plan, 3 for objective memory"},
  };
}

bool is_on(const SearchOptions& options, const Move& move) {
  return options.without_moves.count(move.name) == 0;
}

}  // namespace

const std::vector<Move>& moves() {
  static const std::vector<Move> rows = make_moves();
  return rows;
}

std::vector<planner::Job> proposals(const Move& move, const Around& around) {
  // Layouts that are found may split states where degrees alone may not.
  const bool by_degrees = move.group == MoveGroup::change;
  std::vector<planner::Job> jobs = move.jobs(around);
  std::erase_if(jobs, [&](const planner::Job& job) {
    return by_degrees ? !keeps_rules(job, around.fixed) : !around.fixed.keeps_own_rules(job);
  });
  return jobs;
}

const Move& move_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Move& move : moves()) {
    if (move.name == name) return move;
    names.emplace_back(move.name);
  }
  throw Error::input("--without-move", fmt::format("got \"{}\"{}; `boxcar search --explain-moves` lists them",
                                                   name, did_you_mean(std::string(name), names)));
}

const Move* move_of(const SearchOptions& options, std::string_view name) {
  const Move& move = move_named(name);
  return is_on(options, move) ? &move : nullptr;
}

std::vector<const Move*> moves_of(const SearchOptions& options, MoveGroup group, const Around& around) {
  std::vector<const Move*> some;
  for (const Move& move : moves())
    if (move.group == group && is_on(options, move) && move.applies(around)) some.push_back(&move);
  return some;
}

MoveUses no_uses() { return MoveUses(moves().size() + 1); }

MoveUse& use_of(MoveUses& uses, const Move* move) {
  return uses[move ? static_cast<size_t>(move - moves().data()) + 1 : 0];
}

void add(MoveUses& all, const MoveUses& more) {
  for (size_t m = 0; m < all.size(); ++m) {
    all[m].plans += more[m].plans;
    all[m].seconds += more[m].seconds;
    all[m].left *= more[m].left;
  }
}

std::vector<Job> with_split_backward(const Job& job, const Fixed& fixed) {
  const bool plain = job.parallel.virtual_stages == 1;
  Jobs jobs;
  const auto add = [&](Job proposed) {
    if (keeps_rules(proposed, fixed)) jobs.push_back(std::move(proposed));
  };
  if (plain) add(with_schedule(job, planner::Schedule::zb_h1));
  if (!plain || (fixed.is_free("virtual_stages", 2) && !fixed.is_pinned("stage_layers"))) {
    Job v_shaped = with(with_schedule(job, planner::Schedule::zb_v), "virtual_stages", 2);
    if (plain) v_shaped.parallel.stage_layers.clear(), v_shaped.train.recompute_layers.clear();
    add(std::move(v_shaped));
  }
  if (plain && job.train.micro_batches > 2) add(with_schedule(job, planner::Schedule::zb_h2));
  return jobs;
}

}  // namespace boxcar::search
