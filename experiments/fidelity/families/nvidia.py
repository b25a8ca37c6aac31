"""NVIDIA's own tables of whole frameworks: Megatron-LM of 2020, NeMo's launcher, JAX-Toolbox."""
from ..family import Case, Family, LeftOut
from .flags import flags


def tensor_scaling(row):
    """Gradients are fp16 and reduced after the backward pass; tensor parallelism waits (families/megatron.py). 16 GPUs of a DGX-2."""
    if "assumed" in row["case"]:
        raise LeftOut("layers and width are assumed, not stated")
    cluster = "dgx-2-v100-32g" if "V100" in row["system"] else "dgx-a100-80g"
    plan = flags(model="gpt", cluster=cluster, stack="megatron", precision="fp16", attention="unfused", recompute="full",
                 overlap_tp=False, gradients="half", layers=row["layers"], hidden=row["hidden"], heads=row["heads"], seq=row["seq_len"],
                 vocab=51200, gpus=row["n_gpus"], dp=row["dp"], tp=row["tp"], micro_batch=int(row["global_batch"]) // int(row["dp"]))
    return [Case(f"{row['case']} on {row['n_gpus']} {row['system']}", plan, "step_s", float(row["iter_time_ms"]) / 1000)]


def nemo(row):
    """Layouts are the repository's defaults of the time, since the table has only tokens. Attention without a flash kernel, bf16 with
    float32 gradients; parameters and Adam sharded from September of 2022 on (distributed_fused_adam in the same configurations)."""
    if "T5" in row["model"]:
        raise LeftOut("T5: the source does not say whether its tokens are the encoder's or both halves'")
    if not row["iter_time_s_derived"]:
        raise LeftOut("no time of a step: FLOP/s by an unknown formula")
    if "doc table gives GBS" in row["notes"]:
        raise LeftOut("the source states two batches")
    if not int(row["dp"]):
        raise LeftOut("the layout that is assumed has more ranks than the run had GPUs")
    bert = "BERT" in row["model"]
    vocab = 30522 if bert else 51200
    heads = row["heads"] or 32  # BERT-4B of the same configurations
    selective = row["activation_ckpt"] == "selective"
    plan = flags(model="bert" if bert else "gpt", cluster="dgx-a100-80g", stack="nemo", precision="bf16", attention="unfused",
                 layers=row["layers"], hidden=row["hidden"], heads=heads, seq=row["seq_len"], vocab=vocab, gpus=row["gpus"], dp=row["dp"],
                 tp=row["tp"], pp=row["pp"], virtual_stages=row["vp"] or None, sequence_parallel=row["sequence_parallel"] == "1",
                 micro_batch=row["micro_batch"], global_batch=row["global_batch"], zero=1 if row["date"] >= "2022-09" else 0,
                 recompute="selective" if selective else "none")
    return [Case(f"{row['model']} {row['date']} on {row['gpus']}", plan, "step_s", float(row["iter_time_s_derived"]))]


VOCABULARY = {"GPT": ("gpt", 50304, None), "LLaMA2": ("llama", 32000, 11008)}


def jax(row):
    """GPT by Paxml, in which XLA computes attention (bf16) or Transformer Engine does (TE bf16), and a layer is recomputed
    if parameters are sharded; LLaMA-2 by the same, with the results that the minimal policy keeps."""
    kind = row["model"].split()[0]
    if kind not in VOCABULARY:
        raise LeftOut("no model of that kind: T5, Imagen, vision transformers")
    if "LoRA" in row["model"]:
        raise LeftOut("training of added matrices alone (LoRA) is not modelled")
    model, vocab, ffn = VOCABULARY[kind]
    fused = "TE" in row["precision"] or "lash" in row["notes"].split("without")[0]
    sharded = int(row["fsdp"]) > 1
    plan = flags(model=model, cluster="dgx-h100" if "H100" in row["gpu"] else "dgx-a100-80g", stack="jax", precision="fp8" if "fp8" in row["precision"] else "bf16",
                 attention="flash" if fused else "unfused", layers=row["layers"], hidden=row["hidden"], heads=row["heads"], ffn=ffn,
                 seq=row["seq_len"], vocab=vocab, gpus=row["gpus"], tp=row["tp"], zero=3 if sharded else 0, dropout=0,
                 grad_reduction="half" if sharded else None,  # a product's gradient is scattered in its own type
                 micro_batch=row["batch_per_gpu"], recompute="full" if sharded and model == "gpt" else "none")
    name = f"{row['model']} {row['precision']} on {row['gpus']} {row['gpu'].split('-')[0]} b{row['batch_per_gpu']}"
    return [Case(name, plan, "step_s", float(row["iter_time_s_derived"]))]


TENSOR_SCALING = Family("megatron_2020", "Megatron-LM of 2020, tensor parallelism 1 to 8 on V100s and A100s", tensor_scaling,
                        "megatron_2020_tp_scaling")
NEMO = Family("nemo", "NeMo's GPT and BERT, 4B to 175B on 8 to 1,024 A100s", nemo, "nemo_launcher_a100_scaling")
JAX = Family("jax", "GPT and LLaMA by JAX-Toolbox on 8 to 256 A100s and H100s", jax, "jax_toolbox_a100_h100")
