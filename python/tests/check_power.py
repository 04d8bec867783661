"""Measures the check of `actc.export`: false alarms, and wrong gradient rules that it finds.

    PYTHONPATH=python/src python python/tests/check_power.py --bin build/bin
        [--only REGEX] [--json FILE] [--markdown FILE]

Networks with batch normalization at batch 2, where rounding errors are multiplied most. Each is
exported and checked as it is. Then PyTorch's reference gets a wrong rule, a gradient 1.5 times too
large at every operator of one kind, and the step of actrun is compared with that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

import onnx
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import actc
from actc import _check, _verdict
from actc._calm import calm
from actc._inputs import inputs_of
from actc._losses import ModelWithLoss
from actc._reference import float32_steps, float64_step
from actc._tools import find_tools, run_step
from actc._verdict import Distance, Step, compare, distance, limits

NETWORKS = [  # torchvision's or timm's name, size of the images
    ("tv:resnet18", 32), ("tv:resnet34", 32), ("tv:resnet50", 32), ("tv:mobilenet_v2", 32),
    ("tv:mobilenet_v3_small", 32),
    ("tv:shufflenet_v2_x0_5", 32), ("tv:mnasnet0_5", 32), ("lcnet_050", 32), ("ghostnet_050", 32), ("dla46_c", 32),
    ("regnetx_002", 32), ("skresnet18", 32), ("resnest14d", 32), ("hardcorenas_a", 32), ("fbnetc_100", 32),
    ("spnasnet_100", 32), ("repvgg_a0", 32), ("selecsls42", 32), ("tinynet_e", 32), ("ese_vovnet19b_slim", 64),
    ("tv:regnet_y_400mf", 32), ("rexnet_100", 32), ("efficientnet_b0", 32), ("mobilenetv3_small_050", 32),
    ("semnasnet_075", 32),
    ("mobilenetv2_050", 32), ("resnet10t", 32), ("mnasnet_small", 32), ("cs3darknet_focus_s", 32), ("mixnet_s", 32),
    ("hrnet_w18_small", 32), ("tv:googlenet", 32), ("cspresnet50", 32), ("res2net50_26w_4s", 32), ("dpn48b", 32),
    ("tv:densenet121", 32), ("xception41", 64), ("tv:inception_v3", 80),
]  # fmt: skip
FACTOR = 1.5


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return FACTOR * gradient


def _scaled(x: Any) -> Any:
    return _Scaled.apply(x) if isinstance(x, torch.Tensor) and x.is_floating_point() and x.requires_grad else x


# Functions whose result gets the wrong gradient.
RESULTS = {
    "activation": {
        "relu",
        "relu_",
        "relu6",
        "hardtanh",
        "silu",
        "hardswish",
        "leaky_relu",
        "leaky_relu_",
        "sigmoid",
        "hardsigmoid",
        "gelu",
    },
    "pooling": {"max_pool2d", "boolean_dispatch", "avg_pool2d", "adaptive_avg_pool2d", "mean"},
    "sum": {"add", "__add__", "__iadd__", "add_", "sum"},
}
NORM = "BatchNorm's input"
WEIGHTS = ["convolution's weight", "depthwise weight", "linear weight"]
KINDS = [*WEIGHTS, NORM, *RESULTS]


class Wrong(TorchFunctionMode):
    """Every operator of a kind has a wrong rule. `count` is how many there are."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.count = kind, 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name, args = dict(kwargs or {}), getattr(func, "__name__", ""), list(args)
        if name == "batch_norm" and self.kind == NORM:
            args[0], self.count = _scaled(args[0]), self.count + 1
        result = func(*args, **kwargs)
        if (
            name in RESULTS.get(self.kind, set())
            and isinstance(result, torch.Tensor)
            and result.ndim > 1
            and result.requires_grad
        ):
            if self.kind != "sum" or name == "sum" or (len(args) > 1 and isinstance(args[1], torch.Tensor)):
                self.count += 1
                return _scaled(result)
        return result


def _weights(model: nn.Module, kind: str) -> List[str]:
    """Weights of the operators of a kind."""
    found = []
    for name, module in model.named_modules():
        is_convolution = isinstance(module, nn.Conv2d)
        its = "linear weight" if isinstance(module, nn.Linear) else ""
        if is_convolution:
            its = "depthwise weight" if module.groups > 1 else "convolution's weight"
        if its == kind:
            found.append(f"{name}.weight")
    return found


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name.startswith("tv:"):
        import torchvision

        return getattr(torchvision.models, name[3:])(weights=None)
    import timm

    return timm.create_model(name)


def _as_large(noise: Distance, before: Step, after: Step) -> Distance:
    """Rounding errors grow with the gradients in which they are."""
    grown = {
        n: d * float(after.gradients[n].norm()) / (float(before.gradients[n].norm()) or 1.0)
        for n, d in noise.parameters.items()
    }
    return Distance(noise.loss, noise.overall, grown)


def _found(
    wrapped: ModelWithLoss, tensors: Any, kind: str, mine: Step, right: Step, noise: List[Distance]
) -> Optional[bool]:
    """Does the comparison with a wrong reference exceed the limits? None: no such operator."""
    if kind in WEIGHTS:
        names = set(_weights(wrapped.model, kind))
        wrong = Step(right.loss, {n: g * (FACTOR if n in names else 1) for n, g in right.gradients.items()})
    else:
        with Wrong(kind) as mode:
            result, reason = float64_step(wrapped, tensors)
        assert result is not None, reason
        wrong = result
        if mode.count == 0:
            return None
    if distance(wrong, right).overall == 0:
        return None
    return not compare(wrong, distance(mine, wrong), limits(wrong, [_as_large(d, right, wrong) for d in noise])).within


