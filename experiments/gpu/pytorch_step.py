#!/usr/bin/env python3
"""One training step of GPT-2, a Llama or ResNet-50 in PyTorch, compiled, for experiments/gpu to put beside Boxcar's.

    experiments/gpu/pytorch_step.py --layers 12 --hidden 768 --heads 12 --seq 1024 --micro-batch 16 --micro-batches 2
    experiments/gpu/pytorch_step.py --model llama --layers 16 --hidden 2048 --heads 32 --kv-heads 8 --ffn 8192 --seq 4096
    experiments/gpu/pytorch_step.py --model resnet50 --micro-batch 128        # channels last; needs no torchvision

The same work as `boxcar train --precision bf16 --dropout 0`, with flash attention: weights, gradients and the optimizer's
moments in float32, products in bf16, gradients of all micro-batches summed, norm clipped to 1, fused AdamW without decay (ResNet-50: SGD
with momentum, nothing clipped). Prints the median of 20 steps after 5, tokens (images) per second and the peak of memory.
"""
import argparse
import json
import statistics
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt", choices=("gpt", "llama", "resnet50"))
    for name, value in (("layers", 12), ("hidden", 768), ("heads", 12), ("kv-heads", 0), ("ffn", 0), ("seq", 1024),
                        ("vocab", 50257), ("image", 224), ("micro-batch", 16), ("micro-batches", 2), ("steps", 20),
                        ("warm-up", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script, not compiled")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


asked = arguments()  # before PyTorch, which --help can do without

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise SystemExit("pytorch_step.py: this Python has no PyTorch") from None


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
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


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


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, hidden // heads
        self.ln1, self.ln2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.width, bias=False)
        self.proj = nn.Linear(hidden, hidden, bias=False)
        self.gate_up, self.down = nn.Linear(hidden, 2 * ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, seq, hidden = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, seq, -1, self.width).transpose(1, 2).split(
            [self.heads, self.kv_heads, self.kv_heads], dim=1)

        def turned(t):
            a, b = t.chunk(2, dim=-1)
            return t * cos + torch.cat((-b, a), dim=-1) * sin

        y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, seq, hidden))
        gate, up = self.gate_up(self.ln2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, hidden, heads, kv_heads, ffn, seq, vocab):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.ln = nn.RMSNorm(hidden)
        width = hidden // heads
        angles = torch.outer(torch.arange(seq), 10000 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)
        self.register_buffer("cos", angles.cos().bfloat16())
        self.register_buffer("sin", angles.sin().bfloat16())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.ln(x)).flatten(0, 1).float(), labels.flatten())


class Bottleneck(nn.Module):
    """v1.5: the stride is the 3x3 convolution's."""

    def __init__(self, before, inside, stride):
        super().__init__()

        def conv(a, b, kernel, step):
            return nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b)

        self.path = nn.Sequential(*conv(before, inside, 1, 1), nn.ReLU(), *conv(inside, inside, 3, stride), nn.ReLU(),
                                  *conv(inside, 4 * inside, 1, 1))
        same = stride == 1 and before == 4 * inside
        self.side = nn.Identity() if same else nn.Sequential(*conv(before, 4 * inside, 1, stride))

    def forward(self, x):
        return F.relu(self.path(x) + self.side(x))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        before = 64
        for group, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(before, 64 << group, 2 if group > 0 and block == 0 else 1))
                before = 256 << group
        self.body, self.head = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, images, labels):
        return F.cross_entropy(self.head(self.body(images).mean((2, 3))).float(), labels)


def make(a):
    """The model, its optimizer, its micro-batches and how many tokens or images they hold."""
    if a.model == "resnet50":
        model = ResNet50().to(a.device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        shape = (a.micro_batch, 3, a.image, a.image)
        batches = [(torch.randn(shape, device=a.device).to(memory_format=torch.channels_last),
                    torch.randint(1000, (a.micro_batch,), device=a.device)) for _ in range(a.micro_batches)]
        return model, optimizer, batches, a.micro_batches * a.micro_batch
    if a.model == "llama":
        model = Llama(a.layers, a.hidden, a.heads, a.kv_heads or a.heads, a.ffn or 4 * a.hidden, a.seq, a.vocab)
    else:
        model = Gpt(a.layers, a.hidden, a.heads, a.seq, a.vocab)
    model = model.to(a.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0, fused=True)
    drawn = torch.randint(a.vocab, (a.micro_batches, a.micro_batch, a.seq + 1), device=a.device)
    return model, optimizer, [(b[:, :-1], b[:, 1:]) for b in drawn], a.micro_batches * a.micro_batch * a.seq


def main(a):
    torch.manual_seed(1)
    on_gpu = a.device == "cuda"
    model, optimizer, batches, samples = make(a)
    compiled = torch.compile(model) if on_gpu else model

    def step():
        for inputs, labels in batches:
            with torch.autocast(a.device, dtype=torch.bfloat16):
                loss = compiled(inputs, labels)
            (loss / len(batches)).backward()
        if a.model != "resnet50":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    times = []
    for i in range(a.warm_up + a.steps):
        wait()
        begin = time.perf_counter()
        loss = step()
        wait()
        if i >= a.warm_up:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    if a.json:
        print(json.dumps({"torch": torch.__version__, "step_time_s": median, "samples_per_s": samples / median,
                          "peak_memory_bytes": peak, "loss": loss.item()}))
        return
    print(f"pytorch {torch.__version__}: {median * 1e3:.1f} ms a step, {samples / median:.0f} "
          f"{'images' if a.model == 'resnet50' else 'tokens'}/s, {peak / 2**30:.2f} GiB at most, loss {loss.item():.3f}")


if __name__ == "__main__":
    main(asked)
