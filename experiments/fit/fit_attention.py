#!/usr/bin/env python3
"""Turns published flash-attention speeds into the curves of a device file.

    fit_attention.py TABLE.csv --gpu H100-SXM5-80GB --method FlashAttention-2 --peak 989e12

The table has gpu, method, pass (fwd, fwd+bwd), causal, head_dim, seq_len, tflops. Speeds count four products of
pairs x head size forward and 2.5 times as many backward, half of them if causal. If only fwd+bwd is published
(A100), --backward-ratio, the ratio of their speeds, separates forward and backward. The constants are fitted to all rows;
held-out errors are those of each tenth in turn, with constants fitted to the rest.
"""

import argparse

import fit

SEQUENCES = [512, 1024, 2048, 4096, 8192, 16384]


def combined(forward, ratio):
    """Speed of both passes together from the forward pass's and backward / forward."""
    return 3.5 / (1 / forward + 2.5 / (ratio * forward))


def model(p, sequence, causal, head):
    x = max(sequence / 4 if causal else sequence, SEQUENCES[0] / 4)
    points = [s / 4 for s in SEQUENCES[:2]] + SEQUENCES
    x = min(x, points[-1])
    i = max(j for j in range(len(points) - 1) if points[j] <= x)
    value = p["forward"][i] if points[i] == x else p["forward"][i + 1]  # every x of the table is a point
    return value * {64: p["head_64"][0], 128: 1.0, 256: p["head_256"][0]}[head]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--method", default="FlashAttention-2")
    parser.add_argument("--peak", type=float, required=True)
    parser.add_argument("--backward-ratio", type=float, default=0.0, help="0: fitted with the forward rows")
    args = parser.parse_args()
    rows = []
    for r in fit.read(args.table):
        if r["gpu"] == args.gpu and r["method"] == args.method and r["pass"] in ("fwd", "fwd+bwd") and not r["uncertain"]:
            rows.append((r["pass"], int(r["seq_len"]), r["causal"] == "1", int(r["head_dim"]), float(r["tflops"]) * 1e12))
    fixed = ["ratio"] if args.backward_ratio else []

    def predicted(q, row):
        which, sequence, causal, head, _ = row
        forward = model(q, sequence, causal, head)
        return forward if which == "fwd" else combined(forward, q["ratio"][0])

    def fitted(chosen):
        p = {"forward": [0.4 * args.peak] * 8, "head_64": [0.87], "head_256": [0.9], "ratio": [args.backward_ratio or 0.85]}
        fit.descend(p, lambda q: fit.log_error([(predicted(q, r), r[-1]) for r in chosen]), rounds=60, fixed=fixed)
        return p

    p = fitted(rows)
    print("# all:", fit.figures([(predicted(p, r), r[-1]) for r in rows]))
    print("# each tenth held out in turn:", fit.figures(fit.each_tenth(rows, fitted, predicted)))
    xs = [s / 4 for s in SEQUENCES[:2]] + SEQUENCES
    ratio = p["ratio"][0]
    print(f"# backward / forward {ratio:.3f}")
    print("attention_forward_efficiency:", fit.curve([(x, f / args.peak) for x, f in zip(xs, p["forward"])]))
    print("attention_backward_efficiency:", fit.curve([(x, ratio * f / args.peak) for x, f in zip(xs, p["forward"])]))
    print("attention_head_share:", fit.curve([(64, p["head_64"][0]), (128, 1.0), (256, p["head_256"][0])]))


if __name__ == "__main__":
    main()
