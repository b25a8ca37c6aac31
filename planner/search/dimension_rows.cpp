#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "planner/resolve.h"
#include "planner/search/dimensions.h"

namespace boxcar::search {
namespace {

using ir::Recompute;
using ir::TrainOptions;
using planner::Hints;
using planner::Job;

constexpr int64_t largest_degree = 1 << 20;
constexpr int million = 1000000;

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

std::vector<int> with(std::vector<int> values, const std::vector<int>& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

std::vector<int> shares(const Choice& of) { return divisors(of.point.gpus); }

std::vector<int> experts(const Choice& of) {
  return divisors(std::max<int64_t>(1, ir::models::experts(of.point.model)));
}

std::vector<int> replicas(const Choice& of) { return of.loose ? with(shares(of), experts(of)) : shares(of); }

std::vector<int> stages(const Choice& of) {
  if (!of.loose) return shares(of);
  std::vector<int> all(static_cast<size_t>(std::max<int64_t>(0, planner::most_stages(of.point.model))));
  std::iota(all.begin(), all.end(), 1);
  return with(std::move(all), shares(of));
}

// Whether layers leave little room on this many virtual stages: none, or that of the model's ends. If no
// number of virtual stages leaves none, an eighth is allowed.
//
//   126 layers, pp 16: on 32, 64 and 128 stages, of at most 4, 2 and 1 layers, since these have room for 128
//   96 layers, pp 8: on 8, 16, 24, 32, 48 and 96 stages, but not on 40, which have room for 120
bool fills(int64_t layers, int pp, int64_t stages) {
  const int64_t room = (layers + stages - 1) / stages * stages, left = room - layers;
  return left <= 2 || (layers % pp != 0 && 8 * left <= room);
}

std::vector<int> virtual_stages(const Choice& of) {
  const int64_t layers = of.point.model.layers();
  const int pp = of.point.parallel.pp;
  const bool given = of.fixed.is_given("virtual_stages");
  if (planner::is_v_shaped(of.point.parallel.schedule.kind) && !given) return {2};
  if (pp == 1 && !given) return {1};
  const std::vector<int>& own = of.point.parallel.stage_layers;
  if (!own.empty() && !given && !of.loose) return {std::max(1, static_cast<int>(own.size()) / pp)};
  std::vector<int> all = of.loose ? divisors(layers) : std::vector<int>();
  for (int64_t v = 1; v * pp <= std::max<int64_t>(pp, planner::most_stages(of.point.model)); ++v)
    if (given || v == 1 || fills(layers, pp, v * pp)) all.push_back(static_cast<int>(v));
  return all;
}

// Ordered by their cost. The recomputation of ops is simulated only if it is given.
std::vector<int> recomputations(const Choice& of) {
  std::vector<Recompute> kinds{Recompute::none};
  if (ir::models::has_any(of.point.model, of.point.train.recompute_modules))
    kinds.push_back(Recompute::selective);
  kinds.push_back(Recompute::full);
  std::vector<int> numbers;
  for (const Recompute kind : kinds) numbers.push_back(static_cast<int>(kind));
  return numbers;
}

std::vector<Dimension> make_rows() {
  return {
      {.key = "dp",
       .field = &Hints::dp,
       .flag = {.help = "data parallelism", .fallback = "what remains of the GPUs"},
       .most = million,
       .values = replicas,
       .rules = replica_rules,
       .chosen = 14,
       .named = 1,
       .change = 10,
       .degree = true,
       .always = true},
      {.key = "tp",
       .field = &Hints::tp,
       .flag = {.help = "tensor parallelism"},
       .most = 10000,
       .values = shares,
       .rules = tensor_rules,
       .chosen = 1,
       .branch = true,
       .named = 2,
       .change = 8,
       .degree = true,
       .always = true},
      {.key = "pp",
       .field = &Hints::pp,
       .flag = {.help = "pipeline stages"},
       .most = 10000,
       .values = stages,
       .rules = stage_rules,
       .chosen = 10,
       .named = 3,
       .change = 9,
       .degree = true,
       .always = true},
      {.key = "cp",
       .name = "context_parallel",
       .field = &Hints::cp,
       .flag = {.help = "ranks that share a sequence", .alias = "--cp"},
       .most = 10000,
       .values = shares,
       .rules = sequence_rules,
       .chosen = 2,
       .branch = true,
       .named = 4,
       .change = 7,
       .degree = true},
      {.key = "ep",
       .field = &Hints::ep,
       .flag = {.help = "expert parallelism"},
       .most = 10000,
       .values = experts,
       .rules = expert_rules,
       .chosen = 3,
       .branch = true,
       .named = 5,
       .change = 6},
      {.key = "etp",
       .field = &Hints::etp,
       .flag = {.help = "ranks of tp that share an expert: 1 or tp; with 1 they are among the ep ranks",
                .fallback = "tp",
                .rare = true},
       .most = 10000,
       .values =
           [](const Choice& of) {
             const bool open = of.fixed.is_given("etp");
             return open ? std::vector<int>{of.point.parallel.tp, 1} : std::vector<int>{0};
           },
       .idle =
           [](const Job& point) { return point.parallel.tp == 1 || ir::models::experts(point.model) == 0; },
       .rules = expert_tensor_rules,
       .chosen = 4,
       .branch = true,
       .named = 14},
      {.key = "virtual_stages",
       .field = &Hints::virtual_stages,
       .flag = {.help = "stages on each device, interleaved"},
       .most = 1000,
       .values = virtual_stages,
       .rules = virtual_stages_rules,
       .chosen = 16,
       .named = 11,
       .change = 5},
      {.key = "stage_layers",
       .field = &Hints::stage_layers,
       .flag = {.help = "layers of each stage: 7,8,8,7", .fallback = "balanced"},
       .least = 0,
       .most = 10000,
       .rules = stage_layers_rules,
       .chosen = 9,
       .named = 8},
      {.key = "micro_batch",
       .field = &Hints::micro_batch,
       .flag = {.help = "samples in a micro-batch of one data-parallel rank",
                .fallback = "1; images: global_batch / dp, with stages a 4 x pp-th of it"},
       .most = million,
       .values = [](const Choice& of) { return divisors(of.point.global_batch); },
       .chosen = 7,
       .named = 7,
       .change = 2},
      {.key = "schedule",
       .field = &Hints::schedule,
       .flag = {.help = fmt::format("order of the pipeline: {}, or micro-batches in flight by stage: 7,5,3,1",
                                    fmt::join(words_of(planner::Schedule()), ", "))},
       .rules = schedule_rules,
       .chosen = 13,
       .named = 10},
      {.key = "zero",
       .field = &Hints::zero,
       .flag = {.help = "sharding: 1 optimizer, 2 and gradients, 3 and parameters"},
       .least = 0,
       .most = 3,
       .values =
           [](const Choice&) {
             return std::vector<int>{0, 1, 2, 3};
           },
       .rules = sharding_rules,
       .chosen = 15,
       .named = 6,
       .change = 4,
       .shards = true},
      {.key = "sequence_parallel",
       .field = &Hints::sequence_parallel,
       .flag = {.help = "split the residual stream by sequence over tp"},
       .values =
           [](const Choice&) {
             return std::vector<int>{1, 0};
           },
       .idle = [](const Job& point) { return point.parallel.tp == 1; },
       .chosen = 5,
       .branch = true,
       .named = 12,
       .change = 3},
      {.key = "offload_activations",
       .field = &Hints::offload_activations,
       .flag = {.help = "keep activations in memory of the host from forward to backward passes",
                .rare = true},
       .values =
           [](const Choice& of) {
             const bool open = of.fixed.is_given("offload_activations");
             return open ? std::vector<int>{0, 1} : std::vector<int>{0};
           },
       .chosen = 6,
       .branch = true,
       .named = 13},
      {.key = "recompute",
       .field = &TrainOptions::recompute,
       .flag = {.help = "activations computed again in the backward pass"},
       .values = recomputations,
       .chosen = 8,
       .change = 1,
       .recomputes = true,
       .until_fits = true},
      {.key = "recompute_layers",
       .field = &TrainOptions::recompute_layers,
       .flag = {.help = "only so many layers of each stage; or by stage: 4,2,1,0", .fallback = "all"},
       .least = 0,
       .most = 10000,
       .rules = recompute_layers_rules,
       .chosen = 12,
       .recomputes = true},
      {.key = "recompute_others",
       .field = &TrainOptions::recompute_others,
       .flag = {.help = "with full and recompute_layers: of the other layers",
                .words = {"none", "selective"},
                .rare = true},
       .chosen = 17,
       .recomputes = true},
      {.key = "mesh_order",
       .field = &Hints::mesh_order,
       .flag = {.help =
                    "how ranks stand on the cluster, outermost first: those of the last lie side by side"},
       .chosen = 18},
      {.key = "stage_order",
       .field = &Hints::stage_order,
       .flag = {.help = "which stage's devices each stage has: 2,0,1,3",
                .fallback = "in order",
                .rare = true},
       .least = 0,
       .most = 10000,
       .rules = stage_order_rules,
       .chosen = 11,
       .named = 9,
       .degree = true},
  };
}

}  // namespace

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> rows = make_rows();
  return rows;
}

}  // namespace boxcar::search
