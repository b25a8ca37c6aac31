"""Runs of PyTorch's FSDP: MosaicML's llm-foundry, and torchtitan."""
from ..family import Case, Family, LeftOut, gib
from .flags import flags

# llm-foundry's MPT by name: layers, hidden, heads (scripts/train/yamls/pretrain/ of its repository).
MPT = {"125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20),
       "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56), "70b": (80, 8192, 64)}
MPT_CLUSTER = {"a100_80gb": "dgx-a100-80g", "a100_40gb": "dgx-a100-40g", "h100_80gb": "dgx-h100"}


def mosaicml(row):
    """MPT has no biases and no dropout, learned positions and a tied head. Attention is Triton's kernel of FlashAttention 1's time: the
    default of scripts/train/benchmarking/submit_benchmarks.py of its repository. The loss is flash-attn's fused cross entropy on half
    logits: the default loss_fn of llmfoundry/models/mpt/modeling_mpt.py. The 40 GB table is of mid-2023, the others of after PyTorch 2.1,
    whose checkpoints stop early."""
    layers, hidden, heads = MPT[row["model"]]
    again, new = row["activation_checkpointing"] == "True", row["gpu"] != "a100_40gb"
    gpus, micro, batch = int(row["n_gpus"]), int(row["micro_batch_per_gpu"]), int(row["global_batch_seqs"])
    if batch % (gpus * micro):
        raise LeftOut("the global batch is no multiple of GPUs and micro-batch")
    fp8 = "fp8" in row["precision"]
    plan = flags(model="gpt", bias=False, dropout=0, layers=layers, hidden=hidden, heads=heads, seq=row["seq_len"], vocab=50368,
                 cluster=MPT_CLUSTER[row["gpu"]], gpus=gpus, stack="composer", zero=3, micro_batch=micro, global_batch=batch,
                 precision="fp8" if fp8 else "bf16", attention="flash", attention_kernel="flash1", recompute="full" if again else "none",
                 recompute_stop=True if again and new else None)
    name = f"{row['model']} s{row['seq_len']} mb{micro} on {gpus} {row['gpu']}" + (" fp8" if fp8 else "")
    return [Case(name, plan, "step_s", float(row["derived_iter_time_s"]), f"{row['model']} s{row['seq_len']} b{batch} {row['gpu']}")]


TITAN_CLUSTER = {"H200-SXM 141GB": "hgx-h200", "A100-SXM 80GB": "dgx-a100-80g"}


def recomputed(row):
    """The keys of an activation_ckpt: selective is by op unless stated otherwise, the default of torchtitan's Llama 3 configurations."""
    kind = row["activation_ckpt"]
    if kind == "selective layer":
        return "full", int(row["layers"]) // 2
    return ("ops" if kind.startswith("selective") else kind), None


def torchtitan(row):
    recompute, half = recomputed(row)
    if row["gpu"] not in TITAN_CLUSTER:
        raise LeftOut(f"no description of {row['gpu']}")
    plan = flags(model="llama", layers=row["layers"], hidden=row["hidden"], heads=row["heads"], kv_heads=row["kv_heads"],
                 ffn=row["ffn_hidden"], seq=row["seq_len"], vocab=row["vocab"], cluster=TITAN_CLUSTER[row["gpu"]],
                 gpus=row["gpus"], dp=row["dp_fsdp"], tp=row["tp"], context_parallel=row["cp"], zero=3, grad_reduction="half",
                 stack="pytorch-compiled" if row["compile"] == "1" else "fsdp", micro_batch=row["local_batch"],
                 global_batch=row["global_batch"], precision="fp8" if "fp8" in row["precision"] else "bf16", attention="flash",
                 recompute=recompute, recompute_layers=half)
    name = f"{row['model']} s{row['seq_len']} on {row['gpus']} {row['gpu'].split('-')[0]} {row['activation_ckpt']} compile{row['compile']}"
    found = [Case(name, plan, "step_s", float(row["iter_time_s_derived"]))]
    if row["peak_mem_gib"]:
        found.append(Case(name, plan, "peak_bytes", gib(float(row["peak_mem_gib"]))))
    return found


MOSAICML = Family("mosaicml", "MPT with FSDP on 8 to 64 A100s and H100s", mosaicml, "mosaicml_llm_foundry_mpt")
TORCHTITAN = Family("torchtitan", "Llama on 8 to 64 A100s, H100s, H200s", torchtitan, "torchtitan_benchmarks")
