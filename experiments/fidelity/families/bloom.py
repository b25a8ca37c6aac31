"""BigScience's runs before and at the start of BLOOM: Megatron-DeepSpeed on Jean Zay.

train/tr11-176B-ml of github.com/bigscience-workshop/bigscience: the table is in its chronicles, the network in its README (four
Omni-Path ports of 100 Gb/s a node), dropout, ALiBi and full recomputation. ALiBi adds to the scores inside the fused softmax and is
not simulated. fp16 sums gradients in fp16; the bf16 optimizer of 28 February sums them in float32. DeepSpeed distributes layers over
stages: as many on each as on the first, until 27 February; then the word embedding counts as a layer on both ends
(--pp-partition-method). If the number of heads is not stated it is 96, as in the other model of this width. The host waited for each
kernel (CUDA_LAUNCH_BLOCKING), and Omni-Path has no preset: these steps count for no error bar.
"""
from ..family import Case, Family, LeftOut, gib
from .flags import flags

VOCABULARY = 250880  # --pad-vocab-size-to


def stage_layers(layers, stages, with_embedding):
    if with_embedding:
        each = (layers + 2) // stages
        return [each - 1] + [each] * (stages - 2) + [each - 1]
    each = -(-layers // stages)
    return [each] * (stages - 1) + [layers - each * (stages - 1)]


def cases(row):
    if "degraded" in row["suspect"]:
        raise LeftOut("measured on a node that its authors say was degraded")
    if "derived from TFLOPs" in row["suspect"]:
        raise LeftOut("the step is computed from operations whose count is not the same in all of the document")
    layers, pp, tp = int(row["layers"]), int(row["pp"]), int(row["tp"])
    bf16 = row["precision"] == "bf16"
    ends = row["section"] in ("Re-do", "Rebalancing layers", "production run") and (layers + 2) % pp == 0
    counts = stage_layers(layers, pp, ends) if pp > 1 else None
    plan = flags(model="gpt", layers=layers, hidden=row["hidden"], heads=row["heads"] or 96, seq=row["seq_len"], vocab=VOCABULARY,
                 pad_vocab=1, cluster="a100-80g-400g", stack="deepspeed", precision=row["precision"], attention="unfused",
                 gpus=row["gpus"], dp=row["dp"], tp=tp, pp=pp, stage_layers=counts and ",".join(map(str, counts)), recompute="full",
                 micro_batch=row["micro_batch"], global_batch=row["global_batch"], zero=1 if int(row["dp"]) > 1 else None,
                 gradients="float32" if bf16 and "fp16" not in row["regime"] else None)
    name = (f"{row['date'][5:]} l{layers} h{row['hidden']} a{row['heads'] or 96} b{row['global_batch']} dp{row['dp']} tp{tp} pp{pp} "
            f"mb{row['micro_batch']} {row['precision']}")
    found = [Case(name, plan, "fits", float(row["iter_time_s"] != "OOM"))]
    if row["iter_time_s"] != "OOM":
        group = f"l{layers} h{row['hidden']} a{row['heads']} b{row['global_batch']} {row['regime'][0]}"
        found.append(Case(name, plan, "step_s", float(row["iter_time_s"]), group, described=False))
    if row["mem_gib_first_last_node"] not in ("", "OOM"):
        found.append(Case(name, plan, "device_bytes", gib(float(row["mem_gib_first_last_node"]))))
    return found


FAMILY = Family("bloom", "BigScience's sweep before BLOOM, 20B to 205B on 8 to 384 A100s", cases, "bigscience_bloom_a100_strategy_sweep")
