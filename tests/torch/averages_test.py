"""Running averages of batch norm: a small ResNet-50 that torch_dump trained, trained here by PyTorch.

    python3 tests/torch/averages_test.py build/tests/torch/torch_dump

Losses of the steps, parameters and running averages after them, and the loss of a validation with these averages
agree to rounding in float64.
"""
import json
import os
import subprocess
import sys
import tempfile

import tensors
import torch
import torch.nn.functional as F

TOLERANCE = 1e-8  # rounding grows from step to step


class ResNet:
    """By Boxcar's names: "h3.conv1.weight", "h3.norm1.gamma", "h3.norm1.running_mean", "head.weight"."""

    def __init__(self, state):
        self.state = {name: value.clone() for name, value in state.items()}
        for name, value in self.state.items():
            value.requires_grad_(not name.endswith((".running_mean", ".running_var")))

    def normed(self, x, conv, norm, stride=1):
        weight = self.state[conv + ".weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)
        mean, var, gamma, beta = (self.state[f"{norm}.{what}"] for what in ("running_mean", "running_var", "gamma", "beta"))
        return F.batch_norm(x, mean, var, gamma, beta, training=self.training)

    def block(self, x, name, stride):
        y = F.relu(self.normed(x, f"{name}.conv1", f"{name}.norm1"))
        y = F.relu(self.normed(y, f"{name}.conv2", f"{name}.norm2", stride))
        y = self.normed(y, f"{name}.conv3", f"{name}.norm3")
        if f"{name}.beside.weight" in self.state:
            x = self.normed(x, f"{name}.beside", f"{name}.beside.norm", stride)
        return F.relu(x + y)

    def loss(self, images, labels, training):
        self.training = training
        x = F.max_pool2d(F.relu(self.normed(images, "stem.conv", "stem.norm", 2)), 3, 2, 1)
        for index in range(16):
            x = self.block(x, f"h{index}", 2 if index in (3, 7, 13) else 1)
        scores = x.mean((2, 3)) @ self.state["head.weight"] + self.state["head.bias"]
        return F.cross_entropy(scores, labels.long())


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "averages.safetensors")
        subprocess.run([program, "averages", path], check=True)
        file, metadata = tensors.read(path)
    named = {prefix: {} for prefix in ("begin", "end")}
    for name, value in file.items():
        prefix, _, rest = name.partition(".")
        if prefix in named:
            named[prefix][rest] = value
    wanted, net = json.loads(metadata["losses"]), ResNet(named["begin"])
    trained = [value for value in net.state.values() if value.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=json.loads(metadata["lr"]))
    differences = {"losses": 0.0, "parameters": 0.0, "running averages": 0.0}
    for step, loss_there in enumerate(wanted):
        loss = net.loss(file[f"images{step}"], file[f"labels{step}"], True)
        differences["losses"] = max(differences["losses"], abs(loss.item() - loss_there))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, value in named["end"].items():
        what = "parameters" if net.state[name].requires_grad else "running averages"
        off = (net.state[name].detach() - value).abs().max() / max(1, value.abs().max())
        differences[what] = max(differences[what], off.item())
    batch = file[f"images{len(wanted)}"], file[f"labels{len(wanted)}"]
    with torch.no_grad():
        validated, of_batch = net.loss(*batch, False).item(), net.loss(*batch, True).item()
    differences["validated"] = abs(validated / json.loads(metadata["validated"]) - 1)
    for what, off in differences.items():
        print(f"{what}: off by {off:.1e}")
    moved = sum(1 for name in named["end"] if name.endswith("running_mean"))
    print(f"{moved} norms; validated {validated:.4f}, with statistics of the batch {of_batch:.4f}")
    return max(differences.values()) > TOLERANCE or moved != 53 or abs(validated - of_batch) < 0.01


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
