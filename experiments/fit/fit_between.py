#!/usr/bin/env python3
"""Fits all-reduce between nodes (sim/models/collective_time.cpp) to published nccl-tests tables.

    fit_between.py TABLE.csv --where source=github.com/coreweave/nccl-tests --gpu A100-SXM4-80GB

The tables' networks are not fully described, so each (nodes, file) has a fitted bus bandwidth of its own. The
script keeps the latencies and the protocols' shares, which start from NCCL's own constants and are pulled towards them.
"""

import argparse
import math

import fit

PROTOCOLS = ("ll", "ll128", "simple")
NIC_LATENCY = 2.7e-6
NCCL = {  # base, hop in a node, hop between nodes less NIC_LATENCY, share: src/graph/tuning.cc, with 2 us of host per hop
    "ring_base": [6.6e-6, 14e-6, 8.4e-6], "ring_hop": [0.6e-6, 1.9e-6, 3.4e-6],
    "ring_net": [2.0e-6, 3.3e-6, 17.3e-6], "ring_share": [0.5, 0.92, 1.0],
    "tree_base": [6.8e-6, 14e-6, 8.4e-6], "tree_hop": [0.6e-6, 1.25e-6, 4.0e-6],
    "tree_net": [4.3e-6, 7.8e-6, 17.3e-6], "tree_share": [0.26, 0.86, 0.92],
}


def model(row, p, table):
    nodes, per_node, size = row[:3]
    n = nodes * per_node
    rate = p["rate"][table]
    best = math.inf
    for i in range(3):
        ring = p["ring_base"][i] + 2 * (n - nodes) * p["ring_hop"][i]
        ring += 2 * (nodes - 1) * (p["ring_net"][i] + NIC_LATENCY) + 2 * (n - 1) / n * size / (rate * p["ring_share"][i])
        tree = p["tree_base"][i] + 2 * (per_node - 1) * p["tree_hop"][i]
        tree += 2 * math.log2(nodes) * (p["tree_net"][i] + NIC_LATENCY)
        tree += (1 if nodes == 2 else 2) * size / (rate * p["tree_share"][i])
        best = min(best, ring, tree)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--where", action="append", default=[], help="column=value: only these rows")
    parser.add_argument("--gpu", required=True, help="how the gpu column begins")
    parser.add_argument("--pull", type=float, default=0.02, help="weight of staying at NCCL's constants")
    args = parser.parse_args()
    tables, rows = {}, []
    for r in fit.read(args.table):
        if not all(r[c] == v for c, v in (w.split("=", 1) for w in args.where)) or not r["gpu"].startswith(args.gpu):
            continue
        if r["collective"] != "all_reduce" or int(r["nodes"]) < 2 or not r["time_us_out_of_place"]:
            continue
        key = (r["nodes"], r["path_or_url"])
        table = tables.setdefault(key, len(tables))
        rows.append(((int(r["nodes"]), int(r["gpus_per_node"]), int(r["size_bytes"])), table,
                     float(r["time_us_out_of_place"]) * 1e-6))
    rows = [r for r in rows if r[0][2] >= 512]
    p = {k: list(v) for k, v in NCCL.items()}
    p["rate"] = [80e9] * len(tables)

    def pairs(q):
        return [(model(row, q, table), measured) for row, table, measured in rows]

    def error(q):
        drift = sum(abs(math.log(a / b)) for k in NCCL for a, b in zip(q[k], NCCL[k])) / 24
        return fit.log_error(pairs(q)) + args.pull * drift

    before = dict(p, rate=p["rate"])
    fit.descend(before, error, rounds=100, fixed=list(NCCL))
    print("# NCCL's constants:", fit.figures(pairs(before)))
    fit.descend(p, error, rounds=200, most={"ring_share": 1.0, "tree_share": 1.0})
    print("# fitted:", fit.figures(pairs(p)))
    for key, table in tables.items():
        print(f"# {key[0]} nodes, {key[1]}: {p['rate'][table] / 1e9:.0f} GB/s of bus bandwidth")
    print("  net:")
    for algorithm in ("ring", "tree"):
        for i, name in enumerate(PROTOCOLS):
            print(f"    {algorithm}_{name}: {{base: {p[algorithm + '_base'][i]:.2e}, hop: {p[algorithm + '_hop'][i]:.2e}, "
                  f"net_hop: {p[algorithm + '_net'][i]:.2e}, share: {p[algorithm + '_share'][i]:.3f}}}")


if __name__ == "__main__":
    main()
