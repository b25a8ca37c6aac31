"""Every op of the registry compared with PyTorch: forward and gradient on random inputs, in float64.

    python3 tests/torch/ops.py build/tests/torch/torch_dump

torch_dump runs the reference kernels; OPS has each op in torch. Gradients come from autodiff there and
from autograd here. Ops named *_grad that torch has no function for are checked as parts of those gradients.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

import tensors

SEEDS = 5
TOLERANCE = 1e-9  # relative to the largest element of a tensor, or to 1


def axes_of(x, a):
    return a["axes"] or list(range(x.dim()))


def reduced(x, a, op):
    """op(x, axis, keepdim) one axis after the other."""
    for axis in sorted((axis % x.dim() for axis in axes_of(x, a)), reverse=True):
        x = op(x, axis, a["keepdims"])
    return x


def maximum(x, axis, keepdim):
    return x.max(axis, keepdim=keepdim).values


def minimum(x, axis, keepdim):
    return x.min(axis, keepdim=keepdim).values


def swapped(x, yes):
    return x.transpose(-1, -2) if yes else x


def matmul(x, a):
    return swapped(x[0], a["transpose_a"]) @ swapped(x[1], a["transpose_b"])


def cast(x, a):
    if a["to"] == "boolean":
        return x != 0
    return x.trunc() if x.is_floating_point() and a["to"].startswith("int") else x.double()


def slices(starts, ends):
    return tuple(slice(start, end) for start, end in zip(starts, ends))


def slice_grad(dy, a):
    dx = torch.zeros(a["shape"], dtype=dy.dtype)
    dx[slices(a["starts"], [start + n for start, n in zip(a["starts"], dy.shape)])] = dy
    return dx


def gather(x, index, axis):
    picked = x.index_select(axis, index.flatten())
    return picked.reshape(x.shape[:axis] + index.shape + x.shape[axis + 1 :])


def gather_grad(dy, index, axis, extent):
    flat = dy.reshape(dy.shape[:axis] + (-1,) + dy.shape[axis + index.dim() :])
    shape = list(flat.shape)
    shape[axis] = extent
    return torch.zeros(shape, dtype=dy.dtype).index_add(axis, index.flatten(), flat)


def statistics(x, axes, eps):
    return [x.mean(axes), torch.rsqrt(x.var(axes, unbiased=False) + eps)]


def batch_norm(x, a):
    axes = [axis for axis in range(x[0].dim()) if axis != 1]
    y = F.batch_norm(x[0], None, None, x[1], x[2], training=True, eps=a["eps"])
    return [y] + statistics(x[0], axes, a["eps"])


def rms_norm(x, a):
    rstd = torch.rsqrt(x[0].pow(2).mean(-1) + a["eps"])
    return [x[0] * rstd[..., None] * x[1], rstd]


def hidden_keys(queries, keys, offset, window):
    later = torch.ones(queries, keys, dtype=torch.bool).triu(1 + offset)
    return later | torch.ones(queries, keys, dtype=torch.bool).tril(offset - window) if window else later


def attention(x, a, mask):
    q, k, v, *seen = x
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (a["scale"] or q.shape[-1] ** -0.5)
    if a["causal"]:
        scores = scores.masked_fill(hidden_keys(q.shape[2], k.shape[2], a["offset"], a["window"]), float("-inf"))
    if seen:
        first = torch.arange(q.shape[2]) + a["offset"] + 1 - seen[0]  # [batch, queries]
        before = torch.arange(k.shape[2]) < first[..., None]
        scores = scores.masked_fill(before[:, None], float("-inf"))
    return [(scores.softmax(-1) * mask) @ v, scores.logsumexp(-1)]


def scale_mask_softmax(x, a):
    scores = x * a["scale"]
    if a["causal"]:
        scores = scores.masked_fill(hidden_keys(x.shape[-2], x.shape[-1], a["offset"], a["window"]), float("-inf"))
    return scores.softmax(-1)


def rotary(x, a):
    s, d = x.shape[-2:]
    positions = torch.arange(s, dtype=x.dtype) + a["offset"]
    angle = torch.outer(positions, a["base"] ** (-torch.arange(0, d, 2, dtype=x.dtype) / d))
    turn = torch.polar(torch.ones_like(angle), -angle if a["inverse"] else angle)
    turned = torch.complex(x[..., : d // 2].contiguous(), x[..., d // 2 :].contiguous()) * turn
    return torch.cat([turned.real, turned.imag], -1)


def split_heads(x, a):
    b, s, _ = x.shape
    group, d = a["group"], a["head_dim"]
    parts = x.reshape(b, s, -1, group + 2, d).permute(0, 2, 3, 1, 4)  # b kv group+2 s d
    return [parts[:, :, :group].reshape(b, -1, s, d), parts[:, :, group], parts[:, :, group + 1]]


def split_heads_grad(x):
    q, k, v = x
    b, kv, s, d = k.shape
    parts = torch.cat([q.reshape(b, kv, -1, s, d), k[:, :, None], v[:, :, None]], 2)
    return parts.permute(0, 3, 1, 2, 4).reshape(b, s, -1)


def of_best_groups(x, a):
    """Minus infinity outside of the groups whose two largest elements have the largest sums."""
    size = x.shape[-1] // a["groups"]
    sums = x.unflatten(-1, (a["groups"], size)).topk(min(2, size)).values.sum(-1)
    best = F.one_hot(sums.topk(a["top_groups"]).indices, a["groups"]).sum(-2).bool()
    return x.masked_fill(~best.repeat_interleave(size, -1), -float("inf"))


def slots(index, experts, capacity):
    """(group, token, choice, expert, slot) of every choice that has one."""
    for group in range(index.shape[0]):
        taken = [0] * (experts + 1)
        for token in range(index.shape[1]):
            for choice, expert in enumerate(index[group, token].tolist()):
                if taken[expert] < capacity:
                    yield group, token, choice, expert, taken[expert]
                taken[expert] += 1


def mixed(x):
    """backends/random.h: mix, in 64 bits."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


