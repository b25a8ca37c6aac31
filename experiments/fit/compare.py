#!/usr/bin/env python3
"""Compares measured tables with the times of the presets' models: mean absolute errors, by table and kernel.

    compare.py FOLDER products|left-out|memory|attention|collectives

FOLDER has the tables (names below); missing ones are left out. Times come from build/experiments/fit/fit_times. Nothing
is fitted here: docs/profiles.md and docs/collectives.md have the tables that the presets' constants were fitted to. left-out: products
on a GPU by another's constants. Only its peak, bandwidth and multiprocessors are its own; the cache's bandwidth scales with
the peak.
"""

import argparse
import os
import re
import subprocess
import tempfile

import fit

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DEVICES = os.path.join(ROOT, "backends", "presets", "devices")
TIMES = os.path.join(ROOT, "build", "experiments", "fit", "fit_times")
MIB = 1 << 20


def report(rows):
    """rows: (name, line of fit_times, measured microseconds); a row named a|b counts in a and in a|b."""
    done = subprocess.run([TIMES], input="".join(line + "\n" for _, line, _ in rows), capture_output=True, text=True, check=True)
    pairs = {}
    for (name, _, measured), predicted in zip(rows, done.stdout.split()):
        parts = name.split("|")
        for end in range(1, len(parts) + 1):
            pairs.setdefault(tuple(parts[:end]), []).append((float(predicted), measured))
    for key in sorted(pairs):
        print("    " * (len(key) - 1) + key[-1] + ":", fit.figures(pairs[key]), flush=True)


def product(device, dtype, m, n, k):
    return f"{device} matmul {dtype}[{m},{k}] {dtype}[{k},{n}]"


def aiconfigurator(table, gpu, device):
    for r in table(f"aiconfigurator_gemm_bf16_{gpu}_sxm.csv"):
        m, n, k = (int(r[c]) for c in "mnk")
        kind = "m >= 64 and n, k >= 128" if m >= 64 and min(n, k) >= 128 else "smaller"
        yield f"{gpu.upper()} SXM bf16|{kind}", product(device, "bfloat16", m, n, k), float(r["latency_us"])


def products(table):
    for gpu, device in (("a100", "a100-sxm-80g"), ("h100", "h100-sxm"), ("h200", "h200-sxm")):
        yield from aiconfigurator(table, gpu, device)
    for r in table("simumax_op_efficiency.csv"):
        if r["op"] != "matmul" or r["b"] != "1":
            continue
        device = {"A100-PCIe 80GB": "a100-pcie-80g", "B200-SXM": "b200-sxm"}[r["gpu"]]
        kind = f"{r['out_dtype']} out, {r['layout']}"
        line = product(device, "bfloat16", r["m"], r["n"], r["k"])
        if r["layout"] == "NT":  # the weight's gradient
            line = f"{device} matmul_weight_grad bfloat16[{r['k']},{r['m']}] bfloat16[{r['k']},{r['n']}]"
        yield f"SimuMax {r['gpu']}|{kind}", line, float(r["derived_time_us"])
    for r in table("neusight_op_latency_fp32.csv"):
        if r["op"] == "linear" and r["device"] in NEUSIGHT:
            line = product(NEUSIGHT[r["device"]], "float32", r["m"], r["n"], r["k"])
            yield f"NeuSight {r['device']} fp32 linear", line, float(r["latency_ms"]) * 1e3
    for r in table("deepbench_gemm.csv"):
        if r["gpu"].startswith("V100"):
            dtype = "float32" if r["precision"] == "Float" else "float16"
            line = product("v100-sxm2-16g", dtype, r["m"], r["n"], r["k"])
            large = "1 ms and more" if float(r["time_ms"]) >= 1 else "smaller"
            yield f"DeepBench V100 {dtype}|{large}", line, float(r["time_ms"]) * 1e3


# A V100 and an A100 with 40 GB have the same memory in SXM and PCIe.
NEUSIGHT = {"Tesla V100-PCIE-32GB": "v100-sxm2-32g", "NVIDIA A100 80GB PCIe": "a100-pcie-80g", "NVIDIA H100 80GB HBM3": "h100-sxm",
            "NVIDIA A100-PCIE-40GB": "a100-sxm-40g"}


