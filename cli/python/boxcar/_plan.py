"""Plans: what every device does in a step, as ir/plan.h has it."""
from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from ._errors import BadInput
from ._native import core
from ._program import Path
from ._results import frame, read

if TYPE_CHECKING:
    import pandas

    from ._results import Explanation, Simulation


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of an actor.

    register: its name. repeat: acts that one slot serves. program: of a pull, the program that has the register.
    peers: of a pull, from which device each device pulls. view: the shape in which the op reads it, if another.
    """

    register: str
    repeat: int
    program: Optional[str]
    peers: Optional[str]
    view: Optional[list[int]]


@dataclasses.dataclass(frozen=True)
class Actor:
    """A kernel, collective, pull or copy, which acts once in each run of its phase.

    op: an op's name for kernels, otherwise "all_reduce", "pull", ... attrs: its attributes.
    inputs; outputs: names of registers. queue, phase: by name. layer: of the model, None: none or several.
    moves: of a collective or pull, the tensor. comm, joint: of a collective, its groups, and what acts together.
    comm_bytes: the larger of a rank's input and output. workspace_bytes: scratch while it acts.
    """

    name: str
    kind: str
    op: str
    attrs: dict[str, Any]
    inputs: list[Input]
    outputs: list[str]
    queue: str
    phase: str
    layer: Optional[int]
    moves: Optional[str]
    comm: Optional[str]
    joint: Optional[str]
    comm_bytes: int
    workspace_bytes: int


@dataclasses.dataclass(frozen=True)
class Register:
    """A container of `count` slots for one local tensor.

    bytes: of one slot; 0: only control. initial: slots that are readable before the first step.
    every: acts of the producer that fill a slot. producer: an actor's name. memory: the kind, "activations".
    offset: of slot 0 in the device's memory, in bytes.
    """

    name: str
    dtype: str
    shape: list[int]
    bytes: int
    count: int
    initial: int
    every: int
    producer: Optional[str]
    memory: str
    offset: Optional[int]


@dataclasses.dataclass(frozen=True)
class Queue:
    """A queue of a device, which runs one act at a time. ordered: in the plan's order, otherwise whichever is ready."""

    name: str
    kind: str
    ordered: bool


@dataclasses.dataclass(frozen=True)
class Program:
    """The work of each device of a pipeline stage.

    devices: those that run it. schedule: of a step, phases with their micro-batch.
    arena_bytes: of one device, if all registers keep their places for the whole
    step; a framework's allocator may hold less. workspace_bytes: of it, for
    kernels.
    """

    name: str
    devices: list[int]
    phases: list[str]
    schedule: list[tuple[str, int]]
    queues: list[Queue]
    registers: list[Register]
    actors: list[Actor]
    arena_bytes: int
    workspace_bytes: int

    def __repr__(self) -> str:
        return (f"<Program {self.name} on {len(self.devices)} devices: {len(self.actors)} actors, "
                f"{len(self.registers)} registers, {len(self.queues)} queues>")

    def actor(self, name: str) -> Actor:
        """The actor of this name. Raises KeyError."""
        return {actor.name: actor for actor in self.actors}[name]

    def register(self, name: str) -> Register:
        """The register of this name. Raises KeyError."""
        return {register.name: register for register in self.registers}[name]

    def frame(self) -> pandas.DataFrame:
        """The actors, a row each."""
        return frame(self.actors)


def _actor(document: Mapping[str, Any]) -> Actor:
    return read(Actor, document, inputs=[read(Input, one) for one in document["inputs"]])


