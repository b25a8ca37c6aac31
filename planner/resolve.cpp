#include "planner/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/ops/optimizers.h"
#include "planner/mesh.h"
#include "planner/schedule.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

std::vector<int> balanced_layers(int64_t layers, int stages) {
  std::vector<int> result;
  for (int s = 0; s < stages; ++s)
    result.push_back(static_cast<int>(sbp::part_range(layers, stages, s).size()));
  if (stages == layers + 2) std::swap(result.front(), at(result, stages - 2));
  return result;
}

int least_layers(const ir::models::Model& model, int64_t stage, int64_t stages) {
  const bool at_an_end = stages > 1 && (stage == 0 || stage + 1 == stages);
  const ir::models::Transformer* transformer = model.transformer();
  const bool trains_ends = transformer && transformer->lora_rank == 0;
  return at_an_end && trains_ends && ir::models::decoder_layers(model) == 0 ? 0 : 1;
}

int64_t most_stages(const ir::models::Model& model) {
  return model.layers() + 2 * (1 - least_layers(model, 0, 2));
}

std::string divisors_text(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= number && divisors.size() < 10; ++d)
    if (number % d == 0) divisors.push_back(d);
  std::string text;
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (i > 0) text += i + 1 == divisors.size() ? " or " : ", ";
    text += fmt::format("{}", divisors[i]);
  }
  return text;
}

int micro_batches(const Job& job) {
  return static_cast<int>(job.global_batch / (int64_t{job.parallel.dp} * job.parallel.micro_batch));
}

