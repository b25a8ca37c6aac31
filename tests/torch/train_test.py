"""Losses of whole training runs, ours compared with gpt.py's from the same checkpoint.

    python3 tests/torch/train_test.py build/tests/torch/torch_dump

torch_dump trains by the reference kernels in float64; gpt.py in float64 agrees to rounding, in float32 to 1e-5.
"""
import json
import os
import subprocess
import sys
import tempfile

import gpt

TOLERANCES = {"float64": 1e-9, "float32": 1e-5}


def main(program):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "training", folder], check=True)
        for name in sorted(os.listdir(folder)):
            run = os.path.join(folder, name)
            with open(os.path.join(run, "training.json")) as file:
                training = json.load(file)
            files = ["--model", os.path.join(run, "step-000000"), "--tokens", os.path.join(run, "tokens.bin")]
            for dtype, tolerance in TOLERANCES.items():
                flags = files + training["flags"] + ["--steps", "10", "--dtype", dtype]
                losses = list(gpt.train(gpt.parser().parse_args(flags)))
                worst = max(abs(a - b) for a, b in zip(losses, training["losses"], strict=True))
                learned = losses[0] - losses[-1]
                ok = worst <= tolerance and learned > 0.01
                print(f"{name} {dtype}: off by {worst:.1e}, learned {learned:.3f}: {'ok' if ok else 'FAILED'}")
                failed |= not ok
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
