"""DLPerf's runs on 4 nodes of 8 V100s: ResNet-50 v1.5, BERT-base and GPT-2, CUDA 10.2, autumn of 2020 and later.

ResNet-50 and BERT run on the frameworks with a stack here: OneFlow, and NVIDIA's containers with PyTorch. The paper's figure has MXNet and
TensorFlow too (experiments/reproduce/figures/training.py); the families leave these out, since the error of a framework of 2020 says nothing
of a run of today. Throughput is that of all GPUs.
"""
from dataclasses import replace
from functools import partial

from ..family import Case, Family, LeftOut
from .flags import flags

CLUSTER = "dgx-1-v100-16g"
STACKS = {"OneFlow": "oneflow", "NGC PyTorch": "ngc"}
STACKS_OF_2020 = {**STACKS, "NGC MXNet": "mxnet", "MXNet": "mxnet", "NGC TensorFlow 1.x": "tensorflow"}


def stack_of(framework, stacks):
    for name, stack in stacks.items():
        if framework.startswith(name):
            if "XLA" in framework:
                raise LeftOut("XLA: which ops it fuses into a kernel is not known")
            return stack
    raise LeftOut("no framework file of that name")


def common(row, stacks):
    """The parts of a row that every model has: flags, and its name."""
    if "RAW repeat" in row["context_note"]:
        raise LeftOut("one of seven repeats, whose median is a row of its own")
    half = "AMP" in row["precision"] or "FP16" in row["precision"]
    plan = dict(cluster=CLUSTER, stack=stack_of(row["framework"], stacks), precision="fp16" if half else "fp32", gpus=row["n_gpus"],
                micro_batch=row["batch_per_gpu"])
    return plan, f"{row['framework']} {plan['precision']} b{row['batch_per_gpu']} on {row['n_gpus']}"


def seconds(row):
    return int(row["n_gpus"]) * int(row["batch_per_gpu"]) / float(row["throughput_samples_per_s"])


def resnet50(row, stacks=STACKS):
    """Momentum, no clipping: Classification/cnns of OneFlow-Benchmark, ConvNets of DeepLearningExamples.

    PyTorch's images are decoded by eight threads of the host's processor for each GPU (--data-backend dali-cpu -j8 of DLPerf's
    scripts/single_node_train.sh), at a rate that is not published: in half precision the GPU, three times as fast, waits for them. So are those
    of MXNet outside of NVIDIA's container (--use-rec, gluon-cv's train_horovod.py): on eight GPUs half precision takes 2,909 a second, float32
    2,556. TensorFlow's convolutions have channels before rows (--data_format of ConvNets/utils/cmdline_helper.py, NCHW by default), which
    cuDNN transposes for tensor cores.
    """
    if row["model"] != "ResNet50-v1.5":
        raise LeftOut("another model than ResNet-50 v1.5")
    if row["framework"] == "PyTorch":
        raise LeftOut("images prepared by the host's processor: the number of its workers alone makes a row 2.5 times as fast")
    plan, name = common(row, stacks)
    if plan["stack"] == "ngc" and plan["precision"] == "fp16":
        raise LeftOut("half precision with images decoded by the host's processor: how many images it prepares a second is not published")
    if row["framework"].startswith("MXNet"):
        raise LeftOut("images decoded by the host's processor: how many it prepares a second is not published")
    if plan["stack"] == "tensorflow" and plan["precision"] == "fp16":
        raise LeftOut("half precision with channels before rows: cuDNN's transposes for tensor cores are not simulated")
    return [Case(name, flags(model="resnet50", optimizer="momentum", clip_norm=0, **plan), "step_s", seconds(row))]


def bert(row, stacks=STACKS):
    """Sequences of 128 with 20 predicted tokens. Clipped to a norm of 1 unless a row says otherwise.

    OneFlow's model is written op by op: LanguageModeling/BERT/bert.py of OneFlow-Benchmark. NVIDIA's gives every token to the predictions'
    head, not only the masked ones (BertPreTrainingHeads in modeling.py of DeepLearningExamples then); its run_pretraining.py pads the
    vocabulary to a multiple of 8, reduces gradients in one bucket (message_size 250,000,000), and keeps them in half (Apex's O2). NVIDIA's
    TensorFlow reduces them in half (Compression.fp16 in optimization.py). MXNet's is gluon-nlp's, whose trainer waits at the end of each step
    for the norm of all gradients, and then launches the next (fp16_utils.py): in half precision that time is a large part of a step.
    """
    if row["model"] != "BERT-base":
        raise LeftOut("another model than BERT-base")
    plan, name = common(row, stacks)
    note = (row["framework"] + row["context_note"]).lower()
    clip = not ("w/o clip" in note or "without clip" in note)
    if plan["stack"] == "ngc":
        half = "half" if plan["precision"] == "fp16" else None
        model = dict(masked=127, pad_vocab=8, grad_bucket_mb=1000, gradients=half)
    elif plan["stack"] == "mxnet":
        if plan["precision"] == "fp16":
            raise LeftOut("half precision with a trainer that waits for a norm before it launches the next step: how long is not known")
        model = dict(masked=20, pad_vocab=1)
    elif plan["stack"] == "tensorflow":
        model = dict(masked=20, pad_vocab=1, grad_reduction="half" if plan["precision"] == "fp16" else None)
    else:
        model = dict(masked=20, pad_vocab=1, off="fuse_patterns,fuse_elementwise")
        plan["stack"] = "oneflow-ops"
    return [Case(name + ("" if clip else " unclipped"),
                 flags(model="bert-base", seq=128, clip_norm=1 if clip else 0, **model, **plan), "step_s", seconds(row))]


