"""The commands of the program as functions."""
from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ._plan import Plan
from ._program import Files, Job, Path, Words, flag, job_words, repeated, run
from ._results import (Campaign, CampaignRow, Candidate, Comparison, Explanation, Export, OpExplanation, Outcome, Run, Search,
                       Simulation, Sweep, Table, TensorExplanation, read)

SavedPlan = Union[Plan, Path]


def _plan_path(plan: SavedPlan, files: Files, name: str = "plan.txt") -> str:
    if not isinstance(plan, Plan):
        return os.fspath(plan)
    text = plan.text
    for file, description in plan.descriptions.items():
        path = files.write(f"{pathlib.Path(name).stem}_{file}", description)
        text = re.sub(rf"^(label \S+ = ){re.escape(file)}$", rf"\g<1>{path}", text, flags=re.MULTILINE)
    return files.write(name, text)


def _made_plan(path: str, files: Files) -> Plan:
    text = files.without_folder(Plan.load(path).text)
    return Plan(text, {file: one for file, one in files.descriptions.items() if f" = {file}\n" in text})


def simulate(job: Job = None, *, plan: Optional[SavedPlan] = None, what_if: Words = (), straggler: Words = (),
             **keys: Any) -> Simulation:
    """Simulates a step of a job or of a saved plan.

    what_if: changes to constants of the cluster, "bandwidth.network=2x".
    straggler: slow devices, "rank=17,slowdown=1.3".
    keys: keys of a job by the names of their flags; `trace`, `save_plan`, `jitter`, `runs`, `seed` and `steps` too.
    Raises CannotRun if it does not fit, BadInput if a key is wrong.

    >>> import boxcar
    >>> job = dict(model="gpt2", cluster="dgx-a100-80g", gpus=8, global_batch=64, micro_batch=8)
    >>> step = boxcar.simulate(**job, tp=2)
    >>> step.fits, step.configuration["parallel.dp"], len(step.peak_memory_bytes)
    (True, '4', 1)
    >>> boxcar.simulate(job={"parallel": {"tp": 2}}, **job, what_if="bandwidth.link=0.1x").step_time_s > step.step_time_s
    True
    >>> boxcar.simulate(**job, tp=8)
    Traceback (most recent call last):
    boxcar.BadInput: --tp: 8 does not divide heads 12 (use 1, 2, 3, 4, 6 or 12)
    """
    with Files() as files:
        words = job_words(job, keys, files)
        if plan is not None:
            words.append(flag("plan", _plan_path(plan, files)))
        words += repeated("what_if", what_if) + repeated("straggler", straggler)
        return Simulation.of(run(["simulate", *words, "--json"], files).document())


def plan(job: Job = None, **keys: Any) -> Plan:
    """Compiles a job to a plan.

    >>> import boxcar
    >>> boxcar.plan(model="gpt2", layers=2, cluster="dgx-a100-80g", gpus=2, tp=2, global_batch=2).size["queues"] > 1
    True
    """
    with Files() as files:
        out = files.path("plan.txt")
        run(["simulate", *job_words(job, keys, files), "--json", flag("save_plan", out)], files).document()
        return _made_plan(out, files)


def search(job: Job = None, *, what_if: Words = (), straggler: Words = (), pin: Words = (), **keys: Any) -> Search:
    """Searches for the best plan of a model on a cluster.

    Keys that are given stay; the others are open. `objective`, `memory`, `max_step_time`, `budget`, `pareto`, `threads` and
    `simulate` are the program's options. Raises CannotRun if no plan fits.

    >>> import boxcar
    >>> found = boxcar.search(model="gpt2", layers=2, cluster="dgx-a100-80g", gpus=4, global_batch=32, simulate=2)
    >>> found.candidates[0].step_time_s == found.best.step_time_s == found.plan.simulate().step_time_s
    True
    """
    with Files() as files:
        out = files.path("best.txt")
        words = job_words(job, keys, files) + repeated("pin", pin)
        words += repeated("what_if", what_if) + repeated("straggler", straggler)
        document = run(["search", *words, "--json", f"--out={out}"], files).document()
        return read(Search, document, best=Simulation.of(document["best"]), plan=_made_plan(out, files), document=document,
                    candidates=[Candidate.of(row) for row in document["candidates"]],
                    pareto=[Candidate.of(row) for row in document.get("pareto", [])])


