#!/usr/bin/env python3
"""Takes every so many-th row of the tables that the profiles are fitted to into samples/, for the tests.

    make_samples.py FOLDER     # the folder with the tables; names below
"""

import csv
import os
import sys

import fit

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 28
GEMM = "github.com/ai-dynamo/aiconfigurator, bf16 matrix products on {}"
NCCL = "github.com/ai-dynamo/aiconfigurator, NCCL in one node, {}"


def write(name, source, columns, rows):
    path = os.path.join(HERE, "samples", name)
    with open(path + ".tmp", "w", newline="") as out:
        out.write(f"# {source}\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[r[c] for c in columns] for r in rows])
    os.replace(path + ".tmp", path)


def main():
    folder = sys.argv[1]
    for gpu in ("a100", "h100", "h200"):
        rows = [r for r in fit.read(os.path.join(folder, f"aiconfigurator_gemm_bf16_{gpu}_sxm.csv"))
                if min(int(r[c]) for c in "mnk") >= 256]
        rows.sort(key=lambda r: [int(r[c]) for c in "mnk"])
        write(f"gemm_{gpu}.csv", GEMM.format(gpu.upper() + " SXM"), ["m", "n", "k", "latency_us"], fit.sample(rows, ROWS))
        rows = [r for r in fit.read(os.path.join(folder, f"aiconfigurator_nccl_{gpu}_sxm.csv"))
                if r["dtype"] == "half" and int(r["bytes"]) >= 1 << 15]
        rows.sort(key=lambda r: (r["op"], int(r["gpus"]), int(r["bytes"])))
        write(f"nccl_{gpu}.csv", NCCL.format(gpu.upper() + " SXM"), ["op", "gpus", "bytes", "latency_us"],
              fit.sample(rows, ROWS))
    rows = [r for r in fit.read(os.path.join(folder, "simumax_op_efficiency.csv"))
            if r["gpu"] == "A100-PCIe 80GB" and r["op"] == "matmul" and r["b"] == "1"]
    write("gemm_a100_pcie.csv", "github.com/MooreThreads/SimuMax configs/system/a100_pcie.json; never fitted but for one "
          "factor", ["m", "n", "k", "layout", "derived_time_us"], fit.sample(rows, ROWS))
    for name, precision in (("conv_v100_float", "Float"), ("conv_v100_half", "16 bit")):
        rows = [r for r in fit.read(os.path.join(folder, "deepbench_conv.csv"))
                if r["gpu"].startswith("V100") and r["precision"].startswith(precision) and int(r["c"]) % 8 == 0]
        write(name + ".csv", "github.com/baidu-research/DeepBench results/train/DeepBench_NV_V100.xlsx, " + precision,
              ["n", "c", "k", "h", "w", "filter_h", "filter_w", "pad_h", "pad_w", "stride_h", "fwd_ms", "bwd_input_ms",
               "bwd_weight_ms"], fit.sample(rows, ROWS))
    rows = [r for r in fit.read(os.path.join(folder, "nccl_busbw_published.csv"))
            if r["source"] == "github.com/coreweave/nccl-tests" and r["gpu"].startswith("A100") and
            int(r["size_bytes"]) >= 512]
    write("nccl_nodes_a100.csv", "github.com/coreweave/nccl-tests README.md, all-reduce on A100s",
          ["nodes", "gpus_per_node", "size_bytes", "time_us_out_of_place"], fit.sample(rows, ROWS))


if __name__ == "__main__":
    main()
