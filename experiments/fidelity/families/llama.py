"""Llama-like models in stacks of their own: Aleph Alpha's sweep of layouts, InternEvo."""
from ..family import Case, Family, LeftOut
from .flags import flags

# Kernels of Aleph Alpha's rows: stack, attention, FlashAttention, passes that are off. Megatron's fused softmax is the pattern; the
# norm is eager unless its kernel is named.
KERNELS = {"torch": ("scaling", "unfused", None, None), "fused": ("scaling", "unfused", None, "fuse_elementwise"),
           "flash_attention": ("scaling", "flash", "flash2", None),  # for tables that do not say which
           "flash_attentionv1.0.8": ("scaling", "flash", "flash1", None), "flash_attention2": ("scaling", "flash", "flash2", None),
           "flash_attention2 + RMS kernel": ("scaling-rms", "flash", "flash2", None)}


def shared_layers(layers, stages, outside):
    """Layers of each stage if embedding and head count as `outside` layers each and the heaviest stage is as light as possible, the
    first ones full: by parameters, one of the two ways of github.com/Aleph-Alpha/scaling, core/nn/parallel_module/
    pipeline_partitioning.py. It is not stated which of them the runs used; the other, by number of modules, makes pipelines even faster."""
    for limit in sorted({a + b * outside for a in range(layers + 1) for b in range(3)}):
        counts, left = [], layers
        for stage in range(stages):
            room = limit - outside * ((stage == 0) + (stage == stages - 1))
            counts.append(max(0, min(left, int(room + 1e-9))))
            left -= counts[-1]
        if left == 0 and min(counts) > 0:
            return ",".join(map(str, counts))


def aleph_alpha(row):
    """Gradients are bf16: 14.5 billion parameters on one GPU of 80 GB without model parallelism leave no room for float32. All other facts
    about the authors' code, which they have published since, are in the stack."""
    if row["status"] not in ("ok", "OOM Error"):
        raise LeftOut("neither ran nor ran out of memory")
    stack, attention, kernel, off = KERNELS[row["kernel"]]
    layers, pp, hidden = int(row["layers"]), int(row["PP"]), int(row["hidden"])
    table = int(row["vocab"].split()[0]) * hidden
    stage_layers = shared_layers(layers, pp, table / (4 * hidden**2 + 3 * hidden * int(row["ffn_hidden"]))) if pp > 1 else None
    plan = flags(model="llama", layers=layers, hidden=row["hidden"], heads=row["heads"], ffn=row["ffn_hidden"],
                 seq=row["seq_len"], vocab=row["vocab"].split()[0], cluster="a100-80g-400g", gpus=row["num_gpus"], dp=row["DP"],
                 tp=row["TP"], pp=pp, stage_layers=stage_layers, micro_batch=row["MBS"],
                 global_batch=row["GBS"], zero=1, precision="bf16", stack=stack, sequence_parallel=row["sequence_parallel"] == "yes",
                 attention=attention, attention_kernel=kernel, off=off,
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
                 fsdp_group=group, precision="bf16", stack="internevo", attention="flash", gradients="half",
                 logits="half", recompute="full" if row["activation_checkpoint"] in ("yes", "True", "1.0") else "none")
    name = f"{row['num_gpus']} GPUs tp{row['TP']} zero {row['zero1_group']} mb{row['MBS']}"
    return [Case(name, plan, "step_s", float(row["iter_time_s"]))]


ALEPH_ALPHA = Family("aleph_alpha", "layouts of Llama 13B on 32 to 128 A100s", aleph_alpha, "aleph_alpha_layout_sweep_a100")
INTERNEVO = Family("internevo", "InternLM 7B on 8 to 1,024 A100s", internevo, "internevo_7b_a100_scaling")
