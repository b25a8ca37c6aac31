#!/usr/bin/env python3
"""Fits convolutions (sim/models/kernel_time.cpp) to DeepBench's table and prints the device's YAML.

    fit_convolution.py TABLE.csv --gpu V100 --precision "16 bit inputs" --peak 125e12 --bandwidth 900e9

    time = overhead + max(flops / (peak x share by flops x share of the pass), bytes / (bandwidth x memory share))
"""

import argparse
import math

import fit

CURVE = [1e8, 1e9, 1e10, 1e11]
PASSES = (("conv2d", "fwd_ms"), ("conv2d_input_grad", "bwd_input_ms"), ("conv2d_weight_grad", "bwd_weight_ms"))


def share(values, flops):
    x = min(max(math.log10(flops) - 8, 0), len(values) - 1)
    i = min(int(x), len(values) - 2)
    return values[i] + (x - i) * (values[i + 1] - values[i])


def work(r):
    w, h, c, n, k, fw, fh, pw, ph, sw, sh = (int(r[x]) for x in ("w", "h", "c", "n", "k", "filter_w", "filter_h", "pad_w",
                                                                 "pad_h", "stride_w", "stride_h"))
    out = ((w + 2 * pw - fw) // sw + 1) * ((h + 2 * ph - fh) // sh + 1)
    flops = 2.0 * n * k * c * fw * fh * out
    return flops, n * c * w * h + n * k * out + k * c * fw * fh


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--gpu", required=True, help="how the gpu column begins")
    parser.add_argument("--precision", required=True, help="how the precision column begins")
    parser.add_argument("--peak", type=float, required=True)
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--memory-share", type=float, default=0.76)
    parser.add_argument("--element", type=int, default=2)
    parser.add_argument("--overhead", type=float, default=2.3e-6)
    parser.add_argument("--from-flops", type=float, default=1e9, help="smaller ones are left out")
    args = parser.parse_args()
    rows = []
    for r in fit.read(args.table):
        if not r["gpu"].startswith(args.gpu) or not r["precision"].startswith(args.precision):
            continue
        flops, elements = work(r)
        if flops < args.from_flops:
            continue
        rows += [(op, flops, elements * args.element, float(r[column]) * 1e-3)
                 for op, column in PASSES if float(r[column] or 0) > 0]

    def model(row, p):
        op, flops, moved, _ = row
        of_pass = {"conv2d": 1, "conv2d_input_grad": p["input_grad"], "conv2d_weight_grad": p["weight_grad"]}[op]
        rate = args.peak * share(p["curve"], flops) * of_pass
        return args.overhead + max(flops / rate, moved / (args.bandwidth * args.memory_share))

    p = {"curve": [0.2, 0.4, 0.6, 0.7], "input_grad": 0.9, "weight_grad": 0.8}
    fit.descend(p, lambda q: fit.log_error([(model(r, q), r[3]) for r in rows]), rounds=200)
    print("# all:", fit.figures([(model(r, p), r[3]) for r in rows]))
    for op, _ in PASSES:
        print(f"# {op}:", fit.figures([(model(r, p), r[3]) for r in rows if r[0] == op]))
    print("convolution_efficiency:", fit.curve(zip(CURVE, p["curve"])))
    print(f"  conv2d_input_grad: {p['input_grad']:.2f}\n  conv2d_weight_grad: {p['weight_grad']:.2f}")


if __name__ == "__main__":
    main()
