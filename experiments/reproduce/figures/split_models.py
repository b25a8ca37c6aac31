"""Figures 11 to 13: models whose classes or vocabulary are split. Derived values, and the published ones."""
import os
from concurrent.futures import ThreadPoolExecutor

from fidelity.family import Family

from .. import draw
from ..figure import Figure, Result, Row, published
from ..program import ask
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


def wide_deep(vocabulary, width):
    """The authors' Wide & Deep as graph text: 2 and 26 categories, 13 numbers, seven layers of 1,024 with dropout (scripts of
    github.com/Oneflow-Inc/OneFlow-Benchmark ClickThroughRate). The logistic loss is a cross entropy with a class that is always 0."""
    layers, size = 7, 26 * width + 13
    lines = [f"graph wide_deep layers={layers + 1}",
             "%wide.ids: int64[batch, 2] = input()", "%deep.ids: int64[batch, 26] = input()",
             "%numbers: float32[batch, 13] = input()", "%clicks: int64[batch] = input()",
             f"%wide.weight: float32[{vocabulary}, 1] = parameter()", "%wide.rows = embedding(%wide.weight, %wide.ids) layer=0",
             "%wide = reduce_sum(%wide.rows) {axes=[1]}",
             f"%deep.weight: float32[{vocabulary}, {width}] = parameter()", "%deep.rows = embedding(%deep.weight, %deep.ids) layer=0",
             f"%deep.flat = reshape(%deep.rows) {{shape=[batch, {26 * width}]}}", "%x0 = concat(%deep.flat, %numbers) {axis=1}"]
    for i in range(layers):
        lines += [f"%fc{i}.weight: float32[{size}, 1024] = parameter()", f"%fc{i}.bias: float32[1024] = parameter()",
                  f"%fc{i} = matmul(%x{i}, %fc{i}.weight) layer={i + 1}", f"%fc{i}.sum = add(%fc{i}, %fc{i}.bias)",
                  f"%fc{i}.relu = relu(%fc{i}.sum)", f"%x{i + 1} = dropout(%fc{i}.relu) {{p=0.5}}"]
        size = 1024
    lines += ["%head.weight: float32[1024, 1] = parameter()", f"%head = matmul(%x{layers}, %head.weight)", "%logit = add(%head, %wide)",
              "%nothing = scale(%logit) {factor=0.0}", "%logits = concat(%nothing, %logit) {axis=1}",
              "%losses = cross_entropy(%logits, %clicks)", "%loss = reduce_mean(%losses) {axes=[0]}"]
    return "\n".join(lines) + "\n"


# Which layouts of both tables a plan has, as flags of a search that leaves nothing else open.
TABLES = {"S(0)": ("--pin", "wide.weight=S(0)", "--pin", "deep.weight=S(0)"), "S(1)": ("--pin", "wide.weight=S(0)", "--pin", "deep.weight=S(1)"),
          "found": ()}


def wide_deep_step(folder, vocabulary, width, devices, tables):
    """Arguments, seconds and bytes of a device; both None where it does not fit. Tables None: whole on each device, which has a part of the batch."""
    graph = folder / f"wide_deep-{vocabulary}-{width}.txt"
    graph.write_text(wide_deep(vocabulary, width))
    job = (f"--graph={graph}", "--cluster=dgx-1-v100-16g", f"--gpus={devices}", "--global-batch=16384", "--precision=fp32", "--clip-norm=0",
           "--stack=oneflow")
    if tables is None:
        arguments = ("simulate", *job)
    else:
        arguments = ("search", *job, "--dp=1", "--pp=1", f"--tp={devices}", "--micro-batch=16384", "--zero=0", *TABLES[tables])
    answer = ask(*arguments, "--json")
    best = answer.document.get("best", answer.document) if answer.code == 0 else {}
    memory = max(best.get("device_memory_bytes", [0])) or None
    return arguments, best.get("step_time_s"), memory


