#!/usr/bin/env python3
"""Fits the collectives inside one node (sim/models/collective_time.cpp) and prints a cluster's `collective` block.

    fit_collectives.py TABLE.csv --link 300e9

TABLE has op (all_reduce, all_gather, reduce_scatter, alltoall), gpus, bytes, latency_us. For each protocol

    time = base + steps x hop + bus bytes / (link x share x (1 - few_ranks_loss / ranks))

with 2 (n-1) steps for all-reduce and n-1 for the other two; NVLS has one step; the shortest time wins. All-to-all has two
lines: one up to --small bytes for each rank, one above; without --small the shorter time. A tenth of the rows is held out.
"""

import argparse
import random

import fit

PROTOCOLS = ("ll", "ll128", "simple")


def bus_factor(op, n):
    return 2 * (n - 1) / n if op == "all_reduce" else (n - 1) / n


def model(row, p, args):
    op, n, size, _ = row
    link = args.link
    moved = bus_factor(op, n) * size
    if op == "alltoall":
        rate = link * (1 - p["exchange_loss"] / n)
        times = [p["exchange_base"][i] + (n - 1) * p["exchange_hop"][i] + moved / (rate * p["exchange_share"][i]) for i in (0, 1)]
        return times[size > n * args.small] if args.small else min(times)
    steps = 2 * (n - 1) if op == "all_reduce" else n - 1
    loss = p["all_reduce_loss"] if op == "all_reduce" else p["gather_loss"]
    rate = link * (1 - loss / n)
    times = [p["base"][i] + steps * p["hop"][i] + moved / (rate * p["share"][i]) for i in range(3)]
    if args.nvls and op == "all_reduce" and n >= 5:
        times.append(p["nvls_base"] + moved / (link * p["nvls_share"]))
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--link", type=float, required=True, help="bytes/s of one GPU's links, one way")
    parser.add_argument("--nvls", action="store_true", help="reductions in the switch")
    parser.add_argument("--small", type=int, default=0, help="bytes for each rank up to which all-to-all is small; 0: what is faster")
    args = parser.parse_args()
    rows = [(r["op"], int(r["gpus"]), int(r["bytes"]), float(r["latency_us"]) * 1e-6) for r in fit.read(args.table)
            if r.get("dtype", "half") == "half"]
    p = {"base": [6e-6, 12e-6, 40e-6], "hop": [1e-6, 1.5e-6, 4e-6], "share": [0.2, 0.55, 0.78],
         "all_reduce_loss": 0.3, "gather_loss": 0.5, "exchange_base": [8e-6, 20e-6], "exchange_hop": [1e-6, 2e-6],
         "exchange_share": [0.3, 0.75], "exchange_loss": 0.4}
    if args.nvls:
        p.update(nvls_base=30e-6, nvls_share=1.0)

    shuffled = list(rows)
    random.Random(1).shuffle(shuffled)
    held_out, fitted = shuffled[:len(rows) // 10], shuffled[len(rows) // 10:]

    def pairs(q, chosen=rows):
        return [(model(r, q, args), r[3]) for r in chosen]

    for _ in range(2):  # again with wide steps from where the first ends
        fit.descend(p, lambda q: fit.log_error(pairs(q, fitted)), rounds=200)
    print("# all:", fit.figures(pairs(p)))
    print("# held out:", fit.figures(pairs(p, held_out)))
    for op in sorted({r[0] for r in rows}):
        print(f"# {op}:", fit.figures(pairs(p, [r for r in rows if r[0] == op])))
    print("# 1 MB and more:", fit.figures(pairs(p, [r for r in rows if r[2] >= 1 << 20])))
    print("collective:")
    for i, name in enumerate(PROTOCOLS):
        print(f"  {name}: {{base: {p['base'][i]:.2e}, hop: {p['hop'][i]:.2e}, share: {p['share'][i]:.3f}}}")
    if args.nvls:
        print(f"  nvls: {{base: {p['nvls_base']:.2e}, share: {p['nvls_share']:.3f}}}")
    for i, name in enumerate(("exchange_small", "exchange")):
        print(f"  {name}: {{base: {p['exchange_base'][i]:.2e}, hop: {p['exchange_hop'][i]:.2e}, share: {p['exchange_share'][i]:.3f}}}")
    if args.small:
        print(f"  exchange_small_bytes: {args.small}")
    print(f"  few_ranks_loss: {{all_reduce: {p['all_reduce_loss']:.2f}, gather: {p['gather_loss']:.2f}, "
          f"exchange: {p['exchange_loss']:.2f}}}")


if __name__ == "__main__":
    main()
