"""Results as dataclasses. Times are in seconds, sizes in bytes, rates per second, shares from 0 to 1."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar

if TYPE_CHECKING:
    import pathlib

    import pandas

    from ._plan import Plan

T = TypeVar("T")


def read(cls: type[T], document: Mapping[str, Any], /, **made: Any) -> T:
    """A dataclass from the keys of a document. Fields that it lacks are None; those in `made` are given."""
    fields = dataclasses.fields(cls)
    return cls(**{field.name: made.get(field.name, document.get(field.name)) for field in fields})


def frame(rows: Iterable[Any]) -> pandas.DataFrame:
    """Dataclasses or dicts as a pandas DataFrame, a row each: `boxcar.frame(boxcar.sbp.rules("matmul", "4x6", "6x8"))`."""
    try:
        import pandas  # only here: a frame is all that needs it
    except ImportError as error:
        raise ImportError("frames need pandas (Debian: python3-pandas; pip install pandas)") from error
    return pandas.DataFrame([dict(row) if isinstance(row, Mapping) else _flat(row) for row in rows])


def _flat(row: Any) -> dict[str, Any]:
    """The fields of a dataclass, those of its `keys` and of dataclasses in it as fields of their own."""
    cells: dict[str, Any] = {}
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if field.name == "keys":
            cells.update(value)
        elif dataclasses.is_dataclass(value):
            cells.update({f"{field.name}_{name}": one for name, one in _flat(value).items()})
        elif field.name != "document":
            cells[field.name] = value
    return cells


@dataclasses.dataclass(frozen=True)
class Bound:
    """Where a step's time goes, on the stage whose kernels take longest. The three shares sum to 1.

    stage: its name.
    kernels, exposed_communication, waiting: shares of the step; waiting is for other stages and for the host.
    """

    stage: str
    kernels: float
    exposed_communication: float
    waiting: float

    @property
    def largest(self) -> str:
        """The name of the largest share."""
        return max(("kernels", "exposed_communication", "waiting"), key=lambda name: float(getattr(self, name)))


def read_bound(document: Mapping[str, Any]) -> Optional[Bound]:
    return read(Bound, document["bound_by"]) if document.get("bound_by") else None


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A simulated step. Lists have an element for each pipeline stage.

    fits: whether every stage fits.
    step_time_s: seconds from one optimizer step's end to the next.
    step_time_range_s: seconds, between which nine of ten published steps lie.
    first_step_time_s: seconds of the first step, which fills the pipeline.
    tokens_per_s, samples_per_s: of the global batch.
    mfu: share of the devices' peak.
    model_tflops_per_gpu, hardware_tflops_per_gpu: 10^12 FLOP/s, without and with recomputation.
    bubble_fraction: idle share of the compute queues' time, mean over stages.
    exposed_comm_s: seconds of a step in which kernels wait for communication, on the worst stage.
    bound_by: where the time goes.
    comm_bytes: bytes sent in a step over all devices, by collective.
    peak_memory_bytes, memory_limit_bytes: bytes on one device.
    memory_breakdown_bytes: bytes at the peak, by kind.
    configuration: every key as it was resolved, "parallel.tp" -> "8".
    document: all that the program printed (docs/output.md).
    """

    fits: bool
    step_time_s: float
    step_time_range_s: tuple[float, float]
    first_step_time_s: float
    tokens_per_s: float
    samples_per_s: float
    mfu: float
    model_tflops_per_gpu: float
    hardware_tflops_per_gpu: float
    bubble_fraction: float
    exposed_comm_s: float
    bound_by: Bound
    comm_bytes: dict[str, float]
    peak_memory_bytes: list[int]
    memory_limit_bytes: list[int]
    memory_breakdown_bytes: list[dict[str, int]]
    configuration: dict[str, str]
    document: dict[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Simulation:
        return read(cls, document, bound_by=read_bound(document), document=document,
                    step_time_range_s=tuple(document["step_time_range_s"]))

    def frame(self) -> pandas.DataFrame:
        """Memory in bytes: a row for each stage, a column for each kind, the peak and the limit."""
        stages = zip(self.memory_breakdown_bytes, self.peak_memory_bytes, self.memory_limit_bytes)
        return frame({**kinds, "peak": peak, "limit": limit} for kinds, peak, limit in stages)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A plan that a search simulated.

    step_time_s: seconds; estimated_step_time_s: by the search's formula, None if it has none.
    peak_memory_bytes: bytes on the fullest device.
    layouts: "hints" (they follow from the degrees) or "found" (op by op).
    keys: the keys that make it, {"dp": 4, "tp": 8, ...}.
    """

    keys: dict[str, Any]
    step_time_s: float
    estimated_step_time_s: Optional[float]
    peak_memory_bytes: int
    layouts: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Candidate:
        results = {field.name for field in dataclasses.fields(cls)}
        return read(cls, document, keys={name: value for name, value in document.items() if name not in results})


@dataclasses.dataclass(frozen=True)
class Search:
    """The best plan that a search found.

    flags: its flags, "--dp 4 --tp 8 ...".
    best: it simulated; plan: the plan.
    candidates: the plans that were simulated, best first.
    pareto: of a search with pareto="time,memory": the plans that no other one beats in all of these.
    document: all that the program printed.
    """

    flags: str
    best: Simulation
    plan: Plan
    candidates: list[Candidate]
    pareto: list[Candidate]
    document: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def step_time_s(self) -> float:
        """Seconds of a step of the best plan."""
        return self.best.step_time_s

    def frame(self) -> pandas.DataFrame:
        """The candidates, a row each."""
        return frame(self.candidates)


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a whole run. A number is None without the conditions that it needs.

    step_time_s: seconds of a step; time_s, days: of the run; lost_s: seconds of it in checkpoints, restarts and repeated steps.
    gpu_hours: GPUs times hours; dollars; energy_mwh: megawatt hours.
    goodput: share of the time that is steps; failures: expected number.
    checkpoint_interval_s, checkpoint_interval_steps: the best interval, in seconds and in steps.
    """

    step_time_s: float
    time_s: float
    days: float
    gpu_hours: float
    dollars: Optional[float]
    energy_mwh: Optional[float]
    lost_s: Optional[float]
    goodput: Optional[float]
    failures: Optional[float]
    checkpoint_interval_s: Optional[float]
    checkpoint_interval_steps: Optional[float]


@dataclasses.dataclass(frozen=True)
class CampaignRow:
    """A job of a campaign.

    job, gpus: its name, its devices. fits: whether it can run; otherwise `why` says why not, and costs are None.
    fastest, cheapest: whether it is within 1 % of the least.
    flags: with search=True, what was found.
    estimate, low, high: the cost, and the ends of its range by the error of simulated steps.
    document: all that the program printed of it.
    """

    job: str
    gpus: int
    fits: bool
    why: Optional[str]
    fastest: bool
    cheapest: bool
    flags: Optional[str]
    estimate: Optional[Cost]
    low: Optional[Cost]
    high: Optional[Cost]
    document: dict[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, document: dict[str, Any]) -> CampaignRow:
        costs = {name: read(Cost, document[name]) for name in ("estimate", "low", "high") if name in document}
        return read(cls, document, document=document, **costs)


@dataclasses.dataclass(frozen=True)
class Campaign:
    """The cost of whole training runs: a row for each job. document: all that the program printed."""

    rows: list[CampaignRow]
    document: dict[str, Any] = dataclasses.field(repr=False)

    def frame(self) -> pandas.DataFrame:
        """The rows, with the estimate and its low and high end in columns."""
        return frame(self.rows)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of other keys, compared with the plan that they change.

    flags: the other keys. chosen: layers to recompute in place of the plan's, as flags, if its own do not suffice.
    fits: whether that plan can run; otherwise `why` says why not. gpus: that it runs on.
    step_time_s: seconds; slower: by which share, negative if it is faster; tokens_per_s; bound_by: where its time goes.
    peak_memory_bytes: bytes on the fullest device; more_memory_bytes: by how many it is more.
    """

    flags: str
    fits: bool
    why: Optional[str]
    gpus: Optional[int]
    step_time_s: Optional[float]
    slower: Optional[float]
    tokens_per_s: Optional[float]
    bound_by: Optional[Bound]
    peak_memory_bytes: Optional[int]
    more_memory_bytes: Optional[int]
    chosen: Optional[str] = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Outcome:
        return read(cls, document, bound_by=read_bound(document))


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference of two plans. a, b: the flags of each. outcome: plan A with only this difference."""

    a: str
    b: str
    outcome: Outcome


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two simulated plans, and the cost of each difference between them."""

    a: Simulation
    b: Simulation
    differences: list[Difference]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Comparison:
        rows = [Difference(row["a"], row["b"], Outcome.of({"flags": row["b"], **row})) for row in document["differences"]]
        return cls(Simulation.of(document["a"]), Simulation.of(document["b"]), rows)

    def frame(self) -> pandas.DataFrame:
        """The differences, a row each."""
        return frame(self.differences)


@dataclasses.dataclass(frozen=True)
class StageExplanation:
    """A pipeline stage.

    gpus: its devices. layers, mesh, in_flight: its layers, the mesh of its devices, its micro-batches in flight.
    parameter_layouts, activation_layouts: share of bytes by layout.
    busy_s: seconds of kernels in a step; bubble_fraction: idle share; exposed_comm_s: seconds that kernels wait.
    peak_memory_bytes: bytes on one device; memory_bytes: by kind.
    """

    name: str
    gpus: int
    layers: str
    mesh: str
    parameter_layouts: dict[str, float]
    activation_layouts: dict[str, float]
    in_flight: int
    busy_s: float
    bubble_fraction: float
    exposed_comm_s: float
    peak_memory_bytes: int
    memory_bytes: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Communication:
    """Communication of one device of a stage in a step.

    over: the group. why: the makers and readers of the tensor. s: seconds, hidden or not. bytes, acts: of a step.
    """

    name: str
    stage: str
    over: str
    why: str
    s: float
    bytes: float
    acts: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Why a plan is as it is. communications: those that take the most time. runners_up: of the search that found it."""

    simulation: Simulation
    stages: list[StageExplanation]
    communications: list[Communication]
    runners_up: list[str]

    @classmethod
    def of(cls, document: dict[str, Any]) -> Explanation:
        return cls(Simulation.of(document), [read(StageExplanation, one) for one in document["stages"]],
                   [read(Communication, one) for one in document["communications"]], document["runners_up"])

    def frame(self) -> pandas.DataFrame:
        """The stages, a row each."""
        return frame(self.stages)


@dataclasses.dataclass(frozen=True)
class SignatureCost:
    """A signature that an op could have on a dimension of the mesh.

    kernel_s, boxing_s: seconds of one act. moved: the tensors that would be boxed, with "from", "to" and seconds "s".
    step_growth_s: seconds by which a step would grow; None if no layouts of the other ops go with it.
    """

    dimension: str
    signature: str
    chosen: bool
    kernel_s: float
    boxing_s: float
    step_growth_s: Optional[float]
    moved: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class OpExplanation:
    """Why an op is laid out as it is.

    decided, would_change: by dimension, what decided against the next signature, and what would let it win.
    """

    op: str
    signatures: list[SignatureCost]
    decided: dict[str, str]
    would_change: dict[str, list[str]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> OpExplanation:
        dimensions = document["dimensions"]
        return cls(document["op"],
                   [read(SignatureCost, row, dimension=one["name"]) for one in dimensions for row in one["signatures"]],
                   {one["name"]: one["decided"] for one in dimensions},
                   {one["name"]: one["would_change"] for one in dimensions})

    def frame(self) -> pandas.DataFrame:
        """The signatures, a row each."""
        return frame(self.signatures)


@dataclasses.dataclass(frozen=True)
class TensorBlock:
    """A block of a tensor: [begin, end] on each axis, and the devices that hold it."""

    block: list[list[int]]
    devices: list[int]


@dataclasses.dataclass(frozen=True)
class TensorExplanation:
    """Where a tensor lies. type: "float32[256, 768]". stage: the index of its stage. layout: by dimension of the mesh."""

    name: str
    type: str
    stage: int
    devices: list[int]
    layout: list[str]
    blocks: list[TensorBlock]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> TensorExplanation:
        return read(cls, document, blocks=[read(TensorBlock, one) for one in document["blocks"]])

    def frame(self) -> pandas.DataFrame:
        """The blocks, a row each."""
        return frame(self.blocks)


@dataclasses.dataclass(frozen=True)
class Run:
    """A point of a sweep. Without a step, numbers are None and `why_not` says why.

    keys: the keys that have several values in the sweep.
    fits: None if the job was refused. step_time_s: seconds. tokens_per_s. mfu: share of the peak.
    peak_memory_bytes: bytes on the fullest device. bound_by: the largest share of the step.
    """

    keys: dict[str, Any]
    fits: Optional[bool]
    step_time_s: Optional[float]
    tokens_per_s: Optional[float]
    mfu: Optional[float]
    peak_memory_bytes: Optional[int]
    bound_by: Optional[str]
    why_not: Optional[str]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Run:
        results = {field.name for field in dataclasses.fields(cls)}
        return read(cls, row, keys={name: value for name, value in row.items() if name not in results})


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, by point. file: where they are kept, for `table`; None if no file was named."""

    runs: list[Run]
    file: Optional[pathlib.Path]

    def frame(self) -> pandas.DataFrame:
        """The runs, a row each, their keys in columns."""
        return frame(self.runs)


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of a file of runs, each a value by column. `boxcar table FILE --list` says what the columns mean."""

    columns: list[str]
    rows: list[dict[str, Any]]

    def frame(self) -> pandas.DataFrame:
        """The same."""
        return frame(self.rows)


@dataclasses.dataclass(frozen=True)
class Export:
    """A plan for another framework. text: the file to write. unsaid: what it has no words for or leaves to you."""

    text: str = dataclasses.field(repr=False)
    unsaid: list[str]
