"""Megatron-LM's own published runs on Selene, a DGX A100 80GB SuperPOD."""
from ..family import Case, Family, LeftOut, gib
from .flags import flags

SELENE = dict(cluster="dgx-a100-80g", precision="fp16", attention="unfused", model="gpt")
RELEASE = dict(overlap_tp=False, gradients="half", scatter_gather=True)  # of April 2021


def weak_scaling(row):
    """Micro-batch, interleaving and overlap of gradients are those of the authors' script of the release.

    It waits for the backward all-reduces of tensor parallelism after the weight gradients: its megatron/mpu/mappings.py calls
    torch.distributed.all_reduce without async_op. Later releases do not. Gradients are fp16 unless
    --accumulate-allreduce-grads-in-fp32 is given, which later releases require for all of fp16's fused kernels. Sends go in parts, one
    from each rank of tensor parallelism, unless examples/sc21/run_figure_18.sh sets it otherwise; Megatron Core, from 2023, does not.
    """
    same = {key: row[key] for key in ["layers", "hidden", "heads", "seq", "vocab", "gpus", "tp", "pp", "dp", "micro_batch",
                                      "virtual_stages", "global_batch", "overlap_grad"]}
    return [Case(row["model"], flags(**SELENE, stack="megatron", recompute="full", **RELEASE, **same), "step_s", float(row["published_step_s"]))]


def zero3_or_ptdp(row):
    """The paper gives the size of model parallelism: within a node by tensors, between nodes by stages."""
    zero3 = row["scheme"].startswith("ZeRO-3")
    plan = dict(stack="deepspeed", zero=3) if zero3 else dict(stack="megatron", tp=row["TP"], pp=row["PP"], **RELEASE)
    case = flags(**SELENE, recompute="full", layers=row["layers"], hidden=row["hidden"], heads=row["heads"],
                 seq=row["seq_len"], vocab=row["vocab"], gpus=row["num_gpus"], dp=row["DP"], micro_batch=row["MBS"],
                 global_batch=row["GBS"], **plan)
    name = f"{'ZeRO-3' if zero3 else '3-D'} {row['params_B']}B on {row['num_gpus']}"
    return [Case(name, case, "step_s", float(row["derived_iter_time_s"]))]


def sequence_parallel(row):
    """Full recomputation, and sequence parallelism with selective recomputation."""
    case = flags(**SELENE, stack="megatron", layers=row["layers"], hidden=row["hidden"], heads=row["heads"],
                 seq=row["seq_len"], vocab=row["vocab"], gpus=row["n_gpus"], tp=row["tp"], pp=row["pp"], dp=row["dp"],
                 micro_batch=row["micro_batch"], virtual_stages=row["interleave_chunks"], global_batch=row["global_batch"],
                 sequence_parallel=row["sequence_parallel"] == "1",
                 recompute="full" if row["activation_recompute"] == "full" else "selective")
    return [Case(f"{row['model']} {row['activation_recompute'].split()[0]}", case, "step_s", float(row["iter_time_s"]))]


# Models of Korthikanti et al. 2022, Table 3: layers, hidden, heads, tp, pp, virtual stages, micro-batch, global batch.
SIZES = {"megatron-22B": (48, 6144, 64, 8, 1, 1, 4, 4), "gpt3-175B": (96, 12288, 96, 8, 8, 3, 1, 64),
         "turing-530B": (105, 20480, 128, 8, 35, 3, 1, 280), "megatron-1T": (128, 25600, 160, 8, 64, 1, 1, 512)}
# Base of the percentages of Figure 7: the first bar of Figure 1, GiB of activations on the first stage.
WITHOUT = {"megatron-22B": 59.25, "gpt3-175B": 66.84375, "turing-530B": 114.0234375, "megatron-1T": 131.25}
MODES = {"none": (False, "none"), "none (TP only)": (False, "none"), "seq": (True, "none"), "sel": (False, "selective"),
         "seqsel": (True, "selective"), "full": (False, "full")}


def memory_of_modes(row):
    """The paper's own closed forms and the bars drawn from them: activations of the first stage, and states of only the layers (12 L h^2
    parameters over tensors and stages, 18 bytes each, to the last digit: neither table is in them)."""
    layers, hidden, heads, tp, pp, virtual, micro, batch = SIZES[row["model"]]
    sequence, recompute = MODES[row["mode"]]
    case = flags(**SELENE, stack="megatron", layers=layers, hidden=hidden, heads=heads, seq=2048, vocab=51200, gpus=tp * pp,
                 tp=tp, pp=pp, virtual_stages=virtual, micro_batch=micro, global_batch=batch, sequence_parallel=sequence,
                 recompute=recompute)
    name = f"{row['model']} {row['mode']}"
    if row["activation_pct_of_tp_baseline"]:
        share = float(row["activation_pct_of_tp_baseline"]) / 100
        if share == 1:
            raise LeftOut("the bar that the others are given as shares of, which stands in the figure before")
        return [Case(name, case, "activation_bytes", gib(share * WITHOUT[row["model"]]))]
    return [Case(name, case, "activation_bytes", gib(float(row["activations_GiB"]))),
            Case(name, case, "state_bytes", gib(float(row["params_optimizer_GiB"])))]


SC21 = Family("megatron_sc21", "Megatron-LM's weak scaling, 1.7B to 1T on 32 to 3,072 A100s", weak_scaling)
ZERO3 = Family("zero3_vs_ptdp", "ZeRO-3 beside 3-D parallelism, 175B and 530B on 384 to 2,240 A100s", zero3_or_ptdp,
               "megatron_sc21_zero3_vs_ptdp_a100")
KORTHIKANTI = Family("korthikanti", "full recomputation beside sequence parallelism with selective, 22B to 1T",
                     sequence_parallel, "korthikanti2022_seqpar_selective_a100")
KORTHIKANTI_MEMORY = Family("korthikanti_memory", "memory by mode of recomputation, 22B to 1T", memory_of_modes,
                            "korthikanti2022_memory_a100")
