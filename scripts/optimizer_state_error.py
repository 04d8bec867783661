#!/usr/bin/env python3
"""What moments in few bits do to Adam's steps: trains a network in PyTorch with float32 moments, keeps a second
copy of the moments in each form beside them, fed with the same gradients, and compares the steps u that follow.

    optimizer_state_error.py [digits|char_gpt]

Prints, over all parameters of at least 4096 elements together: the length of the form's step along u (1: no bias),
and its squared distance from u as a part of |u|^2. The forms are those of docs/optimizers.md, and the same rounded to
nearest. Needs torch and numpy. Tables take 8 bits here, too."""
import argparse
import os
import sys

import numpy
import torch
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "models"))
BLOCK, LEAST, RATE, BETA1, BETA2, EPS = 256, 4096, 1e-3, 0.9, 0.999, 1e-8


def dynamic_map(signed):
    """runtime/codec/dynamic_map.h"""
    positive, decade = [], 1e-6
    for i in range(7):
        steps = 1 << (i if signed else i + 1)
        positive += [decade * (0.1 + 0.9 * (k + 0.5) / steps) for k in range(steps)]
        decade *= 10
    positive[-1] = 1.0
    return torch.tensor(([-x for x in reversed(positive)] if signed else []) + [0.0] + positive)


MAPS = {"first": dynamic_map(True), "second": dynamic_map(False)}


def eight_bits(x, moment, nearest):
    numbers = MAPS[moment]
    blocks = F.pad(x, (0, -len(x) % BLOCK)).view(-1, BLOCK)
    most = blocks.abs().amax(1, keepdim=True)
    part = (blocks / most.clamp_min(1e-38)).contiguous()
    above = torch.searchsorted(numbers, part, right=True).clamp(1, len(numbers) - 1)
    low, high = numbers[above - 1], numbers[above]
    u = torch.full_like(part, 0.5) if nearest else torch.rand_like(part)
    codes = torch.where(part - low > u * (high - low), above, above - 1)
    if moment == "second":
        codes = torch.where((blocks > 0) & (codes == 0), 1, codes)
    return (numbers[codes] * most).flatten()[: len(x)]


def bfloat16(x, moment, nearest):
    if nearest:
        return x.bfloat16().float()
    bits = x.contiguous().view(torch.int32)
    return ((bits + torch.randint(0, 1 << 16, bits.shape, dtype=torch.int32)) & ~0xFFFF).view(torch.float32)


FORMS = {
    "bf16": lambda x, moment: bfloat16(x, moment, False),
    "bf16 to nearest": lambda x, moment: bfloat16(x, moment, True),
    "8bit": lambda x, moment: eight_bits(x, moment, False),
    "8bit to nearest": lambda x, moment: eight_bits(x, moment, True),
}


def digits():
    from make_digits_resnet import DigitsResNet, WithLoss

    folder = os.path.join(ROOT, "models", "data", "digits")
    data = [torch.from_numpy(numpy.load(f"{folder}/train_{name}.npy")) for name in ("image", "label")]
    picks = [pick for _ in range(20) for pick in torch.randperm(len(data[0])).split(64)]
    return WithLoss(DigitsResNet()), ((data[0][pick], data[1][pick]) for pick in picks)


def char_gpt():
    from make_char_gpt import CharGpt, WithLoss, char_text

    text = char_text.Text(os.path.join(ROOT, "models", "data", "licences"))
    windows = torch.tensor(text.training(400 * 32))
    batches = [windows[pick] for pick in torch.randperm(len(windows)).split(32)]
    return WithLoss(CharGpt(len(text.characters))), ((b[:, :-1], b[:, 1:]) for b in batches)


def step_of(first, second, t):
    return first / (1 - BETA1**t) / ((second / (1 - BETA2**t)).sqrt() + EPS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=("digits", "char_gpt"), default="digits")
    args = parser.parse_args()
    torch.manual_seed(0)
    model, batches = {"digits": digits, "char_gpt": char_gpt}[args.network]()
    optimizer = torch.optim.Adam(model.parameters(), RATE, (BETA1, BETA2), EPS)
    large = [p for p in model.parameters() if p.numel() >= LEAST]
    kept = {form: [[torch.zeros(p.numel()) for _ in "mv"] for p in large] for form in FORMS}
    print("| step | form | second moment: length | distance | both moments: length | distance |\n|---|---|---|---|---|---|")
    for t, batch in enumerate(batches, 1):
        optimizer.zero_grad()
        model(*batch).backward()
        optimizer.step()
        for form, rounded in FORMS.items():
            along, rest, square = [0, 0], [0, 0], 0
            for p, moments in zip(large, kept[form]):
                g, exact = p.grad.flatten(), optimizer.state[p]
                first = moments[0] + (1 - BETA1) * (g - moments[0])
                second = BETA2 * moments[1] + (1 - BETA2) * g * g
                exact_first, exact_second = exact["exp_avg"].flatten(), exact["exp_avg_sq"].flatten()
                u = step_of(exact_first, exact_second, t)
                square += (u * u).sum().item()
                for k, ours in enumerate((step_of(exact_first, second, t), step_of(first, second, t))):
                    along[k] += (ours * u).sum().item()
                    rest[k] += ((ours - u) ** 2).sum().item()
                moments[:] = rounded(first, "first"), rounded(second, "second")
            if t in (10, 50, 100, 200, 400):
                cells = [f"{a / square:.4f} | {r / square:.5f}" for a, r in zip(along, rest)]
                print(f"| {t} | {form} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
