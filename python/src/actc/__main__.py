"""python -m actc package.module:factory --input 8x3x224x224 -o model.onnx --loss cross-entropy"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Dict, List, Optional, Tuple, Union

import torch

from ._errors import ExportError
from ._export import export
from ._exporters import EXPORTERS
from ._losses import LOSSES


def _input(text: str) -> Tuple[str, torch.Tensor]:
    """`8x3x224x224`: normal floats; `8x128:int1000`: integers below 1000. With `NAME=` before it,
    the argument of this name."""
    name, _, description = text.rpartition("=")
    shape, _, kind = description.partition(":")
    try:
        extents = [int(part) for part in shape.split("x")]
        if min(extents) < 1:
            raise ValueError
        if not kind or kind == "float":
            return name, torch.randn(extents)
        if kind.startswith("int"):
            return name, torch.randint(0, int(kind[3:] or 2), extents)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"{text!r} is no shape; write 8x3x224x224, or 8x128:int1000 for integers below 1000"
    )


def _arguments(given: List[Tuple[str, torch.Tensor]]) -> Union[List[torch.Tensor], Dict[str, torch.Tensor]]:
    named = [bool(name) for name, _ in given]
    if any(named) and not all(named):
        raise ExportError("some --input have a name and some have none", "write --input NAME=SHAPE for all of them")
    return dict(given) if all(named) else [tensor for _, tensor in given]


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m actc", description="Exports a PyTorch model as an ONNX training graph for actc."
    )
    parser.add_argument("factory", help="package.module:function that returns the torch.nn.Module, without arguments")
    parser.add_argument(
        "--input",
        action="append",
        required=True,
        type=_input,
        metavar="[NAME=]SHAPE",
        help="an example input, all with names or none; repeat for more",
    )
    parser.add_argument(
        "--label", action="append", type=_input, metavar="SHAPE", help="an example label (default: what the loss takes)"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE.onnx")
    parser.add_argument("--loss", choices=sorted(LOSSES), help="default: the model returns its loss")
    parser.add_argument("--fixed-batch", action="store_true", help="the batch of the example input, and no other")
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--exporter", choices=EXPORTERS, default="auto", help="auto: torchscript and dynamo in turn")
    parser.add_argument("--no-check", action="store_true", help="do not compare a step of actrun with autograd")
    parser.add_argument("--bin", metavar="FOLDER", help="where actc and actrun are (default: PATH)")
    args = parser.parse_args(arguments)
    sys.path.insert(0, os.getcwd())
    try:
        module, _, function = args.factory.partition(":")
        try:
            model = getattr(importlib.import_module(module), function)()
        except (ImportError, AttributeError, ValueError) as error:
            raise ExportError(f"{args.factory}: {error}", "write package.module:function") from error
        report = export(
            model,
            _arguments(args.input),
            args.output,
            loss=args.loss,
            labels=[tensor for _, tensor in args.label] if args.label else None,
            dynamic_batch=False if args.fixed_batch else "auto",
            opset=args.opset,
            exporter=args.exporter,
            check=False if args.no_check else (True if args.bin else "auto"),
            bin_dir=args.bin,
        )
    except ExportError as error:
        print(f"actc-export: error: {error}", file=sys.stderr)
        return 1
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
