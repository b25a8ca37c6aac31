"""Llama-like models in stacks of their own: Aleph Alpha's sweep of layouts, InternEvo."""
from ..family import Case, Family, LeftOut
from .flags import flags

# Kernels of Aleph Alpha's rows: attention, FlashAttention, passes that are off. Megatron's fused softmax is the pattern; the norm is
# eager but where its kernel is named.
EAGER, SOFTMAX = "fuse_patterns,fuse_elementwise", "fuse_elementwise"
KERNELS = {"torch": ("pytorch", "unfused", None, EAGER), "fused": ("pytorch", "unfused", None, SOFTMAX),
           "flash_attentionv1.0.8": ("pytorch", "flash", 1, EAGER), "flash_attention2": ("pytorch", "flash", 2, EAGER),
           "flash_attention2 + RMS kernel": ("megatron", "flash", 2, None)}


def aleph_alpha(row):
    """Gradients are bf16: 14.5 billion parameters on one GPU of 80 GB without model parallelism leave no room for float32.
    Their layers are Megatron's of 2021, whose tensor parallelism waits for its collectives."""
    if row["status"] not in ("ok", "OOM Error"):
        raise LeftOut("neither ran nor ran out of memory")
    stack, attention, version, off = KERNELS[row["kernel"]]
    plan = flags(model="llama", layers=row["layers"], hidden=row["hidden"], heads=row["heads"], ffn=row["ffn_hidden"],
                 seq=row["seq_len"], vocab=row["vocab"].split()[0], cluster="dgx-a100-80g", gpus=row["num_gpus"], dp=row["DP"],
                 tp=row["TP"], pp=row["PP"], micro_batch=row["MBS"], global_batch=row["GBS"], zero=1, precision="bf16",
                 stack=stack, gradients="half", sequence_parallel=row["sequence_parallel"] == "yes", attention=attention, flash_version=version, off=off,
                 overlap_tp=False, overlap_grad=False,
                 recompute="full" if row["activation_checkpointing"] == "every_layer" else "none")
    name = f"s{row['seq_len']} on {row['num_gpus']} trial {row['trial_id']}"
    group = f"s{row['seq_len']} on {row['num_gpus']}"
    found = [Case(name, plan, "fits", float(row["status"] == "ok"))]
    if row["status"] == "ok":
        found.append(Case(name, plan, "step_s", float(row["step_time_s"]), group))
    return found


def internevo(row):
    """Gradients stay bf16, and the loss is flash-attn's on half logits: HybridZeroOptimizer and FlashGPTLMLoss of its repository.
    Its configurations for 7B reduce in buckets of 512 MB behind the backward pass and wait for the parameters' broadcasts.
    """
    group = None if row["zero1_group"] == "all DP ranks" else row["zero1_group"]
    plan = flags(model="llama", layers=row["layers"], hidden=row["hidden"], heads=row["heads"], ffn=11008, seq=row["seq_len"],
                 vocab=103168, cluster="a100-80g-400g", gpus=row["num_gpus"], dp=row["DP"], tp=row["TP"],
                 sequence_parallel=int(row["TP"]) > 1, micro_batch=row["MBS"], global_batch=row["GBS_seqs"], zero=1,
                 fsdp_group=group, precision="bf16", stack="pytorch", attention="flash", gradients="half",
                 logits="half", recompute="none", grad_bucket_mb=512, overlap_param=False)
    name = f"{row['num_gpus']} GPUs tp{row['TP']} zero {row['zero1_group']} mb{row['MBS']}"
    return [Case(name, plan, "step_s", float(row["iter_time_s"]))]


ALEPH_ALPHA = Family("aleph_alpha", "layouts of Llama 13B on 32 to 128 A100s", aleph_alpha, "aleph_alpha_layout_sweep_a100")
INTERNEVO = Family("internevo", "InternLM 7B on 8 to 1,024 A100s", internevo, "internevo_7b_a100_scaling")
