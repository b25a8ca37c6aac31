"""Every prediction, pinned: experiments/predictions/FAMILY.csv, so that a change of a model shows as a diff.

A line is row,quantity,simulated with four significant digits, or the reason why there is no number. Rows are in the order of the
published file.
"""
import csv
import io

from .family import ROOT

FOLDER = ROOT / "experiments" / "predictions"


def cell(result):
    return result.why_not.replace("\n", " ")[:120] if result.simulated is None else f"{result.simulated:.4g}"


def lines(comparison):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "quantity", "simulated"])
    writer.writerows([r.case.name, r.case.quantity, cell(r)] for r in comparison.results)
    return out.getvalue().splitlines()


def pin(comparison):
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{comparison.family.name}.csv").write_text("\n".join(lines(comparison)) + "\n")


def key(line):
    return tuple(next(csv.reader([line]))[:2])


def differences(comparison, whole=True):
    """Predictions that differ from the pinned ones, as a diff. If the `whole` family was not simulated, pinned lines of other rows
    are ignored."""
    path = FOLDER / f"{comparison.family.name}.csv"
    pinned = path.read_text().splitlines()[1:] if path.exists() else []
    now = lines(comparison)[1:]
    known, keys = set(pinned), {key(line) for line in now}
    found = []
    for line in now:
        if line not in known:
            found += [f"- {old}" for old in pinned if key(old) == key(line)] + [f"+ {line}"]
    if whole:
        found += [f"- {old}" for old in pinned if key(old) not in keys]
    return found