MASK = (1 << 64) - 1


def part_range(extent, parts, index):
    begin = index * (extent // parts) + min(index, extent % parts)
    return begin, begin + extent // parts + (index < extent % parts)


def drawn(labels, classes, samples, a):
    """Classes drawn in each part: those of the labels, then others by their draw (ir/ops/nn_sampling.cpp)."""
    key = mixed(mixed(mixed(a["seed"]) ^ a["step"]) ^ ((-1 - a["micro_batch"]) & MASK))
    rows = []
    for part in range(a["parts"]):
        own = range(*part_range(classes, a["parts"], part))
        begin, end = part_range(samples, a["parts"], part)
        order = sorted(own, key=lambda c: (c not in labels, mixed(key ^ c) >> 40, c))
        rows += sorted(order[: end - begin])
    return rows


def sample_rows(table, labels, a):
    return table[drawn(labels.tolist(), table.shape[0], a["samples"], a)]


def sample_labels(labels, a):
    rows = drawn(labels.tolist(), a["classes"], a["samples"], a)
    return torch.tensor([rows.index(label) for label in labels.tolist()])


def moe_dispatch(x, index, a):
    flat, chosen = x.reshape((-1,) + x.shape[-2:]), index.reshape((-1,) + index.shape[-2:])
    experts, capacity = a["experts"], a["capacity"]
    y = [[[torch.zeros_like(flat[0, 0])] * capacity for _ in range(experts)] for _ in range(flat.shape[0])]
    for group, token, _, expert, slot in slots(chosen, experts, capacity):
        y[group][expert][slot] = flat[group, token]
    stacked = torch.stack([torch.stack([torch.stack(rows) for rows in group]) for group in y])
    return stacked.reshape(x.shape[:-2] + stacked.shape[1:])


def moe_combine(y, index, weight):
    experts, capacity, width = y.shape[-3:]
    flat, chosen = y.reshape(-1, experts, capacity, width), index.reshape((-1,) + index.shape[-2:])
    share = weight.reshape(chosen.shape)
    rows = [[torch.zeros_like(flat[0, 0, 0]) for _ in range(chosen.shape[1])] for _ in range(chosen.shape[0])]
    for group, token, choice, expert, slot in slots(chosen, experts, capacity):
        rows[group][token] = rows[group][token] + share[group, token, choice] * flat[group, expert, slot]
    return torch.stack([torch.stack(row) for row in rows]).reshape(index.shape[:-1] + (width,))


def one_step(make, x, state, names, operands):
    """An update by a torch optimizer whose state is given; x = w, g, ..., scale?, finite?"""
    if len(x) > operands + 1 and not x[operands + 1]:
        return [x[0]] + x[2:operands]
    w = x[0].clone().requires_grad_()
    w.grad = x[1] * (x[operands] if len(x) > operands else 1)
    optimizer = make([w])
    optimizer.state[w].update({name: value.clone() for name, value in state.items()})
    optimizer.step()
    return [w.detach()] + [optimizer.state[w][name] for name in names]


def sgd(x, a):
    return one_step(lambda w: torch.optim.SGD(w, a["lr"], weight_decay=a["weight_decay"]), x, {}, [], 2)


def momentum(x, a):
    def make(w):
        return torch.optim.SGD(w, a["lr"], momentum=a["momentum"], weight_decay=a["weight_decay"])

    return one_step(make, x, {"momentum_buffer": x[2]}, ["momentum_buffer"], 3)


def adam(x, a):
    def make(w):
        betas = (a["beta1"], a["beta2"])
        return torch.optim.AdamW(w, a["lr"], betas=betas, eps=a["eps"], weight_decay=a["weight_decay"])

    state = {"step": torch.tensor(float(a["step"] - 1)), "exp_avg": x[2], "exp_avg_sq": x[3]}
    return one_step(make, x, state, ["exp_avg", "exp_avg_sq"], 4)


def adagrad(x, a):
    def make(w):
        return torch.optim.Adagrad(w, a["lr"], weight_decay=a["weight_decay"], eps=a["eps"])

    return one_step(make, x, {"sum": x[2]}, ["sum"], 3)


def lion(x, a):
    """PyTorch has none, so by the paper: Chen et al. 2023, arXiv:2302.06675."""
    if len(x) > 4 and not x[4]:
        return [x[0], x[2]]
    w, g, m = x[0], x[1] * (x[3] if len(x) > 3 else 1), x[2]
    kept, fresh = a["beta1"] * m, (1 - a["beta1"]) * g
    cancels = (kept + fresh).abs() <= 1e-6 * (kept.abs() + fresh.abs())  # to what rounding leaves: no step
    sign = (kept + fresh).sign().masked_fill(cancels, 0)
    return [w - a["lr"] * (sign + a["weight_decay"] * w), a["beta2"] * m + (1 - a["beta2"]) * g]


def trust_ratio(x, operands, ratio):
    """By the norms of weights and of what is measured, 1 where one is zero; then the operands without them."""
    weights, measured = x[operands].double().sqrt()
    rest = x[:operands] + x[operands + 1 :]
    return (ratio(weights, measured) if weights > 0 and measured > 0 else 1.0), rest


def lars(x, a):
    """PyTorch has none, so by the paper: You et al. 2017, arXiv:1708.03888; eps as timm has it."""
    def ratio(w, g):
        return a["trust_coefficient"] * w / (g + a["weight_decay"] * w + a["eps"])

    trust, x = trust_ratio(x, 3, ratio)
    if len(x) > 4 and not x[4]:
        return [x[0], x[2]]
    w, g, m = x[0], x[1] * (x[3] if len(x) > 3 else 1), x[2]
    m = a["momentum"] * m + trust * (g + a["weight_decay"] * w)
    return [w - a["lr"] * m, m]


def second_moment(x, a):
    part = a["step"] ** -a["power"] if len(x) < 3 or x[2] else 0.0
    return torch.lerp(x[1], x[0] + a["eps"], part)


def lamb_direction(x, a):
    w, g = x[0], x[1] * (x[4] if len(x) > 4 else 1)
    m, v = a["beta1"] * x[2] + (1 - a["beta1"]) * g, a["beta2"] * x[3] + (1 - a["beta2"]) * g * g
    corrected = [s / (1 - beta ** a["step"]) for s, beta in ((m, a["beta1"]), (v, a["beta2"]))]
    return m, v, corrected[0] / (corrected[1].sqrt() + a["eps"]) + a["weight_decay"] * w


def lamb(x, a):
    """PyTorch has none, so by the paper: You et al. 2019, arXiv:1904.00962."""
    trust, x = trust_ratio(x, 4, lambda w, direction: w / direction)
    if len(x) > 5 and not x[5]:
        return [x[0]] + x[2:4]
    m, v, direction = lamb_direction(x, a)
    return [x[0] - a["lr"] * trust * direction, m, v]


def norms(w, measured):
    return torch.stack([w.pow(2).sum(), measured.pow(2).sum()])


def over_rows(one):
    """An optimizer for the rows of a table that the last operand names, a gradient for each index."""
    def update(x, a):
        *x, indices = x
        rows, width = x[0].shape
        indices = indices.flatten() - a["offset"]
        held = (indices >= 0) & (indices < rows)
        gradient = torch.zeros_like(x[0]).index_add(0, indices[held], x[1].reshape(-1, width)[held].to(x[0].dtype))
        updated = one([x[0], gradient] + x[2:], a)
        read = torch.zeros(rows, 1, dtype=torch.bool).index_fill(0, indices[held], True)
        return [torch.where(read, new, old) for new, old in zip(updated, [x[0]] + x[2:])]

    return update


def over_all(one, operands):
    """An optimizer over many tensors: operands of each, then scale?, finite?; copies of new weights behind."""
    def update(x, a):
        scalars = x[a["tensors"] * operands :]
        updated = [one(x[t * operands : (t + 1) * operands] + scalars, a) for t in range(a["tensors"])]
        return [y for states in updated for y in states] + [updated[t][0] for t in a["copies"]]

    return update


def gelu(x, a):
    return F.gelu(x, approximate="tanh" if a.get("tanh") else "none")


def matmul_bias_gelu(x, a):
    h = matmul(x, a) + x[2]
    return [gelu(h, {"tanh": True}), h]


def matmul_dgelu(x, a):
    h = x[2].detach().requires_grad_()
    (slope,) = torch.autograd.grad(gelu(h, {"tanh": True}).sum(), h)
    dx = matmul(x, a) * slope
    return [dx, dx.flatten(0, -2).sum(0)]


def real_classes(x, a):
    """Logits without their padding."""
    return x[..., : a["classes"]] if a["classes"] else x


def cross_entropy(x, a):
    return F.cross_entropy(real_classes(x[0], a).movedim(-1, 1), x[1], reduction="none")


def sum_exp(x, a):
    return (real_classes(x[0], a) - x[1][..., None]).exp().sum(-1)


def cross_entropy_parts(x, a):
    m = real_classes(x[0], a).amax(-1)
    return [cross_entropy(x, a), m, sum_exp([x[0], m], a)]


def clip_scale(norm2, a):
    norm = norm2.sqrt() / a["loss_scale"]
    share = (a["max_norm"] / (norm + 1e-6)).clamp(max=1) if a["max_norm"] > 0 else torch.ones_like(norm)
    return share / a["loss_scale"]


def fused(x, a, mask):
    """"add(0, 1); scale(2) {factor=2.0}": operands are inputs, then results."""
    values = list(x)
    for step in filter(None, (step.strip() for step in a["program"].split(";"))):
        name, rest = step.split("(", 1)
        operands, attrs = rest.split(")", 1)
        given = dict(pair.strip().split("=", 1) for pair in attrs.strip().strip("{}").split(",") if pair.strip())
        given = {key: json.loads(value) for key, value in given.items()}
        inputs = [values[int(i)] for i in operands.split(",")]
        values.append(OPS[name.strip()](inputs, {**DEFAULTS.get(name.strip(), {}), **given}, mask))
    return values[-1]


def pooled(a):
    return dict(kernel_size=a["kernel"], stride=a["stride"] or None, padding=a["padding"])


def convolved(a):
    return dict(stride=a["stride"], padding=a["padding"], groups=a["groups"])


def conv2d_input_grad(x, a):
    dy, w = x
    size = [dy.shape[0], w.shape[1] * a["groups"]] + a["input_size"]
    return torch.nn.grad.conv2d_input(size, w, dy, **convolved(a))


def conv2d_weight_grad(x, a):
    dy, given = x
    size = [dy.shape[1], given.shape[1] // a["groups"]] + a["kernel"]
    return torch.nn.grad.conv2d_weight(given, size, dy, **convolved(a))


def of_images(op, images=(0,), result=True):
    """op for images with channels first, also for those that have them last; `result`: output 0 is an image."""

    def run(x, a, m):
        if not a.get("channels_last"):
            return op(x, a)
        y = op([value.movedim(-1, 1) if i in images else value for i, value in enumerate(x)], a)
        if not result:
            return y
        return [y[0].movedim(1, -1)] + y[1:] if isinstance(y, list) else y.movedim(1, -1)

    return run


DEFAULTS = {"causal_mask": {"fill": -1e30, "row_offset": 0, "column_offset": 0, "window": 0}, "scale": {"factor": 1.0}}

# name: f(inputs, attributes, mask of dropout) -> an output or a list of them
OPS = {
    "accumulate": lambda x, a, m: x[0],
    "accumulate_statistics": lambda x, a, m: x[0],
    "adagrad": lambda x, a, m: adagrad(x, a),
    "adagrad_all": lambda x, a, m: over_all(adagrad, 3)(x, a),
    "adagrad_rows": lambda x, a, m: over_rows(adagrad)(x, a),
    "adafactor": lambda x, a, m: sgd(x, a),
    "adafactor_all": lambda x, a, m: over_all(sgd, 2)(x, a),
    "adam": lambda x, a, m: adam(x, a),
    "adam_all": lambda x, a, m: over_all(adam, 4)(x, a),
    "adam_rows": lambda x, a, m: over_rows(adam)(x, a),
    "add": lambda x, a, m: x[0] + x[1],
    "all_finite": lambda x, a, m: x[0].isfinite().all(),
    "avg_pool2d": of_images(lambda x, a: F.avg_pool2d(x[0], **pooled(a))),
    "batch_matmul": lambda x, a, m: matmul(x, a),
    "batch_norm": of_images(batch_norm),
    "bias_dropout_add": lambda x, a, m: (x[0] + x[1]) * m + x[2],
    "bias_gelu": lambda x, a, m: gelu(x[0] + x[1], a),
    "broadcast_to": lambda x, a, m: x[0].broadcast_to(a["shape"]),
    "cast": lambda x, a, m: cast(x[0], a),
    "causal_mask": lambda x, a, m: x[0].masked_fill(hidden_keys(*x[0].shape[-2:], 0, a["window"]), a["fill"]),
    "clip_scale": lambda x, a, m: clip_scale(x[0], a),
    "clamp_max": lambda x, a, m: x[0].clamp(max=a["max"]),
    "clamp_min": lambda x, a, m: x[0].clamp(min=a["min"]),
    "concat": lambda x, a, m: torch.cat(x, a["axis"]),
    "conv2d": of_images(lambda x, a: F.conv2d(x[0], x[1], **convolved(a))),
    "conv2d_input_grad": of_images(conv2d_input_grad),
    "conv2d_weight_grad": of_images(conv2d_weight_grad, images=(0, 1), result=False),
    "cos": lambda x, a, m: x[0].cos(),
    "cross_entropy": lambda x, a, m: cross_entropy(x, a),
    "cross_entropy_parts": lambda x, a, m: cross_entropy_parts(x, a),
    "cumsum": lambda x, a, m: x[0].cumsum(a["axis"]),
    "div": lambda x, a, m: x[0] / x[1],
    "dropout": lambda x, a, m: x[0] * m,
    "dropout_grad": lambda x, a, m: x[0] * m,
    "elu": lambda x, a, m: F.elu(x[0], a["alpha"]),
    "embedding": lambda x, a, m: F.embedding(x[1], x[0]),
    "embedding_grad": lambda x, a, m: gather_grad(x[0], x[1], 0, a["rows"]),
    "exp": lambda x, a, m: x[0].exp(),
    "fused": fused,
    "gather": lambda x, a, m: gather(x[0], x[1], a["axis"]),
    "gather_grad": lambda x, a, m: gather_grad(x[0], x[1], a["axis"], a["extent"]),
    "gelu": lambda x, a, m: gelu(x[0], a),
    "identity": lambda x, a, m: x[0].clone(),
    "layer_norm": lambda x, a, m: [F.layer_norm(x[0], x[0].shape[-1:], x[1], x[2], a["eps"])]
    + statistics(x[0], -1, a["eps"]),
    "lamb": lambda x, a, m: lamb(x, a),
    "lamb_all": lambda x, a, m: over_all(lamb, 5)(x, a),
    "lamb_norms": lambda x, a, m: norms(x[0], lamb_direction(x, a)[2]),
    "lars": lambda x, a, m: lars(x, a),
    "lars_all": lambda x, a, m: over_all(lars, 4)(x, a),
    "lars_norms": lambda x, a, m: norms(x[0], x[1] * (x[2] if len(x) > 2 else 1)),
    "lion": lambda x, a, m: lion(x, a),
    "lion_all": lambda x, a, m: over_all(lion, 3)(x, a),
    "lion_rows": lambda x, a, m: over_rows(lion)(x, a),
    "log": lambda x, a, m: x[0].log(),
    "matmul": lambda x, a, m: matmul(x, a),
    "matmul_add": lambda x, a, m: matmul(x, a) + sum(x[2:]),
    "matmul_bias": lambda x, a, m: matmul(x, a) + x[2],
    "matmul_bias_grad": lambda x, a, m: (x[0].flatten(0, -2).T @ x[1].flatten(0, -2), x[1].flatten(0, -2).sum(0)),
    "matmul_bias_gelu": lambda x, a, m: matmul_bias_gelu(x, a),
    "matmul_dgelu": lambda x, a, m: matmul_dgelu(x, a),
    "matmul_weight_grad": lambda x, a, m: x[0].flatten(0, -2).T @ x[1].flatten(0, -2),
    "max_pool2d": of_images(lambda x, a: F.max_pool2d(x[0], **pooled(a))),
    "merge_heads": lambda x, a, m: x[0].transpose(1, 2).flatten(2),
    "merge_heads_grad": lambda x, a, m: x[0].unflatten(-1, (-1, a["head_dim"])).transpose(1, 2),
    "moe_combine": lambda x, a, m: moe_combine(*x),
    "moe_dispatch": lambda x, a, m: moe_dispatch(x[0], x[1], a),
    "momentum": lambda x, a, m: momentum(x, a),
    "momentum_all": lambda x, a, m: over_all(momentum, 3)(x, a),
    "momentum_rows": lambda x, a, m: over_rows(momentum)(x, a),
    "mul": lambda x, a, m: x[0] * x[1],
    "neg": lambda x, a, m: -x[0],
    "nll": lambda x, a, m: x[0] + x[1].log() - x[2],
    "one_hot": lambda x, a, m: F.one_hot(x[0], a["depth"]),
    "pick": lambda x, a, m: x[0].gather(-1, x[1][..., None])[..., 0],
    "reduce_max": lambda x, a, m: reduced(real_classes(x[0], a), a, maximum),
    "reduce_mean": lambda x, a, m: x[0].mean(axes_of(x[0], a), a["keepdims"]),
    "reduce_min": lambda x, a, m: reduced(x[0], a, minimum),
    "reduce_sum": lambda x, a, m: x[0].sum(axes_of(x[0], a), a["keepdims"]),
    "relu": lambda x, a, m: x[0].relu(),
    "reshape": lambda x, a, m: x[0].reshape(a["shape"]),
    "rms_norm": lambda x, a, m: rms_norm(x, a),
    "rotary": lambda x, a, m: rotary(x[0], a),
    "running_average": lambda x, a, m: torch.lerp(x[0], x[1], a["momentum"] if len(x) < 3 or x[2] else 0.0),
    "sample_labels": lambda x, a, m: sample_labels(x[0], a),
    "sample_rows": lambda x, a, m: sample_rows(x[0], x[1], a),
    "scale": lambda x, a, m: x[0] * a["factor"],
    "scale_mask_softmax": lambda x, a, m: scale_mask_softmax(x[0], a),
    "scaled_dot_product_attention": attention,
    "second_moment": lambda x, a, m: second_moment(x, a),
    "sgd": lambda x, a, m: sgd(x, a),
    "sgd_all": lambda x, a, m: over_all(sgd, 2)(x, a),
    "sgd_rows": lambda x, a, m: over_rows(sgd)(x, a),
    "sigmoid": lambda x, a, m: x[0].sigmoid(),
    "silu": lambda x, a, m: F.silu(x[0]),
    "sin": lambda x, a, m: x[0].sin(),
    "slice": lambda x, a, m: x[0][slices(a["starts"], a["ends"])],
    "slice_grad": lambda x, a, m: slice_grad(x[0], a),
    "softmax": lambda x, a, m: x[0].softmax(-1),
    "softplus": lambda x, a, m: F.softplus(x[0]),
    "split_heads": lambda x, a, m: split_heads(x[0], a),
    "split_heads_grad": lambda x, a, m: split_heads_grad(x),
    "sqrt": lambda x, a, m: x[0].sqrt(),
    "square_sum": lambda x, a, m: x[0].pow(2).sum(),
    "sub": lambda x, a, m: x[0] - x[1],
    "sum": lambda x, a, m: sum(x),
    "sum_exp": lambda x, a, m: sum_exp(x, a),
    "sum_exp_pick": lambda x, a, m: [sum_exp(x, a), OPS["pick"]([x[0], x[2]], a, m)],
    "swiglu": lambda x, a, m: F.silu(x[0]) * x[1],
    "swiglu_pairs": lambda x, a, m: F.silu(x[0][..., 0::2]) * x[0][..., 1::2],
    "tanh": lambda x, a, m: x[0].tanh(),
    "top_k": lambda x, a, m: list(of_best_groups(x[0], a).topk(a["k"])),
    "transpose": lambda x, a, m: x[0].permute(a["perm"] or list(range(x[0].dim()))[::-1]),
    "weighed_swiglu_pairs": lambda x, a, m: F.silu(x[0][..., 0::2]) * x[0][..., 1::2] * x[1],
    "where": lambda x, a, m: torch.where(x[0], x[1], x[2]),
}

# Ops of OPS whose gradients are not compared.
NO_GRADIENT = {
    "accumulate", "accumulate_statistics", "adafactor", "adafactor_all", "adagrad", "adagrad_all", "adagrad_rows", "adam", "adam_all", "adam_rows",
    "all_finite", "clip_scale", "conv2d_weight_grad", "dropout_grad", "embedding_grad", "gather_grad", "lamb",
    "lamb_all", "lamb_norms", "lars", "lars_all", "lars_norms", "lion", "lion_all", "lion_rows", "matmul_bias_gelu",
    "matmul_bias_grad", "matmul_dgelu", "momentum", "momentum_all", "momentum_rows", "one_hot", "running_average",
    "sample_labels", "second_moment", "sgd", "sgd_all", "sgd_rows", "square_sum", "sum_exp_pick",
}  # fmt: skip


def difference(got, expected):
    """Largest difference, relative to the largest element or 1."""
    assert list(got.shape) == list(expected.shape), f"shape {list(got.shape)}, expected {list(expected.shape)}"
    if got.numel() == 0:
        return 0.0
    got, expected = got.double(), expected.double()
    same = got == expected  # infinities
    largest = torch.where(same, torch.zeros_like(got), (got - expected).abs()).max()
    return (largest / max(1.0, expected.abs().max().item())).item()


def listed(file, prefix):
    """x0, x1, ... as a list."""
    found = []
    while f"{prefix}{len(found)}" in file:
        found.append(file[f"{prefix}{len(found)}"])
    return found


def check(op, attrs, file, prefix):
    """Differences of the outputs and of the gradients."""
    x, y, dy = (listed(file, prefix + kind) for kind in ("x", "y", "dy"))
    gradients = [i for i in range(len(x)) if f"{prefix}dx{i}" in file]
    x = [value.requires_grad_() if i in gradients else value for i, value in enumerate(x)]
    got = OPS[op](x, attrs, file.get(prefix + "mask"))
    got = list(got) if isinstance(got, (list, tuple)) else [got]
    assert len(got) == len(y), f"{len(got)} outputs, expected {len(y)}"
    worst = [difference(a.detach(), b) for a, b in zip(got, y)]
    if gradients:
        loss = sum((d * value).sum() for d, value in zip(dy, got))
        of_x = torch.autograd.grad(loss, [x[i] for i in gradients], allow_unused=True)
        for i, gradient in zip(gradients, of_x):
            expected = file[f"{prefix}dx{i}"]
            worst.append(difference(torch.zeros_like(expected) if gradient is None else gradient, expected))
    return worst, bool(gradients)


def check_file(path):
    """Failures as texts, and how many cases and gradients were compared."""
    file, metadata = tensors.read(path)
    registry, used = json.loads(metadata["registry"]), json.loads(metadata["used"])
    failures, compared, differentiated = [], 0, set()
    for number, case in enumerate(json.loads(metadata["cases"])):
        op, attrs = case["op"], case["attrs"]
        if op not in OPS:
            continue
        try:
            worst, gradient = check(op, attrs, file, f"{number}.")
        except (AssertionError, RuntimeError) as error:
            failures.append(f"{op} {attrs}: {error}")
            continue
        compared += 1
        if gradient:
            differentiated.add(op)
        if max(worst) > TOLERANCE:
            failures.append(f"{op} {attrs}: off by {worst}")
    failures += [f"{op}: in no row of OPS" for op in registry if op not in OPS and not op.endswith("_grad")]
    failures += [f"{op}: in no gradient" for op in registry if op not in OPS and op not in used]
    failures += [f"{op}: has no gradient" for op in OPS if op not in differentiated | NO_GRADIENT]
    failures += [f"{op}: has a gradient" for op in differentiated & NO_GRADIENT]
    failures += [f"{op}: not in the registry" for op in OPS if op not in registry]
    return failures, compared, len(differentiated)


def main(program):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, SEEDS + 1):
            path = os.path.join(folder, "ops.safetensors")
            subprocess.run([program, "ops", path, str(seed)], check=True)
            failures, compared, gradients = check_file(path)
            print(f"seed {seed}: {compared} cases, {gradients} ops with gradients, {len(failures)} failures")
            for failure in failures:
                print("  " + failure)
            failed |= bool(failures) or compared == 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
