#!/usr/bin/env python3
"""Makes models/char_gpt.onnx, a small character-level GPT with its loss inside, for scripts/accuracy.py.

    make_char_gpt.py               writes char_gpt.onnx beside this file
    make_char_gpt.py --train       trains it in PyTorch on the texts in data/licences: the loss to expect

Needs torch. What trains it with actc does not: the ONNX file is kept in the repository."""
import argparse
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "scripts"))
import char_text  # noqa: E402

LAYERS, WIDTH, HEADS, TOKENS = 4, 64, 4, char_text.WINDOW


class Block(nn.Module):
    """GPT-2's block (Radford et al. 2019): layer norm before attention and before the two linear layers."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):  # [N, T, WIDTH]
        q, k, v = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (t.reshape(-1, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(-1, TOKENS, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    """[N, T] characters -> [N, T, V] scores of the next ones. About 212,000 parameters."""

    def __init__(self, characters):
        super().__init__()
        self.character = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.zeros(TOKENS, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters, bias=False)
        for name, p in self.named_parameters():  # as in GPT-2: what adds to the residual stream is smaller
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02 / (math.sqrt(2 * LAYERS) if "out" in name or "down" in name else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, text):
        return self.head(self.norm(self.blocks(self.character(text) + self.position)))


class WithLoss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, text, next):
        return F.cross_entropy(self.net(text).flatten(0, 1), next.flatten())


def export(path, characters):
    torch.manual_seed(0)
    model = WithLoss(CharGpt(characters)).train()
    inputs = (torch.randint(0, characters, (4, TOKENS)), torch.randint(0, characters, (4, TOKENS)))
    torch.onnx.export(model, inputs, path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=17, input_names=["text", "next"],
                      output_names=["loss"], dynamic_axes={"text": {0: "N"}, "next": {0: "N"}})


def train(args, text):
    windows = {name: torch.tensor(pairs) for name, pairs in (("train", text.training(args.steps * args.batch)),
                                                               ("test", text.validation()))}
    for seed in range(args.seeds):
        torch.manual_seed(seed)
        model = WithLoss(CharGpt(len(text.characters)))
        optimizer = torch.optim.Adam(model.parameters(), args.lr)
        for pick in torch.randperm(len(windows["train"])).split(args.batch):
            batch = windows["train"][pick]
            optimizer.zero_grad()
            model(batch[:, :-1], batch[:, 1:]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = model(windows["test"][:, :-1], windows["test"][:, 1:]).item()
        print(f"seed {seed}: validation loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    text = char_text.Text(os.path.join(HERE, "data", "licences"))
    if args.train:
        train(args, text)
    else:
        export(os.path.join(HERE, "char_gpt.onnx"), len(text.characters))
