"""Megatron-LM's own regression runs: small models, one node, many features.

A row's other settings are in tests/functional_tests/test_cases/*/model_config.yaml of its repository: GPT-2's vocabulary, or BERT's;
deterministic mode, except for cases named nondeterministic, which have no dropout; one node of eight GPUs. Attention is Transformer Engine's
choice, a flash kernel, but unfused if the configuration says so (regular runs of the smallest models, T5), in the images of the runs on OCI, in local layers and
in BERT. Peaks are of the last stage: its last rank is the one that logs.
"""
from ..family import Case, Family, LeftOut
from .flags import flags

CLUSTERS = {"a100": "dgx-a100-80g", "gb200": "gb200-nvl72", "h100": "dgx-h100"}
NOISE = 1.25  # median over fastest step: a row beyond it was disturbed
FAMILIES = {"gpt": ("gpt", 50257), "moe": ("gpt", 50257), "bert": ("bert", 30522), "t5": ("t5", 28996 + 100)}
# Settings of T5's configurations that no column has
T5 = {"num_layers": "24", "seq_length": "512", "decoder_layers": "12", "decoder_seq": "128"}
# Parts of a test case's name for features that no column has and no model here supports
OTHER_PARTS = {"qk_layernorm": "norms of queries and keys are not modelled", "account_for_embedding": "layers of each stage are not stated", "muon": "no model of the optimizer Muon",
               "multi_dist_optimizer": "several optimizers side by side are not modelled", "grpo": "steps that sample text are not modelled",
               "throughputtest": "steps that sample text are not modelled", "multi_latent": "latent attention is not modelled",
               "etp1_memory_speed": "the prediction of further tokens is not modelled"}


def number(row, key, default=1):
    return int(row[key] or default)


def gpu_of(row):
    for name, cluster in CLUSTERS.items():
        if name in row["golden_file"]:
            return name, cluster
    raise LeftOut("the GPU is not stated, or has no description")


def rules(row):
    if row["family"] not in FAMILIES:
        raise LeftOut("a model of another kind: Mamba, latent attention, images")
    for part, why in OTHER_PARTS.items():
        if part in row["test_case"]:
            raise LeftOut(why)
    if row["cuda_graph_impl"]:
        raise LeftOut("CUDA graphs are not modelled")
    if row["tp_comm_overlap"]:
        raise LeftOut("products cut into pieces beside their collectives are not modelled")
    if not row["gpus"] and row["test_type"] == "release":
        raise LeftOut("the number of GPUs is not stated")
    if not row["tensor_model_parallel_size"]:
        raise LeftOut("the tensor parallelism is not stated")
    if float(row["iter_time_s_median"]) > NOISE * float(row["iter_min_s"]):
        raise LeftOut("the median step is a quarter and more above the fastest: measured beside other work")
    tp, etp = number(row, "tensor_model_parallel_size"), sharing_an_expert(row)
    if number(row, "expert_model_parallel_size") > ranks_of_data(row) * tp // etp:
        raise LeftOut("experts shared out over ranks of context parallelism are not modelled")
    if etp not in (1, tp):
        raise LeftOut("experts shared by some of the ranks of tensor parallelism are not modelled")


def sharing_an_expert(row):
    """Ranks of tensor parallelism that share an expert; all of them without experts."""
    tp = row["tensor_model_parallel_size"]
    return number(row, "expert_tensor_parallel_size", tp) if row["num_experts"] else int(tp)


def ranks_of_data(row):
    return number(row, "gpus", 8) // (number(row, "tensor_model_parallel_size") * number(row, "pipeline_model_parallel_size")
                                      * number(row, "context_parallel_size"))


def virtual_stages(row, layers, stages):
    if row["num_layers_per_virtual_pipeline_stage"]:
        return layers // stages // int(row["num_layers_per_virtual_pipeline_stage"])
    return number(row, "num_virtual_stages_per_pipeline_rank")


