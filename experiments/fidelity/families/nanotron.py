"""Hugging Face's nanotron: the fastest layout of each model and number of nodes.

scripts/scaling_benchmarks.py of github.com/huggingface/nanotron has the settings that the table lacks: all heads have keys and values of their
own, products' gradients are summed in float32, tensor parallelism splits the sequence (tp_mode REDUCE_SCATTER, asynchronous), small models
tie the head to the embedding. It is simulated as plain PyTorch. Nodes are AWS's p5, 3,200 Gb/s of EFA each, simulated as a DGX H100's
eight ports of 400 Gb/s: InfiniBand's latencies, and its share of the bandwidth, are assumed. So steps on several nodes count for no
error bar.
"""
from itertools import accumulate

from ..family import Case, Family, gib
from .flags import flags

NODE = 8


def stage_layers(row):
    """Blocks in order; a stage takes blocks until it has its share of the operations, including the head's: build_model of
    src/nanotron/models/base.py, get_block_compute_costs of src/nanotron/models/llama.py."""
    layers, stages, hidden = int(row["layers"]), int(row["pp"]), int(row["hidden"])
    layer, head = 4 * hidden**2 + 3 * hidden * int(row["ffn_hidden"]), hidden * int(row["vocab"])
    total, counts, stage = layers * layer + head, [0] * stages, 0
    for cost in accumulate([layer] * layers):
        if stage < stages - 1 and cost > total * (stage + 1) / stages:
            stage += 1
        counts[stage] += 1
    return ",".join(map(str, counts)) if stages > 1 else None


def cases(row):
    tp = int(row["tp"])
    plan = flags(model="llama", layers=row["layers"], hidden=row["hidden"], heads=row["heads"], ffn=row["ffn_hidden"], seq=row["seq_len"],
                 vocab=row["vocab"], tied=int(row["ffn_hidden"]) < 10000, cluster="dgx-h100", stack="pytorch", precision="bf16",
                 attention="flash", gpus=row["gpus"], dp=row["dp"], tp=tp, pp=row["pp"], stage_layers=stage_layers(row),
                 sequence_parallel=tp > 1, micro_batch=row["micro_batch"], global_batch=row["global_batch"],
                 zero=row["zero"].removeprefix("zero"))
    name = f"{row['model']} on {row['gpus']} dp{row['dp']} tp{tp} pp{row['pp']} mb{row['micro_batch']}"
    found = [Case(name, plan, "step_s", float(row["iter_time_s_derived"]), described=int(row["gpus"]) <= NODE)]
    if row["peak_mem_GB"]:
        found.append(Case(name, plan, "peak_bytes", gib(float(row["peak_mem_GB"]))))
    return found


FAMILY = Family("nanotron", "nanotron's best layouts, 1.3B to 80B on 4 to 512 H100s", cases, "nanotron_ultrascale_best_configs_h100")
