"""Runs the commands of pages in order, and compares what they print with the output that the pages show.

  python3 tests/docs/pages.py build/boxcar docs/tutorial.md docs/sweep.md

A page's commands are the indented lines that begin with `boxcar` or `build/boxcar`; the indented lines after a command
and an empty line are its output. "Write this as `small.yaml`" or "Write `sweep.yaml`" before an indented block makes
that file. A line `...` stands for any lines, and ` ...` at the end of a line for its rest. Measured times and speeds are
not compared. Commands without shown output must succeed. Each page runs in a folder of its own, with the project's
LICENSE and docs/.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"(build/)?boxcar ")
WRITTEN = re.compile(r"Write (?:this as )?`([\w.-]+)`", re.DOTALL)
# Texts that depend on the clock: the end of "..., 5 simulated, 873.3 ms", "9123 tokens/s", "30 steps in 6 s".
MEASURED = [
    (re.compile(r"(simulated, )[\d.]+ (ms|s)$"), r"\1TIME"),
    (re.compile(r"\d+ tokens/s$"), "SPEED"),
    (re.compile(r"( steps in )[\d.]+ (ms|s|min)"), r"\1TIME"),
    (re.compile(r"( events in )[\d.]+ (ms|s)"), r"\1TIME"),
]


def blocks(text):
    """(the paragraph before it, its lines without the indent) of each indented block."""
    paragraph, last, block = "", "", []
    for line in text.splitlines() + ["end"]:
        if line.startswith("    ") or (block and not line.strip()):
            block.append(line[4:].rstrip())
            continue
        if block:
            yield last, block
            block = []
        paragraph = paragraph + " " + line if line.strip() else ""
        last = paragraph or last


def commands(block):
    """(command, lines of its output) of each command of a block."""
    found, lines = [], iter(block)
    for line in lines:
        if COMMAND.match(line):
            while line.endswith("\\"):
                line = line[:-1] + next(lines).strip()
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(output).strip("\n").splitlines()) for command, output in found]


def comparable(line):
    for pattern, mark in MEASURED:
        line = pattern.sub(mark, line)
    return line.rstrip()


def is_shown(expected, line):
    if expected.endswith(" ..."):
        return line.startswith(expected[:-len(" ...")])
    return expected == line


def first_difference(shown, printed):
    """The first shown line that is not printed where it is shown, else None. The end of what is printed may be left out
    by a last line `...` alone."""
    at, anywhere = 0, False
    for expected in map(comparable, shown):
        if expected.strip() == "...":
            anywhere = True
            continue
        if anywhere:
            while at < len(printed) and not is_shown(expected, comparable(printed[at])):
                at += 1
        if at == len(printed) or not is_shown(expected, comparable(printed[at])):
            return expected
        at, anywhere = at + 1, False
    if not anywhere and any(line.strip() for line in printed[at:]):
        return "(the end of the output)"
    return None


def check(program, page):
    """What is wrong with a page, a text for each command."""
    wrong, ran = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in "LICENSE", "docs":
            (pathlib.Path(folder) / name).symlink_to(ROOT / name)
        for before, block in blocks((ROOT / page).read_text()):
            named = WRITTEN.search(before)
            if named and not COMMAND.match(block[0]):
                (pathlib.Path(folder) / named[1]).write_text("\n".join(block) + "\n")
                continue
            for command, shown in commands(block):
                arguments = [str(program)] + shlex.split(command, comments=True)[1:]
                run = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300)
                ran += 1
                printed = (run.stdout or run.stderr).splitlines()  # stderr has progress beside output
                if shown:
                    difference = first_difference(shown, printed)
                    if difference is not None:
                        wrong.append(f"{page}: {command}\n  is said to print\n    {difference}\n  and prints\n    "
                                     + "\n    ".join(printed))
                elif run.returncode != 0:
                    wrong.append(f"{page}: {command}\n  fails: {run.stderr}")
    return wrong if ran else [f"{page}: no command was found"]


def main(program, *pages):
    wrong = [text for page in pages for text in check(pathlib.Path(program).resolve(), page)]
    print("\n".join(wrong) or f"the commands of {len(pages)} pages print what these show")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
