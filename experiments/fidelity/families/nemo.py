"""NeMo in FP8: its documentation of release 24.07 and of long sequences of 24.03, and submissions to MLPerf.

Settings that the tables do not state are in launcher_scripts/conf/training of github.com/NVIDIA/NeMo-Framework-Launcher: gpt3/*_fp8_performance,
llama, nemotron. Delayed scaling (fp8_hybrid, amax history of 1,024), nothing recomputed, sharded optimizer, sequence parallelism with
tensor parallelism. Gradients are bf16 (grad_sync_dtype) if these files say it, as in gpt3 and nemotron_340b; here they are
assumed so for all, since Llama 3 8B would not fit otherwise.
"""
from ..family import Case, Family, LeftOut
from .flags import flags

GPT = dict(model="gpt", vocab=50257, dropout=0.1)
LLAMA2 = dict(model="llama", vocab=32000)
LLAMA3 = dict(model="llama", vocab=128256, kv_heads=8)
# GELU stands for squared ReLU, since it moves as many bytes; rotary positions on all of each head for those on half
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

# Adapters of the benchmark: rank 16, alpha 32, dropout 0.1 on the products before and after attention, by
# github.com/mlcommons/training llama2_70b_lora/README.md
MLPERF = {"GPT-3 175B": MODELS["GPT3-175B"] | dict(vocab=51200, dropout=0), "Llama 3.1 8B": MODELS["LLAMA3-8B"],
          "Llama 2 70B LoRA": MODELS["LLAMA2-70B"] | dict(dropout=0, lora_rank=16, lora_alpha=32, lora_dropout=0.1)}


# Fine-tuning packs questions of SQuAD, of about 200 tokens: with 100 a step is up to 1.6 % shorter, with 400 up to 4.2 % longer. Dropout and adapters are
# those of fine_tuning/llama/squad.yaml and peft/llama/squad.yaml in launcher_scripts/conf. The former asks neither for gradients in bf16 nor
# for parameters that are gathered behind the forward pass.
DOCUMENTS = dict(document_length=200)
TASKS = {"SFT": DOCUMENTS | dict(dropout=0.1, gradients="float32", overlap_param=False),
         "LoRA": DOCUMENTS | dict(lora_rank=32, lora_alpha=32, lora_dropout=0)}


def nemo_2407(row):
    if row["task"] in TASKS and row["pp"] != "1":
        raise LeftOut("virtual stages are not stated")
    if not row["vp"] and row["task"] not in TASKS:
        raise LeftOut("virtual stages are not stated; a later revision of the table repeats the row with them")
    tp = int(row["tp"])
    settings = dict(gradients="half") | TASKS.get(row["task"], {})
    plan = flags(**MODELS[row["model"]] | settings, seq=row["seq_len"], cluster="dgx-h100", stack="nemo-24", precision="fp8",
                 attention="flash", gpus=row["n_gpus"], tp=tp, pp=row["pp"], context_parallel=row["cp"],
                 virtual_stages=row["vp"] or None, micro_batch=row["mbs"], global_batch=row["gbs"], zero=1, sequence_parallel=tp > 1)
    task = f" {row['task']}" if row["task"] in TASKS else ""
    name = f"{row['model']}{task} s{row['seq_len']} on {row['n_gpus']} of {row['doc_revision'].split()[0]}"
    return [Case(name, plan, "step_s", float(row["derived_iter_time_s"]))]


def mlperf(row):
    """NVIDIA's implementation, which others submit too. Its models have no dropout but that of adapters."""
    if row["model"] not in MLPERF:
        raise LeftOut("a model of another kind")
    if "H100" not in row["accelerator"]:
        raise LeftOut("no H100: the recipe of 8 bits, or the device, is not known")
    if not row["tp"]:
        raise LeftOut("the layout is not known: no one configuration file agrees with what was logged")
    tp = int(row["tp"])
    plan = flags(**MLPERF[row["model"]], seq=row["seq_len"], cluster="dgx-h100", stack="nemo-24", precision="fp8", attention="flash",
                 gpus=row["gpus"], tp=tp, pp=row["pp"], virtual_stages=row["vp"] or None, context_parallel=row["cp"], micro_batch=row["micro_batch"],
                 global_batch=row["global_batch"], zero=1, sequence_parallel=tp > 1, gradients="half")
    name = f"{row['model']} of round {row['round']} on {row['gpus']} by {row['submitter']}"
    return [Case(name, plan, "step_s", float(row["iter_time_s"]))]


