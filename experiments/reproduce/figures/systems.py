"""The systems that the paper compares with, each as a strategy: the search finds the best plan that the system could run.

All run on one framework, so only the strategies differ. Settings that a system's flags do not fix are searched alike for all.
"""
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..figure import Figure, Result, Row
from ..program import ask
from .written_models import wide_deep

CLUSTER = ("--cluster=dgx-1-v100-32g", "--gpus=16")
GPT = ("--model=gpt", "--layers=48", "--hidden=1536", "--heads=16", "--seq=1024", "--vocab=50257", *CLUSTER, "--global-batch=128")
ALEXNET = ("--model=alexnet", "--layers=8", "--channels=64", "--classes=1000", "--image=224", *CLUSTER, "--global-batch=2048", "--precision=fp32",
           "--optimizer=momentum", "--clip-norm=0")
WIDE_DEEP = (*CLUSTER, "--global-batch=16384", "--precision=fp32", "--clip-norm=0")
PLAIN = tuple(f"--without-move={move}" for move in ("lay-out-best", "lay-out-degrees", "lay-out-meshes", "lay-out-over-nodes",
                                                     "shard-and-lay-out", "split-and-lay-out", "other-ways"))
# A server on each node, which adds up; BYTEPS_PARTITION_BYTES is 4,096,000 by default (github.com/bytedance/byteps docs/env.md)
BYTEPS = ("--servers=2", "--servers-update=false", "--grad-bucket-mb=4")
WHOLE = ("--zero=0", "--context-parallel=1")  # every state on each device that trains with it


@dataclass(frozen=True)
class System:
    name: str
    paper: str  # arXiv's number, or the conference
    flags: tuple[str, ...]  # the fixed ones
    lays_out: bool = False  # whether it chooses a layout for each op; otherwise degrees and pins decide

    @property
    def fixed(self):
        return self.flags if self.lays_out else (*self.flags, *PLAIN)

    @property
    def text(self):
        return " ".join(self.flags) + ("" if self.lays_out else ", layouts by degrees")

    @property
    def title(self):
        return f"{self.name} ({self.paper})" if self.paper else self.name


def data_parallel(zero, *more):
    return ("--dp=16", "--tp=1", "--pp=1", f"--zero={zero}", *more)


SYSTEMS = {
    "GPT": (GPT, [
        System("Boxcar", "", (), lays_out=True),
        System("Horovod", "arXiv:1802.05799", data_parallel(0, "--grad-bucket-mb=64")),
        System("parameter servers", "OSDI 2014", data_parallel(0, "--servers=2")),
        System("BytePS", "OSDI 2020", data_parallel(0, *BYTEPS)),
        System("ZeRO 1", "arXiv:1910.02054", data_parallel(1)),
        System("ZeRO 2", "arXiv:1910.02054", data_parallel(2)),
        System("ZeRO 3, FairScale", "arXiv:1910.02054", data_parallel(3)),
        System("Megatron-LM of 2019", "arXiv:1909.08053", (*WHOLE, "--pp=1", "--tp=2..8", "--sequence-parallel=false")),
        System("Megatron-LM of 2021", "arXiv:2104.04473", (*WHOLE, "--sequence-parallel=false", "--schedule=1f1b")),
        System("GPipe", "arXiv:1811.06965", (*WHOLE, "--dp=1", "--tp=1", "--pp=16", "--schedule=gpipe")),
        System("PipeDream-flush", "arXiv:2006.09503", (*WHOLE, "--tp=1", "--virtual-stages=1", "--schedule=1f1b")),
        System("Mesh-TensorFlow", "arXiv:1811.02084", (*WHOLE, "--pp=1", "--no-partial"), lays_out=True),
        System("GShard", "arXiv:2006.16668", (*WHOLE, "--pp=1", "--no-partial"), lays_out=True),
        System("Tofu", "arXiv:1807.08887", (*WHOLE, "--dp=2", "--pp=1", "--tp=8"), lays_out=True),
        System("FlexFlow", "arXiv:1807.05358", (*WHOLE, "--pp=1"), lays_out=True),
    ]),
    "AlexNet": (ALEXNET, [
        System("Boxcar", "", (), lays_out=True),
        System("Horovod", "arXiv:1802.05799", data_parallel(0, "--grad-bucket-mb=64")),
        System("parameter servers", "OSDI 2014", data_parallel(0, "--servers=2")),
        System("BytePS", "OSDI 2020", data_parallel(0, *BYTEPS)),
        System("OptCNN", "arXiv:1802.04924", (*WHOLE, "--pp=1"), lays_out=True),
        System("Stanza", "arXiv:1812.10624", data_parallel(0, *(f"--pin=h{n}.fc.weight=S(0)" for n in (5, 6, 7)))),
    ]),
    "Wide & Deep": (WIDE_DEEP, [
        System("Boxcar", "", (), lays_out=True),
        System("Horovod", "arXiv:1802.05799", data_parallel(0, "--grad-bucket-mb=64")),
        System("HugeCTR", "arXiv:2210.08803", data_parallel(0, "--pin=wide.weight=S(0)", "--pin=deep.weight=S(0)")),
    ]),
}


def best(arguments):
    """Quantities of the best plan, or the reason why there is none."""
    document = ask("search", *arguments, "--json").document
    if not document["fits"]:
        return None, document.get("why", "does not fit")
    plan = document["best"]
    return {"ms a step": 1e3 * plan["step_time_s"], "GB on a device": max(plan.get("device_memory_bytes", plan["peak_memory_bytes"])) / 1e9,
            "GB sent a step": sum(plan["comm_bytes"].values()) / 1e9, "plan found": document["flags"]}, ""


def make(folder):
    graph = folder / "systems-wide-deep.txt"
    graph.write_text(wide_deep(25_600_000, 16))
    asked = {}
    for model, (job, systems) in SYSTEMS.items():
        of_graph = (f"--graph={graph}",) if job is WIDE_DEEP else ()
        for system in systems:
            asked[f"{model}: {system.title}"] = (*of_graph, *job, *system.fixed), system.text
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda parts: best(parts[0]), asked.values()))
    rows = []
    for (name, (arguments, text)), (values, why) in zip(asked.items(), found):
        for quantity in ("ms a step", "GB on a device", "GB sent a step", "fixed", "plan found"):
            value = text if quantity == "fixed" else values and values[quantity]
            rows.append(Row(name, quantity, None, value, why, ("search", *arguments)))
    return Result(rows)


FIGURES = [
    Figure("systems", "systems that the paper compares with, as strategies: one job each, on 16 V100s", make, side_by_side=True,
           missing=("BytePS on additional machines without GPUs, its recommended use: servers share the hosts of workers here",
                    "parameter servers that workers do not wait for, with a bound on staleness: a plan is one step, and all of it ends",
                    "parameter servers with rows of tables, for Wide & Deep: tables are dense here, as for HugeCTR",
                    "PipeDream's versions of weights: a step ends with one update",
                    "DLPlacer, and FlexFlow's ops on devices of their own: only stages have devices of their own",
                    "KungFu's adaptation and Ray's restarts, as strategies: scripts/elastic trains so, and campaign --replan draws weeks of it",
                    "Stanza's devices for dense layers alone: these layers are split over all devices",
                    "HugeCTR's exchange of rows: tables are dense here, as a job's sparse_tables would bind the other systems too",
                    "Tofu over more than one node: each node has the whole model", "DALI and other loaders: they are in fig9 and fig9jpeg")),
]
