"""The Python package compared with the program: the same numbers, the same errors.

  PYTHONPATH=build/python python3 tests/python/test_boxcar.py
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
import unittest.mock
import warnings

import boxcar

try:
    import boxcar._core as core
except ImportError:
    core = None
try:
    import pandas
except ImportError:
    pandas = None

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
        for name in ("step_time_s", "first_step_time_s", "tokens_per_s", "samples_per_s", "mfu", "model_tflops_per_gpu",
                     "hardware_tflops_per_gpu", "bubble_fraction", "exposed_comm_s", "comm_bytes", "peak_memory_bytes"):
            self.assertEqual(getattr(step, name), document[name], name)
        self.assertEqual(step.bound_by.stage, document["bound_by"]["stage"])
        self.assertEqual(getattr(step.bound_by, step.bound_by.largest),
                         max(share for share in document["bound_by"].values() if isinstance(share, float)))
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

    def test_takes_a_model_as_a_dict(self):
        step = boxcar.simulate(model=JOB["model"], cluster="dgx-a100-80g", gpus=8, tp=2, global_batch=32)
        self.assertEqual(step.step_time_s, boxcar.simulate(JOB).step_time_s)
        self.assertEqual(boxcar.simulate(JOB, model={"layers": 2}).configuration["model.layers"], "2")

    def test_errors_have_the_program_s_text(self):
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.simulate(JOB, tp=3)
        text = subprocess.run([boxcar.program(), "simulate", *FLAGS, "--tp=3"], capture_output=True, text=True).stderr
        self.assertEqual(f"boxcar: {bad.exception}\n", text)
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

    def test_says_how_to_name_the_program(self):
        before = os.environ.get("BOXCAR_PROGRAM")
        os.environ["BOXCAR_PROGRAM"] = "/nowhere/boxcar"
        try:
            with self.assertRaises(boxcar.Fault) as fault:
                boxcar.models()
        finally:
            os.environ.pop("BOXCAR_PROGRAM") if before is None else os.environ.update(BOXCAR_PROGRAM=before)
        self.assertEqual(str(fault.exception),
                         "/nowhere/boxcar cannot be run: No such file or directory; BOXCAR_PROGRAM may name the program")

    def test_notes_are_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            boxcar.simulate(JOB, dp=1, tp=4, pp=2, zero=3)
        self.assertEqual([str(w.message) for w in caught], ["--zero: has no effect unless dp or context_parallel is 2 or more"])

    def test_searches_and_keeps_the_plan(self):
        found = boxcar.search(JOB, simulate=4)
        self.assertEqual(found.candidates[0].step_time_s, found.step_time_s)
        self.assertEqual(found.candidates[0].keys["tp"], 2)
        self.assertEqual(found.pareto, [])
        front = boxcar.search(JOB, pareto="time,memory", simulate=2, pp=1, micro_batch=8, recompute="none", zero="0..1",
                              sequence_parallel=False).pareto
        self.assertEqual(sorted(front, key=lambda plan: plan.peak_memory_bytes, reverse=True), front)
        self.assertAlmostEqual(found.plan.simulate().step_time_s, found.step_time_s, delta=1e-9)
        stages = found.plan.explain().stages
        self.assertEqual([stage.peak_memory_bytes for stage in stages], found.best.peak_memory_bytes)
        placed = boxcar.why_not(found.plan, ["--schedule gpipe", "--tp 2 --pp 2", "--tp 3"])
        self.assertEqual([row.flags for row in placed], ["--schedule gpipe", "--tp 2 --pp 2", "--tp 3"])
        self.assertAlmostEqual(placed[0].slower, placed[0].step_time_s / found.step_time_s - 1)
        self.assertIn("does not divide", placed[2].why)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "best.txt"
            found.plan.save(path)
            self.assertEqual(boxcar.Plan.load(path), found.plan)
            self.assertEqual(boxcar.diff(path, found.plan).differences, [])

    def test_explains_ops_and_tensors(self):
        plan = boxcar.plan(JOB)
        op = boxcar.explain_op(plan, "h1.attn.qkv")
        self.assertEqual({row.dimension for row in op.signatures}, set(op.decided))
        self.assertEqual([row.signature for row in op.signatures if row.chosen and row.dimension == "tp"], ["B, S(1) -> S(2)"])
        tensor = boxcar.explain_tensor(plan, "h1.attn.qkv.weight")
        self.assertEqual(sorted(device for block in tensor.blocks for device in block.devices), tensor.devices)
        with self.assertRaises(boxcar.BadInput):
            boxcar.explain_op(plan, "h9.attn.qkv")

    def test_costs_a_campaign(self):
        rows = boxcar.campaign(JOB, tokens="1B", price=2).rows
        self.assertGreater(rows[0].estimate.dollars, rows[0].low.dollars)
        self.assertIsNone(rows[0].estimate.energy_mwh)
        plan = boxcar.plan(JOB)
        both = boxcar.campaign(plan=[plan, plan], tokens="1B", price=2).rows
        self.assertEqual([row.estimate.dollars for row in both], [rows[0].estimate.dollars] * 2)
        self.assertEqual([row.job for row in both], ["plan0", "plan1"])
        alone = boxcar.campaign(plan, tokens="1B", price=2).rows
        self.assertEqual([(row.job, row.estimate.dollars) for row in alone], [("plan", rows[0].estimate.dollars)])
        self.assertEqual(rows[0].job, "job")

    def test_names_no_file_of_its_own(self):
        cluster = boxcar.clusters()["dgx-a100-80g"]
        cluster["node"]["gpus"] = "eight"
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.simulate(JOB, cluster=cluster)
        self.assertEqual(str(bad.exception), "cluster: node.gpus: eight is not a number")
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.simulate({**JOB, "parallel": {"tp": "three"}})
        self.assertTrue(str(bad.exception).startswith('job: parallel.tp: got "three"'), bad.exception)

    def test_plans_keep_a_cluster_that_was_a_dict(self):
        cluster = boxcar.clusters()["dgx-a100-80g"]
        plain = boxcar.plan(JOB, cluster=cluster)
        self.assertEqual(plain.simulate().step_time_s, boxcar.simulate(JOB, cluster=cluster).step_time_s)
        cluster["node"]["link_bandwidth"] = "1GB/s"
        slow = boxcar.plan(JOB, cluster=cluster)
        self.assertEqual(boxcar.search(JOB, cluster=cluster, pp=1, micro_batch=4, recompute="none", simulate=1).plan.descriptions,
                         slow.descriptions)
        self.assertEqual(slow.labels["cluster.preset"] if core else "cluster.yaml", "cluster.yaml")
        self.assertGreater(slow.simulate().step_time_s, plain.simulate().step_time_s)
        self.assertEqual(boxcar.diff(plain, slow).b.step_time_s, slow.simulate().step_time_s)
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.Plan(slow.text).simulate()
        self.assertEqual(str(bad.exception), "cluster.yaml: cannot be read")

    def test_documents_name_no_temporary_file(self):
        self.assertNotIn(tempfile.gettempdir(), json.dumps(boxcar.campaign(boxcar.plan(JOB), tokens="1B").document))

    def test_has_the_program_s_version(self):
        said = subprocess.run([boxcar.program(), "--version"], capture_output=True, text=True).stdout
        self.assertEqual(said, f"boxcar {boxcar.__version__}\n")
        with self.assertRaises(AttributeError):
            boxcar.no_such_name

    def test_sweeps_into_a_file_and_goes_on(self):
        values = {**{"model": "gpt2", "cluster": "dgx-a100-80g", "gpus": 8, "global_batch": 64}, "tp": [1, 2, 5]}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "runs.db"
            sweep = boxcar.sweep(values, file)
            self.assertEqual([run.keys for run in sweep.runs], [{"tp": 1}, {"tp": 2}, {"tp": 5}])
            self.assertEqual(sweep.runs[0].step_time_s,
                             boxcar.simulate(model="gpt2", cluster="dgx-a100-80g", gpus=8, global_batch=64).step_time_s)
            self.assertIn("does not divide", sweep.runs[2].why_not)
            again = boxcar.sweep(values, file, tp=[1, 2, 4])
            self.assertEqual({run.keys["tp"] for run in again.runs}, {1, 2, 4, 5})
            rows = boxcar.table(file, where="fits", columns=["tp", "step_time_s"], sort="tp desc", limit=2)
            self.assertEqual((rows.columns, [row["tp"] for row in rows.rows]), (["tp", "step_time_s"], [4, 2]))
            front = boxcar.table(file, pareto=["step_time_s", "peak_memory_bytes"])
            self.assertLessEqual(len(front.rows), 3)
        # Points that cannot run are results, not errors.
        self.assertEqual([run.fits for run in boxcar.sweep({**values, "tp": range(5, 9, 2)}).runs], [None, None])
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.sweep({**values, "tp": 1j})
        self.assertEqual(str(bad.exception), "got 1j, expected a number, text or a list of them")

    def test_says_which_signal_ended_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            killed = pathlib.Path(folder) / "boxcar"
            killed.write_text("#!/bin/sh\nkill -KILL $$\n")
            killed.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, BOXCAR_PROGRAM=str(killed)), self.assertRaises(boxcar.Fault) as fault:
                boxcar.models()
        self.assertEqual(str(fault.exception), "boxcar was ended by SIGKILL, as a system does when its memory is full")

    def test_writes_reports_and_exports(self):
        plan = boxcar.plan(JOB, pp=2)
        with tempfile.TemporaryDirectory() as folder:
            page = boxcar.report(plan, pathlib.Path(folder) / "page.html", sensitivity=False)
            self.assertIn("<html", page.read_text())
        script = boxcar.export(plan, to="megatron")
        self.assertIn("--pipeline-model-parallel-size 2", script.text)
        self.assertEqual(boxcar.export(JOB, pp=2, to="megatron").text, script.text)
        zero_bubble = boxcar.export(JOB, pp=2, schedule="zb-h1", to="megatron")
        self.assertIn("zb-h1", " ".join(zero_bubble.unsaid))
        with self.assertRaises(boxcar.CannotRun):
            boxcar.export(JOB, pp=2, schedule="zb-h1", to="megatron", strict=True)

    def test_lists_what_it_takes(self):
        for name in ("dgx-h100", "dgx-a100-80g"):
            mine = boxcar.clusters(name)[name]
            self.assertEqual(boxcar.simulate(JOB, cluster=mine).step_time_s, boxcar.simulate(JOB, cluster=name).step_time_s)
        gpt2 = boxcar.models()["gpt2"]
        rest = {"cluster": "dgx-a100-80g", "gpus": 8, "global_batch": 64}
        self.assertEqual(boxcar.simulate(model=gpt2, **rest).step_time_s, boxcar.simulate(model="gpt2", **rest).step_time_s)

    @unittest.skipUnless(pandas, "needs pandas")
    def test_frames(self):
        step = boxcar.simulate(JOB, tp=1, pp=2)
        self.assertEqual(list(step.frame().peak), step.peak_memory_bytes)
        self.assertEqual(list(boxcar.frame([boxcar.Run({"tp": 2}, True, 1.0, 2.0, 0.5, 3, "kernels", None)]).tp), [2])
        costs = boxcar.campaign(JOB, tokens="1B").frame()
        self.assertLess(costs.low_days[0], costs.estimate_days[0])

    @unittest.skipIf(pandas, "pandas is there")
    def test_says_that_frames_need_pandas(self):
        with self.assertRaisesRegex(ImportError, "pandas"):
            boxcar.simulate(JOB).frame()

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

    def test_ctrl_c_does_not_wait_for_a_program_that_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            deaf = pathlib.Path(folder) / "boxcar"
            deaf.write_text("#!/bin/sh\ntrap '' INT\necho $$ > began.new; mv began.new began\nexec sleep 300\n")
            deaf.chmod(0o755)
            process = subprocess.Popen([sys.executable, "-c", "import boxcar; boxcar.search(model='gpt2')"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "BOXCAR_PROGRAM": str(deaf)})
            while not (began := pathlib.Path(folder) / "began").exists() and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)  # a guard: it is at once
            self.assertIn("KeyboardInterrupt", error)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(began.read_text()), 0)

    def test_ctrl_c_in_a_sweep_keeps_its_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "runs.db")
            values = {"model": "gpt2", "cluster": "dgx-a100-80g", "gpus": 8, "micro_batch": "1..512", "global_batch": "512..8192 x2"}
            process = subprocess.Popen([sys.executable, "-c", f"import boxcar; boxcar.sweep({values!r}, {file!r})"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
            runs = 0
            while runs == 0 and process.poll() is None:
                time.sleep(1)
                runs = runs_in(file)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
            self.assertIn("KeyboardInterrupt", error)
            self.assertGreaterEqual(runs_in(file), runs)
            self.assertFalse(os.path.exists(file + ".lock"))


def runs_in(file):
    try:
        return len(boxcar.table(file, columns=["tp"]).rows)
    except boxcar.BoxcarError:  # not written yet
        return 0


@unittest.skipUnless(core, "boxcar._core was not built: pybind11 was not found")
class TestCore(unittest.TestCase):
    def test_rules_and_routes_are_the_program_s(self):
        document = json.loads(subprocess.run([boxcar.program(), "sbp", "rules", "matmul", "4x6", "8x6", "--devices=2x2",
                                              "--attr=transpose_b=true", "--json"], capture_output=True).stdout)
        rules = boxcar.sbp.rules("matmul", (4, 6), "8x6", devices=(2, 2), transpose_b=True)
        self.assertEqual([(list(rule.inputs), list(rule.outputs)) for rule in rules],
                         [([f"({a}, {b})" for a, b in row["inputs"]], [f"({a}, {b})" for a, b in row["outputs"]])
                          for row in document["rules"]])
        document, _ = printed("sbp", "box", "--shape=8x6", "--from=S(0)", "--to=(S(1), B)", "--from-devices=0-3",
                              "--to-devices=2-5", "--to-mesh=2x2")
        route = boxcar.sbp.box((8, 6), "S(0)", "(S(1), B)", devices=range(4), to_devices="2-5", to_mesh="2x2")
        self.assertEqual(route.document, document)
        self.assertEqual(sum(step.bytes_moved for step in route.steps), route.bytes_moved)
        self.assertEqual(boxcar.sbp.ops(), printed("sbp", "ops")[0]["ops"])

    def test_shapes_and_layouts_are_text_or_sequences(self):
        class Array:
            shape = (4, 6)

        rules, box = boxcar.sbp.rules, boxcar.sbp.box
        by_text = rules("matmul", "4x6", "6x8", devices="2x2")
        for shapes in ["4x6", [6, 8]], [["4x6", "6x8"]], [((4, 6), "6x8")], [[Array(), (6, 8)]], [Array(), "6x8"]:
            self.assertEqual(rules("matmul", *shapes, devices=(2, 2)), by_text)
        self.assertEqual(box((8, 6), ("S(0)", "B"), ["B", "S(1)"], devices="0-3").document,
                         box("8x6", "(S(0), B)", "(B, S(1))", devices=range(4)).document)
        self.assertEqual(box("8x6", ["S(0)"], "B", devices=[0, 1]).source, "S(0) on 0-1")
        for wrong in ({"4x6": 1}, [4.5, 6], object(), None):
            with self.assertRaisesRegex(TypeError, "a shape is \"4x6\""):
                rules("matmul", wrong, "6x8")
        with self.assertRaisesRegex(TypeError, "a layout is \"S\\(0\\)\""):
            box("8x6", [0], "B", devices="0-3")
        with self.assertRaisesRegex(TypeError, "devices are \"0-3\""):
            box("8x6", "B", "B", devices=[0.5])

    def test_errors_are_the_program_s(self):
        with self.assertRaises(boxcar.BadInput) as bad:
            boxcar.sbp.rules("matmul", "4x6", "7x8")
        done = subprocess.run([boxcar.program(), "sbp", "rules", "matmul", "4x6", "7x8"], capture_output=True, text=True)
        self.assertEqual(f"boxcar: {bad.exception}\n", done.stderr)
        with self.assertRaisesRegex(boxcar.BadInput, "^plan:1:1: "):
            boxcar.Plan("no plan").programs
        with tempfile.TemporaryDirectory() as folder:
            missing, other = pathlib.Path(folder, "missing.txt"), pathlib.Path(folder, "other.txt")
            other.write_bytes(b"root:x:0:0\xff\n")
            with self.assertRaises(boxcar.BadInput) as bad:
                boxcar.Plan.load(missing)
            self.assertEqual(str(bad.exception), f"{missing}: cannot be read; check the path")
            with self.assertRaises(boxcar.BadInput) as bad:
                boxcar.Plan.load(other)
            self.assertEqual(str(bad.exception), f"{other}: is no plan; `boxcar search -o` and "
                             "`boxcar simulate --save-plan` write plans")
        self.assertEqual(repr(boxcar.Plan("plan gpt\ndevices 8\n")), "<Plan gpt on 8 devices>")
        self.assertEqual(repr(boxcar.Plan("")), "<Plan ? on ? devices>")
        text = "plan gpt\ndevices 8\nlabel parallel.dp = 2\nlabel parallel.pp = 1\nlabel parallel.tp = 4\n"
        self.assertEqual(repr(boxcar.Plan(text)), "<Plan gpt on 8 devices: dp 2, tp 4>")

    def test_plans_have_their_parts(self):
        step = boxcar.simulate(JOB, pp=2)
        plan = boxcar.plan(JOB, pp=2)
        self.assertEqual(plan.size, {key: step.document["plan"][key] for key in plan.size})
        self.assertEqual((plan.devices, plan.micro_batches), (8, int(32 / int(step.configuration["parallel.dp"]))))
        self.assertEqual(plan.labels["parallel.pp"], "2")
        self.assertRegex(repr(plan.programs[0]), r"^<Program stage0 on 4 devices: \d+ actors, \d+ registers, \d+ queues>$")
        self.assertEqual([program.devices for program in plan.programs], [[0, 1, 2, 3], [4, 5, 6, 7]])
        self.assertEqual([program.arena_bytes for program in plan.programs], step.peak_memory_bytes)
        self.assertEqual(plan.size["actors"], sum(len(program.actors) * len(program.devices) for program in plan.programs))
        for number, program in enumerate(plan.programs):
            queues, registers = {queue.name for queue in program.queues}, {one.name for one in program.registers}
            runs = {phase for phase, _ in program.schedule}
            for actor in program.actors:
                self.assertIn(actor.queue, queues)
                self.assertIn(actor.phase, runs)
                self.assertLessEqual(set(actor.outputs), registers)
                for one in actor.inputs:
                    other = plan.programs[1 - number if one.program and one.program != program.name else number]
                    self.assertEqual(other.register(one.register).name, one.register)
            for register in program.registers:
                if register.producer:
                    self.assertIn(register.name, program.actor(register.producer).outputs)
        weight = plan.programs[0].register("h0.attn.qkv.weight")
        self.assertEqual((weight.dtype, weight.shape, weight.memory), ("float32", [256, 384], "optimizer"))
        pull = next(actor for actor in plan.programs[1].actors if actor.kind == "pull")
        self.assertEqual(pull.inputs[0].program, "stage0")
        reduce = next(actor for actor in plan.programs[0].actors if actor.op == "all_reduce" and actor.comm == "tp")
        self.assertEqual({len(group) for group in plan.comms[reduce.comm]}, {2})

    def test_threads_share_the_interpreter(self):
        text = boxcar.plan(JOB).text
        plans = [boxcar.Plan(text) for _ in range(4)]
        threads = [threading.Thread(target=lambda plan=plan: plan.programs) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({repr(plan.programs) for plan in plans}), 1)


@unittest.skipIf(core, "boxcar._core is there")
class TestWithoutCore(unittest.TestCase):
    def test_says_what_is_missing(self):
        with self.assertRaisesRegex(ImportError, "pybind11"):
            boxcar.sbp.ops()
        with self.assertRaisesRegex(ImportError, "pybind11"):
            boxcar.Plan("").programs


if __name__ == "__main__":
    unittest.main()
