"""GPT-2, Llama, Mistral and Qwen3 in plain PyTorch, trained from a checkpoint in Hugging Face's format.

    python3 tests/torch/gpt.py --model out/step-000000 --tokens tokens.bin --steps 10 --lr 1e-3

    --model DIR          a folder with config.json and model.safetensors
    --tokens FILE        uint16 tokens (.bin, with or without llm.c's header), any other file as bytes
    --seq N              sequence length (default: the model's)
    --steps N            optimizer steps (default 10)
    --optimizer NAME     adamw (default) or sgd
    --lr X               learning rate, constant (default 1e-4)
    --beta1 X --beta2 X --eps X    of adamw (default 0.9, 0.999, 1e-8)
    --weight-decay X     of every parameter (default 0)
    --momentum X         of sgd (default 0)
    --clip X             largest global norm of the gradients (default 0: any)
    --dtype NAME         float32 (default) or float64: weights are converted to it

Every step trains on the whole file as one batch: windows of seq + 1 tokens at a stride of seq, what is left
over unused. The order of sequences does not matter then. Dropout is off.

Prints one JSON line per step, {"step": 1, "loss": 4.159}, the mean loss of that step's forward pass, before
its update; then {"loss": 4.101}, after the last update.
"""
import argparse
import json
import os

import torch
import torch.nn.functional as F

import tensors


def positions_rotated(x, base):
    """x[..., s, d]: elements i and i + d/2 are a pair, turned by s base^(-2i/d)."""
    s, d = x.shape[-2:]
    angle = torch.outer(
        torch.arange(s, dtype=torch.float64), base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    )
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q, k, v, window=None):
    """Causal, with a window of the last keys or all; q[b, heads, s, d], k and v[b, kv_heads, s, d]."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q.shape[2]
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    everything = torch.ones(s, s, dtype=torch.bool)
    hidden = everything.triu(1) | everything.tril(-window) if window else everything.triu(1)
    scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


def heads(x, n):
    b, s, width = x.shape
    return x.reshape(b, s, n, width // n).transpose(1, 2)


def merged(x):
    b, n, s, d = x.shape
    return x.transpose(1, 2).reshape(b, s, n * d)


def gpt2(w, config, tokens):
    """Logits of GPT2LMHeadModel with exact GELU."""
    w = {name.removeprefix("transformer."): value for name, value in w.items()}
    n = config["n_head"]

    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        eps = config["layer_norm_epsilon"]
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)

    assert config["activation_function"] == "gelu"
    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for i in range(config["n_layer"]):
        h = f"h.{i}."
        q, k, v = (heads(part, n) for part in conv1d(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1))
        x = x + conv1d(merged(attention(q, k, v)), h + "attn.c_proj")
        x = x + conv1d(F.gelu(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight" if config["tie_word_embeddings"] else "lm_head.weight"].T


def llama(w, config, tokens):
    """Logits of LlamaForCausalLM, and of Mistral and Qwen3, which have a window or norms of queries and keys."""
    n, kv = config["num_attention_heads"], config["num_key_value_heads"]

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * w[name + ".weight"]

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        y = norm(x, layer + "input_layernorm")
        q, k = heads(linear(y, layer + "self_attn.q_proj"), n), heads(linear(y, layer + "self_attn.k_proj"), kv)
        if layer + "self_attn.q_norm.weight" in w:
            q, k = norm(q, layer + "self_attn.q_norm"), norm(k, layer + "self_attn.k_norm")
        q, k = positions_rotated(q, config["rope_theta"]), positions_rotated(k, config["rope_theta"])
        v = heads(linear(y, layer + "self_attn.v_proj"), kv)
        x = x + linear(merged(attention(q, k, v, config.get("sliding_window"))), layer + "self_attn.o_proj")
        y = norm(x, layer + "post_attention_layernorm")
        y = F.silu(linear(y, layer + "mlp.gate_proj")) * linear(y, layer + "mlp.up_proj")
        x = x + linear(y, layer + "mlp.down_proj")
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, "model.norm") @ w[head].T


MODELS = {
    "GPT2LMHeadModel": (gpt2, "n_positions"),
    **{name + "ForCausalLM": (llama, "max_position_embeddings") for name in ("Llama", "Mistral", "Qwen3")},
}


def read_tokens(path):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    if not path.endswith(".bin"):
        return torch.frombuffer(raw, dtype=torch.uint8).long()
    words = torch.frombuffer(raw, dtype=torch.int16).long() & 0xFFFF
    return words[512:] if words[:2].tolist() == [0xD898, 0x0134] else words


def batch(tokens, seq):
    """Inputs and labels [windows, seq]."""
    windows = (len(tokens) - 1) // seq
    assert windows > 0, f"{len(tokens)} tokens have no window of {seq + 1}"
    used = tokens[: windows * seq + 1]
    return used[:-1].reshape(windows, seq), used[1:].reshape(windows, seq)


def optimizer(args, parameters):
    if args.optimizer == "sgd":
        return torch.optim.SGD(parameters, args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    betas = (args.beta1, args.beta2)
    return torch.optim.AdamW(parameters, args.lr, betas=betas, eps=args.eps, weight_decay=args.weight_decay)


def train(args):
    """The losses before each step, and after the last."""
    with open(os.path.join(args.model, "config.json")) as file:
        config = json.load(file)
    model, longest = MODELS[config["architectures"][0]]
    weights, _ = tensors.read(os.path.join(args.model, "model.safetensors"))
    dtype = getattr(torch, args.dtype)
    weights = {name: value.to(dtype).clone().requires_grad_() for name, value in weights.items()}
    inputs, labels = batch(read_tokens(args.tokens), args.seq or config[longest])

    def loss():
        return F.cross_entropy(model(weights, config, inputs).flatten(0, 1), labels.flatten())

    update = optimizer(args, list(weights.values()))
    for _ in range(args.steps):
        update.zero_grad()
        now = loss()
        now.backward()
        if args.clip > 0:
            torch.nn.utils.clip_grad_norm_(weights.values(), args.clip)
        update.step()
        yield now.item()
    with torch.no_grad():
        yield loss().item()


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--tokens", required=True)
    p.add_argument("--seq", type=int)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
    p.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    for name, value in {"lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}.items():
        p.add_argument("--" + name, type=float, default=value)
    for name in ["weight-decay", "momentum", "clip"]:
        p.add_argument("--" + name, type=float, default=0.0)
    return p


if __name__ == "__main__":
    arguments = parser().parse_args()
    for step, value in enumerate(train(arguments), 1):
        print(json.dumps({"step": step, "loss": value} if step <= arguments.steps else {"loss": value}), flush=True)
