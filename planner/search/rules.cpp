#include "planner/search/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "planner/mesh.h"
#include "planner/resolve.h"
#include "planner/schedule.h"
#include "planner/search/dimensions.h"
#include "planner/sharding.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

constexpr int64_t long_sequence = 16384;  // from this length on it may be shared
constexpr int most_shares = 16;           // by this many ranks

// Whether some devices would have no sample, so that samples are split in more ways.
bool has_few_samples(const Job& job) { return job.global_batch < job.gpus; }

std::string fact(const char* name, int64_t value) { return fmt::format("{} {}", name, value); }

bool deals_evenly(const Hints& h) { return !planner::deals_experts_over_tp(h) || h.ep % h.tp == 0; }

int64_t stages_of(const Job& job) { return int64_t{job.parallel.pp} * job.parallel.virtual_stages; }

const char* law_of_layers(const Job& job) {
  return planner::most_stages(job.model) > job.model.layers()
             ? "every stage but the first and the last has to have a layer"
             : "every stage has to have a layer";
}

}  // namespace

std::vector<Rule> tensor_rules(const Job& job, const Fixed& fixed) {
  std::vector<Rule> rules;
  for (const auto& [name, extent] : ir::models::tensor_parallel_extents(job.model))
    rules.push_back({{"tp"},
                     {fact(name, extent)},
                     fmt::format("tp has to divide {}", name),
                     [extent = extent](const Job& j) { return extent % j.parallel.tp == 0; }});
  if (!fixed.is_given("tp") && !has_few_samples(job))
    rules.push_back({{"tp"},
                     {fact("gpus of a node", job.cluster.node.gpus)},
                     "tp stays in a node where it is not given and global_batch is gpus or more",
                     [node = job.cluster.node.gpus](const Job& j) { return j.parallel.tp <= node; }});
  return rules;
}

std::vector<Rule> sequence_rules(const Job& job, const Fixed& fixed) {
  std::vector<Rule> rules;
  const ir::models::Transformer* m = job.model.transformer();
  if (!m) {
    const std::string none = fmt::format("{} have no sequence to split", ir::models::unsplit_data(job.model));
    rules.push_back(
        {{"cp"}, {"family " + job.model.family()}, none, [](const Job& j) { return j.parallel.cp == 1; }});
    rules.push_back({{"sequence_parallel", "tp"}, {"family " + job.model.family()}, none, [](const Job& j) {
                       return !j.parallel.sequence_parallel || j.parallel.tp == 1;
                     }});
    return rules;
  }
  for (const auto& [name, extent] : {std::pair("seq", m->seq), std::pair("decoder_seq", m->decoder_seq)}) {
    rules.push_back({{"cp"},
                     {fact(name, extent)},
                     fmt::format("context_parallel has to divide {}", name),
                     [extent = extent](const Job& j) { return extent % j.parallel.cp == 0; }});
    rules.push_back({{"sequence_parallel", "tp", "cp"},
                     {fact(name, extent)},
                     fmt::format("with sequence_parallel tp x context_parallel has to divide {}", name),
                     [extent = extent](const Job& j) {
                       const Hints& h = j.parallel;
                       return !h.sequence_parallel || extent % (int64_t{h.tp} * h.cp) == 0;
                     }});
  }
  if (fixed.is_given("cp")) return rules;
  const bool open = m->seq >= long_sequence || has_few_samples(job) || fixed.least_memory;
  const int most = open ? most_shares : 1;
  rules.push_back({{"cp"},
                   {fact("seq", m->seq)},
                   most == 1 ? fmt::format("context_parallel is 1 where it is not given, seq is below {} and "
                                           "global_batch is gpus or more",
                                           long_sequence)
                             : fmt::format("context_parallel is at most {} where it is not given", most),
                   [most](const Job& j) { return j.parallel.cp <= most; }});
  return rules;
}