def bfloat16_peak(device_text):
    return float(re.search(r"bfloat16: ([0-9.e]+)", device_text)[1])


def left_out(table):
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for gpu, own, other in (("h200", "h200-sxm", "h100-sxm"), ("h100", "h100-sxm", "h200-sxm"),
                                ("h100", "h100-sxm", "a100-sxm-80g"), ("a100", "a100-sxm-80g", "h100-sxm")):
            path = os.path.join(folder, f"{own}-by-{other}.yaml")
            with open(os.path.join(DEVICES, other + ".yaml")) as theirs, open(os.path.join(DEVICES, own + ".yaml")) as ours:
                theirs_text, of_own = theirs.read(), ours.read()
            text = theirs_text
            for key in ("memory_bandwidth", "peak_flops", "multiprocessors"):
                line = re.search(rf"^{key}:.*$", of_own, re.M)[0]
                text = re.sub(rf"^{key}:.*$", lambda _: line, text, flags=re.M)
            ratio = bfloat16_peak(of_own) / bfloat16_peak(theirs_text)
            text = re.sub(r"cache_bandwidth: (\S+)", lambda found: f"cache_bandwidth: {float(found[1]) * ratio:.4g}", text)
            with open(path, "w") as out:
                out.write(text)
            rows += [(name.replace(" bf16", f" by {other}'s constants"), *rest) for name, *rest in aiconfigurator(table, gpu, path)]
        return report(rows)


def memory(table):
    for r in table("neusight_op_latency_fp32.csv"):
        if r["device"] not in NEUSIGHT or r["op"] in ("linear", "bmm"):
            continue
        rows, columns = int(r["batch"]), int(r["h"])
        types = [f"float32[{rows},{columns}]"]
        op = {"ln": "layer_norm", "softmax": "softmax"}.get(r["op"])
        if op == "layer_norm":
            types += [f"float32[{columns}]"] * 2
        elif op is None:  # only by bytes: of two operands, or of one
            op = "add" if r["op"] in ("add", "mul", "pow", "div") else "relu"
            types *= 1 + (op == "add")
        name = f"NeuSight {r['device']} fp32|" + {"add": "of two operands", "relu": "of one"}.get(op, op)
        yield name, f"{NEUSIGHT[r['device']]} {op} {' '.join(types)}", float(r["latency_ms"]) * 1e3
    for r in table("llmcompass_a100_mi210_ops.csv"):
        if r["gpu"] != "A100" or r["op"] == "matmul":
            continue
        rows, columns = int(r["dim1"]), int(r["dim2"] or 1)
        op = {"layernorm": "layer_norm"}.get(r["op"], r["op"])
        types = [f"float16[{rows},{columns}]"] + [f"float16[{columns}]"] * (2 if op == "layer_norm" else 0)
        size = "100 MB and more" if rows * columns * 2 >= 100e6 else "smaller"
        yield (f"LLMCompass A100 fp16 {op}|{size}", f"a100-sxm-80g {op} {' '.join(types)}",
               rows * columns / float(r["raw_throughput"]) * 1e-3)


def attention(table):
    devices = {"A100-SXM4-80GB": "a100-sxm-80g", "H100-SXM5-80GB": "h100-sxm"}
    for r in table("attention_flash_tflops.csv"):
        if r["method"] != "FlashAttention-2" or r["pass"] != "fwd" or r["uncertain"] or r["gpu"] not in devices:
            continue
        batch, sequence, head = int(r["batch"]), int(r["seq_len"]), int(r["head_dim"])
        heads = int(r["hidden_dim"]) // head
        x = f"float16[{batch},{heads},{sequence},{head}]"
        flops = 4 * batch * heads * sequence**2 * head / (2 if r["causal"] == "1" else 1)
        line = f"{devices[r['gpu']]} scaled_dot_product_attention {x} {x} {x} causal={'true' if r['causal'] == '1' else 'false'}"
        yield f"{r['gpu']} FlashAttention-2 forward", line, flops / float(r["tflops"]) * 1e-6


