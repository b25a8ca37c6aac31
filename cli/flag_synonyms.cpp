#include "cli/flag_synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>

#include "ir/read_number.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

// Flags of Megatron-LM (megatron/training/arguments.py), NeMo, torchtitan, DeepSpeed, AIConfigurator and
// Hugging Face; and words that users try.
struct Synonym {
  std::string_view flag, meant;
  std::string_view with_number = {};  // with a number after it; empty: the same
};
constexpr Synonym synonyms[] = {
    {"--tensor-model-parallel-size", "--tp"},
    {"--tensor-parallel-size", "--tp"},
    {"--tensor-parallel-degree", "--tp"},
    {"--tensor-parallel", "--tp"},
    {"--tp-size", "--tp"},
    {"--pipeline-model-parallel-size", "--pp"},
    {"--pipeline-parallel-size", "--pp"},
    {"--pipeline-parallel-degree", "--pp"},
    {"--pipeline-parallel", "--pp"},
    {"--pipeline-stages", "--pp"},
    {"--pipeline", "--pp"},
    {"--stages", "--pp"},
    {"--pp-size", "--pp"},
    {"--data-parallel-size", "--dp"},
    {"--data-parallel-degree", "--dp"},
    {"--data-parallel-replicate-degree", "--dp"},
    {"--data-parallel", "--dp"},
    {"--replicas", "--dp"},
    {"--dp-size", "--dp"},
    {"--context-parallel-size", "--cp"},
    {"--context-parallel-degree", "--cp"},
    {"--cp-size", "--cp"},
    {"--expert-model-parallel-size", "--ep"},
    {"--expert-tensor-parallel-size", "--etp"},
    {"--expert-tensor-parallel-degree", "--etp"},
    {"--expert-parallel-size", "--ep"},
    {"--expert-parallel", "--ep"},
    {"--num-layers-per-virtual-pipeline-stage", "--virtual-stages"},
    {"--num-virtual-stages-per-pipeline-rank", "--virtual-stages"},
    {"--interleave", "--virtual-stages"},
    {"--vpp", "--virtual-stages"},
    {"--use-distributed-optimizer", "--zero 1"},
    {"--zero-stage", "--zero"},
    {"--fsdp", "--zero 3"},
    {"--recompute-granularity", "--recompute"},
    {"--recompute-num-layers", "--recompute-layers"},
    {"--activation-checkpointing", "--recompute"},
    {"--activation-checkpoint", "--recompute"},
    {"--gradient-checkpointing", "--recompute"},
    {"--checkpoint-activations", "--recompute"},
    {"--micro-batch-size", "--micro-batch"},
    {"--per-device-train-batch-size", "--micro-batch"},
    {"--mbs", "--micro-batch"},
    {"--global-batch-size", "--global-batch"},
    {"--batch-size", "--global-batch"},
    {"--batch", "--global-batch"},
    {"--gbs", "--global-batch"},
    {"--seq-length", "--seq"},
    {"--seq-len", "--seq"},
    {"--sequence-length", "--seq"},
    {"--context-length", "--seq"},
    {"--num-layers", "--layers"},
    {"--n-layers", "--layers"},
    {"--hidden-size", "--hidden"},
    {"--d-model", "--hidden"},
    {"--num-attention-heads", "--heads"},
    {"--num-heads", "--heads"},
    {"--num-query-groups", "--kv-heads"},
    {"--num-key-value-heads", "--kv-heads"},
    {"--ffn-hidden-size", "--ffn"},
    {"--intermediate-size", "--ffn"},
    {"--vocab-size", "--vocab"},
    {"--num-experts", "--experts"},
    {"--moe-router-topk", "--top-k"},
    {"--use-flash-attn", "--attention flash"},
    {"--flash-version", "--attention-kernel"},
    {"--flash-attention", "--attention flash"},
    {"--attention-backend", "--attention"},
    {"--dtype", "--precision"},
    {"--bf16", "--precision bf16"},
    {"--fp16", "--precision fp16"},
    {"--fp8", "--precision fp8"},
    {"--framework", "--stack"},
    {"--gpu", "--cluster, or --device with it", "--gpus"},
    {"--gpu-type", "--cluster"},
    {"--hardware", "--cluster"},
    {"--machine", "--cluster"},
    {"--system", "--cluster"},
    {"--platform", "--cluster"},
    {"--num-gpus", "--gpus"},
    {"--n-gpus", "--gpus"},
    {"--ngpus", "--gpus"},
    {"--gpu-count", "--gpus"},
    {"--total-gpus", "--gpus"},
    {"--world-size", "--gpus"},
    {"--nodes", "--gpus, of all nodes together"},
    {"--num-nodes", "--gpus, of all nodes together"},
    {"--nnodes", "--gpus, of all nodes together"},
    {"--nproc-per-node", "--gpus-per-node"},
    {"--num-microbatches", "--global-batch, which is dp x micro_batch x micro-batches"},
    {"--num-micro-batches", "--global-batch, which is dp x micro_batch x micro-batches"},
    {"--gradient-accumulation-steps", "--global-batch, which is dp x micro_batch x micro-batches"},
    {"--devices", "--gpus"},
    {"--model-name", "--model"},
    {"--model-name-or-path", "--model"},
    {"--model-path", "--model"},
    {"--flavor", "--model"},
    {"--max-position-embeddings", "--seq"},
    {"--max-seq-len", "--seq"},
    {"--max-seq-length", "--seq"},
    {"--isl", "--seq"},
    {"--normalization", "--norm"},
    {"--swiglu", "--mlp swiglu"},
    {"--group-query-attention", "--kv-heads"},
    {"--position-embedding-type", "--position"},
    {"--untie-embeddings-and-output-weights", "--tied false"},
    {"--disable-bias-linear", "--bias false"},
    {"--add-qkv-bias", "--qkv-bias"},
    {"--make-vocab-size-divisible-by", "--pad-vocab"},
    {"--attention-dropout", "--dropout"},
    {"--hidden-dropout", "--dropout"},
    {"--tensor-model-parallel", "--tp"},
    {"--data-parallel-shard-degree", "--zero 3"},
    {"--fully-shard", "--zero 3"},
    {"--sp", "--sequence-parallel"},
    {"--pipeline-parallel-schedule", "--schedule"},
    {"--pipeline-schedule", "--schedule"},
    {"--pipeline-model-parallel-layout", "--stage-layers"},
    {"--decoder-first-pipeline-num-layers", "--stage-layers"},
    {"--decoder-last-pipeline-num-layers", "--stage-layers"},
    {"--recompute-activations", "--recompute selective"},
    {"--recompute-method", "--recompute-layers"},
    {"--overlap-grad-reduce", "--overlap-grad"},
    {"--overlap-comm", "--overlap-grad"},
    {"--overlap-param-gather", "--overlap-param"},
    {"--tp-comm-overlap", "--overlap-tp"},
    {"--enable-async-tensor-parallel", "--overlap-tp"},
    {"--ddp-bucket-size", "--grad-bucket-mb"},
    {"--reduce-bucket-size", "--grad-bucket-mb"},
    {"--bucket-cap-mb", "--grad-bucket-mb"},
    {"--accumulate-allreduce-grads-in-fp32", "--grad-reduction"},
    {"--cross-entropy-loss-fusion", "--fused-loss"},
    {"--train-batch-size", "--global-batch"},
    {"--train-micro-batch-size-per-gpu", "--micro-batch"},
    {"--local-batch-size", "--micro-batch"},
    {"--optim", "--optimizer"},
    {"--adam-beta1", "--beta1"},
    {"--adam-beta2", "--beta2"},
    {"--adam-eps", "--eps"},
    {"--clip-grad", "--clip-norm"},
    {"--gradient-clipping", "--clip-norm"},
    {"--max-grad-norm", "--clip-norm"},
    {"--deepspeed", "--stack deepspeed"},
    {"--max-memory", "--memory"},
    {"--memory-limit", "--memory"},
    {"--time-limit", "--budget"},
    {"--timeout", "--budget"},
    {"--deadline", "--max-step-time"},
    {"--price-per-hour", "--price"},
    {"--price-per-gpu-hour", "--price"},
    {"--cost", "--price"},
    {"--output-file", "--output"},
    {"--save-dir", "--output"},
    {"--verbose", "--json, which prints every number"},
    {"--debug", "--json, which prints every number"},
    {"--format", "--json"},
    {"--train-iters", "--steps"},
    {"--max-steps", "--steps"},
    {"--lr", "--learning-rate"},
    {"--lora-r", "--lora-rank"},
    {"--adapter-dim", "--lora-rank"},
    {"--lora-target-modules", "--lora-mlp"},
    {"--lr-decay-style", "--lr-schedule"},
    {"--lr-warmup-iters", "--warmup-steps"},
    {"--min-lr", "--min-learning-rate"},
    {"--log-interval", "--log-every"},
    {"--eval-interval", "--validate-every"},
    {"--save-interval", "--checkpoint-every"},
    {"--data-path", "--data"},
    {"--save", "--checkpoint-dir"},
    {"--load", "--init-from"},
};