// A copy of sharded states is shared by fsdp_group ranks of dp.
std::vector<Rule> expert_rules(const Job& job, const Fixed&) {
  const int64_t experts = ir::models::experts(job.model);
  std::vector<Rule> rules{
      {{"ep"},
       {fact("experts", experts)},
       experts == 0 ? "ep needs a model with experts" : "ep has to divide experts",
       [experts](const Job& j) { return experts == 0 ? j.parallel.ep == 1 : experts % j.parallel.ep == 0; }},
      {{"ep", "dp"},
       {},
       "ep has to divide dp",
       [](const Job& j) {
         return planner::deals_experts_over_tp(j.parallel) || j.parallel.dp % j.parallel.ep == 0;
       }},
      {{"etp", "ep", "tp", "dp"}, {}, "with etp 1 ep has to be tp times a divisor of dp", [](const Job& j) {
         const Hints& h = j.parallel;
         return !planner::deals_experts_over_tp(h) || (deals_evenly(h) && h.dp % planner::ep_in_dp(h) == 0);
       }}};
  const int group = job.parallel.fsdp_group;
  if (group == 0) return rules;
  rules.push_back({{"dp"}, {fact("fsdp_group", group)}, "fsdp_group has to divide dp", [group](const Job& j) {
                     return j.parallel.dp % group == 0;
                   }});
  rules.push_back({{"ep"}, {fact("fsdp_group", group)}, "ep has to divide fsdp_group", [group](const Job& j) {
                     return deals_evenly(j.parallel) && group % planner::ep_in_dp(j.parallel) == 0;
                   }});
  return rules;
}

std::vector<Rule> expert_tensor_rules(const Job&, const Fixed&) {
  return {{{"etp", "tp"},
           {},
           "etp has to be 1 or tp",
           [](const Job& j) { return j.parallel.etp <= 1 || j.parallel.etp == j.parallel.tp; }},
          {{"etp", "ep", "tp"}, {}, "with etp 1 tp has to divide ep", [](const Job& j) {
             return deals_evenly(j.parallel);
           }}};
}

std::vector<Rule> stage_layers_rules(const Job& job, const Fixed&) {
  const int64_t layers = job.model.layers();
  return {{{"stage_layers"},
           {fact("layers", layers)},
           "stage_layers have to add up to layers",
           [layers](const Job& j) {
             const std::vector<int>& own = j.parallel.stage_layers;
             return own.empty() || std::accumulate(own.begin(), own.end(), int64_t{0}) == layers;
           }},
          {{"stage_layers"}, {}, law_of_layers(job), [](const Job& j) {
             const std::vector<int>& own = j.parallel.stage_layers;
             for (size_t s = 0; s < own.size(); ++s)
               if (own[s] < planner::least_layers(j.model, static_cast<int64_t>(s), std::ssize(own)))
                 return false;
             return true;
           }}};
}

std::vector<Rule> stage_rules(const Job& job, const Fixed& fixed) {
  const int64_t layers = job.model.layers(), most = planner::most_stages(job.model);
  const bool balanced = fixed.is_pinned("stage_layers") || !job.model.transformer();
  return {{{"pp"},
           {fact("layers", layers)},
           law_of_layers(job),
           [most](const Job& j) { return j.parallel.pp <= most; }},
          {{"pp", "virtual_stages", "stage_layers"},
           {fact("layers", layers)},
           "virtual stages that are balanced have equally many layers, and stages one or more",
           [balanced, layers](const Job& j) {
             if (!balanced || !j.parallel.stage_layers.empty()) return true;
             return j.parallel.virtual_stages == 1 ? j.parallel.pp <= layers : layers % stages_of(j) == 0;
           }},
          {{"stage_layers", "pp", "virtual_stages"},
           {},
           "stage_layers has to have a number for each of pp x virtual_stages stages",
           [](const Job& j) {
             const std::vector<int>& own = j.parallel.stage_layers;
             return own.empty() || static_cast<int64_t>(own.size()) == stages_of(j);
           }}};
}

std::vector<Rule> stage_order_rules(const Job&, const Fixed&) {
  return {{{"stage_order", "pp"}, {}, "stage_order has to have each of the pp stages once", [](const Job& j) {
             return planner::is_stage_order(j.parallel);
           }}};
}

std::vector<Rule> recompute_layers_rules(const Job& job, const Fixed&) {
  const std::vector<int>& recomputed = job.train.recompute_layers;
  if (recomputed.size() < 2) return {};
  return {{{"pp", "virtual_stages"},
           {fmt::format("recompute_layers {}", fmt::join(recomputed, ","))},
           "recompute_layers has to have a number for each of pp x virtual_stages stages",
           [numbers = static_cast<int64_t>(recomputed.size())](const Job& j) {
             return numbers == stages_of(j);
           }}};
}

std::vector<Rule> schedule_rules(const Job& job, const Fixed&) {
  return {{{"schedule", "pp"},
           {},
           "schedule has to have a number for each of pp stages",
           [numbers = job.parallel.schedule.in_flight.size()](const Job& j) {
             return numbers == 0 || numbers == static_cast<size_t>(j.parallel.pp);
           }},
          {{"schedule", "virtual_stages"}, {}, "zb-v and dualpipe-v need virtual_stages 2", [](const Job& j) {
             return !planner::is_v_shaped(j.parallel.schedule.kind) || j.parallel.virtual_stages == 2;
           }}};
}

