"""Layouts under which an op may run, and routes of a tensor from one to another (docs/layouts.md).

    >>> from boxcar import sbp
    >>> for rule in sbp.rules("matmul", "4x6", "6x8"):
    ...     print(rule)
    B, B -> B
    S(0), B -> S(0)
    B, S(1) -> S(1)
    S(1), S(0) -> P(sum)
    P(sum), B -> P(sum)
    B, P(sum) -> P(sum)
    >>> route = sbp.box("8x6", "S(0)", "B", devices="0-3")
    >>> [step.collective for step in route.steps], route.bytes_moved
    (['all_gather'], 576)

Layouts are text: "S(0)", "P(sum)", and "(S(0), B)" on a mesh of two dimensions, or sequences of such entries, ("S(0)", "B").
Shapes are text, "4x6", "scalar" or "8:int64", sequences of extents, or arrays, whose shapes count. These functions answer at once, in this process; `boxcar sbp` prints the same.
"""
from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from ._native import core
from ._program import _text
from ._results import frame, read

if TYPE_CHECKING:
    import pandas

Shape = Union[str, Sequence[int], Any]  # or an array: what has a shape
Layout = Union[str, Sequence[str]]
Devices = Union[str, Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A signature: the layouts of an op's operands, and those of its results."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a route (docs/boxing.md).

    collective: "all_gather", "transfer", ..., or "none" for local work of each device.
    result: the layout after it. bytes_moved: bytes between devices. latency_steps: rounds of messages.
    groups: the devices that communicate. slices: of a transfer.
    document: all that the program prints of it.
    """

    collective: str
    result: str
    bytes_moved: int
    latency_steps: int
    groups: Optional[list[list[int]]]
    slices: Optional[list[dict[str, Any]]]
    document: dict[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Route:
    """The route from one layout to another that moves the fewest bytes.

    source, target: "S(0) on 0-3". bytes_moved: bytes between devices. bytes_received: by device.
    document: all that `boxcar sbp box --json` prints, enough to execute it (docs/boxing.md).
    """

    shape: list[int]
    dtype: str
    source: str
    target: str
    steps: list[Step]
    bytes_moved: int
    bytes_received: dict[int, int]
    document: dict[str, Any] = dataclasses.field(repr=False)

    def frame(self) -> pandas.DataFrame:
        """The steps, a row each."""
        return frame(self.steps)


def ops() -> list[str]:
    """Names of all ops.

    >>> "matmul" in ops()
    True
    """
    names: list[str] = core().ops()
    return names


def _whole_numbers(values: Any) -> Optional[list[int]]:
    """A sequence of whole numbers, of numpy too; None if it is something else."""
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        return None


def _shape(shape: Shape) -> str:
    if isinstance(shape, str):
        return shape
    extents = _whole_numbers(getattr(shape, "shape", shape))
    if extents is None:
        raise TypeError(f'a shape is "4x6", a sequence of extents such as (4, 6), or an array; got {shape!r}')
    return "x".join(map(str, extents)) or "scalar"


def _shapes(shapes: tuple[Any, ...]) -> list[str]:
    """Operands one by one, or one list of them."""
    one_list = len(shapes) == 1 and isinstance(shapes[0], (list, tuple)) and shapes[0] and _whole_numbers(shapes[0]) is None
    return list(map(_shape, shapes[0] if one_list else shapes))


def _devices(devices: Devices) -> str:
    if isinstance(devices, str):
        return devices
    numbers = _whole_numbers(devices)
    if numbers is None:
        raise TypeError(f'devices are "0-3", or a sequence of whole numbers; got {devices!r}')
    return ",".join(map(str, numbers))


def _attr(value: Any) -> str:
    return f"[{_text(value)}]" if isinstance(value, (list, tuple)) else _text(value)


def _layout(layout: Layout) -> str:
    if isinstance(layout, str):
        return layout
    if not isinstance(layout, (list, tuple)) or not layout or not all(isinstance(entry, str) for entry in layout):
        raise TypeError(f'a layout is "S(0)", or a sequence of one entry for each dimension such as ("S(0)", "B"); got {layout!r}')
    return str(layout[0]) if len(layout) == 1 else f"({', '.join(layout)})"


def _rule(document: Mapping[str, Any]) -> Rule:
    return Rule(tuple(map(_layout, document["inputs"])), tuple(map(_layout, document["outputs"])))


def rules(op: str, *shapes: Shape, devices: Shape = "2", dtype: str = "", **attrs: Any) -> list[Rule]:
    """The layouts under which an op may run on a mesh of devices, "4" or "2x2".

    shapes: of the operands, one by one or as one list. dtype: of those that are floating point. attrs: the op's attributes, transpose_b=True.
    Raises BadInput if the op does not take them.

    >>> len(rules("matmul", (4, 6), (8, 6), devices=(2, 2), transpose_b=True))
    34
    >>> rules("matmul", ["4x6", "6x8"]) == rules("matmul", (4, 6), (6, 8))
    True
    """
    words = [f"{name}={_attr(value)}" for name, value in attrs.items()]
    return [_rule(row) for row in json.loads(core().rules(op, _shapes(shapes), _shape(devices), words, dtype))["rules"]]


def box(shape: Shape, source: Layout, target: Layout, *, devices: Devices, to_devices: Devices = "", mesh: Shape = "",
        to_mesh: Shape = "", dtype: str = "float32") -> Route:
    """The route of a tensor from layout `source` on `devices` to layout `target` on `to_devices`, the same if not given.

    devices: "0-3", "0,2,5" or a sequence. mesh, to_mesh: "2x2", if a layout has several entries; as square as possible if
    not given.

    >>> box((8, 6), "S(0)", "S(1)", devices=range(4), to_devices=[4, 5]).bytes_received[4]
    96
    """
    ends = ([_layout(source), _devices(devices), _shape(mesh) if mesh else ""],
            [_layout(target), _devices(to_devices), _shape(to_mesh) if to_mesh else ""])
    document = json.loads(core().route(_shape(shape), dtype, *ends))
    received = {int(device): size for device, size in document["bytes_received_per_device"].items()}
    return read(Route, document, source=document["from"], target=document["to"], bytes_received=received, document=document,
                steps=[read(Step, step, document=step) for step in document["steps"]])
