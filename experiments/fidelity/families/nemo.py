"""NeMo in FP8: its documentation of release 24.07 and of long sequences of 24.03, and submissions to MLPerf.

What the tables do not state stands in launcher_scripts/conf/training of github.com/NVIDIA/NeMo-Framework-Launcher: gpt3/*_fp8_performance,
llama, nemotron. Delayed scaling (fp8_hybrid, amax history of 1,024), nothing recomputed, sharded optimizer, sequence parallelism with
tensor parallelism. Gradients are bf16 (grad_sync_dtype) where these files say it, as in gpt3 and nemotron_340b; so they are taken here of
all, since Llama 3 8B would not fit otherwise.
"""
from ..family import Case, Family, LeftOut
from .flags import flags

GPT = dict(model="gpt", vocab=50257, dropout=0.1)
LLAMA2 = dict(model="llama", vocab=32000)
LLAMA3 = dict(model="llama", vocab=128256, kv_heads=8)
# Squared ReLU stands as GELU, which moves as many bytes; rotary positions on half of each head as on all of it
NEMOTRON = dict(model="gpt", vocab=256000, dropout=0, bias=False, tied=False, position="rotary")
MODELS = {"GPT3-5B": GPT | dict(layers=24, hidden=4096, heads=32), "GPT3-20B": GPT | dict(layers=44, hidden=6144, heads=48),
          "GPT3-175B": GPT | dict(layers=96, hidden=12288, heads=96),
          "LLAMA2-7B": LLAMA2 | dict(layers=32, hidden=4096, heads=32, ffn=11008),
          "LLAMA2-13B": LLAMA2 | dict(layers=40, hidden=5120, heads=40, ffn=13824),
          "LLAMA2-70B": LLAMA2 | dict(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672),
          "LLAMA3-8B": LLAMA3 | dict(layers=32, hidden=4096, heads=32, ffn=14336),
          "LLAMA3-70B": LLAMA3 | dict(layers=80, hidden=8192, heads=64, ffn=28672),
          "Nemotron-8B": NEMOTRON | dict(layers=32, hidden=4096, heads=32), "Nemotron-22B": NEMOTRON | dict(layers=40, hidden=6144, heads=48),
          "Nemotron-340B": NEMOTRON | dict(layers=96, hidden=18432, heads=96, kv_heads=8)}

MLPERF = {"GPT-3 175B": MODELS["GPT3-175B"] | dict(vocab=51200, dropout=0), "Llama 3.1 8B": MODELS["LLAMA3-8B"]}


def nemo_2407(row):
    if row["task"] == "LoRA":
        raise LeftOut("training of added matrices alone (LoRA) is not modelled")
    if row["task"] == "SFT":
        raise LeftOut("attention within packed documents is not modelled")
    if not row["vp"]:
        raise LeftOut("virtual stages are not stated; a later revision of the table repeats the row with them")
    tp = int(row["tp"])
    plan = flags(**MODELS[row["model"]], seq=row["seq_len"], cluster="dgx-h100", stack="nemo-24", precision="fp8", attention="flash",
                 gpus=row["n_gpus"], tp=tp, pp=row["pp"], context_parallel=row["cp"], virtual_stages=row["vp"], micro_batch=row["mbs"],
                 global_batch=row["gbs"], zero=1, sequence_parallel=tp > 1,
                 gradients="half")
    name = f"{row['model']} s{row['seq_len']} on {row['n_gpus']} of {row['doc_revision'].split()[0]}"
    return [Case(name, plan, "step_s", float(row["derived_iter_time_s"]))]


def mlperf(row):
    """NVIDIA's implementation, which others submit too. Its models have no dropout."""
    if row["model"] not in MLPERF:
        raise LeftOut("training of added matrices alone (LoRA) is not modelled")
    if "H100" not in row["accelerator"]:
        raise LeftOut("no H100: the recipe of 8 bits, or the device, is not known")
    if not row["tp"]:
        raise LeftOut("the layout is not known: no one configuration file agrees with what was logged")
    tp = int(row["tp"])
    plan = flags(**MLPERF[row["model"]], seq=row["seq_len"], cluster="dgx-h100", stack="nemo-24", precision="fp8", attention="flash",
                 gpus=row["gpus"], tp=tp, pp=row["pp"], virtual_stages=row["vp"], context_parallel=row["cp"], micro_batch=row["micro_batch"],
                 global_batch=row["global_batch"], zero=1, sequence_parallel=tp > 1, gradients="half")
    name = f"{row['model']} of round {row['round']} on {row['gpus']} by {row['submitter']}"
    return [Case(name, plan, "step_s", float(row["iter_time_s"]))]


