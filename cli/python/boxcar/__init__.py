"""Boxcar from Python: simulate, search and explain training jobs.

    import boxcar
    step = boxcar.simulate(model="llama3-8b", cluster="dgx-h100", gpus=64, tp=8, global_batch=128, preset="modern")
    step.step_time_s, step.mfu, step.peak_memory_bytes
    found = boxcar.search(model="llama3-8b", cluster="dgx-h100", gpus=64, global_batch=128, preset="modern")
    found.flags, found.plan.simulate(what_if=["bandwidth.network=0.5x"]).step_time_s

A job is a dict with the sections of a job file, the path of one, or keywords with the names of flags; keywords come over
the dict or the file. A cluster, a device or a framework may be a dict in place of a name.

Each call runs the program `boxcar` in a process of its own. So calls from several threads run beside each other, and
Ctrl-C ends them. Errors have the program's text. Numbers are in seconds, bytes and FLOP/s.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import warnings
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

__all__ = ["BadInput", "BoxcarError", "Campaign", "CannotRun", "Comparison", "Fault", "Plan", "Search", "Simulation",
           "campaign", "clusters", "diff", "explain", "models", "program", "sbp_rules", "search", "simulate"]

Job = Union[Mapping[str, Any], str, os.PathLike, None]
Words = Union[str, Iterable[str]]


class BoxcarError(Exception):
    """An error of the program, with its text. `document` is what it printed for programs, where it did."""

    def __init__(self, text: str, document: Optional[dict[str, Any]] = None):
        super().__init__(text)
        self.document = document


class CannotRun(BoxcarError):
    """The job does not fit, or no plan was found (exit code 1)."""


class BadInput(BoxcarError, ValueError):
    """A key, a value or a file is wrong (exit code 2)."""


class Fault(BoxcarError):
    """A fault while running (exit code 3, or a signal)."""


def program() -> str:
    """The path of the program: $BOXCAR_PROGRAM, else beside this package, else on the PATH."""
    named = os.environ.get("BOXCAR_PROGRAM")
    beside = [folder / "bin" / "boxcar" for folder in pathlib.Path(__file__).resolve().parents[2:6]]
    found = named or next((str(path) for path in beside if path.is_file()), None) or shutil.which("boxcar")
    if not found:
        raise Fault("the program boxcar is not on the PATH; BOXCAR_PROGRAM may name it")
    return found


def _run(arguments: Sequence[str]) -> str:
    try:
        process = subprocess.Popen([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Fault(f"{program()} cannot be run: {error.strerror}; BOXCAR_PROGRAM may name the program") from error
    try:
        out, err = process.communicate()
    except BaseException:  # Ctrl-C
        process.kill()
        process.wait()
        raise
    notes = [line.removeprefix("boxcar: ") for line in err.splitlines()]
    if process.returncode == 0:
        for note in notes:
            warnings.warn(note, stacklevel=4)
        return out
    kind = {1: CannotRun, 2: BadInput}.get(process.returncode, Fault)
    raise kind("\n".join(notes) or f"boxcar ended with {process.returncode}", json.loads(out) if out else None)


class _Files:
    """Files of one call, for what the program takes by path."""

    def __init__(self) -> None:
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder:
            self._folder.cleanup()

    def path(self, name: str) -> str:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="boxcar-")
        return os.path.join(self._folder.name, name)

    def write(self, name: str, value: Mapping[str, Any]) -> str:
        path = self.path(name)
        pathlib.Path(path).write_text(json.dumps(value))  # JSON is YAML
        return path


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)


def _flag(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')}={_text(value)}"


def _arguments(job: Job, keys: Mapping[str, Any], files: _Files) -> list[str]:
    """A job as words of the command line."""
    words: list[str] = []
    if isinstance(job, Mapping):
        sections = {section: dict(values) for section, values in job.items()}
        cluster = sections.get("cluster", {})
        for key in ("preset", "device"):
            if isinstance(cluster.get(key), Mapping):
                cluster[key] = files.write(f"{key}.yaml", cluster[key])
        words.append(files.write("job.yaml", sections))
    elif job is not None:
        words.append(os.fspath(job))
    for name, value in keys.items():
        if name in ("help", "json"):
            raise BadInput(f"--{name} is no key of a job")
        if value is None:  # as if it were not given
            continue
        if isinstance(value, Mapping):
            value = files.write(f"{name}.yaml", value)
        words.append(_flag(name, value))
    return words


def _repeated(name: str, values: Words) -> list[str]:
    return [_flag(name, value) for value in ([values] if isinstance(values, str) else values)]


def _frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        import pandas  # only here: a frame is all that needs it
    except ImportError as error:
        raise ImportError("frames need pandas") from error
    return pandas.DataFrame(list(rows))


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A simulated step. Lists have an element for each pipeline stage. `document` has all that the program printed."""

    fits: bool
    step_time_s: float
    step_time_range_s: tuple[float, float]
    tokens_per_s: float
    samples_per_s: float
    mfu: float
    bound_by: dict[str, Any]
    peak_memory_bytes: list[int]
    memory_limit_bytes: list[int]
    configuration: dict[str, str]
    document: dict[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Simulation":
        names = [field.name for field in dataclasses.fields(cls) if field.name not in ("document", "step_time_range_s")]
        return cls(**{name: document[name] for name in names}, document=document,
                   step_time_range_s=tuple(document["step_time_range_s"]))

    def frame(self) -> Any:
        """Memory by stage, as a pandas DataFrame: a row for each stage, a column for each kind of memory."""
        stages = zip(self.document["memory_breakdown_bytes"], self.peak_memory_bytes, self.memory_limit_bytes)
        return _frame([{**kinds, "peak": peak, "limit": limit} for kinds, peak, limit in stages])


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan as text, which `simulate`, `explain` and `boxcar train --plan` take."""

    text: str = dataclasses.field(repr=False)

    @classmethod
    def load(cls, path: Union[str, os.PathLike]) -> "Plan":
        return cls(pathlib.Path(path).read_text())

    def save(self, path: Union[str, os.PathLike]) -> None:
        pathlib.Path(path).write_text(self.text)

    def simulate(self, **options: Any) -> Simulation:
        """The same as `boxcar.simulate(plan=...)`."""
        return simulate(plan=self, **options)

    def explain(self, **options: Any) -> dict[str, Any]:
        """The same as `boxcar.explain(plan)`."""
        return explain(self, **options)


@dataclasses.dataclass(frozen=True)
class Search:
    """The best plan that a search found, its flags, and the plans that it simulated, best first."""

    flags: str
    best: Simulation
    plan: Plan
    candidates: list[dict[str, Any]]
    pareto: list[dict[str, Any]]
    document: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def step_time_s(self) -> float:
        return self.best.step_time_s

    def frame(self) -> Any:
        """The candidates as a pandas DataFrame."""
        return _frame(self.candidates)


@dataclasses.dataclass(frozen=True)
class Campaign:
    """The cost of whole training runs: a row for each job."""

    rows: list[dict[str, Any]]
    document: dict[str, Any] = dataclasses.field(repr=False)

    def frame(self) -> Any:
        """The rows' estimates as a pandas DataFrame, with the low and the high end of each number."""
        return _frame([{"job": row["job"], "gpus": row["gpus"], "fits": row["fits"], **row.get("estimate", {}),
                        **{f"{end}_{name}": value for end in ("low", "high") for name, value in row.get(end, {}).items()}}
                       for row in self.rows])


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two plans, and what each of their differences costs."""

    a: Simulation
    b: Simulation
    differences: list[dict[str, Any]]

    def frame(self) -> Any:
        """The differences as a pandas DataFrame."""
        return _frame(self.differences)


def _plan_path(plan: Union[Plan, str, os.PathLike], files: _Files, name: str = "plan.txt") -> str:
    if not isinstance(plan, Plan):
        return os.fspath(plan)
    path = files.path(name)
    pathlib.Path(path).write_text(plan.text)
    return path


def simulate(job: Job = None, *, plan: Union[Plan, str, os.PathLike, None] = None, what_if: Words = (),
             straggler: Words = (), **keys: Any) -> Simulation:
    """Simulates a step of a job or of a saved plan.

    what_if: constants of the cluster otherwise than described, "bandwidth.network=2x".
    straggler: slow devices, "rank=17,slowdown=1.3".
    keys: keys of a job by the names of their flags; `trace`, `save_plan`, `jitter`, `runs`, `seed` and `steps` too.
    Raises CannotRun where it does not fit, BadInput where a key is wrong.
    """
    with _Files() as files:
        words = _arguments(job, keys, files)
        if plan is not None:
            words.append(_flag("plan", _plan_path(plan, files)))
        words += _repeated("what_if", what_if) + _repeated("straggler", straggler)
        return Simulation.of(json.loads(_run(["simulate", *words, "--json"])))


def search(job: Job = None, *, what_if: Words = (), straggler: Words = (), pin: Words = (), **keys: Any) -> Search:
    """Searches for the best plan of a model on a cluster.

    Keys that are given stay; the others are open. `objective`, `memory`, `max_step_time`, `budget`, `pareto`, `threads` and
    `simulate` are the program's options. Raises CannotRun where no plan fits.
    """
    with _Files() as files:
        out = files.path("best.txt")
        words = _arguments(job, keys, files) + _repeated("pin", pin)
        words += _repeated("what_if", what_if) + _repeated("straggler", straggler)
        document = json.loads(_run(["search", *words, "--json", f"--out={out}"]))
        return Search(document["flags"], Simulation.of(document["best"]), Plan.load(out), document["candidates"],
                      document.get("pareto", []), document)


def campaign(job: Job = None, *, tokens: Union[str, float, None] = None, what_if: Words = (), **keys: Any) -> Campaign:
    """Costs a whole training run: days, GPU hours, dollars, energy. `price`, `mtbf`, `checkpoint_bandwidth` and `watts` as
    the program takes them."""
    with _Files() as files:
        words = _arguments(job, {**({} if tokens is None else {"tokens": tokens}), **keys}, files)
        document = json.loads(_run(["campaign", *words, *_repeated("what_if", what_if), "--json"]))
        return Campaign(document["rows"], document)


def explain(plan: Union[Plan, str, os.PathLike], *, op: Optional[str] = None, tensor: Optional[str] = None,
            why_not: Words = ()) -> dict[str, Any]:
    """Why a plan is as it is; of one op or tensor where given. why_not: flags of other plans, "--tp 4"."""
    with _Files() as files:
        words = [_plan_path(plan, files)]
        words += [_flag(name, value) for name, value in (("op", op), ("tensor", tensor)) if value is not None]
        return json.loads(_run(["explain", *words, *_repeated("why_not", why_not), "--json"]))


def diff(a: Union[Plan, str, os.PathLike], b: Union[Plan, str, os.PathLike]) -> Comparison:
    """What two plans do differently, and what each difference costs."""
    with _Files() as files:
        words = [_plan_path(a, files, "a.txt"), _plan_path(b, files, "b.txt")]
        document = json.loads(_run(["diff", *words, "--json"]))
        return Comparison(Simulation.of(document["a"]), Simulation.of(document["b"]), document["differences"])


def sbp_rules(op: str, *shapes: str, devices: str = "4") -> dict[str, Any]:
    """How an op may be laid out over a mesh: sbp_rules("matmul", "4x6", "6x8", devices="2x2")."""
    return json.loads(_run(["sbp", "rules", op, *shapes, f"--devices={devices}", "--json"]))


def clusters(name: Optional[str] = None) -> Any:
    """The cluster presets, or one of them."""
    return json.loads(_run(["clusters", *([name] if name else []), "--json"]))


def models() -> Any:
    """The named models and the families."""
    return json.loads(_run(["models", "--json"]))