def figure13(folder):
    """Rules of both splits; the authors' runs on 32 devices, and on one, where HugeCTR keeps its table whole; the search's choice."""
    result = derived("fig13", {"embedding": ("embedding", "1024x16", "64")})
    kept = [row for row in dlperf("wide_deep") if row["test"] == "vocab size X2 (report v1)" and row["n_gpus"] in ("1", "32")]
    asked = {}
    for row in kept:
        key = int(row["deep_vocab_size"]), int(row["deep_embedding_dim"]), int(row["n_gpus"])
        for tables in (*(TABLES if key[2] == 32 else ()), None):
            asked[(*key, tables)] = None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        asked = dict(zip(asked, pool.map(lambda key: wide_deep_step(folder, *key), asked)))
    for row in kept:
        framework, devices, millions = row["framework"].split()[0], row["n_gpus"], f"{int(row['deep_vocab_size']) / 1e6:g}"
        key = int(row["deep_vocab_size"]), int(row["deep_embedding_dim"]), int(devices)
        arguments, seconds, memory = asked[(*key, "S(0)" if framework == "OneFlow" and devices == "32" else None)]
        for quantity, column, number in (("ms a step", "iter_latency_ms", seconds and 1e3 * seconds), ("MB", "gpu_mem_MB", memory and memory / 1e6)):
            ends = row[column] == "OOM"
            if ends and quantity == "ms a step":
                continue
            value = "OOM" if ends else float(row[column])
            why_not = ""
            if framework == "HugeCTR" and devices == "32" and quantity == "ms a step":
                number, why_not = None, "HugeCTR exchanges rows that were read, our whole tables' gradients are reduced"
            elif number is None:
                number = "OOM"
            place = (f"time of a step, {devices}" if quantity == "ms a step" else f"memory, {devices}", millions, framework)
            result.rows.append(Row(f"{framework} on {devices}, {millions} million ids", "where memory ends" if ends else quantity, value, number,
                                   why_not, arguments, *place))
    for (vocabulary, _, devices, tables), (arguments, seconds, memory) in asked.items():
        if tables in ("S(1)", "found"):
            place = (f"time of a step, {devices}", f"{vocabulary / 1e6:g}", f"ours, {tables}")
            result.rows.append(Row(f"{tables} on {devices}, {vocabulary / 1e6:g} million ids", "ms a step", None, seconds and 1e3 * seconds,
                                   "" if seconds else "does not fit", arguments, *place))
    for what, layout in (("vocabulary split, S(0)", "P"), ("vectors split, S(1)", "S(1)")):
        arguments, document = route("16384x16", layout, "S(0)", "0-7", "0-7")
        result.rows.append(Row(f"{what}: {layout} to S(0) on 8 devices, one table", "MB moved", None, document["bytes_moved"] / 1e6,
                               command=arguments))
    units = {r.panel: "ms" if r.panel.startswith("time") else "MB" for r in result.rows if r.panel}
    return Result(result.rows, draw.compared(result.rows, units, "vocabulary, millions"))


FIGURES = [
    Figure("fig11", "softmax and loss over split classes", figure11, quick=True,
           missing=("InsightFace: there is no margin loss and no sampling of classes, so no plan and no largest number of classes",)),
    Figure("fig12", "face recognition with classes split over devices", figure12, quick=True,
           missing=("ours: there is no face recognition model (ResNet-100 or MobileFaceNet with a margin softmax)",)),
    Figure("fig13", "Wide & Deep: layouts of the embedding", figure13, tolerance={"ms a step": 10, "MB": 10},
           reasons={"ms a step": "a step updates whole tables here, OneFlow's only the rows that it read: it falls behind from 25.6 million ids on "
                                 "one device, from 409.6 million on 32",
                    "MB": "whole tables have gradients, too; 0.5 GB of the small tables on 32 devices are of CUDA and NCCL"},
           missing=("HugeCTR's exchange between devices, so its times on 32",)),
]
