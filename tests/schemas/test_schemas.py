"""The output of the program with --json checked against the schemas of cli/schemas/, and their tables in docs/.

  BOXCAR_PROGRAM=build/boxcar python3 tests/schemas/test_schemas.py

The folder schemas/ beside a built program has them in their installed form (cmake/schemas.cmake).

The schemas allow no further keys, so a new key without an entry there fails here. Every key that a schema has must
be printed by one of the commands below, so that no entry is wrong unnoticed.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import schemas  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

PROGRAM = os.path.abspath(os.environ.get("BOXCAR_PROGRAM", "boxcar"))
INSTALLED = pathlib.Path(PROGRAM).parent / "schemas"
SIZES = ["--model=gpt", "--layers=2", "--hidden=64", "--heads=2", "--seq=64", "--vocab=256"]
JOB = [*SIZES, "--cluster=dgx-a100-80g", "--gpus=4", "--global-batch=8"]
WIDE = ["--model=gpt", "--layers=2", "--hidden=1024", "--heads=16", "--seq=512", "--vocab=256", "--cluster=dgx-a100-80g",
        "--gpus=2", "--global-batch=8"]
FEW = [*SIZES, "--cluster=dgx-a100-80g", "--gpus=2", "--global-batch=4"]
CAMPAIGN = ["campaign", *JOB, "--dp=4", "--price=2", "--mtbf=3h/1024", "--checkpoint-bandwidth=200GB/s", "--watts=700"]
TINY = ["--model=gpt", "--layers=2", "--hidden=16", "--heads=2", "--seq=16", "--vocab=256", "--dp=2", "--micro-batch=2",
        "--global-batch=4", "--data=text.txt", "--validate-every=2", "--checkpoint-dir=run",
        "--checkpoint-every=2"]
SMALL_GPU = "--device=small.yaml"
# Its gradients overflow in 16 bits.
LARGE_LOSS = """graph large layers=1
%x: float32[batch, 4] = input()
%labels: int64[batch] = input()
%w: float32[4, 3] = parameter()
%logits = matmul(%x, %w) layer=0
%losses = cross_entropy(%logits, %labels)
%mean = reduce_mean(%losses) {axes=[0]}
%loss = scale(%mean) {factor=1000000}
"""

# By document: commands, each with the exit code that it has.
COMMANDS = {
    "simulate.json": [
        (0, ["simulate", *JOB, "--tp=2", "--pp=2", "--zero=1", "--stack=torchtitan"]),
        (0, ["simulate", *JOB, "--what-if=bandwidth.link=2x", "--jitter=0.05", "--runs=2"]),
        (0, ["simulate", *JOB, "--offload-optimizer"]),
        (0, ["simulate", *SIZES, "--cluster=local", "--device=host.yaml", "--gpus=2", "--global-batch=4"]),
        (0, ["simulate", *SIZES, "--cluster=dgx-1-v100-16g", "--gpus=2", "--global-batch=4"]),
        (0, ["simulate", "--plan=a.txt", "--straggler=rank=0,slowdown=1.5"]),
        (1, ["simulate", *JOB, SMALL_GPU]),
        (1, ["simulate", "--model=gpt3-175b", "--cluster=dgx-a100-80g", "--gpus=1", "--global-batch=1"]),
        (1, ["simulate", *JOB, "--pp=2", "--layers=64", "--hidden=8192", "--seq=100000000", "--attention=unfused"]),
    ],
    "search.json": [
        (0, ["search", *FEW, "--tp=1", "--recompute=none", "--pareto=time,memory", "--explain-moves", "--simulate=2"]),
        (0, ["search", *JOB[:-3], "--cluster=priced.yaml", "--gpus=4", "--global-batch=8", "--objective=cost", "--simulate=2",
             "--max-step-time=1h", "--no-partial"]),
        (0, ["search", *FEW, "--tp=1", "--pp=1", "--zero=0", "--recompute=none", "--simulate=1", "--no-partial", "--sensitivity"]),
        (1, ["search", *FEW, "--tp=1", "--pp=1", "--recompute=none", "--memory=1.5MB"]),
        (1, ["search", *FEW, "--tp=1", "--pp=1", "--recompute=none", "--max-step-time=1us"]),
    ],
    "campaign.json": [
        (0, [*CAMPAIGN, "--tokens=1B"]),
        (0, ["campaign", *JOB, "--samples=1M", "--search"]),
        (0, ["campaign", *SIZES, "--cluster=dgx-a100-80g", "--gpus=16", "--global-batch=16", "--samples=1M", "--mtbf=1d/16",
             "--checkpoint-bandwidth=2GB/s", "--repair=1d", "--replan"]),
        (1, ["campaign", *JOB, "--samples=1M", SMALL_GPU]),
    ],
    "explain.json": [
        (0, ["explain", "a.txt"]),
        (0, ["explain", "a.txt", "--op=h1.attn.qkv", "--tensor=h1.attn.qkv.weight"]),
        (0, ["explain", "a.txt", "--why-not=--tp 1", "--why-not=--micro-batch 3"]),
        (0, ["explain", "best.txt", "--op=h1.attn.qkv"]),
        (0, ["explain", "best.txt", "--why-not=--pp 1"]),
        (0, ["explain", "wide.txt", "--op=h1.residual1"]),
    ],
    "diff.json": [(0, ["diff", "a.txt", "b.txt"])],
    "compare-trace.json": [(0, ["compare-trace", "a.json", "a.txt"]), (0, ["compare-trace", "a.json", "a.txt", "-o", "measured.yaml"])],
    "table.json": [(0, ["table", "runs.db"])],
    "clusters.json": [(0, ["clusters"]), (0, ["clusters", "dgx-h100"])],
    "models.json": [(0, ["models"])],
    "train.json": [
        (0, ["train", *TINY, "--steps=2", "--probe"]),
        (0, ["train", *TINY, "--steps=4", "--resume"]),
        (0, ["train", "--graph=large.txt", "--data=random", "--global-batch=4", "--steps=2", "--precision=fp16"]),
    ],
    "sbp-ops.json": [(0, ["sbp", "ops"])],
    "sbp-rules.json": [
        (0, ["sbp", "rules", "matmul", "4x6", "6x8"]),
        (0, ["sbp", "rules", "matmul", "4x6", "6x8", "--devices=2x2"]),
    ],
    "sbp-box.json": [
        (0, ["sbp", "box", "--shape=8x6", "--from", *arguments])
        for arguments in (
            ["S(0)", "--to=S(1)", "--from-devices=0-3"],
            ["P(sum)", "--to=S(0)", "--from-devices=0-3"],
            ["(S(0), P(sum))", "--to=(B, B)", "--from-devices=0-3", "--from-mesh=2x2"],
            ["S(0)", "--to=P(max)", "--from-devices=0-1", "--to-devices=1-2"],
            ["(P(sum), P(max))", "--to=(P(sum), P(max))", "--from-devices=0-3", "--from-mesh=2x2", "--to-devices=2-5",
             "--to-mesh=2x2"])
    ],
    "report.json": [],  # in a page
    "report-runs.json": [],  # likewise
}
LINES = {"train.json"}  # a document per line
# Keys that only unusual jobs have: a difference that makes no plan alone, points that the search leaves out.
RARE = {"diff.json": {"why"}, "search.json": {"count"}}


def run(folder, *words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, cwd=folder)


def small_files(folder):
    """Files that the commands name: a GPU with little memory, cores that share one, a cluster with a price, a sweep, a text."""
    presets = schemas.ROOT / "backends" / "presets"
    device = (presets / "devices" / "a100-sxm-80g.yaml").read_text()
    (folder / "small.yaml").write_text(re.sub(r"memory_bytes: .*", "memory_bytes: 2MB", device))
    (folder / "host.yaml").write_text((presets / "devices" / "cpu.yaml").read_text() + "host: {cores: 2}\n")
    cluster = (presets / "clusters" / "dgx-a100-80g.yaml").read_text()
    (folder / "priced.yaml").write_text(cluster + "price_per_gpu_hour: 2\n")
    (folder / "sweep.yaml").write_text("model: gpt2\ncluster: dgx-h100\ngpus: 8\nglobal_batch: 16\ntp: [1, 2]\n")
    (folder / "large.txt").write_text(LARGE_LOSS)
    (folder / "text.txt").write_text("A text to train on, of some words and no more.\n" * 40)


def keys_of(value):
    if isinstance(value, dict):
        return set(value) | {key for one in value.values() for key in keys_of(one)}
    return {key for one in value for key in keys_of(one)} if isinstance(value, list) else set()


def keys_of_schema(node):
    if isinstance(node, list):
        return {key for one in node for key in keys_of_schema(one)}
    if not isinstance(node, dict):
        return set()
    return set(node.get("properties", {})) | {key for one in node.values() for key in keys_of_schema(one)}


class TestTables(unittest.TestCase):
    def test_every_schema_has_commands(self):
        self.assertEqual(sorted(COMMANDS), sorted(schemas.load()))

    def test_pages_have_the_tables_of_the_schemas(self):
        for page in schemas.pages():
            self.assertTrue(schemas.with_tables(page.read_text()) == page.read_text(),
                            f"{page}: tests/schemas/schemas.py --write makes its tables those of the schemas")

    def test_every_schema_has_its_tables_on_one_page(self):
        with_keys = [name for name, schema in schemas.load().items() if any(True for _ in schemas.objects(schema))]
        self.assertEqual(sorted(schemas.documented()), with_keys)

    def test_no_object_takes_further_keys(self):
        def check(node, path):
            if isinstance(node, list):
                for number, one in enumerate(node):
                    check(one, f"{path}/{number}")
            if not isinstance(node, dict):
                return
            is_base = path in ("simulate.json/$defs/result", "diff.json/$defs/placed")  # which others extend
            if "properties" in node and path.split("/")[-1] not in ("if", "then", "else") and not is_base:
                self.assertIs(node.get("additionalProperties", node.get("unevaluatedProperties")), False, path)
            for key, one in node.items():
                check(one, f"{path}/{key}")

        for name, schema in schemas.load().items():
            check(schema, name)


@unittest.skipIf(jsonschema is None, "there is no Python module jsonschema (Debian's python3-jsonschema)")
class TestDocuments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.made.name)
        small_files(cls.folder)
        for words in (["simulate", *JOB, "--tp=2", "--pp=2", "--save-plan=a.txt", "--trace=a.json"],
                      ["simulate", *JOB, "--dp=2", "--pp=2", "--micro-batch=2", "--save-plan=b.txt"],
                      ["simulate", *WIDE, "--tp=2", "--save-plan=wide.txt"],
                      ["search", *JOB, "--simulate=2", "-o", "best.txt"],
                      ["simulate", "--model=gpt2", "--cluster=dgx-a100-80g", "--gpus=1", "--save-plan=known.txt"],
                      ["report", "known.txt", "--no-sensitivity", "-o", "known.html"],
                      ["report", "best.txt", "--tokens=1M", "--price=2", "--mtbf=3h/8", "--checkpoint-bandwidth=1GB/s", "-o", "page.html"]):
            done = run(cls.folder, *words)
            cls.lacks_d3 = "lacks D3" in done.stderr
            assert done.returncode == 0 or cls.lacks_d3, (words, done.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def printed(self, name):
        if name in ("table.json", "report-runs.json"):
            swept = run(self.folder, "sweep", "sweep.yaml", "-o", "runs.db")
            if "lacks SQLite" in swept.stderr:
                self.skipTest("this build lacks SQLite")
            self.assertEqual(swept.returncode, 0, swept.stderr)
        for code, words in COMMANDS[name]:
            done = run(self.folder, *words, "--json")
            self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
            for text in done.stdout.splitlines() if name in LINES else [done.stdout]:
                yield words, json.loads(text)
        if name in ("report.json", "report-runs.json"):
            if self.lacks_d3:
                self.skipTest("this build lacks D3")
            if name == "report-runs.json":
                self.assertEqual(run(self.folder, "report", "runs.db", "-o", "runs.html").returncode, 0)
            for page in ("page.html", "known.html") if name == "report.json" else ("runs.html",):
                text = (self.folder / page).read_text()
                yield ["report"], json.loads(re.search(r'id="document"[^>]*>(.*?)</script>', text, re.DOTALL)[1])

    def check(self, name):
        validator = jsonschema.Draft202012Validator(schemas.bundle(name))
        seen = set()
        for words, document in self.printed(name):
            seen |= keys_of(document)
            error = jsonschema.exceptions.best_match(validator.iter_errors(document))
            self.assertIsNone(error, f"{' '.join(words)}: {error and error.json_path}: {error and error.message}")
        unseen = keys_of_schema(schemas.load()[name]) - seen - RARE.get(name, set())
        self.assertEqual(unseen, set(), f"no command prints these keys of {name}")

    @unittest.skipUnless(INSTALLED.is_dir(), "there are no schemas beside the program, as a build has them")
    def test_an_installed_schema_needs_no_other_file(self):
        documents = {name: next(self.printed(name)) for name in ("explain.json", "diff.json", "campaign.json", "sbp-ops.json")}
        for name in schemas.load():
            schema = json.loads((INSTALLED / name).read_text())
            self.assertEqual(schema["$id"], f"https://boxcar.invalid/schemas/{name}")
            jsonschema.Draft202012Validator.check_schema(schema)
            if name not in documents:
                continue
            validator = jsonschema.Draft202012Validator(schema)
            words, document = documents[name]
            self.assertEqual([error.message for error in validator.iter_errors(document)], [], words)
            for key in document:
                self.assertFalse(validator.is_valid({**document, key: [[]]}), f"{name}: any {key} is valid")

    def test_schemas_are_schemas(self):
        for name in schemas.load():
            jsonschema.Draft202012Validator.check_schema(schemas.bundle(name))



def add_test(name):
    setattr(TestDocuments, "test_" + re.sub(r"\W", "_", name), lambda self: self.check(name))


for document in COMMANDS:
    add_test(document)

if __name__ == "__main__":
    unittest.main()
