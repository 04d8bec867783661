"""The helper's type annotations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

api = pytest.importorskip("mypy.api")


# Annotations of PyTorch differ between its versions, and with them what mypy says.
@pytest.mark.skipif(not torch.__version__.startswith("2.15."), reason="checked with PyTorch 2.15")
def test_types_are_right() -> None:
    folder = Path(__file__).parents[1]
    said, errors, status = api.run(
        ["--config-file", str(folder / "pyproject.toml"), "--no-incremental", str(folder / "src" / "actc")]
    )
    assert status == 0, said + errors
