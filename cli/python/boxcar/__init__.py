"""Boxcar from Python: plan, simulate, search and explain training jobs (docs/python.md).

    >>> import boxcar
    >>> step = boxcar.simulate(model="llama3-8b", cluster="dgx-h100", gpus=64, tp=8, global_batch=128, preset="modern")
    >>> low, high = step.step_time_range_s
    >>> step.fits, low < step.step_time_s < high
    (True, True)
    >>> slow = boxcar.simulate(model="llama3-8b", cluster="dgx-h100", gpus=64, tp=8, global_batch=128, preset="modern",
    ...                        what_if="bandwidth.link=0.5x")
    >>> slow.step_time_s > step.step_time_s
    True

A job is a dict with the sections of a job file, the path of one, or keywords with the names of flags; keywords come over
the dict or the file. A model, a cluster, a device or a framework may be a dict in place of a name.

Results are dataclasses. Times are in seconds, sizes in bytes, rates per second, shares from 0 to 1. Each call runs the
program `boxcar` in a process of its own: calls from several threads run beside each other, and Ctrl-C ends them. Layouts
(`boxcar.sbp`) and the parts of plans are read in this process. Errors have the program's text.
"""
from . import sbp
from ._calls import (campaign, clusters, diff, explain, explain_op, explain_tensor, export, models, plan, report, search,
                     simulate, sweep, table, why_not)
from ._errors import BadInput, BoxcarError, CannotRun, Fault
from ._plan import Actor, Input, Plan, Program, Queue, Register
from ._program import program
from ._program import version as _version
from ._results import (Bound, Campaign, CampaignRow, Candidate, Communication, Comparison, Cost, Difference, Explanation, Export,
                       OpExplanation, Outcome, Run, Search, SignatureCost, Simulation, StageExplanation, Sweep, Table, TensorBlock,
                       TensorExplanation, frame)

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":  # asked of the program when it is needed
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Actor", "BadInput", "Bound", "BoxcarError", "Campaign", "CampaignRow", "Candidate", "CannotRun", "Communication",
           "Comparison", "Cost", "Difference", "Explanation", "Export", "Fault", "Input", "OpExplanation", "Outcome", "Plan",
           "Program", "Queue", "Register", "Run", "Search", "SignatureCost", "Simulation", "StageExplanation", "Sweep", "Table",
           "TensorBlock", "TensorExplanation", "campaign", "clusters", "diff", "explain", "explain_op", "explain_tensor", "export",
           "frame", "models", "plan", "program", "report", "sbp", "search", "simulate", "sweep", "table", "why_not"]
