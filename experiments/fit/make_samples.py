#!/usr/bin/env python3
"""Copies every n-th row of the tables to which the profiles are fitted into samples/, for the tests.

    make_samples.py FOLDER     # the folder with the tables; names below
"""

import csv
import os
import sys

import fit

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 28
GEMM = "github.com/ai-dynamo/aiconfigurator, bf16 matrix products on {}"
ACESO = "github.com/microsoft/SuperScaler profiler/profiled-time-eurosys, V100, {}"
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
    for name, precision in (("gemm_v100_float", "Float"), ("gemm_v100_half", "16 bit")):
        rows = [r for r in fit.read(os.path.join(folder, "deepbench_gemm.csv"))
                if r["gpu"].startswith("V100") and r["precision"].startswith(precision)]
        rows.sort(key=lambda r: [int(r[c]) for c in "mnk"])
        write(name + ".csv", f"github.com/baidu-research/DeepBench results/train/DeepBench_NV_V100.xlsx, {precision}; never fitted",
              ["m", "n", "k", "time_ms"], fit.sample(rows, ROWS))
    for name, gpu in (("attention_a100", "A100-SXM4-80GB"), ("attention_h100", "H100-SXM5-80GB")):
        rows = [r for r in fit.read(os.path.join(folder, "attention_flash_tflops.csv"))
                if r["gpu"] == gpu and r["method"] == "FlashAttention-2" and r["pass"] in ("fwd", "fwd+bwd") and not r["uncertain"]]
        write(name + ".csv", f"github.com/Dao-AILab/flash-attention assets, FlashAttention-2 on {gpu}",
              ["pass", "causal", "head_dim", "seq_len", "hidden_dim", "batch", "tflops"], fit.sample(rows, ROWS))
    for name, gpu in (("memory_a100_pcie", "NVIDIA A100 80GB PCIe"), ("memory_v100", "Tesla V100-PCIE-32GB")):
        rows = [r for r in fit.read(os.path.join(folder, "neusight_op_latency_fp32.csv"))
                if r["device"] == gpu and r["op"] in ("add", "relu", "ln", "softmax")]
        rows.sort(key=lambda r: (r["op"], int(r["h"]), int(r["batch"])))
        write(name + ".csv", f"github.com/sitar-lab/NeuSight scripts/asplos/data/dataset/test/vec.csv, float32 on {gpu}",
              ["op", "batch", "h", "latency_ms"], fit.sample(rows, ROWS))
    rows = [{"op": r["collective"], "gpus": r["n_gpus"], "bytes": int(float(r["data_size_MB"])) << 20,
             "latency_us": f"{float(r['time_ms']) * 1e3:.0f}"}
            for r in fit.read(os.path.join(folder, "aceso_v100_comm_profile.csv"))
            if 1 <= float(r["data_size_MB"]) <= 1024 and float(r["time_ms"]) < 1e6]  # 1e9: not measured
    rows = [dict(r) for r in {tuple(r.items()) for r in rows}]  # the models' files repeat rows
    rows.sort(key=lambda r: (r["op"], int(r["gpus"]), r["bytes"], float(r["latency_us"])))
    for name, what, chosen in (("nccl_v100", "all-reduce", ["all_reduce"]),
                               ("nccl_v100_lists", "by lists of tensors; never fitted but for all-to-all of 8",
                                ["reduce_scatter", "all_to_all"])):
        write(name + ".csv", ACESO.format(what), ["op", "gpus", "bytes", "latency_us"],
              fit.sample([r for r in rows if r["op"] in chosen], ROWS))
    rows = [r for r in fit.read(os.path.join(folder, "nccl_busbw_published.csv"))
            if r["source"] == "github.com/coreweave/nccl-tests" and r["gpu"].startswith("A100") and
            int(r["size_bytes"]) >= 512]
    write("nccl_nodes_a100.csv", "github.com/coreweave/nccl-tests README.md, all-reduce on A100s",
          ["nodes", "gpus_per_node", "size_bytes", "time_us_out_of_place"], fit.sample(rows, ROWS))


if __name__ == "__main__":
    main()
