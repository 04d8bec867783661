"""Exports of small and known models. The built tools compare each with autograd (ACT_BIN is the
folder of the tools, see tools.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tools import BIN, LIMIT, losses_at_rest, needs_tools, randomize

import actc
from actc._tools import find_tools, run_step


class Cnn(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(dropout))
        self.head = nn.Linear(8, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(image).mean((2, 3)))


class StandardizedConv(nn.Conv2d):
    """A convolution by its standardized weight, as in networks without normalization of activations
    (timm's ScaledStdConv2d)."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.gain = nn.Parameter(torch.ones(self.out_channels))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        rows = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(rows, None, None, weight=0.3 * self.gain, training=True, momentum=0.0, eps=1e-6)
        return self._conv_forward(image, weight.reshape_as(self.weight), self.bias)


class Standardized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(StandardizedConv(3, 8, 3), nn.SiLU(), StandardizedConv(8, 5, 3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.body(image).mean((2, 3))


class Transformer(nn.Module):
    """A model with tied embeddings and fused attention, whose input is tokens."""

    def __init__(self, vocabulary: int = 50, d: int = 32, dropout: float = 0.0, places: int = 0) -> None:
        super().__init__()
        self.dropout = dropout
        # Added to the scores, as T5 and Swin do. A sequence has `places` tokens then.
        self.bias = nn.Parameter(torch.randn(1, 4, places, places)) if places else None
        self.embed = nn.Embedding(vocabulary, d)
        self.norm = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.head = nn.Linear(d, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        heads = lambda t: t.unflatten(-1, (4, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            heads(q), heads(k), heads(v), self.bias, self.dropout, is_causal=self.bias is None
        )
        return self.head(x + y.transpose(1, 2).flatten(2))


class SpatialTransformer(nn.Module):
    """Jaderberg et al. 2015: an image is sampled where the network asks for it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.features = nn.Conv2d(3, 4, 3)
        self.place = nn.Linear(4, 6)
        self.head = nn.Linear(4, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.features(image))
        theta = self.place(x.mean((2, 3))).view(-1, 2, 3)
        grid = F.affine_grid(theta, (x.shape[0], 4, 6, 5), align_corners=False)
        return self.head(F.grid_sample(x, 1.5 * grid, align_corners=False, **self.options).mean((2, 3)))


class Noisy(nn.Module):
    """Draws numbers of its own, as variational autoencoders, masked ones and mixtures of experts do."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = torch.rand(x.shape[0], 12).argsort(1)[:, :8]
        y = torch.zeros_like(x).scatter(1, kept, x.gather(1, kept))
        drawn = torch.randn_like(x) + torch.empty_like(x).uniform_(-1, 3) + torch.empty_like(x).exponential_(0.5)
        return self.fc(y + 0.1 * drawn)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 4))


class Smoothed(nn.Module):
    """Makes its loss itself, of classes that weigh and with labels that are ignored."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.head = nn.Linear(12, 5)
        self.reduction = reduction
        self.register_buffer("weight", torch.rand(5) + 0.5)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(
            self.head(x), labels, self.weight, ignore_index=1, reduction=self.reduction, label_smoothing=0.2
        )
        return loss / (labels != 1).sum().clamp(min=1) if self.reduction == "sum" else loss


class Siamese(nn.Module):
    """Two images through the same layers, whose running statistics go on from one to the other."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 5)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = (self.body(image).mean((2, 3)) for image in (a, b))
        return self.head((a - b).abs())


class Masked(nn.Module):
    """The loss of tokens that a mask selects, of a prediction and of classes."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 9)

    def forward(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        h, kept = self.a(x), classes > 1
        return F.mse_loss(h[kept], x[kept]) + F.cross_entropy(self.b(h)[kept], classes[kept])


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=7)[0]


def next_token(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


@needs_tools
@pytest.mark.parametrize(
    "name, model, inputs, options",
    [
        ("mlp", mlp, (torch.randn(4, 12),), {"loss": "cross-entropy"}),
        ("mse", mlp, (torch.randn(4, 12),), {"loss": "mse", "labels": torch.randn(4, 4)}),
        ("l1", mlp, (torch.randn(4, 12),), {"loss": "l1", "labels": torch.randn(4, 4)}),
        ("smooth-l1", mlp, (torch.randn(4, 12),), {"loss": "smooth-l1", "labels": 3 * torch.randn(4, 4)}),
        ("bce", mlp, (torch.randn(4, 12),), {"loss": "bce-with-logits", "labels": torch.rand(4, 4)}),
        (
            "module loss",
            mlp,
            (torch.randn(4, 12),),
            {"loss": nn.CrossEntropyLoss(label_smoothing=0.1), "labels": torch.tensor([0, 1, 2, 3])},
        ),
        (
            "probabilities",
            mlp,
            (torch.randn(4, 12),),
            {"loss": nn.CrossEntropyLoss(label_smoothing=0.1), "labels": torch.randn(4, 4).softmax(1)},
        ),
        ("smoothed", Smoothed, (torch.randn(4, 12), torch.tensor([0, 1, 2, 3])), {"loss": None}),
        (
            "smoothed sum",
            lambda: Smoothed("sum"),
            (torch.randn(4, 12), torch.tensor([0, 1, 2, 3])),
            {"loss": None, "exporter": "dynamo"},
        ),
        ("cnn", Cnn, (torch.randn(4, 3, 10, 10),), {"loss": "cross-entropy"}),
        ("siamese", Siamese, (torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8)), {"loss": "cross-entropy"}),
        ("standardized weights", Standardized, (torch.randn(4, 3, 10, 10),), {"loss": "cross-entropy"}),
        ("sampling", SpatialTransformer, (torch.randn(4, 3, 8, 7),), {"loss": "cross-entropy"}),
        (
            "cubic sampling",
            lambda: SpatialTransformer(mode="bicubic", padding_mode="reflection"),
            (torch.randn(4, 3, 8, 7),),
            {"loss": "cross-entropy"},
        ),
        (
            "transformer",
            Transformer,
            (torch.randint(0, 50, (3, 7)),),
            {"loss": next_token, "labels": torch.randint(0, 50, (3, 7))},
        ),
        (
            "masked",
            Masked,
            (torch.randn(4, 7, 6), torch.arange(28).reshape(4, 7) % 9),
            {"loss": None, "exporter": "torchscript", "dynamic_batch": True},
        ),
        (
            "packed",
            Packed,
            (torch.randn(4, 7, 6), torch.tensor([3, 7, 1, 5])),
            {"loss": "mse", "labels": torch.randn(4, 7, 5), "dynamic_batch": True},
        ),
    ],
)
def test_step_is_autograds(tmp_path: Path, name: str, model, inputs, options) -> None:
    report = actc.export(randomize(model()), inputs, tmp_path / "m.onnx", check=True, bin_dir=BIN, **options)
    assert report.check is not None and not report.check.random
    assert max(report.check.loss_error, report.check.gradient_error) <= LIMIT, str(report)


@needs_tools
@pytest.mark.parametrize("name, size", [("resnet18", 32), ("vit_b_16", 224)])
def test_known_models(tmp_path: Path, name: str, size: int) -> None:
    torchvision = pytest.importorskip("torchvision")
    model = randomize(getattr(torchvision.models, name)(weights=None, num_classes=10))
    report = actc.export(
        model, torch.randn(2, 3, size, size), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN
    )
    assert report.check is not None and report.check.conclusive
    assert max(report.check.loss_error, report.check.gradient_error) <= report.check.limit <= 0.1, str(report)


def test_losses_are_pytorchs() -> None:
    x, y = 3 * torch.randn(5, 4), torch.rand(5, 4)
    for name, function in [("l1", F.l1_loss), ("mse", F.mse_loss), ("smooth-l1", F.smooth_l1_loss)]:
        torch.testing.assert_close(actc.LOSSES[name](x, y), function(x, y))
    torch.testing.assert_close(actc.LOSSES["bce-with-logits"](x, y), F.binary_cross_entropy_with_logits(x, y))
    scores, labels = torch.randn(2, 5, 3), torch.randint(0, 3, (2, 5))
    torch.testing.assert_close(
        actc.LOSSES["token-cross-entropy"](scores, labels), F.cross_entropy(scores.transpose(1, 2), labels)
    )


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_attention_keeps_its_dropout(tmp_path: Path, exporter: str) -> None:
    tokens = torch.randint(0, 50, (3, 7))
    report = actc.export(
        Transformer(dropout=0.25), tokens, tmp_path / "m.onnx", next_token, tokens, exporter=exporter, bin_dir=BIN
    )
    assert report.check is not None and report.check.random
    command = [BIN + "/actc", str(tmp_path / "m.onnx"), "-O", "L0", "--print-after=recognize-attention"]
    graph = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "probability=0.25" in graph[graph.index(" Attention(") :].splitlines()[0]


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_attention_with_a_learned_bias_matches_autograd(tmp_path: Path, exporter: str) -> None:
    tokens, labels = torch.randint(0, 50, (2, 3, 7))
    model, file = randomize(Transformer(places=7)), tmp_path / "m.onnx"
    report = actc.export(model, tokens, file, next_token, labels, exporter=exporter, bin_dir=BIN)
    assert report.check is not None and not report.unreached
    assert max(report.check.loss_error, report.check.gradient_error) <= LIMIT, str(report)


class Angles(nn.Module):
    """Of points on the axes, and sums of powers beyond float32's range."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(2, 4) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [N,2,4]
        y, x = (x * self.scale).unbind(1)
        sums = torch.logaddexp(200 * y, x).mean() + (100 * y).logcumsumexp(1).mean() + torch.sinc(x).mean()
        return torch.atan2(y, x).sin().mean() + y.arctan2(x).mean() + sums


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_angles_of_points_on_the_axes_match_autograd(tmp_path: Path, exporter: str) -> None:
    points = torch.tensor([[[0, 0, 1, -2.0], [-1, 2, 0, 0]], [[3, -1, -0.5, 0.5], [1, -1, -1, 2]]])
    report = actc.export(Angles(), points, tmp_path / "m.onnx", check=True, bin_dir=BIN, exporter=exporter)
    assert report.check is not None and report.check.gradient_error <= LIMIT, str(report)


class EqualPixels(nn.Module):
    """The largest of each window's equal elements, in windows of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2, 7, 9))

    def forward(self, image: torch.Tensor) -> torch.Tensor:  # [N,2,7,9]
        y = F.adaptive_max_pool2d(image + self.shift, (3, 4))
        return (y * torch.arange(12.0).reshape(3, 4)).mean() + F.adaptive_max_pool1d(y.flatten(2), 5).sin().mean()


@needs_tools
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_one_of_equal_elements_has_the_gradient(tmp_path: Path, exporter: str) -> None:
    model, image = EqualPixels(), torch.randn(3, 2, 7, 9).round()
    actc.export(model, image, tmp_path / "m.onnx", check=False, exporter=exporter)
    tools = find_tools(BIN, True)
    found = run_step(tools, str(tmp_path / "m.onnx"), {"image": image}, 3)["grad.shift"]
    model(image).backward()
    torch.testing.assert_close(torch.tensor(found), model.shift.grad)


def test_module_comes_back_as_it_was(tmp_path: Path) -> None:
    model = randomize(Cnn()).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    actc.export(model, torch.randn(4, 3, 10, 10), tmp_path / "m.onnx", "cross-entropy", check=False)
    assert not model.training and not model.body[1].training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_statistics_and_names_are_the_modules(tmp_path: Path) -> None:
    model = randomize(Cnn(0.3))
    report = actc.export(model, torch.randn(4, 3, 10, 10), tmp_path / "m.onnx", "cross-entropy", check=False)
    graph = onnx.load(tmp_path / "m.onnx").graph
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for name, value in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        if name.endswith("num_batches_tracked"):
            continue
        assert (stored[name] == value.detach().numpy()).all(), name
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("BatchNormalization") == 1 and kinds.count("Dropout") == 1
    assert [i.name for i in graph.input] == ["image", "label"] and report.batch_axis == "N"


@needs_tools
def test_frozen_backbone_does_not_train(tmp_path: Path) -> None:
    model = randomize(Cnn())
    model.body.requires_grad_(False)
    report = actc.export(
        model, torch.randn(4, 3, 10, 10), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN
    )
    assert set(report.frozen) == {"body.0.weight", "body.1.weight", "body.1.bias"}
    assert report.parameters == 8 * 5 + 5
    assert report.check is not None and report.check.compared == 2


def test_data_dependent_code_is_told(tmp_path: Path) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) if x.sum() > 0 else self.fc(-x)

    report = actc.export(Branches(), torch.randn(2, 4), tmp_path / "m.onnx", "cross-entropy", check=False)
    assert any("data" in w or "boolean" in w.lower() for w in report.warnings), str(report)


def test_cause_of_a_dynamo_error_is_told(tmp_path: Path) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) if x.sum() > 0 else self.fc(-x)

    with pytest.raises(actc.ExportError) as raised:
        actc.export(Branches(), torch.randn(2, 4), tmp_path / "m.onnx", "cross-entropy", exporter="dynamo", check=False)
    assert "with torch.export: GuardOnDataDependentSymNode: Could not guard on" in str(raised.value)


@needs_tools
def test_random_numbers_of_a_model(tmp_path: Path) -> None:
    report = actc.export(Noisy(), torch.randn(4, 12), tmp_path / "m.onnx", "cross-entropy", check=True, bin_dir=BIN)
    assert report.batch_axis == "N"
    assert report.check is not None and report.check.random and report.check.conclusive, str(report)
    kinds = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert "RandomUniformLike" in kinds and "RandomNormalLike" in kinds
    # Each step draws anew, and a run with the same seed draws the same.
    losses = [losses_at_rest(tmp_path / "m.onnx", batch=3, steps=3, seed=seed) for seed in (1, 1, 2)]
    assert len({*losses[0], *losses[2]}) == 6 and losses[0] == losses[1], losses


@pytest.mark.parametrize(
    "options, message",
    [
        ({"loss": "hinge"}, "no loss is called"),
        ({"loss": None}, "not one number"),
        ({"loss": "mse", "exporter": "onnxscript"}, "no exporter is called"),
        ({"loss": "mse", "dynamic_batch": "any"}, "dynamic_batch is 'any'"),
        ({"loss": "mse", "labels": torch.zeros(3, 4)}, "batches of 3, 4"),
        ({"loss": "mse", "input_names": ["a", "b"]}, "2 input names for 1"),
    ],
)
def test_errors_leave_nothing_behind(tmp_path: Path, options, message: str) -> None:
    with pytest.raises(actc.ExportError, match=message):
        actc.export(mlp(), torch.randn(4, 12), tmp_path / "m.onnx", check=False, **options)
    assert list(tmp_path.iterdir()) == []


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(6, 3)\n")
    command = [
        sys.executable,
        "-m",
        "actc",
        "mine:net",
        "--input",
        "4x6",
        "-o",
        "m.onnx",
        "--loss",
        "cross-entropy",
        "--no-check",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "21 trained numbers" in done.stdout, done.stderr
    named = command[:5] + ["input=4x6"] + command[6:]
    done = subprocess.run(named, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "inputs input, label" in done.stdout, done.stderr
    done = subprocess.run(command[:3] + ["mine:nothing"] + command[4:], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "error:" in done.stderr and "hint:" in done.stderr
