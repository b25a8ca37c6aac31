"""The tables of docs/reproduction.md, written by `experiments/paper --pin` from a run of all figures."""
import datetime
import re
import subprocess

from fidelity.family import ROOT
from fidelity.report import table

from .program import ask
from .report import side_by_side

PAGE = ROOT / "docs" / "reproduction.md"


def version():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return ask("--version").text.strip() + (f", commit {done.stdout.strip()}" if done.returncode == 0 else "")


def tolerance_text(figure, rows):
    quantities = dict.fromkeys(r.quantity for r in rows if r.compared)
    return ", ".join(f"{q} {figure.tolerance[q]:g} %" if q in figure.tolerance else f"{q} equal" for q in quantities)


def results(figures, rows, summaries):
    lines = [[f.name, f.title, tolerance_text(f, rows[f.name]), f"{said}: {numbers}" if numbers else said, why]
             for f, (_, said, numbers, why) in zip(figures, summaries)]
    return table(["figure", "what", "tolerance", "last full run", "why outside"], lines)


def not_there(figures, others):
    lines = [[f.name, part] for f in figures for part in f.missing] + [[name, why] for name, why in others.items()]
    return table(["figure", "not there, and why"], lines)


def write(figures, rows, summaries, others):
    blocks = {"run": f"The last full run was on {datetime.date.today()}, of {version()}.", "results": results(figures, rows, summaries),
              "missing": not_there(figures, others)}
    for figure in figures:
        if figure.side_by_side:
            titles, *lines = side_by_side(rows[figure.name])
            blocks[figure.name] = table(titles, lines)
    text = PAGE.read_text()
    for name, block in blocks.items():
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, block=block: f"{m[1]}{block}\n{m[2]}", text, flags=re.S)
    PAGE.write_text(text)
