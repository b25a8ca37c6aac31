"""SimuMax's measured runs on one node of B200s: Llama and DeepSeek cut to a few layers, Megatron-LM with Transformer Engine.

simu_tools/megatron_scripts/scripts/run_pretrain_llama3.sh and run_pretrain_deepseekv2.sh of github.com/MooreThreads/SimuMax: bf16 with
gradients in float32, distributed optimizer, sequence parallelism, nothing recomputed, no overlap of gradients or parameters, a fused
cross entropy ("cef"). Llama 405B has 16 key and value heads there, DeepSeek one dense layer, and experts a capacity of their mean share.
Context parallelism exchanges heads (cp_comm_type a2a). Peaks are PyTorch's, of the fullest rank.
"""
from ..family import Case, Family, gib
from .flags import flags

LLAMA3 = dict(model="llama", vocab=128256)
DEEPSEEK = dict(model="llama", heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                dense_layers=1)
MODELS = {"llama3-70b": LLAMA3 | dict(hidden=8192, heads=64, kv_heads=8, ffn=28672),
          "llama3-405b": LLAMA3 | dict(hidden=16384, heads=128, kv_heads=16, ffn=53248),
          "deepseekv2": DEEPSEEK | dict(vocab=102400, hidden=5120, ffn=12288, experts=160, top_k=6, expert_ffn=1536, shared_experts=2),
          "deepseekv3": DEEPSEEK | dict(vocab=129280, hidden=7168, ffn=18432, experts=256, top_k=8, expert_ffn=2048, shared_experts=1)}


def cases(row):
    tp, cp, replicas = int(row["tp"]), int(row["cp"]), int(row["dp"])
    plan = flags(**MODELS[row["model"]], layers=row["layers"], seq=row["seq_len"], cluster="hgx-b200", stack="megatron-fused-loss",
                 precision=row["precision"], attention="flash", attention_kernel="cudnn", gpus=row["n_gpus"], dp=replicas, tp=tp,
                 pp=row["pp"], context_parallel=cp, ep=row["ep"] if row["ep"] != "1" else None, sequence_parallel=tp > 1,
                 gather_keys=False if cp > 1 else None, micro_batch=row["micro_batch"],
                 global_batch=replicas * int(row["micro_batch"]) * int(row["num_microbatches"]), zero=1)
    name = row["case"].removesuffix("_cef")
    return [Case(name, plan, "step_s", float(row["iter_time_ms_real"]) / 1e3),
            Case(name, plan, "peak_bytes", gib(float(row["alloc_GiB_real"])))]


FAMILY = Family("simumax", "Llama and DeepSeek of 4 to 12 layers on 8 B200s", cases, "simumax_b200_real")
