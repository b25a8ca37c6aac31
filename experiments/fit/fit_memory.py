#!/usr/bin/env python3
"""Bandwidth that memory-bound kernels of a transformer reach, from a profile of Megatron's ops by micro-batch.

    fit_memory.py TABLE.csv --bandwidth 900e9 --share 0.87

TABLE is Aceso's (model, micro_batch, tp, algo, op, fwd_us, bwd_us). The slope between two micro-batches is free of
launch and timing overhead. `--share` is what plain elementwise kernels reach; printed is op_share, relative to it.
"""

import argparse

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--between", default="2,8", help="two micro-batch sizes")
    args = parser.parse_args()
    low, high = args.between.split(",")
    times = {(r["op"], r["micro_batch"]): r for r in fit.read(args.table)
             if r["model"] == "gpt_13B" and r["tp"] == "1" and r["algo"] == "0"}
    print("op_share:")
    for name, ours, column, bytes_ in OPS:
        slope = (float(times[name, high][column]) - float(times[name, low][column])) / (int(high) - int(low)) * 1e-6
        reached = bytes_ / slope / args.bandwidth
        print(f"  {ours}: {reached / args.share:.2f}  # {bytes_ / slope / 1e9:.0f} GB/s")


if __name__ == "__main__":
    main()
