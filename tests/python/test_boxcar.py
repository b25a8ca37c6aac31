"""The Python package against the program: the same numbers, the same errors.

  BOXCAR_PROGRAM=build/boxcar PYTHONPATH=cli/python python3 tests/python/test_boxcar.py
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import boxcar

JOB = {"model": {"family": "gpt", "layers": 4, "hidden": 256, "heads": 4, "seq": 256, "vocab": 1024},
       "cluster": {"preset": "dgx-a100-80g", "gpus": 8}, "parallel": {"tp": 2}, "train": {"global_batch": 32}}
FLAGS = ["--model=gpt", "--layers=4", "--hidden=256", "--heads=4", "--seq=256", "--vocab=1024", "--cluster=dgx-a100-80g",
         "--gpus=8", "--global-batch=32"]


def printed(*words):
    done = subprocess.run([boxcar.program(), *words, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout), done.stderr


class TestBoxcar(unittest.TestCase):
    def test_simulates_as_the_program_does(self):
        step = boxcar.simulate(JOB)
        document, _ = printed("simulate", *FLAGS, "--tp=2")
        self.assertEqual(step.step_time_s, document["step_time_s"])
        self.assertEqual(step.configuration, document["configuration"])
        self.assertTrue(step.fits)
        self.assertLess(step.step_time_range_s[0], step.step_time_s)
        self.assertEqual(boxcar.simulate(JOB, tp=4).configuration["parallel.tp"], "4")

    def test_takes_lists_and_truth_values(self):
        step = boxcar.simulate(JOB, tp=1, pp=2, stage_layers=[3, 1], epilogues=True)
        self.assertEqual(step.configuration["parallel.stage_layers"], "[3, 1]")
        self.assertEqual(step.configuration["train.epilogues"], "true")
        self.assertEqual(len(step.peak_memory_bytes), 2)

    def test_takes_a_cluster_as_a_dict(self):
        cluster = {"name": "mine", "device": "h100-sxm", "nodes": 1,
                   "node": {"gpus": 8, "link": "nvswitch", "link_bandwidth": "450GB/s", "link_latency": "1us",
                            "host_per_op": "10us"}}
        fast = boxcar.simulate(JOB, cluster=cluster)
        slow = boxcar.simulate(JOB, cluster=cluster, what_if="node.link_bandwidth=0.01x")
        self.assertLess(fast.step_time_s, slow.step_time_s)

    def test_errors_have_the_program_s_text(self):
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.simulate(JOB, tp=3)
        _, text = printed("clusters")
        self.assertIn("3", str(bad.exception))
        self.assertIsInstance(bad.exception, ValueError)
        with self.assertRaises(boxcar.BadInput):
            boxcar.simulate(JOB, help=True)
        self.assertEqual(boxcar.simulate(JOB, tp=None).step_time_s, boxcar.simulate(JOB).step_time_s)
        with self.assertRaises(boxcar.BadInput) as unknown:
            boxcar.simulate(JOB, tensor_parallel=2)
        self.assertIn("did you mean --tp?", str(unknown.exception))
        with self.assertRaises(boxcar.CannotRun) as large:
            boxcar.simulate(model="gpt3-175b", cluster="dgx-a100-80g", gpus=8, tp=8)
        self.assertIn("does not fit", str(large.exception))
        self.assertFalse(large.exception.document["fits"])

    def test_notes_are_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            boxcar.simulate(JOB, dp=1, tp=4, pp=2, zero=3)
        self.assertEqual([str(w.message) for w in caught], ["--zero: has no effect unless dp is 2 or more"])

    def test_searches_and_keeps_the_plan(self):
        found = boxcar.search(JOB, pareto="time,memory", simulate=4)
        self.assertEqual(found.candidates[0]["step_time_s"], found.step_time_s)
        self.assertGreaterEqual(len(found.pareto), 1)
        self.assertAlmostEqual(found.plan.simulate().step_time_s, found.step_time_s, delta=1e-9)
        self.assertIn("stages", found.plan.explain())
        placed = boxcar.explain(found.plan, why_not=["--tp 1", "--tp 2 --pp 2"])["why_not"]
        self.assertEqual([row["flags"] for row in placed], ["--tp 1", "--tp 2 --pp 2"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "best.txt"
            found.plan.save(path)
            self.assertEqual(boxcar.Plan.load(path), found.plan)
            self.assertEqual(boxcar.diff(path, found.plan).differences, [])

    def test_costs_a_campaign(self):
        rows = boxcar.campaign(JOB, tokens="1B", price=2).rows
        self.assertGreater(rows[0]["estimate"]["dollars"], 0)

    def test_lists(self):
        self.assertTrue(boxcar.sbp_rules("matmul", "4x6", "6x8", devices="2"))
        self.assertIn("dgx-h100", json.dumps(boxcar.clusters()))
        self.assertIn("llama3-8b", json.dumps(boxcar.models()))

    def test_frames(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaises(ImportError):
                boxcar.simulate(JOB).frame()
            return
        self.assertEqual(len(boxcar.simulate(JOB, tp=1, pp=2).frame()), 2)

    def test_threads_run_beside_each_other(self):
        steps = []
        threads = [threading.Thread(target=lambda: steps.append(boxcar.simulate(JOB).step_time_s)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(steps)), 1)
        self.assertEqual(len(steps), 4)

    def test_ctrl_c_ends_a_call(self):
        code = ("import boxcar\n"
                "print('begins', flush=True)\n"
                "boxcar.search(model='gpt3-175b', cluster='dgx-a100-80g', gpus=1024, global_batch=1536, simulate=1000)\n")
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=os.environ)
        process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", error)


if __name__ == "__main__":
    unittest.main()
