#!/usr/bin/env python3
"""One training step of GPT-2 in PyTorch, compiled: what experiments/gpu/run puts Boxcar's beside.

    experiments/gpu/pytorch_gpt.py --layers 12 --hidden 768 --heads 12 --seq 1024 --micro-batch 16 --micro-batches 2

The same work as `boxcar train --model gpt2 --precision bf16 --dropout 0`, with flash attention: weights, gradients and Adam's
moments in float32, products in bf16, tied embedding, gradients of all micro-batches summed, norm clipped to 1, fused
AdamW. Prints the median of 20 steps after 5, tokens per second and the peak of memory.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.ln1(x)).view(batch, seq, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, seq, vocab):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(hidden)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.ln(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("layers", 12), ("hidden", 768), ("heads", 12), ("seq", 1024), ("vocab", 50257),
                        ("micro-batch", 16), ("micro-batches", 2), ("steps", 20), ("warm-up", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    torch.manual_seed(1)
    model = Gpt(a.layers, a.hidden, a.heads, a.seq, a.vocab).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    compiled = torch.compile(model)
    batches = torch.randint(a.vocab, (a.micro_batches, a.micro_batch, a.seq + 1), device="cuda")

    def step():
        for batch in batches:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = compiled(batch[:, :-1], batch[:, 1:])
            (loss / a.micro_batches).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    times = []
    for i in range(a.warm_up + a.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        if i >= a.warm_up:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    tokens = a.micro_batches * a.micro_batch * a.seq
    print(f"pytorch {torch.__version__}: {median * 1e3:.1f} ms a step, {tokens / median:.0f} tokens/s, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
