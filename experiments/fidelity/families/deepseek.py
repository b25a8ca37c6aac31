"""DeepSeek-V3's own training: HAI-LLM on 2,048 H800s (DeepSeek-AI 2024, arXiv:2412.19437).

Section 3 has 16 stages, 64 ranks of expert parallelism on 8 nodes, sharded optimizer states, bf16 moments, products in 8 bits with scales
for blocks, and what is recomputed: norms, up-projections of latent attention, and activations of experts. Section 4.2 has the routing: 8
groups, one on each node, of which a token chooses 4. DeepEP's combine does not weigh what it adds up (github.com/deepseek-ai/DeepEP), so
experts weigh their results. A micro-batch of one sequence is that of DeepEP's measurements. DualPipe over 16 stages is dualpipe-v over 8
with twice the data parallelism (docs/schedules.md). The prediction of a second token is not modelled: a layer and a head, 4 % of a token's
operations. The H800 is taken for an H100, so the step counts for no error bar.
"""
from ..family import Case, Family
from .flags import flags
from .nemo import DEEPSEEK_V3, full_first


def cases(row):
    stages = int(row["pp"])
    plan = flags(**DEEPSEEK_V3, router_scores="sigmoid", expert_scale=2.5, expert_groups=8, top_groups=4, weigh_inside=True, seq=row["seq_len"],
                 cluster="hgx-h800", stack="hai-llm", precision="fp8", fp8_recipe="blocks", attention="flash", gpus=row["n_gpus"],
                 pp=stages // 2, virtual_stages=2, schedule="dualpipe-v", stage_layers=full_first(DEEPSEEK_V3["layers"], stages), ep=row["ep"],
                 micro_batch=1, global_batch=row["gbs"], zero=row["zero"], moments="bf16", recompute="selective",
                 recompute_modules="layernorm,mla_up_proj,moe_act")
    return [Case(f"{row['model']} on {row['n_gpus']} {row['gpu']}", plan, "step_s", float(row["derived_iter_time_s"]), described=False)]


FAMILY = Family("deepseek_v3", "DeepSeek-V3 as it was trained, in FP8 on 2,048 H800s", cases)
