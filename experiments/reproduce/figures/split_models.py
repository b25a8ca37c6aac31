"""Figures 11 to 13: models whose classes or vocabulary are split. Derived values, and the published ones."""
import os
from concurrent.futures import ThreadPoolExecutor

from fidelity.family import Family

from .. import draw
from ..figure import Figure, Result, Row, published
from ..program import ask
from .layouts import route, rules
from .written_models import mobile_face, resnet100, wide_deep


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


FACE_MODELS = {"R100": resnet100, "Y1": mobile_face}
IDENTITIES = {"Face Emore": 85742, "Glint360k": 360232}  # MS1M-ArcFace, and An et al. (arXiv 2010.05222)
SHARES = {"Data Parallelism": "classes whole", "Model Parallelism": "classes split",
          "Partial FC, sample_ratio = 0.1": "classes split and sampled"}


def written(folder, texts):
    """Files of graphs by key: all are there before a program reads one."""
    files = {key: folder / f"{'-'.join(map(str, key))}.txt" for key in texts}
    for key, text in texts.items():
        files[key].write_text(text)
    return files


STACKS = {"OneFlow": "oneflow", "MXNet": "mxnet"}


def face_step(graph, framework, devices, batch, classes):
    """Arguments, and samples a second. Devices have parts of the batch, and of the classes as SHARES has it, or as the search finds best."""
    job = (f"--graph={graph}", "--cluster=dgx-1-v100-16g", f"--gpus={devices}", f"--global-batch={devices * batch}", "--precision=fp32",
           "--optimizer=momentum", "--clip-norm=0", f"--stack={STACKS[framework]}", f"--dp={devices}", "--tp=1", "--pp=1",
           f"--micro-batch={batch}", "--zero=0")
    if classes == "classes whole" or devices == 1:
        arguments = ("simulate", *job)
    else:
        arguments = ("search", *job, *(() if classes == "found" else ("--pin", "fc7.weight=S(0)")))
    answer = ask(*arguments, "--json")
    if answer.code:
        return arguments, None, answer.why
    return arguments, answer.document.get("best", answer.document)["samples_per_s"], ""


def loads_images(backbone, framework, devices):
    """Whether images bound a run: insightface's train_parall.py decodes those of all GPUs in one thread of Python (FaceImageIter of image_iter.py).

    MobileFaceNet takes 974 to 1,039 of them a second with MXNet, on any number of GPUs. One GPU with ResNet-100 takes a quarter of that.
    """
    return framework == "MXNet" and (backbone == "Y1" or devices > 1)


def why_not_run(backbone, framework, devices, classes):
    """Why a row is not compared; empty if it is."""
    if framework == "MXNet" and classes == "classes split and sampled":
        return "insightface's own partial_fc: where it keeps the sampled weights is not described"
    return "one thread decodes the images of all GPUs" if loads_images(backbone, framework, devices) else ""


def most_classes(folder, classes):
    """Arguments, and the largest number of classes, in millions to a hundredth, with which ResNet-100 trains on 8 V100s with 64 samples each."""
    fits, more = 0, 2000  # in units of 10,000
    arguments = ()
    while more - fits > 1:
        count = (fits + more) // 2
        key = ("R100", "most", count, classes.replace(" ", "-"))
        graph = written(folder, {key: resnet100(10_000 * count, 8 if classes == "classes split and sampled" else 0)})[key]
        tried, found, _ = face_step(graph, "OneFlow", 8, 64, classes)
        if found:
            fits, arguments = count, tried
        else:
            more = count
    return arguments, fits / 100


def figure12(folder):
    """The authors' runs with classes whole, split and sampled, and whether the search splits them by itself."""
    kept, asked = [], {}
    for row in dlperf("insightface"):
        data, backbone = row["dataset_and_backbone"].split(" & ")
        framework, devices, batch, classes = row["framework"].split()[0], int(row["n_gpus"]), int(row["batch_per_gpu"]), SHARES[row["parallelism"]]
        key = (backbone, data, framework, devices, batch, classes)
        kept.append((row, key))
        if not why_not_run(backbone, framework, devices, classes):
            asked[key] = None
            if classes == "classes split" and devices > 1:
                asked[*key[:-1], "found"] = None

    def graph_of(key):
        backbone, data, _, devices, _, classes = key
        return backbone, data.replace(" ", "-"), devices if classes == "classes split and sampled" else 0

    graphs = written(folder, {graph_of(key): FACE_MODELS[key[0]](IDENTITIES[key[1]], graph_of(key)[2]) for key in asked})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        asked = dict(zip(asked, pool.map(lambda key: face_step(graphs[graph_of(key)], *key[2:]), asked)))
    rows = []
    for row, key in kept:
        backbone, data, framework, devices, batch, classes = key
        place = (f"{backbone}, {data}, {classes}", row["n_gpus"], f"{framework}, {'smaller' if batch in (64, 256) else 'larger'} batch")
        arguments, ours, why_not = asked.get(key, ((), None, why_not_run(backbone, framework, devices, classes)))
        rows.append(Row(f"{backbone} {data} {classes} {framework} b{batch} on {devices}", "samples/s", float(row["samples_per_s"]), ours, why_not,
                        arguments, *place))
    for (backbone, data, _, devices, batch, classes), (arguments, ours, why_not) in asked.items():
        if classes == "found":
            rows.append(Row(f"{backbone} {data} b{batch} on {devices}, layouts found", "samples/s", None, ours, why_not, arguments))
    for classes in SHARES.values():
        arguments, millions = most_classes(folder, classes)
        rows.append(Row(f"R100 {classes} b64 on 8, most that fit", "million classes", None, millions, command=arguments))
    return Result(rows, draw.compared(rows, "samples/s", "V100s"))


