"""Pipelines of 8 to 32 A100s, no other parallelism; one layer less on the first and the last stage."""
from ..family import Case, Family, LeftOut
from .flags import flags

# Not stated. 14.6B and 28.3B, with 12 x layers x hidden^2 in their layers, leave 27 to 35 thousand rows for a table
# that is both embedding and head; T5's tokenizer, which the authors' sample data set brings, has 32,000.
VOCABULARY = 32000


def stage_layers(layers, stages):
    """Layers of each stage, the first and the last with one less."""
    counts = [(layers + 2) // stages] * stages
    counts[0] -= 1
    counts[-1] -= 1
    return ",".join(map(str, counts))


def interleaved(layers, stages):
    """A layer on each virtual stage, as the paper states of 1F1B-I; by the same rule the first has only the embedding, the last the head."""
    return dict(virtual_stages=(layers + 2) // stages, stage_layers=f"0,1x{layers},0")


def cases(row):
    if row["schedule"] == "ZB-2p":
        raise LeftOut("an automatic schedule for measured times, with an optimizer that does not wait for the gradients' norm: neither is modelled")
    if not row["layers"]:
        raise LeftOut("the layers are not stated")
    layers, stages = int(row["layers"]), int(row["PP"])
    cut = interleaved(layers, stages) if row["schedule"] == "1F1B-I" else dict(stage_layers=stage_layers(layers, stages))
    plan = flags(model="gpt", cluster="a100-80g-800g", stack="megatron", precision="fp16", attention="unfused", layers=layers,
                 hidden=row["hidden"], heads=row["heads"], seq=row["seq_len"], vocab=VOCABULARY, gpus=row["num_gpus"], pp=stages,
                 **cut, micro_batch=row["MBS"], global_batch=row["GBS"])
    # ZB-1p is automatic too; with these pass times the authors' own bubbles of it and of ZB-H1 are the same in every row.
    if row["schedule"] == "ZB-1p":
        plan += flags(schedule="zb-h1")
    name = f"{row['model']} {row['schedule']} {row['num_microbatches']} micro-batches"
    found = [Case(name, plan, "step_s", float(row["iter_time_s"]))]
    if row["memory_GB"]:
        found.append(Case(name, plan, "peak_bytes", float(row["memory_GB"]) * 2**30))
    return found


FAMILY = Family("zero_bubble", "pipelines of 8 to 32 A100s, 1F1B plain and interleaved, and zero-bubble, 1.5B to 28B", cases, "zero_bubble_pp_a100")