def campaign(job: Union[Job, Plan] = None, *, plan: Union[SavedPlan, Sequence[SavedPlan]] = (), what_if: Words = (),
             straggler: Words = (), **keys: Any) -> Campaign:
    """Costs whole training runs: days, GPU hours, dollars, energy (docs/campaign.md).

    job: a job, or a plan. plan: plans to cost, beside a job or alone. keys: `tokens` or `samples`, `price`, `mtbf`, `checkpoint_bandwidth`, `watts`, ... as the program takes
    them, and those of a job; gpus=[256, 512] compares numbers of GPUs.

    >>> import boxcar
    >>> costs = boxcar.campaign(model="gpt2", cluster="dgx-a100-80g", gpus=[8, 16], global_batch=64, tokens="1B", price=2)
    >>> [row.gpus for row in costs.rows], costs.rows[0].estimate.dollars > costs.rows[0].low.dollars
    ([8, 16], True)
    """
    plans = [plan] if isinstance(plan, (Plan, str, os.PathLike)) else list(plan)
    if isinstance(job, Plan):
        plans.insert(0, job)
        job = None
    with Files() as files:
        words = job_words(job, keys, files)
        for number, one in enumerate(plans):
            name = "plan.txt" if len(plans) == 1 else f"plan{number}.txt"
            words.append(flag("plan", _plan_path(one, files, name)))
        words += repeated("what_if", what_if) + repeated("straggler", straggler)
        document = run(["campaign", *words, "--json"], files).document()
        return Campaign([CampaignRow.of(row) for row in document["rows"]], document)


def explain(plan: SavedPlan) -> Explanation:
    """Why a plan is as it is: its stages, layouts and communications (docs/explain-plan.md).

    >>> import boxcar
    >>> plan = boxcar.plan(model="gpt2", layers=2, cluster="dgx-a100-80g", gpus=4, tp=2, global_batch=8)
    >>> [(stage.layers, stage.mesh) for stage in boxcar.explain(plan).stages]
    [('0-1', 'dp 2 x tp 2')]
    >>> chosen = [row.signature for row in boxcar.explain_op(plan, "h0.attn.qkv").signatures if row.chosen]
    >>> chosen
    ['S(0), B -> S(0)', 'B, S(1) -> S(2)']
    >>> boxcar.explain_tensor(plan, "h0.attn.qkv.weight").layout
    ['dp 2: B', 'tp 2: S(1)']
    >>> [row.fits for row in boxcar.why_not(plan, ["--tp 1", "--tp 3"])]
    [True, False]
    """
    with Files() as files:
        return Explanation.of(run(["explain", _plan_path(plan, files), "--json"], files).document())


def explain_op(plan: SavedPlan, op: str) -> OpExplanation:
    """Why an op of a plan is laid out as it is, and what the alternatives cost."""
    with Files() as files:
        words = ["explain", _plan_path(plan, files), flag("op", op), "--json"]
        return OpExplanation.of(run(words, files).document()["op"])


def explain_tensor(plan: SavedPlan, tensor: str) -> TensorExplanation:
    """Which device holds which block of a tensor of a plan."""
    with Files() as files:
        words = ["explain", _plan_path(plan, files), flag("tensor", tensor), "--json"]
        return TensorExplanation.of(run(words, files).document()["tensor"])


def why_not(plan: SavedPlan, flags: Words) -> list[Outcome]:
    """The step and memory of a plan with other flags, "--tp 4", or the limit that they break."""
    with Files() as files:
        words = ["explain", _plan_path(plan, files), *repeated("why_not", flags), "--json"]
        return [Outcome.of(row) for row in run(words, files).document()["why_not"]]


def diff(a: SavedPlan, b: SavedPlan) -> Comparison:
    """The differences between two plans, and the cost of each.

    >>> import boxcar
    >>> job = dict(model="gpt2", layers=2, cluster="dgx-a100-80g", gpus=4, global_batch=8)
    >>> both = boxcar.diff(boxcar.plan(**job), boxcar.plan(**job, recompute="full"))
    >>> [(row.a, row.b) for row in both.differences], both.differences[0].outcome.slower > 0
    ([('--recompute none', '--recompute full')], True)
    """
    with Files() as files:
        words = [_plan_path(a, files, "a.txt"), _plan_path(b, files, "b.txt")]
        return Comparison.of(run(["diff", *words, "--json"], files).document())