def measure(name: str, size: int, bin_dir: str) -> Dict[str, Any]:
    start = time.process_time()
    model, image, label = network(name), torch.randn(2, 3, size, size), torch.randint(0, 1000, (2,))
    row: Dict[str, Any] = {"network": name, "size": size, "wrong": {}}
    with tempfile.TemporaryDirectory() as folder, calm(model):
        path = os.path.join(folder, "m.onnx")
        report = actc.export(
            model, image, path, "cross-entropy", labels=label, bin_dir=bin_dir, check=False, exporter="torchscript"
        )
        model.train()
        wrapped = ModelWithLoss(model, "cross-entropy", inputs_of(model, image, None))
        tensors, tools = (image, label), find_tools(bin_dir, True)
        inputs = dict(zip(report.inputs, tensors))

        def look(file: str, values: str) -> Tuple[Any, ...]:
            right, reason = float64_step(wrapped, tensors)
            assert right is not None and tools is not None, reason
            mine = _check._step_of(run_step(tools, file, inputs, 2), right)
            noise = [distance(s, right) for s in float32_steps(wrapped, tensors)]
            off = distance(mine, right)
            at_floor = compare(right, off, limits(right, []))
            comparison = at_floor if at_floor.within else compare(right, off, limits(right, noise))
            row[values] = {
                "off": off.overall, "float32": max(d.overall for d in noise), "limit": comparison.limits.overall,
                "power": comparison.limits.power,
                "within": comparison.within, "powerful": comparison.limits.powerful, "said": str(comparison),
                "ratio": max(off.parameters[n] / most for n, most in comparison.limits.parameters.items() if most > 0),
            }  # fmt: skip
            # As the check does it: without a look at the noise where the floors are enough.
            return right, mine, [] if at_floor.within else noise, comparison, noise

        own = look(path, "own")
        judged_by_own = own[3].within and own[3].limits.powerful and own[3].limits.zeros == 0
        row["own complete"] = own[3].limits.zeros == 0
        own_found: Dict[str, Optional[bool]] = {}
        if judged_by_own:
            own_found = {kind: _found(wrapped, tensors, kind, own[1], own[0], own[4]) for kind in KINDS}
        graph = onnx.load(path)
        draws, row["draws"] = [], 0
        for seed in range(1, _check.DRAWS + 1):
            with _check.moved(wrapped, tensors, graph, seed) as other:
                file = os.path.join(folder, "moved.onnx")
                onnx.save(other, file)
                draw = look(file, f"moved{seed}")
                draws.append(draw[3])
                if seed == 1:
                    for kind in KINDS:
                        found = _found(wrapped, tensors, kind, draw[1], draw[0], draw[4])
                        row["wrong"][kind] = found if own_found.get(kind) is None else found and own_found[kind]
            if draw[3].within:
                break
        row["judge"] = "own" if judged_by_own else "moved"
        row["alarm"] = not judged_by_own and not draws[-1].within
        row["inconclusive"] = not judged_by_own and draws[-1].within and not draws[-1].limits.powerful
        row["draws"] = len(draws)
    row["seconds"] = time.process_time() - start
    return row


def markdown(rows: List[Dict[str, Any]]) -> str:
    lines = [
        "| network | image | actrun | PyTorch's float32 | moved: actrun | moved: float32 | alarm | wrong rules found |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        cells = [r["network"], str(r["size"])] + [
            f"{r[v][k]:.1e}" for v in ("own", "moved1") for k in ("off", "float32")
        ]
        cells.append("**yes**" if r["alarm"] else "no power" if r["inconclusive"] else "no")
        planted = {kind: found for kind, found in r["wrong"].items() if found is not None}
        missed = [kind for kind, found in planted.items() if not found]
        cells.append(f"{len(planted) - len(missed)} of {len(planted)}" + "".join(f", not {kind}" for kind in missed))
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        f"Alarms: {sum(r['alarm'] for r in rows)} of {len(rows)}.",
        "",
        "| wrong rule at | found in |",
        "|---|---|",
    ]
    for kind in KINDS:
        found = [r["wrong"].get(kind) for r in rows if r["wrong"].get(kind) is not None]
        lines.append(f"| {kind} | {sum(found)} of {len(found)} networks |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", help="written after each network; what is in it is not measured again")
    parser.add_argument("--markdown")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: List[Dict[str, Any]] = json.load(open(args.json)) if args.json and os.path.exists(args.json) else []
    for name, size in NETWORKS:
        if not re.search(args.only, name) or any(r["network"] == name for r in rows):
            continue
        try:
            rows.append(measure(name, size, args.bin))
        except Exception as error:  # the next network is measured all the same
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        r = rows[-1]
        wrong = " ".join(f"{k}:{v}" for k, v in r["wrong"].items())
        print(
            f"{name}: alarm {r['alarm']} own {r['own']['said']} | moved {r['moved1']['said']} | {wrong}"
            f" | {r['seconds']:.0f} s",
            flush=True,
        )
        if args.json:
            json.dump(rows, open(args.json, "w"), indent=1)
    print(f"torch {torch.__version__}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} threads")
    if args.markdown:
        open(args.markdown, "w").write(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