BRIDGE = {"LLAMA3_8B": MODELS["LLAMA3-8B"], "LLAMA3_70B": MODELS["LLAMA3-70B"],
          "LLAMA3.1_405B": LLAMA3 | dict(layers=126, hidden=16384, heads=128, ffn=53248)}
BRIDGE_CLUSTERS = {"DGX-H100": "dgx-h100", "DGX-B200": "hgx-b200", "DGX-GB200": "gb200-nvl72", "DGX-B300": "hgx-b300",
                   "DGX-GB300": "gb300-nvl72"}
# FP8 is by current scaling (the recipes of scripts/performance in its repository), by blocks of 32 on Blackwell where the table has a
# value in parentheses
BRIDGE_RECIPES = {"FP8": "current", "FP8-CS": "current", "FP8-MX": "mxfp8", "MXFP8": "mxfp8", "NVFP4": "nvfp4",
                  "FP8 (alt quantization granularity, value in parentheses)": "mxfp8"}


def stage_layers(layers, stages):
    """As even as can be where embedding and head count as a layer each, None where that is not asked for."""
    if layers % stages == 0:
        return None
    each = (layers + 2) // stages
    if each == 1:
        raise LeftOut("embedding and head on virtual stages without layers cannot be said")
    return f"{each - 1},{each}x{stages - 2},{each - 1}"


def bridge(row):
    if row["model"] not in BRIDGE:
        raise LeftOut("a model that cannot be said: latent attention, heads of their own width, sliding windows, Mamba")
    if row["system"] not in BRIDGE_CLUSTERS:
        raise LeftOut(f"no description of {row['system'].removeprefix('DGX-')}")
    if "Pre-Training" not in row["task"]:
        raise LeftOut("fine-tuning: packed documents and added matrices are not modelled")
    if row["precision"] not in BRIDGE_RECIPES:
        raise LeftOut("in 16 bits: models that cannot be said alone")
    if (row["fsdp"] or "0") != "0":
        raise LeftOut("activations of layers are offloaded to the host with FSDP, and how many is not stated")
    tp, pp, virtual = int(row["tp"]), int(row["pp"]), int(row["vp"].replace("n/a", "1"))
    layers, cluster = BRIDGE[row["model"]]["layers"], BRIDGE_CLUSTERS[row["system"]]
    plan = flags(**BRIDGE[row["model"]], seq=row["seq_len"], cluster=cluster, stack="nemo-24", precision="fp8",
                 fp8_recipe=BRIDGE_RECIPES[row["precision"]], attention="flash", attention_kernel="cudnn", gpus=row["n_gpus"],
                 gpus_per_node=64 if "nvl72" in cluster and int(row["n_gpus"]) > 72 else None, tp=tp, pp=pp, virtual_stages=virtual,
                 stage_layers=stage_layers(layers, pp * virtual), context_parallel=row["cp"], micro_batch=row["mbs"],
                 global_batch=row["gbs"], zero=1, sequence_parallel=tp > 1, gradients="half")
    name = f"{row['model']} {row['precision'].split(',')[0]} on {row['n_gpus']} {row['system'].removeprefix('DGX-')} of {row['container'].split()[0]}"
    return [Case(name, plan, "step_s", float(row["derived_iter_time_s"]))]


NEMO_2407 = Family("nemo_2407", "NeMo 24.07 in FP8: GPT-3, Llama and Nemotron, 5B to 340B on 4 to 1,024 H100s", nemo_2407)
MLPERF_FAMILY = Family("mlperf", "MLPerf's GPT-3 175B and Llama 3.1 8B in FP8 on 64 to 10,752 H100s", mlperf)
BRIDGE_FAMILY = Family("megatron_bridge", "Megatron-Bridge in FP8 and NVFP4: Llama 8B to 405B on 8 to 1,024 H100s, B200s, GB200s and GB300s", bridge)