std::vector<Rule> replica_rules(const Job& job, const Fixed&) {
  const bool once = job.train.sparse_tables;  // one micro-batch
  std::vector<Rule> rules{{{"tp", "cp", "pp", "dp"},
                           {fact("gpus", job.gpus)},
                           "dp x tp x pp x context_parallel has to be gpus",
                           [gpus = job.gpus](const Job& j) {
                             const Hints& h = j.parallel;
                             return int64_t{h.dp} * h.tp * h.pp * h.cp == gpus;
                           }},
                          {{"dp", "micro_batch"},
                           {fact("global_batch", job.global_batch)},
                           once ? "dp x micro_batch has to be global_batch with sparse_tables"
                                : "dp x micro_batch has to divide global_batch",
                           [once, batch = job.global_batch](const Job& j) {
                             const int64_t samples = int64_t{j.parallel.dp} * j.parallel.micro_batch;
                             return once ? samples == batch : batch % samples == 0;
                           }}};
  const int servers = job.parallel.servers;
  if (servers == 0) return rules;
  rules.push_back({{"dp"}, {fact("servers", servers)}, "servers has to divide dp", [servers](const Job& j) {
                     return j.parallel.dp % servers == 0;
                   }});
  rules.push_back({{"tp", "pp", "cp", "ep", "zero"},
                   {fact("servers", servers)},
                   "servers need tp, pp, context_parallel and ep of 1, and zero 0",
                   [](const Job& j) {
                     const Hints& h = j.parallel;
                     return h.tp == 1 && h.pp == 1 && h.cp == 1 && h.ep == 1 && h.zero == 0;
                   }});
  return rules;
}

std::vector<Rule> sharding_rules(const Job&, const Fixed& fixed) {
  if (fixed.is_pinned("zero")) return {};
  return {{{"zero", "dp", "cp"},
           {},
           "zero shards over dp x context_parallel, which has to be 2 or more",
           [](const Job& j) {
             return !planner::sharding_of(j.parallel).states || planner::shards_of(j.parallel) > 1;
           }}};
}

std::vector<Rule> virtual_stages_rules(const Job& job, const Fixed&) {
  const int64_t layers = job.model.layers(), decoder = ir::models::decoder_layers(job.model);
  std::vector<Rule> rules;
  const auto add = [&](std::vector<std::string> keys, std::vector<std::string> facts, const char* law,
                       const std::function<bool(const Job&)>& holds) {
    rules.push_back({std::move(keys), std::move(facts), law,
                     [holds](const Job& j) { return j.parallel.virtual_stages == 1 || holds(j); }});
  };
  add({"virtual_stages"}, {fact("decoder_layers", decoder)},
      "virtual_stages has to be 1 for a model with a decoder",
      [decoder](const Job&) { return decoder == 0; });
  add({"virtual_stages", "pp"}, {}, "virtual_stages needs pp of 2 or more",
      [](const Job& j) { return j.parallel.pp > 1; });
  add({"virtual_stages", "schedule"}, {}, "virtual_stages needs schedule 1f1b, zb-v or dualpipe-v",
      [](const Job& j) {
        const planner::PipelineSchedule& schedule = j.parallel.schedule;
        return schedule == planner::Schedule::one_f_one_b || planner::is_v_shaped(schedule.kind);
      });
  add({"virtual_stages", "pp"}, {fact("layers", layers)}, law_of_layers(job),
      [most = planner::most_stages(job.model)](const Job& j) { return stages_of(j) <= most; });
  return rules;
}

std::vector<Rule> rules_of(const Job& job, const Fixed& fixed) {
  std::vector<Rule> all;
  for (const Dimension* d : ordered_by(&Dimension::chosen))
    if (d->rules) std::ranges::move(d->rules(job, fixed), std::back_inserter(all));
  for (const auto& [text, entries] : fixed.layouts)
    all.push_back({{"tp", "cp", "ep", "etp", "pp", "dp"},
                   {text},
                   "a layout has an entry for each dimension of a stage's mesh",
                   [entries = entries](const Job& j) {
                     const Hints& h = j.parallel;
                     return !deals_evenly(h) || h.dp % planner::ep_in_dp(h) != 0 ||
                            planner::mesh_of(h).dims() == entries;
                   }});
  std::ranges::copy(fixed.rules, std::back_inserter(all));
  return all;
}

bool keeps_rules(const Job& job, const Fixed& fixed) {
  return std::ranges::all_of(rules_of(job, fixed), [&](const Rule& rule) { return rule.holds(job); });
}

}  // namespace boxcar::search
