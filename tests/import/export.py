#!/usr/bin/env python3
"""Writes the ONNX files that the tests import, with PyTorch's outputs beside them, into tests/import/models.

    tests/import/export.py             # needs python3-torch, python3-torchvision (files in the project: of Debian's 1.13.1)
    tests/import/export.py --full DIR  # the same models at their published sizes, for tests/import/full

Each model is small but has every layer of its kind. NAME.onnx is the output of torch.onnx.export; NAME.safetensors
holds the inputs and the output of the model for them.
"""
import argparse
import copy
import json
import math
import pathlib
import struct
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as vision

HERE = pathlib.Path(__file__).resolve().parent


class Attention(nn.Module):
    def __init__(self, width, heads, positions, causal):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        if causal:
            self.register_buffer("mask", torch.tril(torch.ones(positions, positions)).view(1, 1, positions, positions))
        self.causal = causal

    def forward(self, x, mask=None):
        batch, positions, width = x.size()
        q, k, v = (part.view(batch, positions, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        if self.causal:
            scores = scores.masked_fill(self.mask[:, :, :positions, :positions] == 0, float("-inf"))
        if mask is not None:
            scores = scores + mask
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, positions, width)
        return self.c_proj(y)


class Block(nn.Module):
    """GPT-2's: norms before; BERT's: norms behind."""

    def __init__(self, width, heads, positions, causal):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, positions, causal)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.proj = nn.Linear(4 * width, width)
        self.causal = causal

    def forward(self, x, mask=None):
        if self.causal:
            x = x + self.attn(self.ln_1(x))
            return x + self.proj(self.act(self.fc(self.ln_2(x))))
        x = self.ln_1(x + self.attn(x, mask))
        return self.ln_2(x + self.proj(self.act(self.fc(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocab, positions):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(width, heads, positions, True) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)).unsqueeze(0))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Bert(nn.Module):
    def __init__(self, layers, width, heads, vocab, positions):
        super().__init__()
        self.word = nn.Embedding(vocab, width)
        self.position = nn.Embedding(positions, width)
        self.kind = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layer = nn.ModuleList(Block(width, heads, positions, False) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 2)

    def forward(self, tokens, attention_mask):
        positions = tokens.size(1)
        x = self.word(tokens) + self.position(torch.arange(positions)[None, :])
        x = self.norm(x + self.kind(torch.zeros_like(tokens)))
        mask = (1 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for layer in self.layer:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


def resnet50(width, classes):
    """torchvision's, with `width` channels behind the first convolution instead of 64."""
    model = vision.ResNet(vision.resnet.Bottleneck, [3, 4, 6, 3], num_classes=classes)
    if width == 64:
        return model
    model.inplanes = width
    model.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(width)
    for stage, blocks in enumerate([3, 4, 6, 3]):
        layer = model._make_layer(vision.resnet.Bottleneck, width << stage, blocks, stride=1 if stage == 0 else 2)
        setattr(model, f"layer{stage + 1}", layer)
    model.fc = nn.Linear(width * 8 * 4, classes)
    return model


def mobilenet_v2(full):
    if full:
        return vision.mobilenet_v2(num_classes=1000)
    settings = [[1, 4, 1, 1], [6, 6, 2, 2], [6, 8, 2, 2]]
    model = vision.MobileNetV2(num_classes=10, inverted_residual_setting=settings, width_mult=0.25, round_nearest=4)
    model.features[-1] = vision.mobilenetv2.Conv2dNormActivation(4, 16, kernel_size=1, activation_layer=nn.ReLU6)
    model.classifier = nn.Linear(16, 10)
    return model


def mlp(inputs, width, classes):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))


def cases(full):
    """name: model, inputs by name, options of the export."""
    torch.manual_seed(1)
    tokens = torch.randint(0, 29, (2, 8)) if not full else torch.randint(0, 50257, (2, 64))
    mask = torch.ones_like(tokens)
    mask[1, -3:] = 0
    images = torch.randn(2, 3, 32, 32) if not full else torch.randn(2, 3, 224, 224)
    open_batch = {"dynamic": True}
    yield "mlp", mlp(784, 512, 10) if full else mlp(12, 16, 5), {"x": torch.randn(2, 784 if full else 12)}, open_batch
    gpt = (12, 768, 12, 50257, 1024) if full else (2, 16, 2, 29, 8)
    yield "gpt", Gpt(*gpt), {"tokens": tokens}, open_batch
    if not full:
        yield "gpt_opset17", Gpt(*gpt), {"tokens": tokens}, {"opset": 17}  # of one batch, LayerNormalization
    bert = (12, 768, 12, 50257, 512) if full else (2, 16, 2, 29, 8)
    yield "bert", Bert(*bert), {"tokens": tokens, "attention_mask": mask}, open_batch
    yield "resnet50", resnet50(64 if full else 2, 1000 if full else 7), {"images": images}, open_batch
    yield "mobilenet_v2", mobilenet_v2(full), {"images": images}, {}
    if not full:
        yield "resnet50_training", resnet50(2, 7), {"images": torch.randn(4, 3, 32, 32)}, {"training": True, "dynamic": True}


def write_safetensors(path, tensors):
    kinds = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, b""
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].dtype != torch.int64):
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def randomize(model):
    """Statistics, scales and shifts that differ from each other, as after training."""
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        with torch.no_grad():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif name.endswith("running_mean") or (name.endswith(".bias") and tensor.dim() == 1):
                tensor.normal_(0, 0.1)
            elif tensor.dim() == 1 and tensor.is_floating_point():
                tensor.uniform_(0.7, 1.3)


def export(name, model, inputs, folder, dynamic=False, opset=13, training=False):
    randomize(model)
    model.train(training)
    with torch.no_grad():
        output = model(*inputs.values())
        if training:  # statistics of few samples make much of what is rounded
            output = copy.deepcopy(model).double()(*(x.double() for x in inputs.values())).float()
    axes = {key: {0: "batch"} for key in inputs} if dynamic else {}
    modes = torch.onnx.TrainingMode
    torch.onnx.export(model, tuple(inputs.values()), str(folder / f"{name}.onnx"), opset_version=opset, input_names=list(inputs),
                      output_names=["output"], dynamic_axes=axes, do_constant_folding=not training,
                      training=modes.TRAINING if training else modes.EVAL)
    write_safetensors(folder / f"{name}.safetensors", {**inputs, "output": output})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", metavar="DIR", type=pathlib.Path, help="the published sizes, written into this folder")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    folder = given.full or HERE / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for name, model, inputs, options in cases(bool(given.full)):
        export(name, model, inputs, folder, **options)
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    main()