# Cases whose configuration has NVTE_ALLOW_NONDETERMINISTIC_ALGO: 1, in which Transformer Engine takes a flash kernel in every image, and no
# deterministic mode; and those that ask for flash
NONDETERMINISTIC = ("nondeterministic", "reshard_1x4xNone", "cross_entropy_loss_fusion")
ASKS_FOR_FLASH = ("etp4_dp_last",)


def nondeterministic(row):
    return any(part in row["test_case"] for part in NONDETERMINISTIC + ASKS_FOR_FLASH)


def stack(row):
    if "cross_entropy_loss_fusion" in row["test_case"]:
        return "megatron-fused-loss"
    return "megatron-nondeterministic" if nondeterministic(row) else "megatron"


def attention(row):
    unfused = (row["test_type"] == "regular" and row["hidden_size"] == "512") or "oci" in row["golden_file"] or row["family"] == "t5"
    if nondeterministic(row) or (row["transformer_impl"] == "transformer_engine" and not unfused):
        return "flash"
    return "unfused"


def cases(row):
    rules(row)
    if row["family"] == "t5":
        row = row | T5
    gpu, cluster = gpu_of(row)
    model, vocab = FAMILIES[row["family"]]
    layers, hidden, stages = number(row, "num_layers"), number(row, "hidden_size"), number(row, "pipeline_model_parallel_size")
    sharding = 3 if row["data_parallel_sharding_strategy"] == "optim_grads_params" else 1 if row["use_distributed_optimizer"] else 0
    swiglu = bool(row["swiglu"])
    named = lambda part: part in row["test_case"]
    plan = flags(model=model, layers=layers, hidden=hidden, heads=row["num_attention_heads"], seq=row["seq_length"], vocab=vocab,
                 decoder_layers=row.get("decoder_layers"), decoder_seq=row.get("decoder_seq"),
                 ffn=row["moe_ffn_hidden_size"] or row["ffn_hidden_size"] or (hidden * 8 // 3 // 64 * 64 if swiglu else None),
                 kv_heads=row["num_query_groups"] or None, mlp="swiglu" if swiglu else None,
                 experts=row["num_experts"] or None, top_k=row["moe_router_topk"] or None, ep=number(row, "expert_model_parallel_size"),
                 etp=sharing_an_expert(row) if row["num_experts"] else None,
                 bias=False if named("disable_bias_linear") or row["num_experts"] else None, tied=False if named("untie") else None,
                 position="rotary" if named("rope") else None, dropout=0 if named("nondeterministic") or named("etp4_dp_last") else 0.1,
                 cluster=cluster, gpus=number(row, "gpus", 8), tp=number(row, "tensor_model_parallel_size"), pp=stages,
                 context_parallel=number(row, "context_parallel_size"), virtual_stages=virtual_stages(row, layers, stages),
                 defer_head_grad=2 if named("defer_embedding_wgrad") else None,  # its --wgrad-deferral-limit
                 stage_layers="2,4,4,2" if named("uneven") else None,
                 sequence_parallel=bool(row["sequence_parallel"]) and number(row, "tensor_model_parallel_size") > 1, zero=sharding,
                 grad_reduction="half" if sharding == 3 else None,
                 micro_batch=row["micro_batch_size"], global_batch=row["global_batch_size"],
                 overlap_grad=bool(row["overlap_grad_reduce"]), overlap_param=bool(row["overlap_param_gather"]),
                 recompute=row["recompute_granularity"] or None, attention=attention(row),
                 precision="fp8" if row["fp8_format"] else "fp16" if row["fp16"] else "bf16", stack=stack(row))
    name = f"{row['test_case']} {row['golden_file'].removeprefix('golden_values_').removesuffix('.json')}"
    found = [Case(name, plan, "step_s", float(row["iter_time_s_median"]))]
    if row["mem_max_allocated_bytes"]:
        found.append(Case(name, plan, "last_peak_bytes", float(row["mem_max_allocated_bytes"])))
    return found


FAMILY = Family("megatron_ci", "Megatron-LM's regression runs, small models on a node or two of A100s, H100s or GB200s", cases)