def _program(document: Mapping[str, Any], classes: list[dict[str, Any]]) -> Program:
    devices = sorted(device for one in classes if one["program"] == document["name"] for device in one["devices"])
    return read(Program, document, devices=devices, schedule=[(phase, micro_batch) for phase, micro_batch in document["schedule"]],
                queues=[read(Queue, one) for one in document["queues"]],
                registers=[read(Register, one) for one in document["registers"]],
                actors=[_actor(one) for one in document["actors"]])


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan: its text, which `boxcar train --plan` and every other command takes, and its contents.

    >>> import boxcar
    >>> plan = boxcar.plan(model="gpt2", layers=2, cluster="dgx-a100-80g", gpus=4, pp=2, global_batch=8)
    >>> [program.name for program in plan.programs], plan.devices, plan.micro_batches
    (['stage0', 'stage1'], 4, 4)
    >>> attention = plan.programs[0].actor("h0.attn.qkv")
    >>> attention.op, attention.queue, attention.phase
    ('matmul', 'compute', 'F0')
    >>> sum(register.bytes * register.count for register in plan.programs[0].registers if register.memory == "optimizer") > 0
    True

    Reading the parts needs boxcar._core (docs/python.md), saving and simulating do not. descriptions: by the name that the
    text has of it, a cluster, device or framework that was given as a dict. A file of the plan does not keep them: give the
    cluster again, plan.simulate(cluster=mine).
    """

    text: str = dataclasses.field(repr=False)
    descriptions: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Reads a file that `save`, `boxcar search -o` or `boxcar simulate --save-plan` wrote. BadInput: it is none."""
        try:
            text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            raise BadInput(f"{path}: cannot be read; check the path") from None
        if not text.startswith("plan "):
            raise BadInput(f'{path}: is no plan; `boxcar search -o` and `boxcar simulate --save-plan` write plans')
        return cls(text)

    def __repr__(self) -> str:
        head = [line.split(maxsplit=1) for line in self.text.splitlines()[:2]]
        name, devices = (words[1] if len(words) == 2 else "?" for words in (head + [[], []])[:2])
        labels = re.findall(r"^label parallel\.(dp|tp|pp|cp|ep) = (\d+)$", self.text, re.MULTILINE)
        degrees = ", ".join(f"{key} {degree}" for key, degree in labels if degree != "1")
        return f"<Plan {name} on {devices} devices{': ' + degrees if degrees else ''}>"

    def save(self, path: Path) -> None:
        pathlib.Path(path).write_text(self.text, encoding="utf-8")

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The plan as a dict. Raises BadInput with line and column if the text is no plan."""
        document: dict[str, Any] = json.loads(core().plan(self.text))
        return document

    @functools.cached_property
    def programs(self) -> list[Program]:
        """A program for each pipeline stage: its queues, registers and actors."""
        return [_program(one, self.document["classes"]) for one in self.document["programs"]]

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def devices(self) -> int:
        """The number of devices."""
        return int(self.document["devices"])

    @property
    def micro_batches(self) -> int:
        return int(self.document["micro_batches"])

    @property
    def comms(self) -> dict[str, list[list[int]]]:
        """Groups of devices that communicate, by name."""
        return {one["name"]: one["groups"] for one in self.document["comms"]}

    @property
    def facts(self) -> dict[str, float]:
        """Facts of a step: samples, tokens, model_flops, ..."""
        return dict(self.document["facts"])

    @property
    def labels(self) -> dict[str, str]:
        """The configuration that it was compiled from, "parallel.tp" -> "8"."""
        return dict(self.document["labels"])

    @property
    def size(self) -> dict[str, int]:
        """Numbers of actors, registers, queues, groups and acts_per_step over all devices."""
        return dict(self.document["size"])

    def frame(self) -> pandas.DataFrame:
        """The actors of all programs, a row each, with their program."""
        return frame({"program": program.name, **vars(actor)} for program in self.programs for actor in program.actors)

    def simulate(self, **options: Any) -> Simulation:
        """The same as `boxcar.simulate(plan=...)`."""
        from ._calls import simulate
        return simulate(plan=self, **options)

    def explain(self) -> Explanation:
        """The same as `boxcar.explain(plan)`."""
        from ._calls import explain
        return explain(self)