def collectives(table):
    for gpu, cluster in (("a100", "dgx-a100-80g"), ("h100", "dgx-h100"), ("h200", "hgx-h200")):
        for r in table(f"aiconfigurator_nccl_{gpu}_sxm.csv"):
            if r["dtype"] == "half":
                op = {"alltoall": "all_to_all"}.get(r["op"], r["op"])
                yield f"aiconfigurator {gpu}|{op}", f"{cluster} {op} 1x{r['gpus']} {r['bytes']}", float(r["latency_us"])
    for r in table("vtrain_nccl_allreduce_intranode.csv"):
        cluster = {"A100": "dgx-a100-80g", "V100": "dgx-1-v100-16g"}[r["gpu"]]
        line = f"{cluster} all_reduce 1x{r['n_gpus']} {r['size_bytes']}"
        yield f"vTrain {r['gpu']}|{r['n_gpus']} GPUs", line, float(r["outofplace_time_us"])
    for r in table("aceso_v100_comm_profile.csv"):
        size = round(float(r["data_size_MB"]) * MIB)
        if not 0 < size <= 1 << 30 or float(r["time_ms"]) > 1e6:  # 1e9: it did not fit
            continue
        name, where = r["collective"], "1x" + r["n_gpus"]
        if name == "p2p":
            name, where = "transfer", "0-8" if r["scope"] == "inter-node" else "0-3"
        yield (f"Aceso V100|{name}, {r['n_gpus']} GPUs, {r['scope']}", f"dgx-1-v100-32g {name} {where} {size}",
               float(r["time_ms"]) * 1e3)
    for r in table("nccl_busbw_published.csv"):
        found = [cluster for source, gpu, nodes, cluster in PUBLISHED
                 if r["source"].endswith(source) and r["gpu"].startswith(gpu) and r["nodes"] == nodes]
        micro = r["time_us_out_of_place"] or r["time_us_in_place"]
        op = {"alltoall": "all_to_all"}.get(r["collective"], r["collective"])
        if not found or not r["size_bytes"] or not 512 <= int(r["size_bytes"]) <= 1 << 30 or r["backend_algo"].startswith(LEFT_OUT):
            continue
        if not micro:
            rate = float(r["busbw_GBps_oop"] or r["busbw_GBps_in_place"] or 0) * 1e9
            rate *= rate >= LEAST_RATE
            n = int(r["ranks"])
            micro = int(r["size_bytes"]) * (2 if op == "all_reduce" else 1) * (n - 1) / n / rate * 1e6 if rate else 0
        if float(micro):
            large = "16 MiB and more" if int(r["size_bytes"]) >= 16 * MIB else "smaller"
            kind = f"{op}, {r['nodes']} x {int(r['ranks']) // int(r['nodes'])}" + (", older plugin" if "EKS" in r["path_or_url"] else "")
            line = f"{found[0]} {op} {r['nodes']}x{int(r['ranks']) // int(r['nodes'])} {r['size_bytes']}"
            yield f"{r['source'].split('/', 1)[1]} {r['gpu']}|{kind}|{large}", line, float(micro)


LEAST_RATE = 0.5e9  # published to 0.01e9
LEFT_OUT = ("MSCCL", "Ring", "RING", "Tree", "SHARP")  # not by NCCL
PUBLISHED = [  # end of the source, beginning of the GPU, nodes, preset
    ("superbenchmark", "A100", "1", "dgx-a100-40g"), ("SimuMax", "H100", "1", "dgx-h100"),
    ("AI-benchmarking-guide", "A100", "1", "dgx-a100-80g"), ("AI-benchmarking-guide", "H100", "1", "dgx-h100"),
    ("AI-benchmarking-guide", "H200", "1", "hgx-h200"), ("ml-engineering", "A100", "1", "dgx-a100-80g"),
    ("ml-engineering", "H200", "1", "hgx-h200"), ("ml-engineering", "B200", "1", "hgx-b200"), ("ml-engineering", "B200", "4", "hgx-b200"),
    ("awsome-distributed-training", "A100", "2", "a100-80g-400g"), ("awsome-distributed-training", "H100", "2", "dgx-h100")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    kinds = {"products": products, "left-out": left_out, "memory": memory, "attention": attention, "collectives": collectives}
    parser.add_argument("kind", choices=kinds)
    args = parser.parse_args()

    def table(name):
        path = os.path.join(args.folder, name)
        return fit.read(path) if os.path.exists(path) else []

    rows = kinds[args.kind](table)
    if rows:
        report(list(rows))


if __name__ == "__main__":
    main()
