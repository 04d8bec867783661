#!/usr/bin/env python3
"""Makes models/digits_resnet.onnx, the demo's model: a ResNet-14 for 8 x 8 grey images, cross entropy inside.

    make_digits_resnet.py              writes digits_resnet.onnx beside this file
    make_digits_resnet.py --train      trains it in PyTorch with the demo's settings: the accuracy to expect

Needs torch and, for --train, numpy. The demo itself needs neither: the ONNX file is kept in the repository."""
import argparse
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


class Block(nn.Module):
    """The residual block of He et al. 2015, figure 2: two 3 x 3 convolutions beside the identity or a projection."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.project = None
        if stride != 1 or inputs != outputs:
            self.project = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.project is None else self.project(x)))


class DigitsResNet(nn.Module):
    """[N, 1, 8, 8] -> [N, 10]: three stages of 16, 32 and 64 channels at 8, 4 and 2 pixels, two blocks each."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        widths = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        self.stages = nn.Sequential(*(nn.Sequential(Block(i, o, s), Block(o, o, 1)) for i, o, s in widths))
        self.head = nn.Linear(64, 10)

    def forward(self, image):
        return self.head(self.stages(self.stem(image)).mean((2, 3)))


class WithLoss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, label):
        return F.cross_entropy(self.net(image), label)


def export(path):
    torch.manual_seed(0)
    model = WithLoss(DigitsResNet()).train()
    inputs = (torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,)))
    # Training mode without constant folding keeps every BatchNormalization apart from its convolution.
    torch.onnx.export(model, inputs, path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=17, input_names=["image", "label"],
                      output_names=["loss"], dynamic_axes={"image": {0: "N"}, "label": {0: "N"}})


def train(args):
    import numpy as np

    def load(split):
        folder = os.path.join(HERE, "data", "digits")
        return [torch.from_numpy(np.load(os.path.join(folder, f"{split}_{name}.npy"))) for name in ("image", "label")]

    (image, label), (test_image, test_label) = load("train"), load("test")
    for seed in range(args.seeds):
        torch.manual_seed(seed)
        net = DigitsResNet()
        optimizer = torch.optim.SGD(net.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
        steps = args.epochs * math.ceil(len(image) / args.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        start = time.perf_counter()
        for _ in range(args.epochs):
            net.train()
            for pick in torch.randperm(len(image)).split(args.batch):
                optimizer.zero_grad()
                F.cross_entropy(net(image[pick]), label[pick]).backward()
                optimizer.step()
                schedule.step()
        net.eval()
        with torch.no_grad():
            correct = (net(test_image).argmax(1) == test_label).sum().item()
        print(f"seed {seed}: test accuracy {correct / len(test_label):.4f}, {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if args.train:
        train(args)
    else:
        export(os.path.join(HERE, "digits_resnet.onnx"))
