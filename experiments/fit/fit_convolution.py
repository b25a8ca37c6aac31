#!/usr/bin/env python3
"""Fits the convolution model of sim/models/convolution_time.cpp to DeepBench's table and prints the device's YAML.

    fit_convolution.py TABLE.csv --gpu V100 --precision Float --peak 15.7e12 --element 4 --winograd
    fit_convolution.py TABLE.csv --gpu V100 --precision "16 bit inputs" --peak 125e12 --element 2

The formula is the same as in the C++ file; tests/sim/convolution_time_test.cpp compares the two on samples/. Rows are left out if
their published rate is not that of their shape (a stride that was not used) or, in 16 bits, if 8 does not divide their
channels, so that they run without tensor cores. Every tenth row is held out of the fit.
"""

import argparse
import math

import fit

TILES = [(256, 128), (128, 128), (128, 64), (64, 64), (128, 32)]
MOST_SPLIT = 128
PASSES = (("forward", "fwd_ms", "fwd_tflops"), ("input_grad", "bwd_input_ms", "bwd_input_tflops"),
          ("weight_grad", "bwd_weight_ms", "bwd_weight_tflops"))


class Shape:
    def __init__(self, r):
        w, h, c, n, k, fw, fh, pw, ph, sw, sh = (int(r[x]) for x in ("w", "h", "c", "n", "k", "filter_w", "filter_h", "pad_w",
                                                                     "pad_h", "stride_w", "stride_h"))
        self.n, self.c, self.k, self.h, self.w, self.window, self.stride = n, c, k, h, w, fw * fh, sw
        self.oh, self.ow = (h + 2 * ph - fh) // sh + 1, (w + 2 * pw - fw) // sw + 1
        self.edge = fw if fw == fh and fw in (3, 5) and (sw, sh) == (1, 1) else 0  # of a window for Winograd's algorithm
        self.flops = 2.0 * n * k * c * self.window * self.oh * self.ow
        self.elements = n * c * h * w + n * k * self.oh * self.ow + k * c * self.window

    def product(self, pass_):
        out = self.n * self.oh * self.ow
        if pass_ == "forward":
            return out, self.k, self.c * self.window
        if pass_ == "weight_grad":
            return self.k, self.c * self.window, out
        if self.window == 1:
            return out, self.c, self.k
        return self.n * self.h * self.w, self.c, max(1, self.k * self.window // self.stride**2)


def waves_seconds(m, n, k, p, device, batch=1):
    best = math.inf
    for (rows, columns), share in zip(TILES, p["tiles"]):
        for a, b in {(rows, columns), (columns, rows)}:
            tiles, of_tile = batch * -(-m // a) * -(-n // b), 2 * a * b * k / (device.peak / device.multiprocessors * share)
            split = 1
            while split <= MOST_SPLIT and (split == 1 or (tiles * split <= 2 * device.multiprocessors and k >= 256 * split)):
                waves = tiles * split / device.multiprocessors
                waves = max(waves, 1) * p["wave_overlap"] + math.ceil(waves) * (1 - p["wave_overlap"])
                seconds = waves * (of_tile / split + p["wave_seconds"])
                if split > 1:
                    seconds += p["split_seconds"] + split * batch * m * n * 8 / device.bandwidth
                best = min(best, seconds)
                split *= 2
    return best


def model(row, p, device):
    shape, pass_, _ = row
    pointwise = "pointwise_" if shape.window == 1 else ""
    part = {"forward": 1, "weight_grad": p[pointwise + "weight_grad"],
            "input_grad": p[pointwise + "strided_input_grad" if shape.stride > 1 else "input_grad"]}[pass_]
    compute = waves_seconds(*shape.product(pass_), p, device) / part
    memory = shape.elements * device.element / (device.bandwidth * p["memory_share"])
    seconds = p["start_seconds"] + (p["input_grad_seconds"] if pass_ == "input_grad" else 0) + (compute**4 + memory**4) ** 0.25
    return min(seconds, winograd_seconds(shape, pass_, p, device)) if device.winograd and shape.edge else seconds


def winograd_seconds(shape, pass_, p, device):
    """Tiles of 6 x 6 elements in three kernels, or for 3x3 windows of 4 x 4 in one kernel, but not for the weight's gradient."""
    outputs = 7 - shape.edge
    tiles = shape.n * -(-shape.oh // outputs) * -(-shape.ow // outputs)
    product = {"forward": (tiles, shape.k, shape.c), "input_grad": (tiles, shape.c, shape.k), "weight_grad": (shape.k, shape.c, tiles)}[pass_]
    moved = shape.elements + 2 * 36 * (tiles * (shape.c + shape.k) + shape.c * shape.k)
    apart = (3 * p["start_seconds"] + waves_seconds(*product, p, device, batch=36) / p["winograd"] +
             moved * device.element / (device.bandwidth * p["memory_share"]))
    if pass_ == "weight_grad" or shape.edge != 3:
        return apart
    over, to = (shape.c, shape.k) if pass_ == "forward" else (shape.k, shape.c)
    blocks = -(-shape.n * -(-shape.oh // 2) * -(-shape.ow // 2) // 32) * -(-to // 64)
    flops = max(blocks, device.multiprocessors) * 32 * 64 * 16 * 2.0 * over
    return min(apart, p["start_seconds"] + flops / (device.peak * p["winograd_fused"]))


def read(device):
    for r in fit.read(device.table):
        if not r["gpu"].startswith(device.gpu) or not r["precision"].startswith(device.precision):
            continue
        shape = Shape(r)
        if device.element == 2 and (shape.c % 8 or shape.k % 8):
            continue
        for pass_, column, rate in PASSES:
            seconds = float(r[column] or 0) * 1e-3
            if seconds > 0 and (not r[rate] or abs(float(r[rate]) * 1e12 * seconds / shape.flops - 1) < 0.1):
                yield shape, pass_, seconds


def pairs(rows, p, device):
    return [(model(row, p, device), row[2]) for row in rows]


def start(element):
    """Tensor cores need large tiles; small ones fill float32 units."""
    p = {"wave_overlap": 0.5, "wave_seconds": 2e-6, "memory_share": 0.8, "input_grad": 0.9, "weight_grad": 0.8,
         "strided_input_grad": 0.7, "pointwise_weight_grad": 0.6, "pointwise_strided_input_grad": 0.6, "input_grad_seconds": 1e-6,
         "winograd": 0.9, "winograd_fused": 0.7}
    if element == 2:
        return p | {"tiles": [0.9, 0.85, 0.7, 0.6, 0.5], "split_seconds": 3e-6, "start_seconds": 5e-6}
    return p | {"tiles": [0.7, 0.95, 0.9, 0.6, 0.7], "split_seconds": 8e-6, "start_seconds": 12e-6}


def constants(rows, device):
    p = start(device.element)
    fit.descend(p, lambda q: fit.log_error(pairs(rows, q, device)), rounds=40, fixed=() if device.winograd else ("winograd", "winograd_fused"),
                most={"wave_overlap": 1, "memory_share": 0.95, "winograd": 1.5, "tiles": 1})
    return p


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--gpu", required=True, help="how the gpu column begins")
    parser.add_argument("--precision", required=True, help="how the precision column begins")
    parser.add_argument("--peak", type=float, required=True)
    parser.add_argument("--bandwidth", type=float, default=900e9)
    parser.add_argument("--multiprocessors", type=int, default=80)
    parser.add_argument("--element", type=int, required=True, help="bytes of an element")
    parser.add_argument("--winograd", action="store_true")
    parser.add_argument("--launch", type=float, default=1e-6, help="the device's launch_latency, taken off the start")
    device = parser.parse_args()
    rows = list(read(device))
    held_out, fitted = rows[::10], [r for i, r in enumerate(rows) if i % 10]
    p = constants(fitted, device)
    for text, chosen in [("all", rows), ("held out", held_out), ("1 GFLOP and more", [r for r in rows if r[0].flops >= 1e9])] + [
            (name, [r for r in rows if r[1] == name]) for name, _, _ in PASSES]:
        print(f"# {text}:", fit.figures(pairs(chosen, p, device)))
    print("tiles: [" + ", ".join(f"[{a}, {b}, {s:.3f}]" for (a, b), s in zip(TILES, p["tiles"])) + "]")
    p["start_seconds"] -= device.launch
    for key in ("wave_overlap", "memory_share", "input_grad", "weight_grad", "strided_input_grad", "pointwise_weight_grad",
                "pointwise_strided_input_grad") + (
            ("winograd", "winograd_fused") if device.winograd else ()):
        print(f"{key}: {p[key]:.3f}")
    for key in ("wave_seconds", "split_seconds", "start_seconds", "input_grad_seconds"):
        print(f"{key}: {p[key]:.2e}")


if __name__ == "__main__":
    main()
