#!/usr/bin/env python3
"""Fits the matrix-product model of sim/models/matmul_time.cpp to measured shapes and prints the device's YAML.

    fit_matmul.py TABLE.csv --peak 312e12 --bandwidth 2.039e12 --multiprocessors 108

TABLE has columns m, n, k, latency_us (bf16; aiconfigurator's form), or those that --columns names, or is Aceso's profile
of GPT's ops (--aceso: forward products above 350 us; too few to fit more than curve and tiles). The formula is the same
as in the C++ file; tests/sim/kernel_time_test.cpp holds the two together on samples/.
"""

import argparse
import math
import random

import fit

TILES = [(256, 128), (128, 128), (256, 64), (128, 64), (64, 64)]
CURVE = [1e8, 1e9, 1e10, 1e11, 1e12, 1e13]
SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32)
LARGEST_TILE = 256 * 128


def share(values, flops):
    x = min(max(math.log10(flops) - 8, 0), len(values) - 1)
    i = min(int(x), len(values) - 2)
    return values[i] + (x - i) * (values[i + 1] - values[i])


def waves_seconds(row, p, device):
    m, n, k = row[:3]
    per = device.peak / device.multiprocessors
    cache = p["cache_bandwidth"] or math.inf
    parts_meet_in = p["cache_bandwidth"] or device.bandwidth
    best = math.inf
    for (rows, columns), tile_share in zip(TILES, p["tiles"]):
        arithmetic = (2 * rows * columns * k / (per * tile_share)) ** 4
        constant = p["wave_seconds"] + p["tile_seconds"] * rows * columns / LARGEST_TILE
        for a, b in {(rows, columns), (columns, rows)}:
            tiles = -(-m // a) * -(-n // b)
            for split in SPLITS:
                parts = tiles * split
                if split > 1 and (parts > 2 * device.multiprocessors or k < 256 * split):
                    break
                waves = parts / device.multiprocessors
                waves = max(waves, 1) * p["wave_overlap"] + math.ceil(waves) * (1 - p["wave_overlap"])
                read = (a + b) * k * device.element * min(parts, device.multiprocessors) / cache
                seconds = waves * ((arithmetic + read**4) ** 0.25 / split + constant)
                if split > 1:
                    seconds += p["split_seconds"] + split * m * n * 8 / parts_meet_in
                best = min(best, seconds)
    return best


def model(row, p, device):
    m, n, k = row[:3]
    compute = waves_seconds(row, p, device) / share(p["curve"], 2.0 * m * n * k)
    bytes_ = device.element * (m * k + k * n) + device.output * m * n
    memory = (bytes_ + p["ramp_bytes"]) / (device.bandwidth * p["memory_share"])
    return p["start_seconds"] + (compute**4 + memory**4) ** 0.25


def pairs(rows, p, device):
    return [(model(row, p, device), row[3]) for row in rows]


def report(rows, fitted, p, device):
    print("# all:", fit.figures(pairs(rows, p, device)))
    known = set(fitted)
    held_out = [r for r in rows if r not in known]
    if held_out:
        print("# not fitted to:", fit.figures(pairs(held_out, p, device)))
        print("# of them as in training:", fit.figures(pairs(list(filter(is_of_training, held_out)), p, device)))
    for text, chosen in (("m, n, k >= 512", [r for r in rows if min(r[:3]) >= 512]),
                         ("above 10 GFLOP", [r for r in rows if 2.0 * r[0] * r[1] * r[2] >= 1e10]),
                         ("m < 512", [r for r in rows if r[0] < 512])):
        if chosen:
            print(f"# {text}:", fit.figures(pairs(chosen, p, device)))


def print_yaml(p):
    print("matmul_efficiency:", fit.curve(zip(CURVE, p["curve"])))
    print("matmul:")
    print("  tiles: [" + ", ".join(f"[{a}, {b}, {s:.3f}]" for (a, b), s in zip(TILES, p["tiles"])) + "]")
    for key in ("wave_overlap", "memory_share"):
        print(f"  {key}: {p[key]:.3f}")
    for key in ("wave_seconds", "tile_seconds", "split_seconds", "start_seconds", "cache_bandwidth", "ramp_bytes"):
        if p[key]:
            print(f"  {key}: {p[key]:.2e}")


ACESO_HIDDEN = {"gpt_350M": 1024, "gpt_1_3B": 2048, "gpt_2_6B": 2560, "gpt_13B": 5120}
ACESO_COLUMNS = {"enc-MLP-GEMM-1": 4, "enc-attention-qkv": 3}  # x hidden / tp
ACESO_OVERHEAD = 20e-6  # of its timing, from its smallest kernels


def aceso_rows(table):
    for r in fit.read(table):
        if r["model"] not in ACESO_HIDDEN or r["algo"] != "0" or r["op"] not in ACESO_COLUMNS:
            continue
        hidden, seconds = ACESO_HIDDEN[r["model"]], float(r["fwd_us"]) * 1e-6
        if seconds - ACESO_OVERHEAD > 350e-6:
            yield (2048 * int(r["micro_batch"]), ACESO_COLUMNS[r["op"]] * hidden // int(r["tp"]), hidden,
                   seconds - ACESO_OVERHEAD)


def plain_rows(table, columns, where):
    for r in fit.read(table):
        if all(r[c] == v for c, v in (w.split("=", 1) for w in where)):
            m, n, k, micro = (float(r[c]) for c in columns.split(","))
            yield (int(m), int(n), int(k), micro * 1e-6)


def start(device):
    p = {"curve": [0.95, 0.9, 0.9, 0.9, 0.87, 0.85], "tiles": [0.95, 0.9, 0.95, 0.9, 0.75], "wave_overlap": 0.3,
         "wave_seconds": 1e-6, "tile_seconds": 1e-6, "split_seconds": 3e-6, "start_seconds": 1.5e-6,
         "memory_share": 0.8, "cache_bandwidth": 6 * device.bandwidth, "ramp_bytes": 2.5e6}
    if device.aceso:  # too few to tell them apart
        p |= {"tiles": [0.95, 0.85, 0.85, 0.85, 0.85], "wave_overlap": 0.4, "wave_seconds": 2e-6, "tile_seconds": 0,
              "split_seconds": 1.5e-6, "start_seconds": 2e-6, "cache_bandwidth": 0, "ramp_bytes": 1.5e6}
    return p


# What training runs: no tiny products.
def is_of_training(row):
    return row[0] >= 64 and min(row[1:3]) >= 128


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--columns", default="m,n,k,latency_us", help="m, n, k and microseconds")
    parser.add_argument("--where", action="append", default=[], help="column=value: only these rows")
    parser.add_argument("--peak", type=float, required=True)
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--multiprocessors", type=int, required=True)
    parser.add_argument("--element", type=int, default=2, help="bytes of an input element")
    parser.add_argument("--output", type=int, default=2, help="bytes of an output element")
    parser.add_argument("--count", type=int, default=3000, help="rows fitted to; the errors are of all rows")
    parser.add_argument("--aceso", action="store_true")
    parser.add_argument("--launch", type=float, default=1e-6, help="the device's launch_latency, taken off the start")
    device = parser.parse_args()
    rows = list(aceso_rows(device.table) if device.aceso else plain_rows(device.table, device.columns, device.where))
    # Shuffled with a fixed seed, or the table's order would choose; two of three as training runs them.
    shuffled = list(rows)
    random.Random(1).shuffle(shuffled)
    fitted = ([r for r in shuffled if is_of_training(r)][:device.count * 2 // 3] +
              [r for r in shuffled if not is_of_training(r)][:device.count // 3])
    p = start(device)
    fixed = set(p) - {"curve", "tiles"} if device.aceso else ()
    for _ in range(2):  # again with wide steps from where the first ends
        fit.descend(p, lambda q: fit.log_error(pairs(fitted, q, device)), rounds=25, fixed=fixed,
                    most={"wave_overlap": 1.0, "memory_share": 1.0, "tiles": 1.0})
    report(rows, fitted, p, device)
    p["start_seconds"] -= device.launch
    print_yaml(p)


if __name__ == "__main__":
    main()
