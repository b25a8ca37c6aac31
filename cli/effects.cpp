#include "cli/effects.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/optimizers.h"
#include "planner/estimate/layout_request.h"
#include "planner/sharding.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

// A key, and the jobs in which it has an effect.
struct Effect {
  const char* path;
  bool (*applies)(const planner::Job&);
  // The condition in words, for messages; null for an optimizer's number: the optimizers that use it.
  const char* condition = nullptr;
  const char* depends_on = nullptr;  // a key that a search may choose, on which `applies` depends
  bool only_reported = false;        // accepted without an effect, which without_effect() reports
};

bool may_shard(const planner::Job& job) { return planner::shards_of(job.parallel) > 1; }
bool splits_tensors(const planner::Job& job) { return job.parallel.tp > 1; }
bool shards(const planner::Job& job) { return planner::sharding_of(job.parallel).states; }
bool has_servers(const planner::Job& job) { return job.parallel.servers > 0; }
bool selects_something(const planner::Job& job) {
  return ir::models::has_any(job.model, job.train.recompute_modules);
}
bool keeps_less(ir::Recompute kind, const planner::Job& job) {
  return kind == ir::Recompute::selective ? selects_something(job) : kind != ir::Recompute::none;
}
bool is_selective(const planner::Job& job) {
  return job.train.recompute == ir::Recompute::selective ||
         job.train.recompute_others == ir::Recompute::selective;
}
// Whether the model has the attention's core, if that alone is recomputed. For other modules that are absent,
// their own key reports it.
bool finds_core(const planner::Job& job) {
  const bool only_core = job.train.recompute == ir::Recompute::selective &&
                         job.train.recompute_modules == std::set{ir::Module::core_attn};
  return !only_core || selects_something(job);
}
bool recomputes(const planner::Job& job) { return job.train.recompute != ir::Recompute::none; }
bool finds_built_core(const planner::Job& job) { return job.model.graph() || finds_core(job); }
bool finds_marked_core(const planner::Job& job) { return !job.model.graph() || finds_core(job); }
bool recomputes_layers(const planner::Job& job) { return job.train.recompute == ir::Recompute::full; }
bool recomputes_some(const planner::Job& job) { return !job.train.recompute_layers.empty(); }
bool may_be_selective(const planner::Job& job) { return recomputes_layers(job) && selects_something(job); }
bool gathers_in_buckets(const planner::Job& job) {
  return !planner::sharding_of(job.parallel).gathers_in_each_pass();
}
bool runs_flash(const planner::Job& job) { return ir::models::is_fused(job.model) || job.model.graph(); }
bool is_mixed(const planner::Job& job) { return ir::is_mixed(job.train.precision); }
bool has_float8(const planner::Job& job) { return job.train.precision == ir::Precision::fp8; }
bool has_gelu(const planner::Job& job) { return job.model.transformer() && job.model->mlp == "gelu"; }
bool has_rotary(const planner::Job& job) {
  return job.model.transformer() && job.model->position == "rotary";
}
bool has_no_bias(const planner::Job& job) { return job.model.transformer() && !job.model->bias; }
bool has_documents(const planner::Job& job) {
  return job.model.transformer() && job.model->document_length > 0;
}
bool has_experts(const planner::Job& job) { return ir::models::experts(job.model) > 0; }
bool uses(const planner::Job& job, const char* number) {
  return ir::has_number(ir::row_of(job.train.optimizer), number);
}
bool may_clip(const planner::Job& job) {
  const bool is_off = job.train.off.contains("clip");
  return job.train.clip_norm == 0 || !is_off;
}
bool keeps_moments(const planner::Job& job) { return ir::chooses_moments(job.train); }
// True if sparse tables are not asked for, since the model's graph has to be built to know.
bool has_table(const planner::Job& job) {
  return !job.train.sparse_tables ||
         ir::has_sparse_table(ir::models::build(job.model, std::max<int64_t>(1, job.global_batch)));
}
bool updates_alone(const planner::Job& job) {
  const ir::OptimizerRow& row = ir::row_of(job.train.optimizer);
  return !row.has_trust() && !row.factored;
}
bool uses_momentum(const planner::Job& job) { return uses(job, "momentum"); }
bool uses_beta1(const planner::Job& job) { return uses(job, "beta1"); }
bool uses_beta2(const planner::Job& job) { return uses(job, "beta2"); }
bool uses_eps(const planner::Job& job) { return uses(job, "eps"); }
bool uses_trust_coefficient(const planner::Job& job) { return uses(job, "trust_coefficient"); }

