#!/usr/bin/python3
"""Fits the matrix-product model of sim/models/matmul_time.cpp to measured shapes and prints the device's YAML. Needs numpy.

    fit_matmul.py TABLE.csv --peak 312e12 --bandwidth 2.039e12 --multiprocessors 108

TABLE has columns m, n, k, latency_us (bf16; aiconfigurator's form), or those that --columns names, or is Aceso's profile
of GPT's ops (--aceso: forward products above 350 us; too few to fit more than curve and tiles). A tenth of the rows is held
out of all that is fitted. --by-shape also prints the remaining error of a smooth correction by m, n and k besides the constants,
fitted to the nine tenths; nothing uses it. The formula is the same as in the C++ file; tests/sim/kernel_time_test.cpp
compares the two on samples/.
"""

import argparse
import math

import fit
import numpy as np

TILES = [(256, 128), (128, 128), (256, 64), (128, 64), (64, 64)]
CURVE = [1e8, 1e9, 1e10, 1e11, 1e12, 1e13]
SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32)
MOST_WAVES_OF_SPLIT = 8
LARGEST_TILE = 256 * 128
# Nodes of the correction, in powers of two.
BY_SHAPE = (np.arange(0, 15, 2.0), np.arange(5, 17, 1.0), np.arange(5, 17, 1.0))


def share(values, flops):
    return np.interp(np.log10(flops), 8 + np.arange(len(values)), values)


def kernels(rows, device):
    """By tile and split: index and shape of the tile, parts of k, the rows that may run so, and their tiles."""
    m, n, k = rows.T[:3]
    found = []
    for index, (x, y) in enumerate(TILES):
        for a, b in {(x, y), (y, x)}:
            tiles = np.ceil(m / a) * np.ceil(n / b)
            for split in SPLITS:
                fits = (split == 1) | ((tiles * split <= MOST_WAVES_OF_SPLIT * device.multiprocessors) & (k >= 256 * split))
                chosen = np.flatnonzero(fits)
                found.append((index, a, b, split, chosen, tiles[chosen] * split))
    return found


def waves_seconds(rows, of_kernels, p, device):
    m, n, k = rows.T[:3]
    per = device.peak / device.multiprocessors
    cache = p["cache_bandwidth"] or math.inf
    parts_meet_in = p["cache_bandwidth"] or device.bandwidth
    best = np.full(len(rows), np.inf)
    for index, a, b, split, chosen, parts in of_kernels:
        arithmetic = 2 * a * b * k[chosen] / (per * p["tiles"][index])
        waves = parts / device.multiprocessors
        waves = np.maximum(waves, 1) * p["wave_overlap"] + np.ceil(waves) * (1 - p["wave_overlap"])
        read = (a + b) * k[chosen] * device.element * np.minimum(parts, device.multiprocessors) / cache
        constant = p["wave_seconds"] + p["tile_seconds"] * a * b / LARGEST_TILE
        seconds = waves * (fourth_power_sum(arithmetic, read) / split + constant)
        if split > 1:
            seconds += p["split_seconds"] + split * m[chosen] * n[chosen] * 8 / parts_meet_in
        best[chosen] = np.minimum(best[chosen], seconds)
    return best


def fourth_power_sum(a, b):
    return np.sqrt(np.sqrt((a * a) ** 2 + (b * b) ** 2))


def model(rows, of_kernels, p, device):
    m, n, k = rows.T[:3]
    compute = waves_seconds(rows, of_kernels, p, device) / share(p["curve"], 2.0 * m * n * k)
    bytes_ = device.element * (m * k + k * n) + device.output * m * n
    memory = (bytes_ + p["ramp_bytes"]) / (device.bandwidth * p["memory_share"])
    return p["start_seconds"] + fourth_power_sum(compute, memory)


def corners(rows):
    """By row: the eight nodes of the correction around it, and its share of each: linear in logarithms."""
    below, part = [], []
    for axis, nodes in enumerate(BY_SHAPE):
        at = np.clip(np.log2(rows[:, axis]), nodes[0], nodes[-1])
        index = np.minimum(np.searchsorted(nodes, at, side="right") - 1, len(nodes) - 2)
        below.append(index)
        part.append((at - nodes[index]) / (nodes[index + 1] - nodes[index]))
    nodes, shares = [], []
    for up in np.ndindex(2, 2, 2):
        i, j, l = (below[axis] + up[axis] for axis in range(3))
        nodes.append((i * len(BY_SHAPE[1]) + j) * len(BY_SHAPE[2]) + l)
        shares.append(np.prod([part[axis] if up[axis] else 1 - part[axis] for axis in range(3)], axis=0))
    return np.array(nodes).T, np.array(shares).T


