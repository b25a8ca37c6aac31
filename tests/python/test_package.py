"""The package's surface: its docstrings' examples and the notebook run, and its types are complete.

  PYTHONPATH=build/python python3 tests/python/test_package.py
"""
import doctest
import importlib
import inspect
import pathlib
import shutil
import subprocess
import sys
import unittest

import boxcar
import notebook

SOURCE = pathlib.Path(__file__).resolve().parents[2]

try:
    import boxcar._core as core
except ImportError:
    core = None
needs_core = unittest.skipUnless(core, "boxcar._core was not built: pybind11 was not found")


class TestPackage(unittest.TestCase):
    def test_every_public_name_says_what_it_is(self):
        for name in boxcar.__all__:
            thing = getattr(boxcar, name)
            self.assertTrue((thing.__doc__ or "").strip(), name)
            self.assertFalse(inspect.isclass(thing) and thing.__doc__.startswith(f"{name}("), f"{name} has no docstring")

    def test_results_say_what_their_fields_are(self):
        for name in ("Simulation", "Cost", "Candidate", "Outcome", "Run", "Actor", "Register", "StageExplanation"):
            cls = getattr(boxcar, name)
            for field in cls.__dataclass_fields__:
                if field.endswith(("_s", "_bytes", "_hours")) or field in ("bytes", "days"):
                    self.assertIn(field, cls.__doc__, name)

    @needs_core
    def test_examples_run(self):
        for name in ("boxcar", "boxcar.sbp", "boxcar._calls", "boxcar._plan", "boxcar._program", "boxcar._results"):
            result = doctest.testmod(importlib.import_module(name))
            self.assertEqual(result.failed, 0, name)

    def test_types_are_whole(self):
        mypy = shutil.which("mypy")
        if not mypy:
            self.skipTest("needs mypy (Debian: mypy)")
        done = subprocess.run([mypy, "--config-file", SOURCE / "cli/python/mypy.ini", "--cache-dir", "/dev/null",
                               SOURCE / "cli/python/boxcar"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @needs_core
    def test_types_of_the_extension_are_its_own(self):
        stub = (SOURCE / "cli/python/boxcar/_core.pyi").read_text()
        names = {name for name in vars(core) if not name.startswith("_")}
        self.assertEqual(names, {line.split("(")[0][len("def "):] for line in stub.splitlines() if line.startswith("def ")})

    @needs_core
    def test_the_notebook_prints_what_it_shows(self):
        self.assertEqual(notebook.check(SOURCE / "docs/tutorial.ipynb"), [])


if __name__ == "__main__":
    unittest.main()