constexpr Effect effects[] = {
    {"parallel.zero", may_shard, "dp or context_parallel is 2 or more", nullptr, true},
    {"parallel.sequence_parallel", splits_tensors, "tp is 2 or more", nullptr, true},
    {"parallel.etp", has_experts, "the model has experts"},
    {"parallel.recompute", finds_built_core,
     "attention is unfused (attention as one kernel keeps nothing that selective could compute again)",
     nullptr, true},
    {"parallel.recompute", finds_marked_core, "ops of the graph are marked core", nullptr, true},
    {"parallel.servers_update", has_servers, "servers is 2 or more"},
    {"parallel.fsdp_group", shards, "zero is 1, 2 or 3", "parallel.zero"},
    {"parallel.recompute_modules", is_selective, "recompute is selective", "parallel.recompute"},
    {"parallel.recompute_modules", selects_something, "the model has such a part", nullptr},
    {"parallel.recompute_stop", recomputes_layers, "recompute is full", "parallel.recompute"},
    {"parallel.recompute_layers", recomputes, "recompute is selective, full or ops", "parallel.recompute"},
    {"parallel.recompute_others", may_be_selective,
     "recompute is full and the model has a part of recompute_modules", "parallel.recompute"},
    {"parallel.recompute_others", recomputes_some, "recompute_layers are given", "parallel.recompute_layers"},
    {"parallel.grad_bucket_mb", gathers_in_buckets, "zero is 0, 1 or 2 (3 gathers and reduces by layer)",
     "parallel.zero"},
    {"parallel.attention_kernel", runs_flash, "attention is flash"},
    {"parallel.offload_optimizer", is_mixed, "precision is fp16, bf16 or fp8"},
    {"parallel.offload_optimizer", updates_alone,
     "the optimizer updates each element by itself (not lars, lamb or adafactor)"},
    {"train.fp8_recipe", has_float8, "precision is fp8"},
    {"train.gradients", is_mixed, "precision is fp16, bf16 or fp8"},
    {"train.grad_reduction", is_mixed, "precision is fp16, bf16 or fp8"},
    {"train.moments", keeps_moments, "the optimizer keeps moments and precision is not fp64"},
    {"train.sparse_tables", has_table, "the model has a table that one embedding alone reads"},
    {"train.logits", is_mixed, "precision is fp16, bf16 or fp8"},
    {"model.gelu", has_gelu, "mlp is gelu"},
    {"model.rotary_base", has_rotary, "position is rotary"},
    {"model.qkv_bias", has_no_bias, "bias is false"},
    {"run.document_end", has_documents, "document_length is given"},
    {"train.routing_skew", has_experts, "the model has experts"},
    {"train.clip_norm", may_clip, "off leaves clip in"},
    {"train.momentum", uses_momentum},
    {"train.beta1", uses_beta1},
    {"train.beta2", uses_beta2},
    {"train.eps", uses_eps},
    {"train.trust_coefficient", uses_trust_coefficient},
};

// The key as it was given, if its value is not the default; otherwise null.
const Given* asked(const GivenKeys& given, const Effect& effect) {
  const auto found = given.find(effect.path);
  if (found == given.end() || found->second.may_lapse) return nullptr;
  Request request;
  set(request, effect.path, found->second);
  const Key& key = key_at(effect.path);
  return text_of(key, request) == text_of(key, Request{}) ? nullptr : &found->second;
}

std::string no_effect_text(const Effect& effect) {
  std::string condition = effect.condition ? effect.condition : "";
  if (condition.empty())
    for (const ir::OptimizerRow& row : ir::optimizer_rows())
      if (ir::has_number(row, key_at(effect.path).name))
        condition += (condition.empty() ? "optimizer is " : " or ") + std::string(row.name);
  return "has no effect unless " + condition;
}

}  // namespace

void check_effects(const GivenKeys& given, const Request& request, const std::vector<std::string>& open) {
  for (const Effect& effect : effects) {
    if (effect.only_reported || effect.applies(request.job)) continue;
    if (effect.depends_on && std::count(open.begin(), open.end(), effect.depends_on) > 0) continue;
    if (const Given* key = asked(given, effect)) throw Error::input(key->where, no_effect_text(effect));
  }
}

bool recomputes_anything(const planner::Job& job) {
  const std::vector<int>& layers = job.train.recompute_layers;
  const bool some = layers.empty() || *std::max_element(layers.begin(), layers.end()) > 0;
  return (some && keeps_less(job.train.recompute, job)) ||
         (!layers.empty() && keeps_less(job.train.recompute_others, job));
}

std::vector<std::string> without_effect(const GivenKeys& given, const planner::Job& job, bool found) {
  std::vector<std::string> texts;
  if (const auto tp = given.find("parallel.tp"); !found && tp != given.end() && search::needs_layouts(job))
    texts.push_back(
        fmt::format("{}: no hint says how it splits {}, so ranks of tp do much of the same work; a search "
                    "with these flags finds layouts",
                    tp->second.where, job.model.graph() ? "a graph" : "a network of images"));
  for (const Effect& effect : effects)
    if (const Given* key = effect.applies(job) ? nullptr : asked(given, effect))
      texts.push_back(key->where + ": " + no_effect_text(effect));
  return texts;
}

}  // namespace boxcar::cli