# Mixtures are weighted inside their experts, as Megatron Core does from 0.12 on (TEGroupedMLP of megatron/core/transformer/moe/experts.py).
# config.json of huggingface.co/Qwen/Qwen3-30B-A3B, /Qwen/Qwen3-235B-A22B, /openai/gpt-oss-120b and /deepseek-ai/DeepSeek-V3.
# Experts are whole on a rank of tensor parallelism: expert_tensor_parallel_size of scripts/performance/configs/qwen there.
# Routing is balanced: moe_router_force_load_balancing of scripts/performance in github.com/NVIDIA-NeMo/Megatron-Bridge. GPT-OSS has biases
# everywhere, and a learned sink beside the scores of each head, which is not modelled: a number a head.
QWEN3 = dict(model="llama", vocab=151936, kv_heads=4, head_dim=128, qk_norm=True, experts=128, top_k=8)
GPT_OSS = dict(model="llama", vocab=201088, layers=36, hidden=2880, heads=64, kv_heads=8, head_dim=64, ffn=2880, bias=True, experts=128,
               top_k=4, attention_window=128, full_attention_every=2)
DEEPSEEK_V3 = dict(model="llama", vocab=129280, layers=61, hidden=7168, heads=128, ffn=18432, q_lora_rank=1536, kv_lora_rank=512,
                   qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, experts=256, top_k=8, expert_ffn=2048, shared_experts=1,
                   dense_layers=3)
MIXTURES = {"Qwen3_30B_a3B": QWEN3 | dict(layers=48, hidden=2048, heads=32, ffn=768),
            "Qwen3_235B_a22B": QWEN3 | dict(layers=94, hidden=4096, heads=64, ffn=1536),
            "GPT OSS 120B": GPT_OSS, "DeepSeekV3 (w/o MTP)": DEEPSEEK_V3}
BRIDGE = {"LLAMA3_8B": MODELS["LLAMA3-8B"], "LLAMA3_70B": MODELS["LLAMA3-70B"],
          "LLAMA3.1_405B": LLAMA3 | dict(layers=126, hidden=16384, heads=128, ffn=53248)} | MIXTURES
OTHER_MODELS = {"DeepSeekV3": "multi-token prediction is not modelled: a layer and a head more on the last stage, 4 % of a token's published operations",
                "Nemotron": "a hybrid of attention and Mamba is not modelled", "Kimi": "no model of the optimizer Muon"}
# Adapters of queries, keys and values: scripts/performance/configs/llama/llama3_llm_finetune.py in its repository. Here the projection has
# them too; their rank is assumed.
BRIDGE_ADAPTERS = dict(lora_rank=32, lora_alpha=32, lora_dropout=0)
BRIDGE_CLUSTERS = {"DGX-H100": "dgx-h100", "DGX-B200": "hgx-b200", "DGX-GB200": "gb200-nvl72", "DGX-B300": "hgx-b300",
                   "DGX-GB300": "gb300-nvl72"}
# FP8 is by current scaling (the recipes of scripts/performance in its repository), by blocks of 32 on Blackwell if the table has a
# value in parentheses
BRIDGE_RECIPES = {"FP8": "current", "FP8-CS": "current", "FP8-MX": "mxfp8", "MXFP8": "mxfp8", "NVFP4": "nvfp4",
                  "FP8 (alt quantization granularity, value in parentheses)": "mxfp8"}


def stage_layers(layers, stages):
    """As even as possible if embedding and head count as a layer each, None if that is not asked for."""
    if layers % stages == 0:
        return None
    each = (layers + 2) // stages
    return f"{each - 1},{each}x{stages - 2},{each - 1}"