namespace {

constexpr int64_t largest_degree = 1 << 20;
constexpr int most_micro_batches = 100'000;

void require(bool ok, const std::string& where, const std::string& message) {
  if (!ok) throw Error::input(where, message);
}

void require_divides(int degree, int64_t extent, const std::string& where, const char* what) {
  require(extent % degree == 0, where,
          fmt::format("{} does not divide {} {} (use {})", degree, what, extent, divisors_text(extent)));
}

void check_ranges(const Job& job) {
  struct Row {
    const char* where;
    int64_t value, least, most;
  };
  const Hints& h = job.parallel;
  const Row rows[] = {
      {"cluster.gpus", job.gpus, 1, largest_degree},
      {"parallel.dp", h.dp, 0, largest_degree},
      {"parallel.tp", h.tp, 1, largest_degree},
      {"parallel.pp", h.pp, 1, largest_degree},
      {"parallel.context_parallel", h.cp, 1, largest_degree},
      {"parallel.ep", h.ep, 1, largest_degree},
      {"parallel.etp", h.etp, 0, largest_degree},
      {"parallel.virtual_stages", h.virtual_stages, 1, largest_degree},
      {"parallel.micro_batch", h.micro_batch, 0, largest_degree},
      {"parallel.zero", h.zero, 0, 3},
      {"parallel.grad_bucket_mb", h.grad_bucket_mb, 1, largest_degree},
      {"parallel.fsdp_group", h.fsdp_group, 0, largest_degree},
      {"parallel.servers", h.servers, 0, largest_degree},
      {"train.global_batch", job.global_batch, 0, int64_t{1} << 40},
  };
  for (const Row& row : rows)
    require(row.value >= row.least && row.value <= row.most, row.where,
            fmt::format("{} is out of range (use {} to {})", row.value, row.least, row.most));
}

void resolve_degrees(Job& job) {
  Hints& h = job.parallel;
  const int64_t others = int64_t{h.tp} * h.pp * h.cp;
  if (h.dp == 0) {
    require(
        job.gpus % others == 0, "parallel",
        fmt::format(
            "tp {} x pp {} x context_parallel {} = {} does not divide {} gpus (use a multiple of {} gpus, or "
            "other degrees)",
            h.tp, h.pp, h.cp, others, job.gpus, others));
    h.dp = static_cast<int>(job.gpus / others);
    return;
  }
  const std::string mend = job.gpus % others == 0
                               ? fmt::format("use dp: {}, or {} gpus", job.gpus / others, h.dp * others)
                               : fmt::format("use {} gpus", h.dp * others);
  require(
      h.dp * others == job.gpus, "parallel",
      fmt::format("dp {} x tp {} x pp {} x context_parallel {} = {} is not the {} gpus of the cluster ({})",
                  h.dp, h.tp, h.pp, h.cp, h.dp * others, job.gpus, mend));
}

// 0 stands for tp, so that equal jobs compare equal.
void resolve_etp(Job& job) {
  Hints& h = job.parallel;
  require(h.etp <= 1 || h.etp == h.tp, "parallel.etp",
          fmt::format("{}, expected 1 or tp {}: all ranks of tp share an expert, or none do", h.etp, h.tp));
  if (h.etp == h.tp || ir::models::experts(job.model) == 0) h.etp = 0;
}

void check_sequences(const Hints& h, const ir::models::Transformer& m) {
  for (const auto& [name, seq] : {std::pair("seq", m.seq), std::pair("decoder_seq", m.decoder_seq)}) {
    require_divides(h.cp, seq, "parallel.context_parallel", name);
    if (h.sequence_parallel && h.tp > 1)
      require(seq % (int64_t{h.tp} * h.cp) == 0, "parallel.sequence_parallel",
              fmt::format("tp {} x context_parallel {} does not divide {} {} (switch it off or change tp)",
                          h.tp, h.cp, name, seq));
  }
}

void check_experts(const Job& job, const ir::models::Transformer& m) {
  const Hints& h = job.parallel;
  if (h.ep > 1) {
    require(m.experts > 0, "parallel.ep", fmt::format("{} for a model without experts (use 1)", h.ep));
    require_divides(h.ep, m.experts, "parallel.ep", "experts");
    if (!deals_experts_over_tp(h)) require_divides(h.ep, h.dp, "parallel.ep", "dp");
  }
  if (deals_experts_over_tp(h)) {
    require(h.ep % h.tp == 0, "parallel.ep",
            fmt::format("{} is no multiple of tp {}, over which etp 1 deals experts out (use {}, or etp {})",
                        h.ep, h.tp, (h.ep / h.tp + 1) * h.tp, h.tp));
    require(h.dp % ep_in_dp(h) == 0, "parallel.ep",
            fmt::format("{} with etp 1 is tp {} times {}, which does not divide dp {} (use tp times {})",
                        h.ep, h.tp, ep_in_dp(h), h.dp, divisors_text(h.dp)));
  }
  require(m.experts == 0 || job.routing_skew * static_cast<double>(m.top_k) <= static_cast<double>(m.experts),
          "train.routing_skew",
          fmt::format("{} times the mean is more than all tokens (use at most experts {} / top_k {} = {:g})",
                      job.routing_skew, m.experts, m.top_k,
                      static_cast<double>(m.experts) / static_cast<double>(std::max<int64_t>(1, m.top_k))));
}

void check_splits(const Job& job) {
  const Hints& h = job.parallel;
  for (const auto& [name, extent] : ir::models::tensor_parallel_extents(job.model))
    require_divides(h.tp, extent, "parallel.tp", name);
  if (const ir::models::Transformer* transformer = job.model.transformer()) {
    check_sequences(h, *transformer);
    check_experts(job, *transformer);
  } else {
    require(h.ep == 1, "parallel.ep", fmt::format("{} for a model without experts (use 1)", h.ep));
    require(h.cp == 1, "parallel.context_parallel",
            fmt::format("{} for {}, which have no sequence to split (use 1)", h.cp,
                        ir::models::unsplit_data(job.model)));
    require(!h.sequence_parallel || h.tp == 1, "parallel.sequence_parallel",
            fmt::format("{} have no sequence to split (switch it off)", ir::models::unsplit_data(job.model)));
  }
  if (h.fsdp_group > 0) {
    require_divides(h.fsdp_group, h.dp, "parallel.fsdp_group", "dp");
    require_divides(ep_in_dp(h), h.fsdp_group, "parallel.ep", "fsdp_group");
  }
}

void resolve_stages(Job& job) {
  Hints& h = job.parallel;
  const int64_t stages = int64_t{h.pp} * h.virtual_stages;
  require(h.virtual_stages == 1 || h.pp > 1, "parallel.virtual_stages",
          fmt::format("{} without pipeline stages (use 1, or pp of 2 or more)", h.virtual_stages));
  require(h.virtual_stages == 1 || ir::models::decoder_layers(job.model) == 0, "parallel.virtual_stages",
          fmt::format("{} for a model with a decoder, all of whose layers read what the encoder made (use 1)",
                      h.virtual_stages));
  const int64_t layers = job.model.layers();
  const int64_t most = most_stages(job.model);
  const char* const empty = most > layers ? ", of which the first and the last may have none," : "";
  require(h.virtual_stages == 1 || stages <= most, "parallel.virtual_stages",
          fmt::format("pp {} x virtual_stages {} = {}{} is more than layers {} ({})", h.pp, h.virtual_stages,
                      stages, empty, layers,
                      h.pp <= most ? fmt::format("use at most {} with pp {}", most / h.pp, h.pp)
                                   : fmt::format("use a pp x virtual_stages of at most {}", most)));
  require(stages <= most, "parallel.pp",
          fmt::format("{} stages{} for {} layers (use at most {})", stages, empty, layers, most));
  if (h.stage_layers.empty()) {
    h.stage_layers = balanced_layers(layers, static_cast<int>(stages));
    return;
  }
  require(static_cast<int64_t>(h.stage_layers.size()) == stages, "parallel.stage_layers",
          fmt::format("{} numbers for {} stages (give one for each of pp {} x virtual_stages {})",
                      h.stage_layers.size(), stages, h.pp, h.virtual_stages));
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int of_one = h.stage_layers[static_cast<size_t>(stage)];
    require(of_one >= least_layers(job.model, stage, stages), "parallel.stage_layers",
            fmt::format("{} layers in stage {} (use 1 or more{})", of_one, stage,
                        most > layers ? ", or 0 for the first and the last" : ""));
  }
  const int64_t sum = std::accumulate(h.stage_layers.begin(), h.stage_layers.end(), int64_t{0});
  require(sum == layers, "parallel.stage_layers",
          fmt::format("{} layers in all, the model has {}", sum, layers));
}