def sweep(values: Union[Mapping[str, Any], Path], file: Optional[Path] = None, *, workers: Optional[int] = None,
          **keys: Any) -> Sweep:
    """Simulates or searches every combination of values, on all cores (docs/sweep.md).

    values: a dict or a YAML file; keys come over it. Values are a value, a list or a range, "8..64 x2".
    file: keeps the runs, and the same call continues with it after Ctrl-C; without it only the result keeps them.
    Points that cannot run are rows that say why.

    >>> import boxcar
    >>> job = dict(model="gpt2", cluster="dgx-a100-80g", gpus=8, global_batch=64)
    >>> runs = boxcar.sweep({**job, "tp": [1, 5], "micro_batch": 4}).runs
    >>> [(run.keys, run.fits) for run in runs]
    [({'tp': 1}, True), ({'tp': 5}, None)]
    """
    with Files() as files:
        spec = files.description("sweep", values) if isinstance(values, Mapping) else os.fspath(values)
        out = os.fspath(file) if file is not None else files.path("runs.db")
        words = [spec, f"--out={out}", *job_words(None, {"workers": workers, **keys}, files)]
        run(["sweep", *words], files, succeeds=(0, 1), seconds_to_end=5)
        return Sweep([Run.of(row) for row in table(out).rows], pathlib.Path(file) if file is not None else None)


def table(file: Path, *, where: Optional[str] = None, columns: Optional[list[str]] = None, sort: Optional[str] = None,
          pareto: Optional[list[str]] = None, limit: Optional[int] = None) -> Table:
    """Rows of a file of runs.

    where: an expression of SQL, "step_time_s < 2 and tp = 8". columns: without it, keys with several values and results.
    sort: "mfu desc,gpus". pareto: rows that no other row beats in these columns.
    """
    options = {"where": where, "columns": columns, "sort": sort, "pareto": pareto, "limit": limit}
    words = [flag(name, value) for name, value in options.items() if value is not None]
    document = run(["table", os.fspath(file), *words, "--json"]).document()
    return Table(document["columns"], document["rows"])


def report(plan: SavedPlan, file: Path, *, sensitivity: bool = True, where: Optional[str] = None,
           **conditions: Any) -> pathlib.Path:
    """Writes the page of a plan, or of a file of runs, for a browser (docs/report.md).

    sensitivity: whether steps with other constants are simulated for a plan's page. where: rows of a file of runs.
    conditions: `tokens` or `samples`, `price`, `mtbf`, `checkpoint_bandwidth`, `watts`, ... of the whole run, as `campaign`
    takes them; the page begins with its days, dollars and energy then.
    """
    with Files() as files:
        words = [flag(name, value) for name, value in {"where": where, **conditions}.items() if value is not None]
        words += [] if sensitivity else ["--no-sensitivity"]
        run(["report", _plan_path(plan, files), f"--output={os.fspath(file)}", *words], files)
        return pathlib.Path(file)


def export(plan: Union[SavedPlan, Mapping[str, Any], None] = None, *, to: str, strict: bool = False, **keys: Any) -> Export:
    """A plan or a job for another framework: "megatron", "nemo", "torchtitan" or "deepspeed" (docs/export.md).

    strict: raises CannotRun if that framework cannot express all of it.

    >>> import boxcar
    >>> script = boxcar.export(model="llama3-8b", cluster="dgx-h100", gpus=64, tp=4, to="megatron")
    >>> "--tensor-model-parallel-size 4" in script.text
    True
    """
    with Files() as files:
        job = _plan_path(plan, files) if isinstance(plan, Plan) else plan
        words = job_words(job, {"to": to, **keys}, files) + (["--strict"] if strict else [])
        printed = run(["export", *words], files)
        return Export(printed.out, printed.notes)


def clusters(name: Optional[Path] = None) -> dict[str, dict[str, Any]]:
    """Descriptions of the cluster presets by name, or of one preset or file; `cluster=` takes such a dict, changed or not.

    >>> import boxcar
    >>> mine = boxcar.clusters()["dgx-h100"]
    >>> mine["device"], mine["node"]["gpus"]
    ('h100-sxm', 8)
    >>> mine["node"]["gpus"] = 4
    >>> boxcar.simulate(model="gpt2", cluster=mine, gpus=8, global_batch=64).configuration["cluster.gpus"]
    '8'
    """
    words = ["clusters", *([os.fspath(name)] if name is not None else []), "--json"]
    return {row["name"]: row["description"] for row in run(words).document()["clusters"]}


def models() -> dict[str, dict[str, Any]]:
    """Sizes of the named models by name; `model=` takes such a dict, changed or not.

    >>> import boxcar
    >>> small = {**boxcar.models()["llama3-8b"], "layers": 2}
    >>> boxcar.simulate(model=small, cluster="dgx-h100", gpus=8, global_batch=8).configuration["model.hidden"]
    '4096'
    """
    rows = run(["models", "--json"]).document()["models"]
    return {row["name"]: {key: value for key, value in row.items() if key not in ("name", "source")} for row in rows}
