"""Functions that are written out for the exporters compute what PyTorch's do."""

from __future__ import annotations

import math
from typing import Tuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from actc._written_out import written_out


def test_label_smoothing_is_pytorchs() -> None:
    x, classes = torch.randn(6, 5, 3), torch.randint(0, 5, (6, 3))
    classes[0, 0] = -100
    probabilities = torch.randn(6, 5, 3).softmax(1)
    for y, smoothing in ((classes, 0.2), (probabilities, 0.0), (probabilities, 0.2)):
        for weight in (None, torch.rand(5)):
            for reduction in ("mean", "sum", "none"):
                loss = nn.CrossEntropyLoss(weight, label_smoothing=smoothing, reduction=reduction)
                expected = loss(x, y)
                with written_out():
                    torch.testing.assert_close(loss(x, y), expected)
                assert torch.equal(loss(x, y), expected)


def test_binary_cross_entropy_is_pytorchs() -> None:
    """Its gradient, too, also where the logarithms have none."""
    start = torch.tensor([0.0, 1e-30, 1e-9, 0.3, 0.5, 1.0 - 1e-7, 1.0])

    def step(y: torch.Tensor, **options: object) -> Tuple[torch.Tensor, torch.Tensor]:
        p = start.clone().requires_grad_()
        loss = F.binary_cross_entropy(p, y, **options)
        loss.sum().backward()
        return loss.detach(), p.grad

    for y in (torch.zeros(7), torch.ones(7), torch.rand(7)):
        for weight in (None, torch.rand(7)):
            for reduction in ("mean", "sum", "none"):
                expected = step(y, weight=weight, reduction=reduction)
                with written_out():
                    torch.testing.assert_close(step(y, weight=weight, reduction=reduction), expected)
                assert torch.isfinite(expected[1]).all()


def test_ctc_loss_is_pytorchs() -> None:
    """Its gradient, too, after the log-softmax that it is for."""
    scores = torch.randn(9, 6, 5, dtype=torch.float64)
    targets = torch.tensor([[1, 2, 3], [2, 2, 2], [1, 1, -1], [4, -1, -1], [-1, -1, -1], [3, 4, 3]])
    labels, steps = torch.tensor([3, 3, 2, 1, 0, 3]), torch.tensor([9, 9, 5, 7, 4, 3])

    def step(blank: int, reduction: str, **options: bool) -> Tuple[torch.Tensor, torch.Tensor]:
        x = scores.clone().requires_grad_()
        y = targets if blank == 0 else torch.where(targets < 0, targets, targets - 1)
        loss = F.ctc_loss(x.log_softmax(2), y, steps, labels, blank, reduction, **options)
        loss.sum().backward()
        return loss.detach(), x.grad

    for blank in (0, 4):
        for reduction in ("mean", "sum", "none"):
            expected = step(blank, reduction)
            with written_out():
                torch.testing.assert_close(step(blank, reduction), expected)
    steps[1] = 4  # three equal labels need five steps
    assert step(0, "none")[0][1] == math.inf
    expected = step(0, "sum", zero_infinity=True)
    with written_out():
        assert step(0, "none")[0][1] > 1e29
        torch.testing.assert_close(step(0, "sum", zero_infinity=True), expected)


def test_bags_of_embeddings_are_pytorchs() -> None:
    table, bags, weights = torch.randn(11, 4), torch.randint(0, 11, (5, 3)), torch.rand(5, 3)
    bags[0] = 2  # of padding alone
    rows = [{"mode": mode, "padding_idx": padding} for mode in ("sum", "mean") for padding in (None, 2, -9)]
    for options in (*rows, {"mode": "max"}, {"mode": "sum", "per_sample_weights": weights}):
        expected = F.embedding_bag(bags, table, **options)
        with written_out():
            torch.testing.assert_close(F.embedding_bag(bags, table, **options), expected)
    flat, starts = bags.reshape(-1), torch.tensor([0, 4, 9])
    expected = F.embedding_bag(flat, table, starts)
    with written_out():
        assert torch.equal(F.embedding_bag(flat, table, starts), expected)


def test_pools_with_a_divisor_are_pytorchs() -> None:
    x = torch.randn(2, 3, 7, 8)
    forms = ({}, {"stride": 1, "padding": (1, 0)}, {"count_include_pad": False, "padding": 1}, {"ceil_mode": True})
    for options in forms:
        for kernel in (2, (2, 3)):
            expected = F.avg_pool2d(x, kernel, divisor_override=3, **options)
            with written_out():
                torch.testing.assert_close(F.avg_pool2d(x, kernel, divisor_override=3, **options), expected)


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"is_causal": True}, {"attn_mask": 0}, {"attn_mask": 1}])
def test_attention_with_dropout_is_pytorchs(options) -> None:
    q, k, v = (torch.randn(2, 4, n, 8) for n in (6, 5, 5))
    if "attn_mask" in options:  # 0: true where a key is seen; 1: added to the scores
        options = {"attn_mask": torch.randn(6, 5) if options["attn_mask"] else torch.rand(2, 1, 6, 5) < 0.8}
    # So few are dropped that none is: what remains is divided by 1 - 1e-9.
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    with written_out():
        assert torch.equal(F.scaled_dot_product_attention(q, k, v, **options), expected)
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=1e-9, **options)
        torch.testing.assert_close(found, expected, equal_nan=True)
