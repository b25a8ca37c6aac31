#include "cli/flag_synonyms.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace boxcar::cli {
namespace {

// Of Megatron-LM (megatron/training/arguments.py), NeMo, torchtitan, DeepSpeed and Hugging Face; then words
// that people try.
constexpr std::pair<std::string_view, std::string_view> synonyms[] = {
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
    {"--gpu", "--cluster"},
    {"--gpu-type", "--cluster"},
    {"--hardware", "--cluster"},
    {"--machine", "--cluster"},
    {"--num-gpus", "--gpus"},
    {"--world-size", "--gpus"},
    {"--nodes", "--gpus, of all nodes together"},
    {"--num-nodes", "--gpus, of all nodes together"},
    {"--nnodes", "--gpus, of all nodes together"},
    {"--nproc-per-node", "--gpus, of all nodes together"},
    {"--num-microbatches", "--global-batch, which is dp x micro_batch x micro-batches"},
    {"--num-micro-batches", "--global-batch, which is dp x micro_batch x micro-batches"},
    {"--gradient-accumulation-steps", "--global-batch, which is dp x micro_batch x micro-batches"},
    {"--devices", "--gpus"},
};

}  // namespace

std::string_view flag_meant(std::string_view flag) {
  const auto* const found = std::find_if(std::begin(synonyms), std::end(synonyms),
                                         [&](const auto& synonym) { return synonym.first == flag; });
  return found == std::end(synonyms) ? std::string_view() : found->second;
}

std::vector<std::string_view> flag_synonyms() {
  std::vector<std::string_view> all;
  for (const auto& synonym : synonyms) all.push_back(synonym.first);
  return all;
}

}  // namespace boxcar::cli
