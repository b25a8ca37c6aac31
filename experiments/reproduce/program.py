"""Runs of the program, and the commands with which a user would run it."""
import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass

from fidelity.family import ROOT  # noqa: F401
from fidelity.simulator import BOXCAR


class Failed(Exception):
    """The program's message in place of an answer."""


@dataclass(frozen=True)
class Answer:
    code: int
    text: str  # stdout
    error: str

    @property
    def document(self):
        """JSON, which it also prints for a job that does not fit."""
        if not self.text.startswith(("{", "[")):
            raise Failed(self.error or f"no document, exit code {self.code}")
        return json.loads(self.text)

    def expect_done(self):
        if self.code != 0:
            raise Failed(self.error or f"exit code {self.code}")

    @property
    def why(self):
        """The first clause of an error."""
        return first_clause(self.error)


def first_clause(error):
    line = next((line for line in error.splitlines() if any(c.isalpha() for c in line)), "")
    return line.removeprefix("boxcar: ").split(";")[0]


def ask(*arguments):
    done = subprocess.run([BOXCAR, *arguments], capture_output=True, text=True)
    return Answer(done.returncode, done.stdout, done.stderr.strip())


def in_processes(count, arguments):
    """The finished run, None without mpirun."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        return None
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return subprocess.run([mpirun, *as_root, "--oversubscribe", "--bind-to", "none", "-n", str(count), BOXCAR, *arguments], capture_output=True,
                          text=True)


def command_text(arguments):
    return shlex.join([os.path.relpath(BOXCAR), *arguments]) if arguments else ""


def beside(path):
    """A program that is built with boxcar: beside("tests/bench/runtime_bench"). None if it does not exist."""
    found = BOXCAR.parent / path
    return found if found.exists() else None