// Flags that one command lacks for a reason, and the alternative. "*": of any command.
struct NoFlag {
  std::string_view command, flag, advice;
};
constexpr NoFlag no_flags[] = {
    {"sweep", "--json", "`boxcar table FILE --json` prints the rows that it wrote"},
    {"sweep", "--csv", "`boxcar table FILE --csv` prints the rows that it wrote"},
    {"sweep", "--search", "write search: true in SWEEP.yaml"},
    {"sweep", "--what-if", "write what_if: {NAME: [1x, 2x]} in SWEEP.yaml"},
    {"sweep", "--pareto", "`boxcar table FILE --pareto` reads the rows that it wrote"},
    {"table", "--price", "give the price to `boxcar sweep`"},
    {"*", "--config", "give the file first, without a flag"},
    {"*", "--config-file", "give the file first, without a flag"},
    {"*", "--job", "give the file first, without a flag"},
    {"*", "--file", "give the file first, without a flag"},
    {"*", "--quiet", "results are on stdout, all else on stderr"},
    {"*", "--dry-run", "nothing runs on GPUs: `simulate` and `search` only predict"},
    {"*", "--osl", "training alone is planned: nothing is generated"},
    {"*", "--ttft", "training alone is planned: nothing is generated"},
    {"*", "--tpot", "training alone is planned: nothing is generated"},
};

}  // namespace

