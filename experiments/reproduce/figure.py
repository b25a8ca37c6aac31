"""A table or figure of the paper: rows of published values and ours, a picture of them, and the allowed differences.

  Row("OneFlow fp32 b128 on 8", "samples/s", 3130.34, 3006.0)       # numbers: the difference is in percent
  Row("S(0), B", "layout of the product", "S(0)", "S(0)")           # texts: equal or not
  Row("MXNet fp32 b128 on 8", "samples/s", 2556.03, None, "no framework file of that name")
  Row("2 registers", "acts/s", None, 0.5)                           # the paper has no number: only ours

Published values are in experiments/paper_data/ and experiments/data/; ours are the program's present answers.
"""
import csv
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field

from fidelity.compare import mean
from fidelity.family import ROOT

DATA = ROOT / "experiments" / "paper_data" / "oneflow.csv"


@dataclass(frozen=True)
class Row:
    name: str
    quantity: str  # with its unit
    published: float | str | None
    ours: float | str | None
    why_not: str = ""  # if ours is None
    command: tuple[str, ...] = ()  # arguments of boxcar that gave ours
    panel: str = ""  # the place in the picture: panel, place on its axis, and series
    x: str = ""
    series: str = ""

    @property
    def compared(self):
        return self.published is not None and self.ours is not None

    @property
    def difference(self):
        """Percent by which ours exceeds the published value; for texts 0 or None."""
        if not self.compared:
            return None
        if isinstance(self.published, str):
            return 0.0 if self.published == self.ours else None
        return 100 * (self.ours / self.published - 1) if self.published else (0.0 if self.ours == 0 else None)


@dataclass
class Result:
    rows: list[Row]
    draw: Callable | None = None  # of a matplotlib figure; None: there is nothing to see
    notes: tuple[str, ...] = ()  # the program's other messages


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    make: Callable[[pathlib.Path], Result]  # into a folder for plans and traces
    tolerance: dict[str, float] = field(default_factory=dict)  # percent, by quantity: of the mean of the absolute differences. Others are equal
    reasons: dict[str, str] = field(default_factory=dict)  # by quantity: why it is out of its tolerance
    missing: tuple[str, ...] = ()  # parts of the published figure that are missing, and why
    measured: bool = False  # on this machine, so it differs in every run and is not pinned
    quick: bool = False  # takes a second or two
    side_by_side: bool = False  # nothing is published: the table has a column for each quantity


@dataclass(frozen=True)
class Verdict:
    quantity: str
    within: bool
    text: str


def same(rows):
    equal = sum(r.difference is not None and abs(r.difference) < 1e-6 for r in rows)
    return equal == len(rows), f"{equal} of {len(rows)} equal"


def verdicts(figure, rows):
    """Figures of each quantity that can be compared."""
    found = []
    for quantity in dict.fromkeys(r.quantity for r in rows if r.compared):
        compared = [r for r in rows if r.quantity == quantity and r.compared]
        if quantity in figure.tolerance:
            error = mean([abs(r.difference) for r in compared])
            limit = figure.tolerance[quantity]
            found.append(Verdict(quantity, error <= limit, f"{error:.1f} % of {limit:g} % over {len(compared)}"))
        else:
            found.append(Verdict(quantity, *same(compared)))
    return found


def published(name):
    """The paper's values of a figure, by their subjects, in its order."""
    lines = DATA.read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {row["what"]: row["value"] for row in rows if row["figure"] == name}
