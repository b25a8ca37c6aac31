// Rows that Megatron-LM and NeMo share: Megatron Core does the same whichever of them launches it.
#include <fmt/format.h>

#include "cli/export/export.h"

namespace boxcar::cli::exports {

std::string recipe_in_megatron(const std::string& recipe) {
  static const std::map<std::string, std::string> words = {{"current", "tensorwise"},
                                                           {"blocks", "blockwise"}};
  const auto word = words.find(recipe);
  return word == words.end() ? recipe : word->second;
}

void write_head_dim(Writer& w, const std::string& name) {
  const ir::models::Transformer& m = w.from.model();
  if (!w.from.divides_hidden() && !is_latent(m)) w.set(name, m.head_dim);
}

void write_qk_norm(Writer& w, const std::string& name) {
  const ir::models::Transformer& m = w.from.model();
  if (!m.qk_norm && !is_latent(m)) return;
  w.set(name, true);
  if (m.norm != "rms") w.cannot("norms of queries and keys are LayerNorm too, as norm says");
}

void write_expert_tokens(Writer& w, std::string (*name)(const std::string&)) {
  const ir::models::Transformer& m = w.from.model();
  w.set(name("moe_router_topk"), m.top_k);
  if (m.expert_ffn != m.ffn) w.set(name("moe_ffn_hidden_size"), m.expert_ffn);
  if (m.shared_experts > 0)
    w.set(name("moe_shared_expert_intermediate_size"), m.shared_experts * m.expert_ffn);
  if (m.expert_groups > 0) {
    w.set(name("moe_router_num_groups"), m.expert_groups);
    w.set(name("moe_router_group_topk"), m.top_groups);
    if (m.top_k / m.top_groups != 2 && m.top_groups < m.expert_groups)
      w.cannot("model.expert_groups",
               "groups are chosen there by the sum of their top_k / top_groups best scores, not of two");
  }
  if (m.router_scores != "softmax") w.set(name("moe_router_score_function"), m.router_scores);
  if (m.expert_scale != 1) w.set(name("moe_router_topk_scaling_factor"), m.expert_scale);
  if (m.expert_scale != 1 && m.router_scores == "softmax")
    w.cannot("model.expert_scale", "the factor needs softmax before the choice there, or sigmoid");
  w.set(name("moe_router_load_balancing_type"), "none");
  w.set(name("moe_token_dispatcher_type"), "alltoall");
  w.set(name("moe_expert_capacity_factor"), 1.0);
  w.set(name("moe_pad_expert_input_to_capacity"), true);
  w.set(name("moe_token_drop_policy"), "position");
  if (!m.weigh_inside)
    w.leave("model.weigh_inside",
            "experts are weighed before their second product, and their results not kept");
  if (w.from.parallel().micro_batch > 1)
    w.cannot("an expert's capacity is that of a micro-batch there, not of each sequence");
}

void write_comm_type(Writer& w, const std::string& name) {
  const bool gathers = w.from.parallel().gather_keys;
  if (gathers || !w.from.can_exchange_heads())
    return w.set(name, gathers && w.from.rings() ? "p2p" : "all_gather");
  w.set(name, "a2a");
  w.cannot("parallel.gather_keys",
           "op by op, what moves fewer bytes is chosen here; a2a is written for all layers");
}

// The optimizer that does either refuses all else (megatron/core/optimizer/optimizer_config.py,
// megatron/training/arguments.py).
void write_moments(Writer& w, std::string (*name)(const std::string&), const Json& bf16) {
  const bool half = w.from.half_moments(), on_host = w.from.parallel().offload_optimizer;
  if (!half && !on_host) return;
  if (w.from.train().optimizer != ir::Optimizer::adam || !w.from.sharded() || !w.from.mixed()) {
    if (half) w.cannot("moments of 16 bits need adam, the distributed optimizer and 16-bit precision");
    if (on_host)
      w.cannot("parallel.offload_optimizer",
               "offload needs adam, the distributed optimizer and 16-bit precision");
    return;
  }
  w.set(name("use_precision_aware_optimizer"), true);
  if (half) {
    w.set(name("exp_avg_dtype"), bf16);
    w.set(name("exp_avg_sq_dtype"), bf16);
  }
  if (on_host) {
    w.set(name("optimizer_cpu_offload"), true);
    w.set(name("optimizer_offload_fraction"), 1.0);
    w.set(name("overlap_cpu_optimizer_d2h_h2d"), true);
  }
}

void tell_limits_of_offload(Writer& w) {
  if (w.from.parallel().pp > 1) w.cannot("activations are offloaded only without pipelines");
  if (w.from.recomputes()) w.cannot("activations are offloaded only without recomputation");
}

std::vector<Row> with_megatron_core(std::vector<Row> rows) {
  const std::vector<Row> shared{
      {{"parallel.schedule"},
       {},
       "all but 1f1b",
       [](Writer& w) {
         if (w.from.pipelined() && w.from.parallel().schedule != planner::Schedule::one_f_one_b)
           w.cannot("pipelines run 1F1B there, which is written");
       }},
      {{"parallel.attention_kernel"},
       {},
       "another kernel than the one that is installed",
       [](Writer& w) {
         if (w.from.train().flash && w.from.request.attention_kernel == "flash1")
           w.cannot("the kernel is the one that is installed");
       }},
      {{"parallel.overlap_tp"},
       {},
       "false",
       [](Writer& w) {
         if (w.from.parallel().tp > 1 && !w.from.parallel().overlap_tp)
           w.cannot("weight gradients always run beside the collectives");
       }},
      {{"parallel.gather_logits"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.parallel().gather_logits && w.from.parallel().tp > 1)
           w.cannot("the loss is split by vocabulary");
       }},
      {{"train.epilogues"},
       {},
       "true",
       [](Writer& w) {
         if (w.from.train().epilogues) w.cannot("Transformer Engine decides what products do beside");
       }},
      {{"train.fused_optimizer"}, {}, "its kernels always update many tensors at once"},
  };
  rows.insert(rows.end(), shared.begin(), shared.end());
  return rows;
}

std::vector<std::string> megatron_core_preface(const Source& source, const std::string& coefficient) {
  if (source.model().experts == 0) return {};
  return {
      "Experts are balanced by no loss here, and each takes equally many tokens (capacity factor 1): further "
      "ones are",
      fmt::format("dropped. To train for real, balance them: load balancing aux_loss with {} (0.02 in",
                  coefficient),
      "Mixtral's config.json), and either a capacity factor above 1 or none, which drops no token; then "
      "experts wait",
      "for the fullest of them, which routing_skew of a job simulates."};
}

}  // namespace boxcar::cli::exports