// The size for one micro-batch or, with several stages, for four for each stage.
int largest_micro_batch(const Job& job) {
  const Hints& h = job.parallel;
  if (job.global_batch % h.dp != 0) return 1;
  const int64_t samples = job.global_batch / h.dp, least = h.pp == 1 ? 1 : 4 * h.pp;
  int64_t size = std::clamp<int64_t>(samples / least, 1, largest_degree);
  while (samples % size != 0) --size;
  return static_cast<int>(size);
}

void resolve_batch(Job& job) {
  Hints& h = job.parallel;
  if (h.micro_batch == 0) h.micro_batch = largest_micro_batch(job);
  const int64_t unit = int64_t{h.dp} * h.micro_batch;
  if (job.global_batch == 0) job.global_batch = unit;
  const int64_t below = job.global_batch / unit * unit, above = below + unit;
  require(job.global_batch % unit == 0, "train.global_batch",
          fmt::format("{} is not a multiple of dp {} x micro_batch {} (use {})", job.global_batch, h.dp,
                      h.micro_batch,
                      below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above)));
  const int64_t micro_batches_a_step = job.global_batch / unit;
  require(micro_batches_a_step <= most_micro_batches, "train.global_batch",
          fmt::format(
              "{} makes {} micro-batches of {} on dp {}, more than {} (use a larger micro_batch or dp, or "
              "a smaller batch)",
              job.global_batch, micro_batches_a_step, h.micro_batch, h.dp, most_micro_batches));
  job.train.micro_batches = static_cast<int>(micro_batches_a_step);
}

void check_schedule(const Job& job) {
  const Hints& h = job.parallel;
  const std::vector<int>& in_flight = h.schedule.in_flight;
  require(in_flight.empty() || in_flight.size() == static_cast<size_t>(h.pp), "parallel.schedule",
          fmt::format("{} numbers for {} stages (give one for each of pp {})", in_flight.size(), h.pp, h.pp));
  require(
      std::is_sorted(in_flight.rbegin(), in_flight.rend()), "parallel.schedule",
      fmt::format("{}: a stage has fewer micro-batches in flight than the one behind it, which would wait "
                  "forever (let the numbers fall)",
                  to_text(h.schedule)));
  require(!is_v_shaped(h.schedule.kind) || h.virtual_stages == 2, "parallel.virtual_stages",
          fmt::format("{} with schedule {}, which gives each device two stages (use 2)", h.virtual_stages,
                      to_text(h.schedule)));
  require(h.virtual_stages == 1 || h.schedule == Schedule::one_f_one_b || is_v_shaped(h.schedule.kind),
          "parallel.schedule",
          fmt::format("{} does not interleave virtual stages (use 1f1b; zb-v and dualpipe-v take 2)",
                      to_text(h.schedule)));
  require(
      h.defer_head_grad == 0 || !splits_backward(pipeline_of(h, 1).kind), "parallel.defer_head_grad",
      fmt::format("{} has gradients of all weights wait (use 0, or another schedule)", to_text(h.schedule)));
}

