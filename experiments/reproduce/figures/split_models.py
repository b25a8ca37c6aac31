"""Figures 11 to 13: models whose classes or vocabulary are split. Derived values, and the published ones."""
from fidelity.family import Family

from .. import draw
from ..figure import Figure, Result, Row, published
from .layouts import route, rules


def derived(name, shapes):
    """Rules of ops that the paper names, "op: operands", for operands of given shapes."""
    found = []
    for what, value in published(name).items():
        op, operands = what.split(": ")
        call = shapes[op]
        found.append(Row(what, "layout of the result", value, rules(*call).get(operands, "no rule"),
                         command=("sbp", "rules", *call, "--devices", "2")))
    return Result(found)


def figure11(_):
    rows = ("6x8", "6x1")
    return derived("fig11", {"matmul": ("matmul", "6x4", "4x8"), "reduce_max": ("reduce_max", "6x8", "--attr", "axes=[1]"),
                             "sub": ("sub", *rows), "exp": ("exp", "6x8"), "reduce_sum": ("reduce_sum", "6x8", "--attr", "axes=[1]"),
                             "div": ("div", *rows), "pick": ("pick", "6x8", "6")})


def dlperf(name):
    """The rows of a file of the authors' tables that no family of experiments/fidelity/ has."""
    return Family(f"dlperf_{name}_v100", "", lambda row: []).rows()


def figure12(_):
    rows = []
    for row in dlperf("insightface"):
        data, backbone = row["dataset_and_backbone"].split(" & ")
        if row["parallelism"] != "Model Parallelism" or data != "Face Emore":
            continue
        framework = row["framework"].split()[0]
        name = f"{backbone} {framework} b{row['batch_per_gpu']} on {row['n_gpus']}"
        place = (backbone, row["n_gpus"], f"{framework}, {'smaller' if row['batch_per_gpu'] in ('64', '256') else 'larger'} batch")
        rows.append(Row(name, "samples/s", float(row["samples_per_s"]), None, "no face recognition model", (), *place))
    return Result(rows, draw.compared(rows, "samples/s", "V100s"))


def figure13(_):
    """The rules, and the costs of the table's layouts where the batch is split afterwards: ids of 16,384 samples, vectors of 16."""
    result = derived("fig13", {"embedding": ("embedding", "1024x16", "64")})
    for row in dlperf("wide_deep"):
        if row["test"] != "vocab size X2 (report v1)" or row["n_gpus"] != "32":
            continue
        framework, millions = row["framework"].split()[0], f"{int(row['deep_vocab_size']) / 1e6:g}"
        for quantity, column in (("ms a step", "iter_latency_ms"), ("MB", "gpu_mem_MB")):
            value = row[column] if row[column] == "OOM" else float(row[column])
            place = ("time of a step" if quantity == "ms a step" else "memory", millions, framework)
            result.rows.append(Row(f"{framework} on 32, {millions} million ids", quantity, value, None, "no Wide & Deep model", (), *place))
    for what, layout in (("vocabulary split, S(0)", "P"), ("vectors split, S(1)", "S(1)")):
        arguments, document = route("16384x16", layout, "S(0)", "0-7", "0-7")
        result.rows.append(Row(f"{what}: {layout} to S(0) on 8 devices, one table", "MB moved", None, document["bytes_moved"] / 1e6,
                               command=arguments))
    return Result(result.rows, draw.compared(result.rows, {"time of a step": "ms", "memory": "MB"}, "vocabulary, millions"))


FIGURES = [
    Figure("fig11", "softmax and loss over split classes", figure11, quick=True,
           missing=("InsightFace: there is no margin loss and no sampling of classes, so no plan and no largest number of classes",)),
    Figure("fig12", "face recognition with classes split over devices", figure12, quick=True,
           missing=("ours: there is no face recognition model (ResNet-100 or MobileFaceNet with a margin softmax)",)),
    Figure("fig13", "Wide & Deep: layouts of the embedding", figure13, quick=True,
           missing=("Wide & Deep: there is no such model, so no time, no memory and no choice by the search; nor HugeCTR's layout",)),
]
