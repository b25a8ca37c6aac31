"""Whole steps from publications on predictors: Sailor's OPT on GH200s, NeuSight's GPT-2 on four GPUs; and IBM's FSDP."""
from ..family import Case, Family, LeftOut
from .flags import flags


def sailor(row):
    """Megatron-DeepSpeed without a precision in its configuration: float32, and no tf32, which PyTorch has off by default. The counts of
    layers have the embedding and the head as layers of their own. Peaks are of the whole device: the source's own estimate (get_memory_footprint_on_gpu in
    sailor/Planner/simulations/runtime_simulator.py) has 5.06 GB in them that are of no tensor. No dropout: peaks grow by 3.3 GB with a sequence, which leaves no room for
    what it keeps."""
    if row["suspect"]:
        raise LeftOut("marked suspect by its source")
    if "Neo" in row["model"]:
        raise LeftOut("GPT-Neo's runs contradict the type that they state: their layers are faster than float32's peak")
    counts = [int(n) for n in row["layers_per_stage"].split("|")]
    counts[0] -= 1
    counts[-1] -= 1
    plan = flags(model="gpt", cluster="alps-gh200", stack="deepspeed", precision="fp32", attention="unfused", layers=row["layers"],
                 hidden=row["hidden"], heads=row["heads"], seq=row["seq_len"], vocab=row["vocab"], dropout=0, gpus=row["num_gpus"], tp=row["TP"],
                 pp=row["PP"], dp=row["DP"], stage_layers=",".join(map(str, counts)) if len(counts) > 1 else None,
                 micro_batch=row["MBS"], global_batch=row["GBS"], overlap_tp=False)
    name = f"tp{row['TP']} pp{row['PP']} dp{row['DP']} mb{row['MBS']} b{row['GBS']} on {row['num_gpus']}"
    return [Case(name, plan, "step_s", float(row["iter_time_s"])), Case(name, plan, "device_bytes", float(row["max_mem_bytes"]))]


NEUSIGHT = {"NVIDIA_A100-SXM4-40GB": "dgx-a100-40g", "NVIDIA_H100_80GB_HBM3": "dgx-h100"}


def neusight(row):
    """Models of Hugging Face in float32; the batch is that of all GPUs, and pipelines have one micro-batch."""
    gpus = int(row["gpus"] or 1)
    ways = {row["parallelism"]: gpus} if row["parallelism"] in ("dp", "tp", "pp") else {}
    batch = int(row["batch"])
    plan = flags(model="gpt", cluster=NEUSIGHT[row["gpu"]], stack="pytorch", precision="fp32", attention="unfused", layers=row["layers"],
                 hidden=row["hidden"], heads=row["heads"], seq=row["seq_len"], vocab=row["vocab"], gpus=gpus, **ways,
                 micro_batch=batch // ways.get("dp", 1), global_batch=batch, pad_vocab=1)
    name = f"{row['model']} s{row['seq_len']} b{batch} {row['parallelism']} on {NEUSIGHT[row['gpu']].split('-')[1]}"
    return [Case(name, plan, "step_s", float(row["e2e_ms"]) / 1000)]


LLAMA2_KV = {"Llama2-34B": 8, "Llama2-70B": 8}  # query groups of the public configurations


def ibm_fsdp(row):
    """The number of recomputed layers follows from the excess of hardware FLOP/s over the model's: a layer's forward pass is a third of its operations.
    HSDP shards within a node. Gradients are reduced in bf16 (fms_fsdp/policies/mixed_precision.py)."""
    again = min(1.0, 3 * (float(row["hfu"]) / float(row["mfu"]) - 1))
    layers = round(again * int(row["layers"]))
    plan = flags(model="llama", cluster="h100-80g-800g" if "H100" in row["hardware"] else "a100-80g-400g", stack="pytorch-compiled", zero=3,
                 fsdp_group=8 if row["sharding"] == "HSDP" else None, precision="bf16", gradients="half", attention="flash",
                 layers=row["layers"], hidden=row["hidden"], heads=row["heads"], kv_heads=LLAMA2_KV.get(row["model"]), ffn=row["ffn_hidden"], seq=row["seq_len"],
                 vocab=32000, gpus=row["num_gpus"], micro_batch=row["batch_per_gpu"], recompute="full" if layers else "none",
                 recompute_layers=layers or None)
    name = f"{row['model']} on {row['num_gpus']} {row['hardware'].split('-')[0]}"
    return [Case(name, plan, "step_s", float(row["iter_time_s"]))]


SAILOR = Family("sailor", "OPT-350M on 4 to 128 GH200s, float32", sailor, "sailor_validation_gh200_mit")
NEUSIGHT_FAMILY = Family("neusight", "GPT-2 and GPT-3 XL on four A100s or H100s, float32", neusight, "neusight_e2e")
IBM = Family("ibm_fsdp", "Llama-2 with FSDP and torch.compile on 128 A100s and 96 H100s", ibm_fsdp, "fms_fsdp_llama2_a100_h100")