void check_recomputation(const Job& job) {
  const Hints& h = job.parallel;
  const std::vector<int>& counts = job.train.recompute_layers;
  require(
      counts.size() <= 1 || counts.size() == h.stage_layers.size(), "parallel.recompute_layers",
      fmt::format("{} numbers for {} stages (give one for all, or one for each of pp {} x virtual_stages {})",
                  counts.size(), h.stage_layers.size(), h.pp, h.virtual_stages));
  for (const int count : counts)
    require(count >= 0 && count <= job.model.layers(), "parallel.recompute_layers",
            fmt::format("{} is out of range (use 0 to {})", count, job.model.layers()));
}

// Without these passes the graph is not a training step.
void check_passes(const Job& job) {
  const auto refuse = [&](const char* pass, const std::string& why) {
    require(!job.train.off.contains(pass), "train.off",
            fmt::format("{} {} (fuse_patterns, fuse_elementwise, mixed_precision, recompute and clip may "
                        "always be switched off)",
                        pass, why));
  };
  refuse("differentiate", "makes the backward pass");
  refuse("optimize", "makes the update");
  if (job.train.micro_batches > 1)
    refuse("accumulate", fmt::format("adds up the gradients of {} micro-batches", job.train.micro_batches));
}

void check_sparse_tables(const Job& job) {
  const std::string why = job.train.sparse_tables ? ir::why_not_sparse(job.train) : "";
  require(why.empty(), "train.sparse_tables", why);
}

// Servers are for data parallelism alone.
void check_servers(const Job& job) {
  const Hints& h = job.parallel;
  if (h.servers == 0) return;
  const char* const where = "parallel.servers";
  require(h.servers > 1, where, "1 server has no other to exchange with (use 2 or more, or 0)");
  for (const auto& [name, degree] :
       {std::pair("tp", h.tp), {"pp", h.pp}, {"context_parallel", h.cp}, {"ep", h.ep}})
    require(degree == 1, where,
            fmt::format("{} with {} {}, and every device must have the whole model (use {} 1, or no servers)",
                        h.servers, name, degree, name));
  require_divides(h.servers, h.dp, where, "dp");
  require(h.zero == 0, where,
          fmt::format("{} with zero {}, which shards what servers hold (use zero 0, or no servers)",
                      h.servers, h.zero));
  require(!job.train.sparse_tables, where,
          fmt::format("{} with sparse_tables, whose rows differ between devices (switch one of them off)",
                      h.servers));
  if (!h.servers_update) return;
  require(!h.offload_optimizer, "parallel.offload_optimizer",
          "servers that update keep states on hosts anyway (switch it off, or servers_update)");
  const ir::OptimizerRow& row = ir::row_of(job.train.optimizer);
  require(!row.has_trust() && !row.factored, "parallel.servers_update",
          fmt::format("{} needs norms of whole tensors, of which a server has a share (switch it off)",
                      row.name));
}

void check_stage_order(const Hints& h) {
  require(is_stage_order(h), "parallel.stage_order",
          fmt::format("{} is no order of the {} stages (give each of 0 to {} once)",
                      fmt::join(h.stage_order, ","), h.pp, h.pp - 1));
}

}  // namespace

bool is_stage_order(const Hints& h) {
  std::vector<int> stages(static_cast<size_t>(h.pp));
  std::iota(stages.begin(), stages.end(), 0);
  return h.stage_order.empty() ||
         std::is_permutation(stages.begin(), stages.end(), h.stage_order.begin(), h.stage_order.end());
}

ResolvedJob resolve(Job job) {
  if (job.gpus == 0) job.gpus = job.cluster.devices();
  check_ranges(job);
  job.model = ir::models::complete(job.model);
  job.train.flash = ir::models::is_fused(job.model) || job.train.flash;
  if (job.model.transformer()) {
    job.model->flash = job.train.flash;
    ir::models::check_attention(*job.model.transformer());
  }
  resolve_degrees(job);
  resolve_etp(job);
  check_splits(job);
  resolve_stages(job);
  resolve_batch(job);
  check_schedule(job);
  check_recomputation(job);
  check_servers(job);
  check_stage_order(job.parallel);
  check_passes(job);
  check_sparse_tables(job);
  return ResolvedJob(std::move(job));
}

}  // namespace boxcar::planner