def rates_by_shape(rows, predicted, device):
    """Logarithms at the nodes: least absolute errors by weighted squares, with a little weight on nothing."""
    nodes, shares = corners(rows)
    count = math.prod(len(axis) for axis in BY_SHAPE)
    wanted = np.log((predicted - device.launch) / (rows[:, 3] - device.launch))
    rates, weight = np.zeros(count), np.ones(len(rows))
    for _ in range(5):
        def times(v):
            of_rows = (v[nodes] * shares).sum(1) * weight
            return np.bincount(nodes.ravel(), (shares * of_rows[:, None]).ravel(), count) + 0.3 * v
        rest = np.bincount(nodes.ravel(), (shares * (weight * wanted)[:, None]).ravel(), count) - times(rates)
        along, square = rest.copy(), rest @ rest
        for _ in range(100):  # conjugate gradients
            if square < 1e-12:
                break
            image = times(along)
            step = square / (along @ image)
            rates, rest = rates + step * along, rest - step * image
            along, square = rest + (rest @ rest) / square * along, rest @ rest
        weight = 1 / np.maximum(np.abs(wanted - (rates[nodes] * shares).sum(1)), 0.02)
        weight /= weight.mean()
    return rates


def with_rates(rows, predicted, rates, device):
    nodes, shares = corners(rows)
    return device.launch + (predicted - device.launch) / (np.round(np.exp(rates), 2)[nodes] * shares).sum(1)


def report(text, rows, predicted):
    smallest = rows[:, :3].min(1)
    for name, chosen in (("", smallest > 0), (", m >= 64 and n, k >= 128", is_of_training(rows)), (", m, n, k >= 512", smallest >= 512)):
        if chosen.any():
            print(f"# {text}{name}:", fit.figures(list(zip(predicted[chosen], rows[chosen, 3]))))


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
    if device.aceso:  # too few to distinguish them
        p |= {"tiles": [0.95, 0.85, 0.85, 0.85, 0.85], "wave_overlap": 0.4, "wave_seconds": 2e-6, "tile_seconds": 0,
              "split_seconds": 1.5e-6, "start_seconds": 2e-6, "cache_bandwidth": 0, "ramp_bytes": 1.5e6}
    return p


# Products as training runs them: no tiny ones.
def is_of_training(rows):
    return (rows[:, 0] >= 64) & (rows[:, 1:3].min(1) >= 128)


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
    parser.add_argument("--count", type=int, default=4500, help="rows that the constants of tiles are fitted to")
    parser.add_argument("--by-shape", action="store_true", help="say what a smooth correction by m, n and k would leave")
    parser.add_argument("--aceso", action="store_true")
    parser.add_argument("--launch", type=float, default=1e-6, help="the device's launch_latency, taken off the start")
    device = parser.parse_args()
    rows = np.array(list(aceso_rows(device.table) if device.aceso else plain_rows(device.table, device.columns, device.where)))
    # Shuffled with a fixed seed, since otherwise the table's order would decide; two of three as training runs them.
    np.random.default_rng(1).shuffle(rows)
    held_out, known = np.split(rows, [0 if device.aceso else len(rows) // 10])
    sample = np.concatenate([known[is_of_training(known)][:device.count * 2 // 3], known[~is_of_training(known)][:device.count // 3]])
    of_sample = kernels(sample, device)
    p = start(device)
    fixed = set(p) - {"curve", "tiles"} if device.aceso else ()
    for _ in range(3):  # again with wide steps from where the one before ends
        fit.descend(p, lambda q: np.abs(np.log(model(sample, of_sample, q, device) / sample[:, 3])).mean(), rounds=25, fixed=fixed,
                    most={"wave_overlap": 1.0, "memory_share": 1.0, "tiles": 1.0})

    p["start_seconds"] = max(p["start_seconds"], device.launch)

    def predicted(of):
        return model(of, kernels(of, device), p, device)

    rates = rates_by_shape(known, predicted(known), device) if device.by_shape else None
    for text, chosen in (("all", rows), ("held out", held_out)):
        if len(chosen):
            report(f"{text}, tiles alone" if device.by_shape else text, chosen, predicted(chosen))
            if device.by_shape:
                report(text, chosen, with_rates(chosen, predicted(chosen), rates, device))
    p["start_seconds"] -= device.launch
    print_yaml(p)


if __name__ == "__main__":
    main()
