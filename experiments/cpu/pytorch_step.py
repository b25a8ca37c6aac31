#!/usr/bin/env python3
"""Training steps of a GPT or of ResNet-50 in PyTorch on the CPU, for experiments/cpu/compare to put beside Boxcar's.

    experiments/cpu/pytorch_step.py --layers 6 --hidden 384 --heads 6 --seq 256 --vocab 256 --batch 8 --threads 1
    experiments/cpu/pytorch_step.py --model resnet50 --batch 8

Forward pass, loss, backward pass, AdamW (decay only of matrices), in float32, without dropout and clipping; PyTorch 1.13 or later. Prints
a JSON line after each step: its number, the loss, and its wall time in seconds.
"""
import argparse
import json
import math
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt", choices=("gpt", "resnet50"))
    for name, value in (("layers", 6), ("hidden", 384), ("heads", 6), ("seq", 256), ("vocab", 256), ("image", 224), ("batch", 8),
                        ("steps", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--channels-last", action="store_true", help="of ResNet-50")
    return parser.parse_args()


asked = arguments()  # before PyTorch, which --help can do without

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise SystemExit("pytorch_step.py: this Python has no PyTorch") from None


class Block(nn.Module):
    def __init__(self, hidden, heads, seq):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.register_buffer("mask", torch.full((seq, seq), -math.inf).triu(1))

    def attend(self, q, k, v):
        if hasattr(F, "scaled_dot_product_attention"):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        batch, heads, seq, width = q.shape  # before 2.0: mask and scale in the product
        q, k, v = (t.reshape(batch * heads, seq, width) for t in (q, k, v))
        scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=width ** -0.5)
        return torch.bmm(scores.softmax(-1), v).view(batch, heads, seq, width)

    def forward(self, x):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.ln1(x)).view(batch, seq, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        y = self.attend(qkv[0], qkv[1], qkv[2])
        x = x + self.proj(y.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, seq, vocab):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, seq) for _ in range(layers))
        self.ln = nn.LayerNorm(hidden)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy((self.ln(x) @ self.tokens.weight.t()).flatten(0, 1), labels.flatten())


class Bottleneck(nn.Module):
    """v1.5: the stride is the 3x3 convolution's."""

    def __init__(self, before, inside, stride):
        super().__init__()

        def conv(a, b, kernel, step):
            return nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b)

        self.path = nn.Sequential(*conv(before, inside, 1, 1), nn.ReLU(inplace=True), *conv(inside, inside, 3, stride),
                                  nn.ReLU(inplace=True), *conv(inside, 4 * inside, 1, 1))
        same = stride == 1 and before == 4 * inside
        self.side = nn.Identity() if same else nn.Sequential(*conv(before, 4 * inside, 1, stride))

    def forward(self, x):
        return F.relu_(self.path(x) + self.side(x))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        before = 64
        for group, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(before, 64 << group, 2 if group > 0 and block == 0 else 1))
                before = 256 << group
        self.body, self.head = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.body(images).mean((2, 3))), labels)


def layout(a):
    return torch.channels_last if a.channels_last else torch.contiguous_format


def make(a):
    if a.model == "resnet50":
        return ResNet50().to(memory_format=layout(a))
    return Gpt(a.layers, a.hidden, a.heads, a.seq, a.vocab)


def draw(a):
    """Inputs and labels."""
    if a.model == "resnet50":
        return torch.randn(a.batch, 3, a.image, a.image).to(memory_format=layout(a)), torch.randint(1000, (a.batch,))
    drawn = torch.randint(a.vocab, (a.batch, a.seq + 1))
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def main(a):
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    model, batches = make(a), [draw(a) for _ in range(4)]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3,
                                  foreach=True)
    for step in range(1, a.steps + 1):
        batch = batches[step % len(batches)]
        begin = time.perf_counter()
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(json.dumps({"step": step, "loss": loss.item(), "step_time_s": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main(asked)
