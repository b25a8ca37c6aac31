"""Tables for people, one document for programs, and the line that summarises a figure."""
import os

from .figure import verdicts
from .program import command_text

HEADER = ["", "quantity", "paper", "ours", "difference"]


def value_text(value):
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def difference_text(row):
    if not row.compared:
        return ""
    if row.difference is None:
        return "differs"
    return f"{row.difference:+.1f} %" if row.difference else "same"


def aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def table(rows):
    """If there is no number, a note under the table says why."""
    notes = list(dict.fromkeys(r.why_not for r in rows if r.ours is None and r.why_not))
    ours = [value_text(r.ours) + (f" ({notes.index(r.why_not) + 1})" if r.ours is None and r.why_not else "") for r in rows]
    lines = [[r.name, r.quantity, value_text(r.published), mine, difference_text(r)] for r, mine in zip(rows, ours)]
    return "\n".join([aligned([HEADER] + lines), *(f"({i + 1}) {note}" for i, note in enumerate(notes))])


def side_by_side(rows):
    """Cells: a line for each name, a column for each quantity, and a line of their titles."""
    quantities = list(dict.fromkeys(r.quantity for r in rows))
    values = {(r.name, r.quantity): r.why_not if r.ours is None else value_text(r.ours) for r in rows}
    names = dict.fromkeys(r.name for r in rows)
    return [["", *quantities], *([name, *(values[name, quantity] for quantity in quantities)] for name in names)]


def summary(figure, rows):
    """Cells: name, verdict, figures, why."""
    found = verdicts(figure, rows)
    outside = [v for v in found if not v.within]
    without = sum(r.published is not None and r.ours is None for r in rows)
    said = "nothing to compare" if not found else "out of tolerance" if outside else "in tolerance"
    numbers = [f"{v.quantity}: {v.text}" for v in found] + ([f"{without} published values without ours"] if without else [])
    why = "; ".join(figure.reasons.get(v.quantity, "no reason known") for v in outside)
    return [figure.name, said + (", in part" if found and without else ""), ", ".join(numbers), why]


def summary_lines(summaries):
    return aligned([[name, said, "; ".join(cell for cell in rest if cell)] for name, said, *rest in summaries])


def text(figure, result, files):
    rows = result.rows
    values = aligned(side_by_side(rows)) if figure.side_by_side else table(rows)
    lines = [f"{figure.name}: {figure.title}", "", values, "", *result.notes]
    lines += [f"not there: {part}" for part in figure.missing]
    commands = [command_text(r.command) for r in rows if r.command]
    if commands:
        lines.append(f"for example: {commands[0]}")
    lines += [f"written: {os.path.relpath(path)}" for path in files]
    return "\n".join([*lines, summary_lines([summary(figure, rows)])])


def document(figure, result):
    rows = result.rows
    return {"schema_version": 1, "figure": figure.name, "title": figure.title, "tolerance_percent": figure.tolerance,
            "verdicts": [{"quantity": v.quantity, "within": v.within, "text": v.text} for v in verdicts(figure, rows)],
            "missing": list(figure.missing), "notes": list(result.notes),
            "rows": [{"name": r.name, "quantity": r.quantity, "published": r.published, "ours": r.ours, "difference_percent":
                      None if isinstance(r.published, str) else r.difference} | ({"why_not": r.why_not} if r.why_not else {})
                     | ({"command": command_text(r.command)} if r.command else {}) for r in rows]}
