"""Quantization in training, which ONNX's operators have no gradient for."""

from __future__ import annotations

from typing import Any, Union

import torch

Tensor = torch.Tensor


def fake_quantize(
    input: Tensor, scale: Union[float, Tensor], zero_point: Union[int, Tensor], quant_min: int, quant_max: int
) -> Tensor:
    """torch.fake_quantize_per_tensor_affine: the nearest number that has a code. The gradient passes as it is where the
    code is not outside its range, and ends elsewhere."""
    x = input.detach()
    if isinstance(scale, Tensor):
        scale = scale.detach().to(x.dtype)
    if isinstance(zero_point, Tensor):
        zero_point = zero_point.to(x.dtype)
    code = (x * (1 / scale)).round() + zero_point
    passes = (code >= quant_min) & (code <= quant_max)
    gradient = torch.where(passes, input, x)
    return (code.clamp(quant_min, quant_max) - zero_point) * scale + (gradient - gradient.detach())


def fake_quantize_channels(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Any:
    """torch.fake_quantize_per_channel_affine: a scale for each position along an axis."""
    shape = [1] * input.ndim
    shape[axis] = -1
    return fake_quantize(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
