#!/usr/bin/env python3
"""Losses and their gradients by PyTorch in float64.

    make.py          needs torch, onnx, onnxscript, numpy, safetensors; the tests need none of these

It writes cases.json, numbers.safetensors and, for losses that a model spells out, FILE.onnx by
PyTorch's dynamo exporter. The files are beside this one.

A case of cases.json has a `name` and a `form`. The form is `flag` (actc --loss=KIND after the
predictions), `softmax-cross-entropy` or `log-likelihood` (ONNX's operators, with LogSoftmax before
the second) with `reduction`, `ignore_index`, or `file`. The numbers of a case are NAME/x
(predictions, the only parameter), NAME/label, NAME/weight (of classes), NAME/mix (if each sample
has a loss of its own: the test sums mix times loss), NAME/loss and NAME/grad."""
import itertools
import json
import os
import sys
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python", "src"))
from actc._written_out import _smoothed_cross_entropy  # noqa: E402: the dynamo exporter drops label_smoothing without a word

rng = np.random.default_rng(11)
cases, numbers = [], {}


def add(name, form, x, label, loss, weight=None, mix=None, **more):
    """loss: function of x and label in float64. With `mix` its result has one element per sample."""
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    y = torch.tensor(label) if label.dtype == np.int64 else torch.tensor(label, dtype=torch.float64)
    value = loss(t, y)
    if mix is not None:
        value = (value * torch.tensor(mix, dtype=torch.float64)).sum()
    value.backward()
    cases.append({"name": name, "form": form} | more)
    parts = {"x": x, "label": label, "weight": weight, "mix": mix, "loss": value.detach().numpy(), "grad": t.grad.numpy()}
    for key, array in parts.items():
        if array is not None:
            array = np.asarray(array)
            numbers[f"{name}/{key}"] = array if array.dtype == np.int64 else array.astype(np.float32)


def scores(shape):
    return (rng.normal(size=shape) * 3).astype(np.float32)


def labels(shape, ignore=None):
    """Class indices [N, D..] for scores [N, C, D..]; about a third ignored, but never all."""
    y = rng.integers(0, shape[1], size=shape[:1] + shape[2:])
    if ignore is not None:
        y[rng.random(y.shape) < 0.33] = ignore
        y.flat[0] = 0
    return y


def cross_entropies():
    shapes = [(1, 2), (1, 7), (5, 3), (3, 1), (2, 3, 5), (1, 4, 3, 2), (3, 67), (17, 10)]
    for shape in shapes:
        x, y = scores(shape), labels(shape)
        text = "x".join(map(str, shape))
        add(f"flag_cross_entropy_{text}", "flag", x, y, F.cross_entropy, kind="cross-entropy")
        for weighted, ignore, reduction in itertools.product([False, True], [None, -1, 1], ["mean", "sum", "none"]):
            if ignore == 1 and (shape[1] < 2 or shape[0] == 1):
                continue
            y = labels(shape, ignore)
            w = rng.uniform(0.2, 2, shape[1]).astype(np.float32) if weighted else None
            mix = rng.uniform(-1, 1, y.shape).astype(np.float32) if reduction == "none" else None
            def loss(t, label):
                return F.cross_entropy(t, label, None if w is None else torch.tensor(w, dtype=torch.float64),
                                       ignore_index=-100 if ignore is None else ignore, reduction=reduction)
            name = f"{text}{'_weighted' if weighted else ''}{'' if ignore is None else f'_ignore{ignore}'}_{reduction}"
            more = {"reduction": reduction} | ({} if ignore is None else {"ignore_index": ignore})
            add("sce_" + name, "softmax-cross-entropy", x, y, loss, w, mix, **more)
            add("nll_" + name, "log-likelihood", x, y, loss, w, mix, **more)
    # Scores that overflow an exponential, and equal scores.
    far = np.array([[1000, -1000, 0], [-1000, -1000, -1000], [88, 89, 90]], np.float32)
    add("flag_cross_entropy_far", "flag", far, np.array([1, 0, 2]), F.cross_entropy, kind="cross-entropy")


ELEMENTWISE = {"mse": F.mse_loss, "l1": F.l1_loss, "smooth-l1": F.smooth_l1_loss,
               "bce-with-logits": F.binary_cross_entropy_with_logits}


def elementwise():
    for (kind, loss), shape in itertools.product(ELEMENTWISE.items(), [(1, 1), (1, 5), (5, 1), (3, 7), (2, 3, 5), (4, 67)]):
        x = scores(shape)
        y = (rng.random(shape).astype(np.float32) if kind == "bce-with-logits"
             else x + rng.choice([-2.5, -1, -0.25, 0, 0.5, 1, 3], shape).astype(np.float32))  # kinks too
        add(f"flag_{kind}_{'x'.join(map(str, shape))}", "flag", x, y.astype(np.float32), loss, kind=kind)
    far = np.array([[-1000, 1000, -88, 88, 0]], np.float32)
    add("flag_bce-with-logits_far", "flag", far, np.array([[1, 0, 0.5, 1, 0]], np.float32),
        F.binary_cross_entropy_with_logits, kind="bce-with-logits")


