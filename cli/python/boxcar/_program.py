"""The program in a process of its own: a job as words of its command line, its errors as exceptions."""
from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from ._errors import BadInput, Fault, by_exit_code

Path = Union[str, "os.PathLike[str]"]
Job = Union[Mapping[str, Any], Path, None]
Words = Union[str, Iterable[str]]


def program() -> str:
    """The path of the program: $BOXCAR_PROGRAM, otherwise where this package was built or installed, otherwise on the PATH."""
    named = os.environ.get("BOXCAR_PROGRAM")
    above = pathlib.Path(__file__).absolute().parents
    places = [above[2] / "boxcar", *(folder / "bin" / "boxcar" for folder in above[1:6]),
              pathlib.Path(sysconfig.get_path("scripts")) / "boxcar"]
    found = named or next((str(place) for place in places if place.is_file()), None) or shutil.which("boxcar")
    if not found:
        raise Fault("the program boxcar is not on the PATH; BOXCAR_PROGRAM may name it")
    return found


@functools.lru_cache(maxsize=None)
def _version_of(path: str) -> str:
    return run(["--version"]).out.split()[-1]


def version() -> str:
    """The program's version, "0.1.0"."""
    return _version_of(program())


@dataclasses.dataclass(frozen=True)
class Printed:
    """The program's output: results, and the lines of stderr."""

    out: str
    notes: list[str]

    def document(self) -> dict[str, Any]:
        """The results as a document. Notes become warnings."""
        for note in self.notes:
            warnings.warn(note, stacklevel=3)
        document: dict[str, Any] = json.loads(self.out)
        return document


def run(arguments: Sequence[str], files: Optional[Files] = None, *, succeeds: Sequence[int] = (0,),
        seconds_to_end: float = 0) -> Printed:
    """Runs the program to its end. Exit codes other than `succeeds` are raised.

    files: those of the call; printed text names them by their contents instead of their paths.
    seconds_to_end: Ctrl-C ends the program, and kills it if it needs longer than this to keep its results.
    """
    try:
        process = subprocess.Popen([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Fault(f"{program()} cannot be run: {error.strerror}; BOXCAR_PROGRAM may name the program") from error
    try:
        out, err = process.communicate()
    except BaseException:  # Ctrl-C
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=seconds_to_end)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise
    if files:
        out, err = files.named(out), files.named(err)
    notes = [line.removeprefix("boxcar: ") for line in err.splitlines()]
    if process.returncode in succeeds:
        return Printed(out, notes)
    kind = by_exit_code.get(process.returncode, Fault)
    raise kind("\n".join(notes) or _end(process.returncode), _document_or_none(out))


def _end(code: int) -> str:
    if code >= 0:
        return f"boxcar ended with {code}"
    why = ", as a system does when its memory is full" if -code == signal.SIGKILL else ""
    return f"boxcar was ended by {signal.Signals(-code).name}{why}"


def _document_or_none(out: str) -> Optional[dict[str, Any]]:
    try:
        document: dict[str, Any] = json.loads(out)
        return document
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    """A range, a set or an array as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    raise BadInput(f"got {value!r}, expected a number, text or a list of them")


class Files:
    """Files of one call, for input that the program takes by path."""

    def __init__(self) -> None:
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None
        self.descriptions: dict[str, str] = {}  # text by the name of its file

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder:
            self._folder.cleanup()

    def path(self, name: str) -> str:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="boxcar-")
        return os.path.join(self._folder.name, name)

    def write(self, name: str, text: str) -> str:
        path = self.path(name)
        pathlib.Path(path).write_text(text, encoding="utf-8")
        return path

    def named(self, text: str) -> str:
        """The text with "cluster" in place of /tmp/boxcar-x/cluster.yaml: its path, and a place in it, are not the user's."""
        if not self._folder:
            return text
        return re.sub(re.escape(self._folder.name + os.sep) + r"(\w+)\.\w+(:\d+:\d+)?", r"\1", text)

    def description(self, name: str, value: Mapping[str, Any]) -> str:
        file = f"{name}.yaml"
        self.descriptions[file] = json.dumps(value, default=_plain)  # JSON is YAML
        return self.write(file, self.descriptions[file])

    def without_folder(self, text: str) -> str:
        """The text of a plan with the names of these files alone."""
        return text.replace(self._folder.name + os.sep, "") if self._folder else text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)


def flag(name: str, value: Any) -> str:
    """flag("global_batch", 64) == "--global-batch=64" """
    return f"--{name.replace('_', '-')}={_text(value)}"


def repeated(name: str, values: Words) -> list[str]:
    return [flag(name, value) for value in ([values] if isinstance(values, str) else values)]


def _job_file(job: Mapping[str, Any], files: Files) -> str:
    sections = {section: dict(values) if isinstance(values, Mapping) else values for section, values in job.items()}
    cluster = sections.get("cluster", {})
    if isinstance(cluster, dict):
        for key in ("preset", "device"):
            if isinstance(cluster.get(key), Mapping):
                cluster[key] = files.description(key, cluster[key])
    return files.description("job", sections)


def job_words(job: Job, keys: Mapping[str, Any], files: Files) -> list[str]:
    """A job as words of the command line: a dict with sections, or a path; keys by the names of flags come over it."""
    words: list[str] = []
    if isinstance(job, Mapping):
        words.append(_job_file(job, files))
    elif job is not None:
        words.append(os.fspath(job))
    for name, value in keys.items():
        if name in ("help", "json"):
            raise BadInput(f"--{name} is no key of a job")
        if value is None:  # as if it were not given
            continue
        if name == "model" and isinstance(value, Mapping):
            words += [flag(key, one) for key, one in value.items()]
        elif isinstance(value, Mapping):
            words.append(flag(name, files.description(name, value)))
        else:
            words.append(flag(name, value))
    return words
