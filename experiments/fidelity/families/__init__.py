"""The families, in the order in which they are printed."""
from . import bloom, deepseek, dlperf, eager, llama, megatron, megatron_ci, nanotron, nemo, nvidia, pytorch, simumax, vtrain, zero_bubble

FAMILIES = {f.name: f for f in [vtrain.SINGLE, vtrain.MULTI, megatron.SC21, megatron.KORTHIKANTI, megatron.KORTHIKANTI_MEMORY,
                                megatron.ZERO3, zero_bubble.FAMILY, pytorch.MOSAICML, pytorch.TORCHTITAN, llama.ALEPH_ALPHA,
                                llama.INTERNEVO, dlperf.RESNET50, dlperf.BERT, dlperf.GPT, dlperf.ZERO, megatron_ci.FAMILY,
                                nvidia.TENSOR_SCALING, nvidia.NEMO, nvidia.JAX, eager.IBM, eager.SAILOR, eager.NEUSIGHT_FAMILY,
                                nemo.NEMO_2407, nemo.MLPERF_FAMILY, nemo.BRIDGE_FAMILY, deepseek.FAMILY, nanotron.FAMILY, bloom.FAMILY, simumax.FAMILY]}
