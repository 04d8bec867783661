"""Operators of images for PyTorch's TorchScript exporter, which lacks them, as ONNX nodes."""

from __future__ import annotations

from typing import Any, List

import torch

from ._forms import constant, integer, integers, number, numbers


def deform_conv(g: Any, x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *options: Any) -> Any:
    """torchvision.ops.deform_conv2d."""
    if g.opset < 19:
        raise RuntimeError("a deformable convolution needs opset 19")  # a higher one is tried next
    *pairs, groups, offset_groups, masked = (integer(option, "an option of a convolution") for option in options)
    strides, pads, dilations = pairs[:2], pairs[2:4], pairs[4:]
    return g.op(
        "DeformConv",
        x,
        weight,
        offset,
        bias,
        *([mask] if masked else []),
        strides_i=strides,
        pads_i=pads * 2,
        dilations_i=dilations,
        group_i=groups,
        offset_group_i=offset_groups,
    )


def upsample_nearest_exact(g: Any, x: Any, output_size: Any, scales: Any) -> Any:
    """torch.nn.functional.interpolate(mode="nearest-exact"), which the exporter lacks: the pixel under the new pixel's
    center."""
    none = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
    if scales.node().mustBeNone():
        image = g.op("Slice", g.op("Shape", x), constant(g, [0]), constant(g, [2]), constant(g, [0]))
        sizes = [none, g.op("Concat", image, constant(g, integers(output_size, "a size of an image")), axis_i=0)]
    else:
        factors = numbers(scales, "a scale of an image")
        sizes = [constant(g, [1.0, 1.0, *factors])]
    return g.op(
        "Resize",
        x,
        none,
        *sizes,
        coordinate_transformation_mode_s="half_pixel",
        mode_s="nearest",
        nearest_mode_s="round_prefer_ceil",
    )


def extents_of(g: Any, size: Any) -> List[Any]:
    """The extents of an image, known or computed from those of another."""
    if size.node().kind() != "prim::ListConstruct":
        return [size]
    return [g.op("Reshape", extent, constant(g, [1])) for extent in size.node().inputs()]


def upsample_antialiased(mode: str) -> Any:
    def write(g: Any, x: Any, output_size: Any, align_corners: Any, *scales: Any) -> Any:
        """torch.nn.functional.interpolate(antialias=True), which the exporter lacks."""
        if g.opset < 18:
            raise RuntimeError("an interpolation with antialias=True needs opset 18")  # a higher one is tried next
        none = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        if not scales[-1].node().mustBeNone():
            factors = numbers(scales[-1], "a scale of an image") if len(scales) == 1 else None
            given = factors or [number(scale, "a scale of an image") for scale in scales]
            sizes = [constant(g, [1.0, 1.0, *given])]
        else:
            image = g.op("Slice", g.op("Shape", x), constant(g, [0]), constant(g, [2]), constant(g, [0]))
            sizes = [none, g.op("Concat", image, *extents_of(g, output_size), axis_i=0)]
        corners = integer(align_corners, "a choice of corners")
        return g.op(
            "Resize",
            x,
            none,
            *sizes,
            antialias_i=1,
            coordinate_transformation_mode_s="align_corners" if corners else "half_pixel",
            cubic_coeff_a_f=-0.5,  # PyTorch's other one is -0.75
            exclude_outside_i=1,
            mode_s=mode,
        )

    return write
