"""A family of published rows: a file of them, and a function that makes cases of a row.

  def cases(row):                       # one row of the published file, by column
      if row["suspect"]: raise LeftOut("marked suspect by its source")
      return [Case("1.7B", ["--model=gpt", ...], "step_s", 3.515, group="")]

A case is one run of the simulator and one published number to compare with. Several cases may share their flags: they
are simulated once. `group` names the cases ranked with each other: plans of one model for one batch on one machine.
"""
import csv
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "experiments" / "data"


class LeftOut(Exception):
    """A rule, in words, by which a row is not compared. Never its error."""


@dataclass(frozen=True)
class Case:
    name: str
    flags: tuple[str, ...]
    quantity: str  # a key of QUANTITIES
    published: float
    group: str = ""
    described: bool = True  # whether the cluster's preset is of this machine: otherwise its step counts for no error bar


@dataclass(frozen=True)
class Family:
    name: str
    title: str
    cases: Callable[[dict], list[Case]]  # of one row
    file: str = ""  # in experiments/data/, without its ending; the family's name if empty

    def rows(self):
        text = (DATA / f"{self.file or self.name}.csv").read_text()
        return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def gib(value):
    return value * 2**30


def allocated(document):
    """By stage: the most memory that a framework's allocator reports; for a planned arena its size."""
    return document.get("allocated_memory_bytes", document["peak_memory_bytes"])


def least(document, *kinds):
    return min(sum(stage.get(kind, 0) for kind in kinds) for stage in document["memory_breakdown_bytes"])


# Quantities compared: values of the simulator's document, if it has them. `fits` is 1 or 0.
QUANTITIES = {
    "step_s": lambda d: d.get("step_time_s"),
    "peak_bytes": lambda d: max(allocated(d)),
    "device_bytes": lambda d: max(d.get("device_memory_bytes", allocated(d))),  # as nvidia-smi has it
    "last_peak_bytes": lambda d: allocated(d)[-1],  # of the last stage
    "state_bytes": lambda d: least(d, "parameters", "gradients", "optimizer"),  # of a stage with only layers, if there is one
    "activation_bytes": lambda d: d["kept_activation_bytes"][0],  # of the first stage, for backward passes
    "fits": lambda d: float(d["fits"]),
}