def full_first(layers, stages):
    """Stages of equal numbers of layers except the last, which has the rest: DeepSeek-V3's, whose last stage also has its head
    (layout_map of src/megatron/bridge/recipes/deepseek/deepseek_v3.py)."""
    each = -(-layers // stages)
    return f"{each}x{stages - 1},{layers - each * (stages - 1)}"


def recomputed_modules(row, model):
    """recompute_modules of the recipes: gpt_oss, deepseek (scripts/performance/configs of github.com/NVIDIA-NeMo/Megatron-Bridge)."""
    half, device = row["precision"] == "BF16", row["system"].removeprefix("DGX-")
    if model == "GPT OSS 120B" and half and device in ("H100", "B200", "GB200"):
        return "layernorm,moe_act"
    if model.startswith("DeepSeek"):
        return "mla_up_proj"
    return None


def bridge_rules(row, model):
    if model not in BRIDGE:
        raise LeftOut(next((why for name, why in OTHER_MODELS.items() if name in model), "a model that is not described here"))
    if row["system"] not in BRIDGE_CLUSTERS:
        raise LeftOut(f"no description of {row['system'].removeprefix('DGX-')}")
    if (row["fsdp"] or "0") != "0":
        raise LeftOut("activations of layers are offloaded to the host with FSDP, and how many is not stated")


def bridge(row):
    model, dropped = row["model"].removesuffix(" (tokendrop)"), "tokendrop" in row["model"]
    bridge_rules(row, model)
    tp, pp, virtual = int(row["tp"]), int(row["pp"]), int(row["vp"].replace("n/a", "1"))
    layers, cluster = BRIDGE[model]["layers"], BRIDGE_CLUSTERS[row["system"]]
    eight = dict(precision="fp8", fp8_recipe=BRIDGE_RECIPES[row["precision"]]) if row["precision"] != "BF16" else dict(precision="bf16")
    modules = recomputed_modules(row, model)
    tuned = DOCUMENTS | (BRIDGE_ADAPTERS if "LoRA" in row["task"] else {}) if "Pre-Training" not in row["task"] else {}
    cut = full_first if model.startswith("DeepSeek") else stage_layers
    plan = flags(**BRIDGE[model], **tuned, seq=row["seq_len"], cluster=cluster, stack="nemo-24", **eight, attention="flash",
                 attention_kernel="cudnn", gpus=row["n_gpus"],
                 gpus_per_node=64 if "nvl72" in cluster and int(row["n_gpus"]) > 72 else None, tp=tp, pp=pp, virtual_stages=virtual,
                 stage_layers=cut(layers, pp * virtual) if pp > 1 else None, context_parallel=row["cp"],
                 ep=row["ep"] if model in MIXTURES else None, etp=1 if model in MIXTURES and tp > 1 else None, weigh_inside=True if model in MIXTURES else None,
                 recompute="selective" if modules else None, recompute_modules=modules, micro_batch=row["mbs"], global_batch=row["gbs"], zero=1,
                 sequence_parallel=tp > 1, gradients="half")
    task = f" {row['task'].split()[0]}" if tuned else ""
    name = f"{model}{task} {row['precision'].split(',')[0]} on {row['n_gpus']} {row['system'].removeprefix('DGX-')} of {row['container'].split()[0]}"
    # If one release has a plan twice: the batch in addition
    name += f" b{row['gbs']}" if model in MIXTURES else ""
    return [Case(name + (", tokens dropped" if dropped else ""), plan, "step_s", float(row["derived_iter_time_s"]))]


NEMO_2407 = Family("nemo_2407", "NeMo 24.07 in FP8: GPT-3, Llama and Nemotron, 5B to 340B on 4 to 1,024 H100s, trained and fine-tuned", nemo_2407)
MLPERF_FAMILY = Family("mlperf", "MLPerf's GPT-3 175B, Llama 3.1 8B and adapters of Llama 2 70B in FP8 on 4 to 10,752 H100s", mlperf)
BRIDGE_FAMILY = Family("megatron_bridge", "Megatron-Bridge in bf16, FP8 and NVFP4: Llama 8B to 405B and mixtures on 8 to 1,024 H100s, B200s, GB200s, B300s and GB300s", bridge)
