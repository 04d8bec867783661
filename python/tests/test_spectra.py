"""Losses of spectrograms."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import actc
from tools import BIN, needs_tools

LIMIT = 1e-5


def magnitude(x: torch.Tensor, window: torch.Tensor, parts: bool) -> torch.Tensor:
    """Of a short-time Fourier transform: not the root, whose slope is infinite at 0."""
    spectrum = torch.stft(x, len(window), len(window) // 4, window=window, return_complex=not parts)
    return spectrum.square().sum(-1) if parts else spectrum.real.square() + spectrum.imag.square()


class Voice(nn.Module):
    """Two scales of a spectrogram, with windows that forward makes."""

    def __init__(self, window: str, parts: bool) -> None:
        super().__init__()
        self.layer = nn.Conv1d(1, 1, 9, padding=4)
        self.window, self.parts = window, parts

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = self.layer(x)[:, 0]
        pairs = [[magnitude(z, getattr(torch, self.window)(n), self.parts) for z in (made, y)] for n in (16, 32)]
        return torch.stack([((a + 0.1).log() - (b + 0.1).log()).abs().mean() for a, b in pairs]).sum()


@needs_tools
@pytest.mark.parametrize("window", ["hann_window", "hamming_window", "blackman_window"])
@pytest.mark.parametrize("exporter, parts", [("torchscript", True), ("dynamo", True), ("dynamo", False)])
def test_windows_are_made_in_forward(tmp_path: Path, window: str, exporter: str, parts: bool) -> None:
    torch.manual_seed(1)
    inputs = (torch.randn(4, 1, 128), torch.randn(4, 128))
    report = actc.export(Voice(window, parts), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, exporter=exporter)
    assert report.check is not None and report.check.gradient_error <= LIMIT, str(report)