def gpt(row):
    """A case is DP x MP x PP, global batch, hidden x layers.

    Megatron-LM at 8aa4619f, early in 2021: fp16 gradients, tensor parallelism that waits (as families/megatron.py has it). OneFlow's GPT
    puts all collectives on the stream of the kernels if there is tensor parallelism: nccl_use_compute_stream in
    LanguageModeling/GPT/oneflow_gpt/training.py of OneFlow-Benchmark; and otherwise takes the loss on half logits: amp_white_identity in its
    model.py, on losses that are in the gray list of OneFlow's auto_mixed_precision_lists.cpp. Its pipelines have a buffer on either side of
    each transfer forward, so that neighbouring stages are two micro-batches apart, not one: core/job_rewriter/pipeline_buffer_pass.cpp. Peaks
    are nvidia-smi's.
    """
    megatron = row["framework"] == "Megatron-LM"
    waits = dict(overlap_tp=False) if megatron else dict(overlap_tp=False, overlap_grad=False) if int(row["tp"]) > 1 else {}
    gradients = "half" if megatron else None
    logits = "half" if not megatron and int(row["tp"]) == 1 else None
    stages = int(row["pp"])
    apart = ",".join(str(2 * (stages - s)) for s in range(stages)) if not megatron and stages > 1 else None
    plan = flags(model="gpt", cluster=CLUSTER, stack="megatron" if megatron else "oneflow", schedule=apart, gradients=gradients, logits=logits, **waits, precision="fp16", attention="unfused", recompute="full",
                 layers=row["layers"], hidden=row["hidden"], heads=row["heads"], seq=row["seq_len"], vocab=50257,
                 gpus=int(row["nodes"]) * int(row["gpus_per_node"]), dp=row["dp"], tp=row["tp"], pp=row["pp"],
                 micro_batch=row["micro_batch"], global_batch=row["global_batch"])
    name = f"{row['framework']} {row['case']}"
    found = [Case(name, plan, "step_s", float(row["iter_time_ms"]) / 1000)]
    if row["peak_gpu_mem_MiB"]:
        found.append(Case(name, plan, "device_bytes", float(row["peak_gpu_mem_MiB"]) * 2**20))
    return found


def sharded_gpt2(row):
    """GPT-2 small of the scripts published with the table: 12 layers of 768, sequences of 1,024, nothing recomputed. OneFlow's, LanguageModeling/gpt-2 of
    OneFlow-Benchmark, is written op by op, unlike that of the GPT above. Optimizer placement and ZeRO 1 are the same. Peaks of PyTorch are its allocator's share of a full device, and are not compared."""
    oneflow = row["framework"].startswith("OneFlow")
    zero = 1 if row["variant"] in ("on_optimization", "zero-stage-1") else 0
    plan = flags(model="gpt", cluster=CLUSTER, stack="oneflow-ops" if oneflow else "deepspeed",
                 off="fuse_patterns,fuse_elementwise" if oneflow else None, precision="fp16", attention="unfused",
                 layers=12, hidden=768, heads=12, seq=1024, vocab=50257, zero=zero, gpus=row["n_gpus"], micro_batch=row["batch_per_gpu"])
    name = f"{row['framework'].split()[0]} {row['variant']} b{row['batch_per_gpu']} on {row['n_gpus']}"
    seconds = int(row["n_gpus"]) * int(row["batch_per_gpu"]) / float(row["samples_per_s"])
    found = [Case(name, plan, "step_s", seconds)]
    if oneflow:
        found.append(Case(name, plan, "device_bytes", float(row["gpu_mem_MB"]) * 2**20))
    return found


RESNET50 = Family("dlperf_resnet50", "ResNet-50 on 1 to 32 V100s, OneFlow and PyTorch, fp32 and half", resnet50, "dlperf_resnet50_bert_v100")
BERT = Family("dlperf_bert", "BERT-base on 1 to 32 V100s, OneFlow and PyTorch, fp32 and half", bert, "dlperf_resnet50_bert_v100")
GPT = Family("dlperf_gpt", "GPT-2 on 1 to 32 V100s by data, tensors and stages, OneFlow and Megatron-LM", gpt, "dlperf_gpt_v100")
ZERO = Family("dlperf_zero", "GPT-2 small on 8 to 32 V100s with and without sharded optimizer, OneFlow and DeepSpeed", sharded_gpt2, "dlperf_zero_gpt2_v100")
# Not families: the rows of the paper's figure, with all frameworks that have a file
RESNET50_OF_2020, BERT_OF_2020 = (replace(f, cases=partial(f.cases, stacks=STACKS_OF_2020)) for f in (RESNET50, BERT))
