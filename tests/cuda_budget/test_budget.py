"""Kernels of GPT-2, Llama and ResNet-50 stay within their budget, counted from PTX (budget.py). Skipped, with the reason,
if there is no nvcc; the counter itself is always tested."""

import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import budget  # noqa: E402
import ptx  # noqa: E402

# By (step, op), the ratio that is allowed above the aim, and why.
SCRATCH = "a sum over micro-batches is added up in a kernel of its own, from scratch memory"
DRAWS = "dropout draws a hash of 64 bits for each element"
ERFC = "the exact GELU takes some 40 instructions for each element"
PLACES = "a kernel of its own finds the maxima, and the next reads each window for all that it covers"
ABOVE = {
    ("gpt2", "accumulate"): (1.9, SCRATCH),
    ("gpt2-defaults", "accumulate"): (1.9, SCRATCH),
    ("llama", "accumulate"): (1.9, SCRATCH),
    ("resnet50", "accumulate"): (1.9, SCRATCH),
    ("gpt2-defaults", "dropout"): (1.8, DRAWS),
    ("gpt2-defaults", "dropout_grad"): (1.8, DRAWS),
    ("gpt2-defaults", "fused"): (1.8, DRAWS),
    ("gpt2-defaults", "bias_gelu"): (2.1, ERFC),
    ("gpt2-defaults", "bias_gelu_grad"): (1.8, ERFC),
    ("resnet50", "max_pool2d_grad"): (2.8, PLACES),
    ("resnet50", "broadcast_to"): (2.1, "the count takes each read of a repeated element for one of the memory"),
}

LOOP = """
.visible .entry sum(
	.param .u64 sum_param_0,
	.param .u32 sum_param_1
)
{
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [sum_param_0];
	ld.param.u32 %r1, [sum_param_1];
	mov.u32 %r2, 0;
	mov.f32 %f9, 0f00000000;
$L__BB0_1:
	mul.wide.u32 %rd2, %r2, 16;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3];
	ld.global.f32 %f5, [%rd3+4096];
	add.f32 %f9, %f9, %f1;
	rem.s64 %rd4, %rd3, %rd1;
	add.s32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, %r1;
	@%p1 bra $L__BB0_1;
	st.global.f32 [%rd1], %f9;
	ret;
}
"""


class Counter(unittest.TestCase):
    def run_loop(self, rounds):
        kernel = ptx.Module(LOOP).kernels["sum"]
        arguments = [(1 << 40).to_bytes(8, "little"), rounds.to_bytes(4, "little")]
        return kernel.run(arguments, (1, 1), 32, (0, 0), 0, {})

    def test_loops_are_counted_by_rounds(self):
        one, three = self.run_loop(1), self.run_loop(3)
        # mul, add (64 bits: 2), two loads, add, rem (80), add, setp, bra
        self.assertEqual(three.issued - one.issued, 2 * (1 + 2 + 2 + 1 + 80 + 1 + 1 + 1))
        self.assertEqual(three.divisions, 3)

    def test_accesses_have_address_and_width(self):
        count = self.run_loop(2)
        self.assertEqual([(at - (1 << 40), width, load) for at, width, load, _ in count.accesses],
                         [(0, 16, True), (4096, 4, True), (16, 16, True), (4112, 4, True), (0, 4, False)])

    def test_loads_are_in_flight_until_one_is_used(self):
        self.assertEqual(self.run_loop(4).most_in_flight, 20)

    def test_bits_are_inserted_and_combined(self):
        text = LOOP.replace("mul.wide.u32 %rd2, %r2, 16;", "bfi.b32 %r9, %r2, 3, 4, 27; lop3.b32 %r8, %r9, 8, 0, 0xfc;"
                            "mul.wide.u32 %rd2, %r8, 1;")
        kernel = ptx.Module(text).kernels["sum"]
        count = kernel.run([(1 << 40).to_bytes(8, "little"), (2).to_bytes(4, "little")], (1, 1), 32, (0, 0), 0, {})
        self.assertEqual([at - (1 << 40) for at, width, _, _ in count.accesses if width == 16], [11, 27])  # 3 | 16 n | 8

    def test_lanes_that_are_apart_move_whole_sectors(self):
        class Of:
            def __init__(self, *at):
                self.accesses = [(a, 4, True, line) for line, a in enumerate(at)]

        self.assertEqual(budget.moved(Of(0), Of(4)), (4, 0))
        self.assertEqual(budget.moved(Of(0), Of(512)), (32, 0))
        self.assertEqual(budget.moved(Of(0, 4), Of(512, 516)), (32, 0))  # of one sector
        self.assertEqual(budget.moved(Of(0), Of(0)), (4 / 32, 0))
        self.assertEqual(budget.moved(Of(0, 64), Of(4, 68), [Of(0, 128)]), (4, 4))


class Budget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nvcc = os.environ.get("BOXCAR_NVCC") or shutil.which("nvcc") or ""
        for tool in (cls.nvcc or "nvcc", "c++filt", "nm"):
            if not shutil.which(tool):
                raise unittest.SkipTest(f"no {tool}")
        cls.rows = budget.rows_of(cls.nvcc, pathlib.Path(os.environ["BOXCAR_BUDGET_FOLDER"]), os.environ["BOXCAR_LAUNCHES"])
        cls.judged = [row for row in cls.rows if row["judged"]]

    def each(self, test):
        for row in self.judged:
            for name, time, _, facts in row["kernels"]:
                if "registers" in facts and time > 0.1 * row["seconds"]:  # no preparation by a small one
                    with self.subTest(step=row["job"], op=row["op"], types=row["types"], kernel=name):
                        test(row, {"kernel": name, **facts})

    def test_no_kernel_needs_more_than_its_bytes_time_and_a_half(self):
        self.assertGreater(len(self.judged), 50)
        for row in self.judged:
            most, _ = ABOVE.get((row["job"], row["op"]), (budget.AIM, ""))
            with self.subTest(step=row["job"], op=row["op"], types=row["types"]):
                self.assertLessEqual(row["ratio"], most)

    def test_ops_above_the_aim_are_still_there(self):
        for (job, op), (most, why) in ABOVE.items():
            with self.subTest(step=job, op=op, why=why):
                ratios = [row["ratio"] for row in self.judged if (row["job"], row["op"]) == (job, op)]
                self.assertGreater(max(ratios), budget.AIM)

    def test_no_division_of_64_bits_no_stack_no_local_memory(self):
        def test(row, facts):
            self.assertEqual((facts["divisions64"], facts["stack"], facts["spills"], facts["local"]), (0, 0, 0, 0))

        self.each(test)

    def test_most_bytes_move_by_16(self):
        def test(row, facts):
            through_tiles = row["op"] == "transpose"  # an element at a time
            of_blocks = row["op"].endswith("norm_grad") and facts["kernel"].startswith("columns_of_stretches")  # their sums
            if not through_tiles and not of_blocks:
                self.assertEqual(facts["width"], 16)

        self.each(test)

    def test_page_has_the_table(self):
        if f"Counted with CUDA {budget.release(self.nvcc)}." not in budget.page_table():
            self.skipTest(f"the page's table is not of CUDA {budget.release(self.nvcc)}")
        self.assertEqual(budget.text_of(self.nvcc, self.rows), budget.page_table(), "budget.py --write")


if __name__ == "__main__":
    unittest.main(verbosity=2)
