"""Arguments and results of any structure, and parameters that do not train."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import onnx
import pytest
import torch
from tools import BIN, needs_tools, randomize, trained
from torch import nn
from torch.nn import functional as F

import actc


@dataclass
class Result:
    loss: Optional[torch.Tensor]
    logits: torch.Tensor


class Classifier(nn.Module):
    """Called as models of the transformers library are."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, input_ids=None, attention_mask=None, labels=None, as_tuple: bool = False) -> Any:
        x = self.embed(input_ids) * attention_mask.unsqueeze(-1)
        logits = self.head(x.sum(1))
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return (loss, logits) if as_tuple else Result(loss, logits)


TOKENS = {"input_ids": torch.randint(0, 20, (4, 6)), "attention_mask": torch.randint(0, 2, (4, 6))}
CLASSES = torch.randint(0, 3, (4,))


@needs_tools
@pytest.mark.parametrize(
    "inputs, options, names",
    [
        ({**TOKENS, "labels": CLASSES}, {}, ["input_ids", "attention_mask", "labels"]),
        ({**TOKENS, "labels": CLASSES, "as_tuple": True}, {}, ["input_ids", "attention_mask", "labels"]),
        ((*TOKENS.values(), CLASSES, True), {}, ["input_ids", "attention_mask", "labels"]),
        (
            {**TOKENS, "labels": None},
            {"loss": "cross-entropy", "labels": CLASSES},
            ["input_ids", "attention_mask", "label"],
        ),
        (
            TOKENS,
            {"loss": lambda r, y: F.cross_entropy(r.logits, y), "labels": CLASSES},
            ["input_ids", "attention_mask", "label"],
        ),
    ],
)
def test_keywords_and_results_with_parts(tmp_path: Path, inputs, options, names: List[str]) -> None:
    report = actc.export(randomize(Classifier()), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, **options)
    assert report.inputs == names == [i.name for i in onnx.load(tmp_path / "m.onnx").graph.input]
    assert report.check is not None and report.check.conclusive and report.check.gradient_error <= 1e-4, str(report)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, pair: Tuple[torch.Tensor, Dict[str, torch.Tensor]], scale: int = 1) -> Dict[str, torch.Tensor]:
        return {"out": scale * self.a(pair[0]) + self.b(pair[1]["side"])}


@needs_tools
def test_nested_inputs(tmp_path: Path) -> None:
    inputs = {"pair": (torch.randn(4, 4), {"side": torch.randn(4, 5)}), "scale": 3}
    report = actc.export(Nested(), inputs, tmp_path / "m.onnx", "mse", check=True, bin_dir=BIN)
    assert report.inputs == ["pair_0", "pair_1_side", "label"]
    assert report.check is not None and report.check.gradient_error <= 1e-4, str(report)


@needs_tools
def test_constants_are_in_the_graph(tmp_path: Path) -> None:
    losses = []
    for scale in (1, 3):
        torch.manual_seed(0)
        inputs = ((torch.ones(4, 4), {"side": torch.ones(4, 5)}), scale)
        report = actc.export(Nested(), inputs, tmp_path / "m.onnx", "mse", check=True, bin_dir=BIN)
        losses.append(report.check.loss if report.check else 0.0)
    assert losses[0] != losses[1]


@needs_tools
@pytest.mark.parametrize("name", ["bert", "vit", "gpt2"])
def test_models_of_transformers(tmp_path: Path, name: str) -> None:
    """As they are, with Dropout."""
    transformers = pytest.importorskip("transformers")
    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "num_labels": 5,
    }
    tokens = torch.randint(1, 60, (3, 9))
    if name == "bert":
        config = transformers.BertConfig(vocab_size=60, max_position_embeddings=16, **small)
        model = transformers.BertForSequenceClassification(config)
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.randint(0, 5, (3,))}
    elif name == "vit":
        config = transformers.ViTConfig(image_size=16, patch_size=4, **small)
        model = transformers.ViTForImageClassification(config)
        inputs = {"pixel_values": torch.randn(3, 3, 16, 16), "labels": torch.randint(0, 5, (3,))}
    else:
        config = transformers.GPT2Config(vocab_size=60, n_positions=16, n_embd=32, n_layer=2, n_head=4)
        model = transformers.GPT2LMHeadModel(config)
        inputs = {"input_ids": tokens, "labels": tokens, "use_cache": False}
    report = actc.export(randomize(model), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN)
    assert report.inputs == [n for n in inputs if n != "use_cache"]
    assert report.check is not None and report.check.conclusive and report.check.gradient_error <= 2e-4, str(report)


class PartlyReached(nn.Module):
    """A parameter behind detach(), one that nothing reads, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.stopped, self.unused, self.fixed = (nn.Linear(6, 6) for _ in range(4))
        self.fixed.requires_grad_(False)
        self.register_buffer("table", torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fixed(self.a(x) + self.stopped(x).detach() + self.table)


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_only_what_pytorch_trains_trains(tmp_path: Path, exporter: str) -> None:
    report = actc.export(
        PartlyReached(),
        torch.randn(4, 6),
        tmp_path / "m.onnx",
        "cross-entropy",
        check=True,
        bin_dir=BIN,
        exporter=exporter,
    )
    assert report.unreached == ["stopped.weight", "stopped.bias", "unused.weight", "unused.bias"]
    assert report.frozen == ["fixed.weight", "fixed.bias"] and report.parameters == 42
    assert "no gradient reaches them: stopped.weight" in str(report)
    assert trained(tmp_path / "m.onnx", 4) == {"a.weight", "a.bias"}


def test_nothing_trains(tmp_path: Path) -> None:
    with pytest.raises(actc.ExportError, match="no parameter's gradient"):
        actc.export(nn.Linear(3, 2).requires_grad_(False), torch.randn(4, 3), tmp_path / "m.onnx", "mse", check=False)


class Twice(nn.Module):
    """Tied weights: two names for one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.gelu(self.first(x)))


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_tied_weights_are_one_parameter(tmp_path: Path, exporter: str) -> None:
    report = actc.export(
        Twice(), torch.randn(4, 5), tmp_path / "m.onnx", "mse", check=True, bin_dir=BIN, exporter=exporter
    )
    assert report.check is not None and report.check.compared == 1 and report.check.gradient_error <= 1e-4
    assert trained(tmp_path / "m.onnx", 4) == {"first.weight"}


class Copied(nn.Module):
    """Its weight is a constant of the graph, though PyTorch trains it."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.gain = nn.Linear(5, 3), nn.Parameter(torch.tensor([2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gain = self.gain if not torch.onnx.is_in_onnx_export() else float(self.gain)
        return self.head(x) * gain


def test_a_parameter_that_became_a_constant_is_told(tmp_path: Path) -> None:
    with pytest.raises(actc.ExportError, match="1 parameters that PyTorch trains are not in the exported graph: gain"):
        actc.export(Copied(), torch.randn(4, 5), tmp_path / "m.onnx", "mse", check=False, exporter="torchscript")
    assert not (tmp_path / "m.onnx").exists()


def test_all_tensors_that_are_not_float32_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(actc.ExportError, match="trains in float32") as caught:
        pair = (torch.randn(4, 4).double(), {"side": torch.randn(4, 5)})
        actc.export(Nested().double(), (pair,), tmp_path / "m.onnx", "mse", labels=torch.zeros(4, 3))
    assert caught.value.attempts[0] == "input pair_0 is torch.float64" and "parameter a.weight is torch.float64" in str(
        caught.value
    )
    assert len(caught.value.attempts) == 5 and "hint: model.float()" in str(caught.value)
