"""The program that is asked, and how a user would ask it."""
import json
import os
import shlex
import subprocess
from dataclasses import dataclass

from fidelity.family import ROOT  # noqa: F401
from fidelity.simulator import BOXCAR


@dataclass(frozen=True)
class Answer:
    code: int
    text: str  # stdout
    error: str

    @property
    def document(self):
        return json.loads(self.text)

    @property
    def why(self):
        """Of an error: its first clause."""
        return first_clause(self.error)


def first_clause(error):
    return error.removeprefix("boxcar: ").split(";")[0].split("\n")[0]


def ask(*arguments):
    done = subprocess.run([BOXCAR, *arguments], capture_output=True, text=True)
    return Answer(done.returncode, done.stdout, done.stderr.strip())


def command_text(arguments):
    return shlex.join([os.path.relpath(BOXCAR), *arguments]) if arguments else ""


def beside(path):
    """A program that is built with boxcar: beside("tests/bench/runtime_bench"). None where it is not there."""
    found = BOXCAR.parent / path
    return found if found.exists() else None