std::string spelled_here(std::string_view flag) {
  const size_t dot = flag.rfind('.');
  std::string name =
      dot == std::string_view::npos ? std::string(flag) : "--" + std::string(flag.substr(dot + 1));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return name;
}

std::string_view flag_meant(std::string_view flag, std::string_view value) {
  const std::string name = spelled_here(flag);
  const auto* const found = std::find_if(std::begin(synonyms), std::end(synonyms),
                                         [&](const Synonym& synonym) { return synonym.flag == name; });
  if (found == std::end(synonyms)) return {};
  const bool numbered = !found->with_number.empty() && ir::read_number<int64_t>(value);
  return numbered ? found->with_number : found->meant;
}

const Key* key_meant(std::string_view name) {
  if (const Key* key = key_called(name)) return key;
  const std::string_view meant = flag_meant(fmt::format("--{}", name));
  return meant.empty() ? nullptr : key_called(meant.substr(2, meant.find_first_of(" ,") - 2));
}

std::string did_you_mean_key(std::string_view section, std::string_view name) {
  if (const Key* key = key_meant(name))
    return key->section == section ? fmt::format(" (did you mean {}?)", key->name)
                                   : fmt::format(" (did you mean {} under {}?)", key->name, key->section);
  return did_you_mean(name, key_names(section));
}

std::string_view advice_in_place_of(std::string_view command, std::string_view flag) {
  const std::string name = spelled_here(flag);
  for (const NoFlag& row : no_flags)
    if (row.flag == name && (row.command == command || row.command == "*")) return row.advice;
  return "";
}

std::vector<std::string_view> flag_synonyms() {
  std::vector<std::string_view> all;
  for (const Synonym& synonym : synonyms) all.push_back(synonym.flag);
  return all;
}

}  // namespace boxcar::cli
