#!/usr/bin/env python3
"""Bandwidth that memory-bound kernels reach, from one of two tables.

    fit_memory.py TABLE.csv --bandwidth 900e9 --share 0.87           # Aceso's: Megatron's ops by micro-batch, 16 bits
    fit_memory.py TABLE.csv --bandwidth 900e9 --gpu "Tesla V100"     # NeuSight's: PyTorch's ops by rows and columns, float32

Aceso's table (model, micro_batch, tp, algo, op, fwd_us, bwd_us): the slope between two micro-batches is free of launch and timing
overhead. `--share` is the share of plain elementwise kernels; the script prints op_share, relative to it.

NeuSight's table (op, device, batch, h, latency_ms): the curve of memory_efficiency is fitted to elementwise kernels, and the shares
to layer norm and softmax, as the presets have them. With --rows an op also has a constant time and the longest row, in
bytes, that its next pass does not read from memory again: layer norm has two, softmax three. Each tenth of the shapes is held
out in turn.
"""

import argparse
import random

import fit

HIDDEN, SEQUENCE, HEADS = 5120, 2048, 40  # gpt_13B
ROW = 2.0 * SEQUENCE * HIDDEN             # bytes of [sequence, hidden] in 16 bits
SCORES = 2.0 * SEQUENCE * SEQUENCE * HEADS
# op of the table, our op, pass, bytes that our op counts per sequence
OPS = [
    ("enc-1st-layernorm", "layer_norm", "fwd_us", 2 * ROW),
    ("enc-1st-layernorm", "layer_norm_grad", "bwd_us", 3 * ROW),
    ("enc-attention-softmax", "scale_mask_softmax", "fwd_us", 2 * SCORES),
    ("enc-attention-softmax", "scale_mask_softmax_grad", "bwd_us", 3 * SCORES),
    ("enc-attention-dropout", "dropout", "fwd_us", 2 * SCORES),
    ("enc-attention-dropout", "dropout_grad", "bwd_us", 2 * SCORES),
    ("enc-MLP-gelu", "bias_gelu", "fwd_us", 8 * ROW),
    ("enc-MLP-gelu", "bias_gelu_grad", "bwd_us", 12 * ROW),
    ("enc-post-MLP-dropout", "bias_dropout_add", "fwd_us", 3 * ROW),
]
FLOOR = 2.3e-6  # launch_latency + kernel_floor of the presets
CURVE = [64e6, 256e6, 1e9]
PASSES = {"ln": 2, "softmax": 3}  # over a row: mean and variance, result; largest, sum, result
TWO_OPERANDS = ("add", "mul", "pow", "div")
KEPT = [float("inf")] + [1024 * k for k in (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48)]


def slopes(args):
    low, high = args.between.split(",")
    times = {(r["op"], r["micro_batch"]): r for r in fit.read(args.table)
             if r["model"] == "gpt_13B" and r["tp"] == "1" and r["algo"] == "0"}
    print("op_share:")
    for name, ours, column, bytes_ in OPS:
        slope = (float(times[name, high][column]) - float(times[name, low][column])) / (int(high) - int(low)) * 1e-6
        reached = bytes_ / slope / args.bandwidth
        print(f"  {ours}: {reached / args.share:.2f}  # {bytes_ / slope / 1e9:.0f} GB/s")


def seconds(row, p, args):
    """row: op, rows, columns, seconds."""
    op, rows, columns, _ = row
    tensor = 4.0 * rows * columns
    bytes_ = tensor * (3 if op in TWO_OPERANDS else 2)
    share, own, kept = p["ops"].get(op, (1.0, 0.0, float("inf")))
    moved = bytes_ + (tensor * (PASSES[op] - 1) if 4 * columns > kept else 0)
    return FLOOR + own + moved / (args.bandwidth * fit.at(list(zip(CURVE, p["curve"])), bytes_) * share)


def fitted(rows, args):
    p = {"curve": [0.8] * len(CURVE), "ops": {}}

    def error(chosen):
        return fit.log_error([(seconds(r, p, args), r[3]) for r in chosen])

    plain = [r for r in rows if r[0] not in PASSES]
    free = {"curve": p["curve"]}
    fit.descend(free, lambda _: error(plain), rounds=60, most={"curve": 1.0})
    for op in PASSES:
        chosen, best = [r for r in rows if r[0] == op], None
        for kept in KEPT if args.rows else KEPT[:1]:
            free = {"share": 0.9, "own": 20e-6 if args.rows else 0.0}

            def of_op(q, kept=kept):
                p["ops"][op] = (q["share"], q["own"], kept)
                return error(chosen)

            found = fit.descend(free, of_op, rounds=40, fixed=() if args.rows else ("own",))
            if best is None or found < best[0]:
                best = (found, (free["share"], free["own"], kept))
        p["ops"][op] = best[1]
    return p


def by_shape(args):
    rows = [(r["op"], int(r["batch"]), int(r["h"]), float(r["latency_ms"]) * 1e-3) for r in fit.read(args.table)
            if r["device"].startswith(args.gpu) and r["op"] not in ("linear", "bmm")]
    p = fitted(rows, args)
    shapes = sorted({r[1:3] for r in rows})
    random.Random(1).shuffle(shapes)
    held_out = []
    for tenth in range(10):
        out = set(shapes[tenth::10])
        q = fitted([r for r in rows if r[1:3] not in out], args)
        held_out += [(r, seconds(r, q, args)) for r in rows if r[1:3] in out]
    for text, found in (("all", [(r, seconds(r, p, args)) for r in rows]), ("each tenth of the shapes held out in turn", held_out)):
        print(f"# {text}:", fit.figures([(s, r[3]) for r, s in found]))
        for op, ops in (("layer norm", ("ln",)), ("softmax", ("softmax",)), ("of two operands", TWO_OPERANDS)):
            print(f"#   {op}:", fit.figures([(s, r[3]) for r, s in found if r[0] in ops]))
        print("#   of one:", fit.figures([(s, r[3]) for r, s in found if r[0] not in (*PASSES, *TWO_OPERANDS)]))
    print("memory_efficiency:", fit.curve(zip(CURVE, p["curve"])))
    for op, (share, own, kept) in p["ops"].items():
        print(f"# {op}: share {share:.2f}" + (f", {own * 1e6:.0f} us, rows up to {kept / 1024:.0f} KB read once" if args.rows else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--share", type=float, help="of Aceso's table")
    parser.add_argument("--between", default="2,8", help="two micro-batch sizes")
    parser.add_argument("--gpu", help="of NeuSight's table: how its device column begins")
    parser.add_argument("--rows", action="store_true", help="a constant by op, and rows that are read again")
    args = parser.parse_args()
    if (args.share is None) == (args.gpu is None):
        parser.error("one of --share and --gpu")
    (by_shape if args.gpu else slopes)(args)


if __name__ == "__main__":
    main()
