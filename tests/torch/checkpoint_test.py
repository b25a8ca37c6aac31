"""A checkpoint of `boxcar train`, run in PyTorch: losses of ten steps from the same checkpoint.

    python3 tests/torch/checkpoint_test.py build/boxcar

The data has as many windows as a step has sequences, so that every step reads all of it, in some order.
"""
import json
import os
import subprocess
import sys
import tempfile

import gpt

SEQ, WINDOWS = 16, 8
MODELS = {
    "gpt": ["--model=gpt"],
    "gpt_untied": ["--model=gpt", "--tied=false"],
    "llama": ["--model=llama", "--kv-heads=2"],
}
PLAN = ["--dp=2", "--tp=2", "--zero=1", "--micro-batch=2"]
COURSE = ["--lr-schedule=constant", "--learning-rate=0.01", "--clip-norm=0.5", "--json"]


def train(program, flags):
    """The losses by step."""
    words = [program, "train", f"--seq={SEQ}", f"--global-batch={WINDOWS}", "--dropout=0"] + COURSE + flags
    lines = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [event["loss"] for event in map(json.loads, lines) if event["event"] == "step"]


def main(program):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as file:
            file.write("".join(f"the trains run on time, line {i}\n" for i in range(20))[: SEQ * WINDOWS + 1])
        for name, model in MODELS.items():
            out = os.path.join(folder, name)
            sizes = ["--layers=2", "--hidden=16", "--heads=4", "--vocab=256", "--data=" + text]
            train(program, model + sizes + PLAN + ["--steps=3", "--checkpoint-dir=" + out])
            checkpoint = os.path.join(out, "step-000003")
            weights = os.path.join(checkpoint, "model.safetensors")
            ours = train(program, ["--init-from=" + weights, "--data=" + text, "--steps=10"] + PLAN)
            flags = ["--model", checkpoint, "--tokens", text, "--seq", str(SEQ), "--lr", "0.01", "--clip", "0.5"]
            theirs = list(gpt.train(gpt.parser().parse_args(flags)))
            worst = max(abs(a - b) for a, b in zip(ours, theirs[:-1], strict=True))
            learned = ours[0] - ours[-1]
            ok = worst <= 1e-5 and learned > 0.01
            print(f"{name}: off by {worst:.1e}, learned {learned:.3f}: {'ok' if ok else 'FAILED'}")
            failed |= not ok
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
