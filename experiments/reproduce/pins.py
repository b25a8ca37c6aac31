"""All of our values, pinned: experiments/reproduce/pins.json, so that a change of the program shows as a diff.

By figure, then by row and quantity: four significant digits, a text, or the reason why there is no number. Values measured on this machine are
left out.
"""
import json
import pathlib

PINS = pathlib.Path(__file__).resolve().parent / "pins.json"


def value(row):
    return row.why_not.splitlines()[0][:120] if row.ours is None else row.ours if isinstance(row.ours, str) else float(f"{row.ours:.4g}")


def values(rows):
    found = {}
    for row in rows:
        key, times = f"{row.name}, {row.quantity}", 1
        while key in found:  # published twice
            times += 1
            key = f"{row.name}, {row.quantity}, {times}"
        found[key] = value(row)
    return found


def read():
    return json.loads(PINS.read_text()) if PINS.exists() else {}


def pin(rows_by_figure):
    pinned = read() | {name: values(rows) for name, rows in rows_by_figure.items()}
    PINS.write_text(json.dumps(pinned, indent=1) + "\n")


def differences(name, rows):
    """Values that differ from the pinned ones, as a diff."""
    pinned, now = read().get(name, {}), values(rows)
    found = []
    for key in dict.fromkeys([*pinned, *now]):
        if pinned.get(key) != now.get(key):
            found += [f"- {name}: {key}: {pinned[key]}"] if key in pinned else []
            found += [f"+ {name}: {key}: {now[key]}"] if key in now else []
    return found