# Layouts of both tables in a plan, as flags of a search that leaves nothing else open.
TABLES = {"S(0)": ("--pin", "wide.weight=S(0)", "--pin", "deep.weight=S(0)"), "S(1)": ("--pin", "wide.weight=S(0)", "--pin", "deep.weight=S(1)"),
          "found": ()}


def wide_deep_step(graph, devices, tables, sparse):
    """Arguments, seconds and bytes of a device; both None if it does not fit. Tables None: whole on each device, which has a part of the batch.
    Sparse: a step updates only the rows that it read, as OneFlow's does. HugeCTR's steps grow with the table on one device, as dense updates do."""
    job = (f"--graph={graph}", "--cluster=dgx-1-v100-16g", f"--gpus={devices}", "--global-batch=16384", "--precision=fp32", "--clip-norm=0",
           "--stack=oneflow", f"--sparse-tables={str(sparse).lower()}")
    if tables is None:
        arguments = ("simulate", *job)
    else:
        arguments = ("search", *job, "--dp=1", "--pp=1", f"--tp={devices}", "--micro-batch=16384", "--zero=0", *TABLES[tables])
    document = ask(*arguments, "--json").document
    if not document["fits"]:
        return arguments, None, None
    best = document.get("best", document)
    return arguments, best["step_time_s"], max(best["device_memory_bytes"])


def figure13(folder):
    """Rules of both splits; the authors' runs on 32 devices, and on one, on which HugeCTR keeps its table whole; the search's choice."""
    result = derived("fig13", {"embedding": ("embedding", "1024x16", "64")})
    kept = [row for row in dlperf("wide_deep") if row["test"] == "vocab size X2 (report v1)" and row["n_gpus"] in ("1", "32")]
    asked = {}
    for row in kept:
        key = int(row["deep_vocab_size"]), int(row["deep_embedding_dim"]), int(row["n_gpus"])
        asked[(*key, None, False)] = None
        for tables in TABLES if key[2] == 32 else (None,):
            asked[(*key, tables, True)] = None
    graphs = written(folder, {("wide_deep", *key[:2]): wide_deep(*key[:2]) for key in asked})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        asked = dict(zip(asked, pool.map(lambda key: wide_deep_step(graphs[("wide_deep", *key[:2])], *key[2:]), asked)))
    for row in kept:
        framework, devices, millions = row["framework"].split()[0], row["n_gpus"], f"{int(row['deep_vocab_size']) / 1e6:g}"
        key = int(row["deep_vocab_size"]), int(row["deep_embedding_dim"]), int(devices)
        sparse = framework == "OneFlow"
        arguments, seconds, memory = asked[(*key, "S(0)" if sparse and devices == "32" else None, sparse)]
        for quantity, column, number in (("ms a step", "iter_latency_ms", seconds and 1e3 * seconds), ("MB", "gpu_mem_MB", memory and memory / 1e6)):
            ends = row[column] == "OOM"
            if ends and quantity == "ms a step":
                continue
            value = "OOM" if ends else float(row[column])
            why_not = ""
            if framework == "HugeCTR" and devices == "32" and quantity == "ms a step":
                number, why_not = None, "HugeCTR exchanges rows that were read and updates whole tables, ours do both or neither"
            elif number is None:
                number = "OOM"
            place = (f"time of a step, {devices}" if quantity == "ms a step" else f"memory, {devices}", millions, framework)
            result.rows.append(Row(f"{framework} on {devices}, {millions} million ids", "where memory ends" if ends else quantity, value, number,
                                   why_not, arguments, *place))
    for (vocabulary, _, devices, tables, _), (arguments, seconds, memory) in asked.items():
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
           missing=("the plan as a whole: tests/planner/softmax_plan_test.cpp holds it",)),
    Figure("fig12", "face recognition with classes split over devices", figure12, tolerance={"samples/s": 10},
           reasons={"samples/s": "ResNet-100 is 2.2 % off; MobileFaceNet is 23 % fast, whose depthwise convolutions count by their bytes, since no table of "
                                 "kernels has them"},
           missing=("MXNet on more than one GPU, and with MobileFaceNet: one thread decodes the images of all GPUs, 1,000 a second",
                    "MXNet with sampled classes: insightface's own code, which keeps the sampled weights where we do not know")),
    Figure("fig13", "Wide & Deep: layouts of the embedding", figure13, tolerance={"ms a step": 10, "MB": 10},
           reasons={"ms a step": "ours are 13 % fast against HugeCTR on one device and 14 % against OneFlow on 32, by the same time at every number of "
                                 "ids",
                    "MB": "0.5 GB of the small tables on 32 devices are of CUDA and NCCL; HugeCTR takes 1 to 2 GB more with small tables"},
           missing=("HugeCTR's exchange between devices, so its times on 32",)),
]