def tokens():
    for shape in [(1, 2), (2, 5, 3), (3, 1, 7), (1, 4, 2, 3)]:
        x = scores(shape)
        y = labels(shape[:1] + shape[-1:] + shape[1:-1], ignore=-100)  # PyTorch's default
        y.flat[0] = 0
        add(f"flag_token-cross-entropy_{'x'.join(map(str, shape))}", "flag", x, y,
            lambda t, label: F.cross_entropy(t.movedim(-1, 1), label), kind="token-cross-entropy")


class Loss(torch.nn.Module):
    def __init__(self, x, loss):
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor(x))
        self.loss = loss

    def forward(self, label):
        return self.loss(self.x, label)


def exported():
    pos = torch.tensor([0.5, 2.0, 1.25])
    w = torch.tensor([0.5, 2.0, 1.25])
    def ce(**more):
        return lambda t, y: F.cross_entropy(t, y, **{k: v.to(t.dtype) if torch.is_tensor(v) else v for k, v in more.items()})
    def smoothed(**more):
        return lambda t, y: _smoothed_cross_entropy(t, y, **more)
    # PyTorch's loss, the kind of labels, and the exported loss if it is another form.
    losses = {
        "ce_smooth": (ce(label_smoothing=0.1), "class", smoothed(label_smoothing=0.1)),
        "ce_smooth_weighted": (ce(label_smoothing=0.1, weight=w), "class", smoothed(label_smoothing=0.1, weight=w)),
        "ce_smooth_ignore": (ce(label_smoothing=0.3, ignore_index=2), "ignore", smoothed(label_smoothing=0.3, ignore_index=2)),
        "ce_weighted": (ce(weight=w), "class"),
        "ce_ignore": (ce(ignore_index=2), "ignore"),
        "ce_sum": (ce(reduction="sum"), "class"),
        "ce_soft": (ce(), "probability", lambda t, y: -(y * F.log_softmax(t, 1)).sum(1).mean()),
        "mse_sum": (lambda t, y: F.mse_loss(t, y, reduction="sum"), "number"),
        "l1_sum": (lambda t, y: F.l1_loss(t, y, reduction="sum"), "number"),
        "smooth_l1_beta": (lambda t, y: F.smooth_l1_loss(t, y, beta=0.5), "number"),
        "huber": (lambda t, y: F.huber_loss(t, y, delta=1.5), "number"),
        "bce_logits": (lambda t, y: F.binary_cross_entropy_with_logits(t, y), "probability"),
        "bce_logits_pos": (lambda t, y: F.binary_cross_entropy_with_logits(t, y, pos_weight=pos.to(t.dtype)), "probability"),
        "bce_logits_sum": (lambda t, y: F.binary_cross_entropy_with_logits(t, y, reduction="sum"), "probability"),
        "bce": (lambda t, y: F.binary_cross_entropy(torch.sigmoid(t), y), "probability"),
        # Written as the logarithm of a sigmoid, which is 0 there.
        "bce_logits_far": (lambda t, y: F.binary_cross_entropy_with_logits(t, y), "far"),
        "kl_batchmean": (lambda t, y: F.kl_div(torch.log_softmax(t, 1), y, reduction="batchmean"), "probability"),
    }
    for name, (loss, kind, *form) in losses.items():
        x = scores((5, 3))
        if kind == "far":
            x[0], kind = (-200, 200, -100), "probability"
        p = rng.uniform(0.1, 1, (5, 3))
        y = {"class": labels((5, 3)), "ignore": labels((5, 3), 2),
             "probability": (p / p.sum(1, keepdims=True)).astype(np.float32),
             "number": (x + rng.normal(size=(5, 3)) * 2).astype(np.float32)}[kind]
        path = os.path.join(HERE, name + ".onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(Loss(x, (form or [loss])[0]), (torch.tensor(y),), dynamo=True, optimize=False, verbose=False,
                                        input_names=["label"], output_names=["loss"])
        model = program.model_proto
        for holder in [model.graph, *model.functions]:
            for node in holder.node:
                node.ClearField("doc_string")
                del node.metadata_props[:]
            del holder.metadata_props[:]
        del model.metadata_props[:]
        onnx.save(model, path)
        add("file_" + name, "file", x, y, loss, file=name + ".onnx")


def main():
    cross_entropies()
    elementwise()
    exported()
    tokens()
    with open(os.path.join(HERE, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    save_file(numbers, os.path.join(HERE, "numbers.safetensors"))


if __name__ == "__main__":
    main()
