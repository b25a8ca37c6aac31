"""Runs build/boxcar, or the program that BOXCAR names: one small process a case, one on each processor at a time."""
import json
import os
import pathlib
import subprocess
from concurrent.futures import ThreadPoolExecutor

from .family import ROOT

BOXCAR = pathlib.Path(os.environ.get("BOXCAR", ROOT / "build" / "boxcar"))


def simulate(flags):
    """The document of `boxcar simulate --json`; {"error": text} if it printed none."""
    done = subprocess.run([BOXCAR, "simulate", "--json", *flags], capture_output=True, text=True)
    if done.stdout.startswith("{"):
        return json.loads(done.stdout)
    return {"error": done.stderr.strip()}


def simulate_all(all_flags):
    """Documents by flags, each simulated once."""
    distinct = list(dict.fromkeys(all_flags))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(distinct, pool.map(simulate, distinct)))
