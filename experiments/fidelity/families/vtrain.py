"""Megatron-DeepSpeed on A100s, every way to divide 2 to 8 GPUs, and 64 to 512 GPUs of a cluster.

Full recomputation. The vocabulary is that of the code published with the rows (github.com/VIA-Research/vTrain src/config.py, src/predictor.py):
GPT-2's 50,257 words without padding, of which each rank has 50,257 // tp; and its loss reads logits in half (src/trainer.py). Nodes of
the cluster have 800 Gb/s. Megatron-DeepSpeed of that time waits for the backward pass's all-reduces of tensor parallelism.
"""
from ..family import Case, Family
from .flags import flags


def case(row, cluster):
    plan = dict(gpus=row["n_gpus"], dp=row["dp"], tp=row["tp"], pp=row["pp"], micro_batch=row["micro_batch"])
    tp = int(row["tp"])
    model = dict(layers=row["layers"], hidden=row["hidden"], heads=row["heads"], seq=row["seq_len"], vocab=50257 // tp * tp, pad_vocab=1)
    name = " ".join(f"{key}{row[column]}" for key, column in
                    [("l", "layers"), ("h", "hidden"), ("b", "global_batch"), ("dp", "dp"), ("tp", "tp"), ("pp", "pp"),
                     ("mb", "micro_batch")])
    group = f"l{row['layers']} h{row['hidden']} b{row['global_batch']} on {row['n_gpus']}"
    return Case(name, flags(model="gpt", cluster=cluster, stack="deepspeed", **model, **plan, global_batch=row["global_batch"],
                            precision="fp16", logits="half", recompute="full", attention="unfused", overlap_tp=False),
                "step_s", float(row["iter_time_ms"]) / 1000, group)


SINGLE = Family("vtrain_single_node", "Megatron-DeepSpeed on 2 to 8 A100s of one node, 12 to 24 layers of 1,024",
                lambda row: [case(row, "dgx-a100-80g")], "vtrain_single_node_a100")
MULTI = Family("vtrain_multi_node", "Megatron-DeepSpeed on 64 to 512 A100s, 3.6B to 175B",
               lambda row: [case(row, "a100-80g-800g")], "vtrain_multi_node_a100")
