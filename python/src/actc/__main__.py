"""python -m actc package.module:factory --input 8x3x224x224 -o model.onnx --loss cross-entropy"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import List, Optional, Tuple

import torch

from ._errors import ExportError
from ._export import export
from ._losses import LOSSES


def _input(text: str) -> Tuple[torch.Tensor, int]:
    """`8x3x224x224`: normal floats; `8x128:int1000`: integers below 1000."""
    shape, _, kind = text.partition(":")
    try:
        extents = [int(part) for part in shape.split("x")]
        if min(extents) < 1:
            raise ValueError
        if not kind or kind == "float":
            return torch.randn(extents), 0
        if kind.startswith("int"):
            return torch.randint(0, int(kind[3:] or 2), extents), 0
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no shape; write 8x3x224x224, or 8x128:int1000 for integers below 1000")


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m actc", description="Exports a PyTorch model as an ONNX training graph for actc.")
    parser.add_argument("factory", help="package.module:function that returns the torch.nn.Module, without arguments")
    parser.add_argument("--input", action="append", required=True, type=_input, metavar="SHAPE", help="an example input; repeat for more")
    parser.add_argument("--label", action="append", type=_input, metavar="SHAPE", help="an example label (default: what the loss takes)")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.onnx")
    parser.add_argument("--loss", choices=sorted(LOSSES), help="default: the model returns its loss")
    parser.add_argument("--fixed-batch", action="store_true", help="the batch of the example input, and no other")
    parser.add_argument("--opset", type=int, default=17)
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
            [tensor for tensor, _ in args.input],
            args.output,
            loss=args.loss,
            labels=[tensor for tensor, _ in args.label] if args.label else None,
            dynamic_batch=not args.fixed_batch,
            opset=args.opset,
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
