"""Functions that are written out for the exporters compute what PyTorch's do."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Tuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from actc._complex import complex_as_pairs
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
                with written_out("dynamo"):
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
                with written_out("dynamo"):
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
            with written_out("dynamo"):
                torch.testing.assert_close(step(blank, reduction), expected)
    steps[1] = 4  # three equal labels need five steps
    assert step(0, "none")[0][1] == math.inf
    expected = step(0, "sum", zero_infinity=True)
    with written_out("dynamo"):
        assert step(0, "none")[0][1] > 1e29
        torch.testing.assert_close(step(0, "sum", zero_infinity=True), expected)


def test_bags_of_embeddings_are_pytorchs() -> None:
    table, bags, weights = torch.randn(11, 4), torch.randint(0, 11, (5, 3)), torch.rand(5, 3)
    bags[0] = 2  # of padding alone
    rows = [{"mode": mode, "padding_idx": padding} for mode in ("sum", "mean") for padding in (None, 2, -9)]
    for options in (*rows, {"mode": "max"}, {"mode": "sum", "per_sample_weights": weights}):
        expected = F.embedding_bag(bags, table, **options)
        with written_out("dynamo"):
            torch.testing.assert_close(F.embedding_bag(bags, table, **options), expected)
    flat, starts = bags.reshape(-1), torch.tensor([0, 4, 9])
    expected = F.embedding_bag(flat, table, starts)
    with written_out("dynamo"):
        assert torch.equal(F.embedding_bag(flat, table, starts), expected)


def test_pools_with_a_divisor_are_pytorchs() -> None:
    x = torch.randn(2, 3, 7, 8)
    forms = ({}, {"stride": 1, "padding": (1, 0)}, {"count_include_pad": False, "padding": 1}, {"ceil_mode": True})
    for options in forms:
        for kernel in (2, (2, 3)):
            expected = F.avg_pool2d(x, kernel, divisor_override=3, **options)
            with written_out("dynamo"):
                torch.testing.assert_close(F.avg_pool2d(x, kernel, divisor_override=3, **options), expected)


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"is_causal": True}, {"attn_mask": 0}, {"attn_mask": 1}])
def test_attention_with_dropout_is_pytorchs(options) -> None:
    q, k, v = (torch.randn(2, 4, n, 8) for n in (6, 5, 5))
    if "attn_mask" in options:  # 0: true where a key is seen; 1: added to the scores
        options = {"attn_mask": torch.randn(6, 5) if options["attn_mask"] else torch.rand(2, 1, 6, 5) < 0.8}
    # So few are dropped that none is: what remains is divided by 1 - 1e-9.
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    with written_out("dynamo"):
        assert torch.equal(F.scaled_dot_product_attention(q, k, v, **options), expected)
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=1e-9, **options)
        torch.testing.assert_close(found, expected, equal_nan=True)


def _step(function: Callable[[torch.Tensor], Any], start: torch.Tensor) -> Tuple[Any, torch.Tensor]:
    """What a function makes of x, and the gradient of a sum of it."""
    x = start.clone().requires_grad_()
    made = function(x)
    made = list(made) if isinstance(made, (tuple, list)) else [made]
    reals = [torch.view_as_real(y) if y.is_complex() else y for y in made]
    (gradient,) = torch.autograd.grad(sum(y.sin().sum() for y in reals if y.is_floating_point()), x)
    return [y.detach() for y in reals], gradient


def _ties(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).round() / 2 + 0 * x


FUNCTIONS: Dict[str, Callable[[torch.Tensor], Any]] = {
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=2),
    "addr": lambda x: torch.addr(x[0], x[0, :, 0], x[0, 0], beta=0.5, alpha=2),
    "atan2": lambda x: torch.atan2(x, x.flip(1)) + _ties(x).arctan2(_ties(x.flip(2))),
    "bilinear": lambda x: F.bilinear(x, x[..., :5], torch.arange(90.0).reshape(3, 6, 5).cos(), x[0, 0, :3]),
    "channel_shuffle": lambda x: F.channel_shuffle(x.transpose(1, 2), 3),
    "copysign": lambda x: torch.copysign(x, torch.tensor([0.0, -0.0, 1, -2, 3, -4])) + x.copysign(-1.0),
    "corrcoef": lambda x: torch.corrcoef(x[0]),
    "count_nonzero": lambda x: x * (x > 0).count_nonzero(1)[:, None] + torch.count_nonzero(x),
    "cov": lambda x: torch.cov(x[0]) + x[0].cov(correction=0),
    "cummax": lambda x: _ties(x).cummax(1),
    "cummin": lambda x: torch.cummin(_ties(x), dim=-1).values,
    "cumprod": lambda x: _ties(x).cumprod(2),
    "diag_embed": lambda x: (
        torch.diag_embed(x) + torch.diag_embed(x, -2, 0, 2)[:4, :6, :6].mean() + x.diag_embed(1).sum()
    ),
    "digamma": lambda x: torch.digamma(x * 3) + torch.special.psi(x * x * 40 + 0.01),
    "dist": lambda x: torch.dist(x, x.flip(1), 1.5),
    "entr": lambda x: torch.special.entr(x.sigmoid()),
    "erfc": lambda x: torch.special.erfc(x) + x.erfc(),
    "erfinv": lambda x: torch.erfinv(x.tanh() * 0.999),
    "exp2": lambda x: x.exp2(),
    "fliplr": lambda x: x.fliplr() + 2 * torch.flipud(x),
    "frac": lambda x: (x * 3).frac(),
    "heaviside": lambda x: x * torch.heaviside(_ties(x).detach(), torch.tensor(0.5)),
    "hypot": lambda x: torch.hypot(x, x.flip(2)),
    "inner": lambda x: torch.inner(x, x[0]) + torch.inner(x[0, 0], x[1, 1]),
    "isclose": lambda x: x * torch.isclose(x, _ties(x), atol=0.1),
    "kron": lambda x: torch.kron(x[0], x[1, 0]),
    "kthvalue": lambda x: [*x.kthvalue(2, 1), torch.kthvalue(x, 3, keepdim=True).values],
    "ldexp": lambda x: torch.ldexp(x, torch.tensor([1, 2, 0, -1, 3, 1])),
    "lgamma": lambda x: torch.lgamma(x * 3) + torch.special.gammaln(x * x * 40 + 0.01),
    "logaddexp": lambda x: torch.logaddexp(x, x[:, :1]) + torch.logaddexp2(x, x.flip(1)),
    "logcumsumexp": lambda x: (x * 40).logcumsumexp(1),
    "matrix_power": lambda x: torch.linalg.matrix_power(0.1 * x @ x.transpose(1, 2), 5),
    "median": lambda x: [*x.median(1), torch.median(x, 2, keepdim=True).values, x[:3].median()],
    "msort": lambda x: x.msort(),
    "nanmean": lambda x: torch.where(x > 1, math.nan, x).nanmean(1) + x.nanmean(),
    "nansum": lambda x: torch.where(x > 1, math.nan, x).nansum((1, 2)) + torch.nansum(x),
    "ndtr": lambda x: torch.special.ndtr(x),
    "pairwise_distance": lambda x: (
        torch.pairwise_distance(x, x.flip(1)) + F.pairwise_distance(x, x[0], 1, 0.1, keepdim=True).mean(2)
    ),
    "quantile": lambda x: x.quantile(0.3, dim=2) + torch.quantile(x, 1.0, 2) + x.quantile(0, 1, keepdim=True).mean(),
    "rad2deg": lambda x: torch.rad2deg(x) + x.deg2rad(),
    "renorm": lambda x: x.renorm(2, 1, 2.5),
    "rot90": lambda x: torch.cat([x.rot90(k, (1, 2)).flatten(1) for k in range(-1, 4)], 1),
    "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, -2),
    "sinc": lambda x: _ties(x).sinc(),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :2] * 3, 1, -2) + x.slice_scatter(x[:, :, :3] * 3, 2, 0, 6, 2),
    "take_along_dim": lambda x: torch.take_along_dim(x, x[:, :1].argsort(2), 2) + x.take_along_dim(torch.tensor([3])),
    "threshold": lambda x: F.threshold(x, 0.3, -2) + nn.Threshold(-0.1, 20)(x),
    "trace": lambda x: torch.trace(x[0] @ x[0].T),
    "trapezoid": lambda x: torch.trapezoid(x, dx=2, dim=1).sum(1) + torch.trapezoid(x, x[0, 0] * 2).sum(1),
    "trunc": lambda x: x * (x * 3).trunc() + torch.fix(x),
    "xlogy": lambda x: torch.xlogy(_ties(x), x.abs() + 1) + torch.special.xlogy(_ties(x).clamp(min=0), x.abs()),
    "cdist": lambda x: torch.cdist(x, x[:, :2] + 1) + torch.cdist(x, x[:, :2] + 1, p=1.0),
}


def _positive(a: torch.Tensor) -> torch.Tensor:
    return a @ a.transpose(-1, -2) + torch.eye(5)


# Of x [3, 2, 5, 5], in float64: what is solved by elimination is as far from float32's as its condition says.
MATRICES: Dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky": lambda x: [torch.linalg.cholesky(_positive(x)), torch.linalg.cholesky(_positive(x), upper=True)],
    # Not by way of a product: the gradient of a matrix that is symmetric only as it is.
    "cholesky of a symmetric x": lambda x: torch.linalg.cholesky(torch.eye(5).double() * 9 + x),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(x.tril()) + x.triu().cholesky_inverse(upper=True),
    "cholesky_solve": lambda x: torch.cholesky_solve(x[..., :2], x.tril()) + x[..., 1:3].cholesky_solve(x.triu(), True),
    "inverse": lambda x: torch.inverse(x) + 2 * x.inverse() + 3 * torch.linalg.inv(x[:, :1]),
    "MultivariateNormal": lambda x: torch.distributions.MultivariateNormal(
        x[..., 0], scale_tril=x.tril(-1) + torch.diag_embed(x[..., 1].exp()), validate_args=False
    ).log_prob(x[..., 2]),
    "MultivariateNormal of a covariance": lambda x: torch.distributions.MultivariateNormal(
        x[..., 0], _positive(x), validate_args=False
    ).log_prob(x[..., 2]),
    "slogdet": lambda x: [*torch.linalg.slogdet(x), x.slogdet().logabsdet * 2],
    "solve": lambda x: torch.linalg.solve(x, x[..., :2]) + torch.linalg.solve(x, x[:, 1:, :, 2:4]),
    "solve, vectors": lambda x: [torch.linalg.solve(x, x[..., 1]), torch.linalg.solve(x[0, 0], x[1, 1, 0])],
    "solve, on the right": lambda x: torch.linalg.solve(x, x[..., :2, :], left=False),
    "solve_triangular": lambda x: [
        torch.linalg.solve_triangular(x, x[..., :2], upper=True)
        + torch.linalg.solve_triangular(x[:, :1], x[..., 1:3], upper=False),
        torch.linalg.solve_triangular(x, x[..., :3, :], upper=True, left=False),
        torch.linalg.solve_triangular(x, x[..., :3, :], upper=False, left=False, unitriangular=True),
    ],
}


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices_are_pytorchs(name: str, exporter: str) -> None:
    x = torch.randn(3, 2, 5, 5, dtype=torch.float64)
    if "triangular" in name or name.startswith("cholesky_"):
        x = x + 3 * torch.eye(5).double()
    else:
        x[0, 0, 0, 0] = 0  # the first row is no pivot
    x = x + x.transpose(-1, -2) if "symmetric" in name else x
    expected = _step(MATRICES[name], x)
    with written_out(exporter):
        torch.testing.assert_close(_step(MATRICES[name], x), expected, rtol=1e-9, atol=1e-9)


def test_large_matrices_are_left_to_pytorch() -> None:
    x = torch.randn(70, 70, dtype=torch.float64)
    for function in (torch.inverse, lambda x: torch.linalg.cholesky(x @ x.T), lambda x: torch.linalg.solve(x, x[0])):
        with written_out("torchscript"):
            found = function(x)
        assert torch.equal(found, function(x))


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_pytorchs(name: str, exporter: str) -> None:
    """Their gradients, too, and the named tuples that they return."""
    function, x = FUNCTIONS[name], torch.randn(4, 5, 6)
    # Steep between poles; of differences of numbers up to 100, whose own rounding is 4e-6.
    x = x.double() if name in ("digamma", "lgamma", "logcumsumexp") else x
    expected = _step(function, x)
    with written_out(exporter):
        torch.testing.assert_close(_step(function, x), expected, rtol=3e-5, atol=3e-5)


def test_what_is_replaced_comes_back() -> None:
    before = [dict(vars(owner)) for owner in (torch, torch.Tensor, torch.special, torch.fft, torch.linalg, F)]
    for exporter in ("torchscript", "dynamo"):
        with written_out(exporter):
            assert torch.hypot is not before[0]["hypot"]
            assert "hypot" in vars(torch.Tensor)
    owners = (torch, torch.Tensor, torch.special, torch.fft, torch.linalg, F)
    assert all(dict(vars(owner)) == old for owner, old in zip(owners, before))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_fourier_transforms_are_pytorchs(norm: str) -> None:
    fft, x = torch.fft, torch.randn(3, 5, 6)
    functions = (
        lambda x: fft.fft(x, dim=1, norm=norm),
        lambda x: fft.ifft(fft.fft(x, 7, norm=norm), 4, norm=norm),
        lambda x: fft.rfft(x, norm=norm),
        lambda x: fft.rfft(x, 9, 1, norm),
        lambda x: fft.irfft(fft.rfft(x, norm=norm), norm=norm),
        lambda x: fft.irfft(fft.rfft(x, norm=norm) * torch.complex(x[..., :4], x[..., 2:]), 7, norm=norm),
        lambda x: fft.irfft(x, 8, 1, norm),
        lambda x: fft.fft2(x, norm=norm),
        lambda x: fft.ifft2(x, (4, 6), norm=norm).abs(),
        lambda x: fft.fftn(x, norm=norm),
        lambda x: fft.ifftn(x, (3, -1), norm=norm).angle().cos(),
        lambda x: fft.irfftn(fft.rfftn(x, dim=(0, 2), norm=norm), dim=(0, 2), norm=norm),
        lambda x: fft.irfft2(fft.rfft2(x, norm=norm), (5, 6), norm=norm),
    )

    for function in functions:

        def real(x: torch.Tensor, function: Callable[[torch.Tensor], Any] = function) -> torch.Tensor:
            y = function(x)
            return torch.view_as_real(y) if y.is_complex() else y

        expected = _step(real, x)
        with written_out("torchscript"), complex_as_pairs(nn.Module()):
            torch.testing.assert_close(_step(real, x), expected, rtol=1e-4, atol=1e-4)


def _losses() -> Dict[str, Tuple[Callable[..., torch.Tensor], Tuple[torch.Tensor, ...]]]:
    torch.manual_seed(1)
    x, y, sign = torch.randn(6, 5), torch.randn(6, 5), torch.randn(6, 5).sign()
    classes, rows = torch.randint(0, 5, (6,)), torch.randn(6).sign()
    labels = torch.stack([torch.randperm(5) for _ in range(6)])
    labels[torch.arange(6), torch.tensor([0, 1, 2, 3, 4, 1])] = -1
    weight = torch.rand(5)
    return {
        "l1": (F.l1_loss, (x, y)),
        "smooth_l1": (lambda *a, **k: F.smooth_l1_loss(*a, beta=0.6, **k), (x, y)),
        "smooth_l1 as l1": (lambda *a, **k: F.smooth_l1_loss(*a, beta=0.0, **k), (x, y)),
        "huber": (lambda *a, **k: F.huber_loss(*a, delta=0.6, **k), (x, y)),
        "soft_margin": (F.soft_margin_loss, (x, sign)),
        "hinge_embedding": (lambda *a, **k: F.hinge_embedding_loss(*a, margin=0.4, **k), (x, sign)),
        "margin_ranking": (lambda *a, **k: F.margin_ranking_loss(a[0], y, a[1], margin=0.1, **k), (x, sign)),
        "cosine_embedding": (lambda *a, **k: F.cosine_embedding_loss(a[0], y, a[1], margin=0.1, **k), (x, rows)),
        "triplet": (lambda *a, **k: F.triplet_margin_loss(*a, swap=True, p=1.5, **k), (x, y, y.flip(0))),
        "poisson": (lambda *a, **k: F.poisson_nll_loss(*a, full=True, **k), (x, y.abs() * 3)),
        "poisson (rates)": (lambda *a, **k: F.poisson_nll_loss(a[0].exp(), a[1], log_input=False, **k), (x, y.abs())),
        "gaussian": (lambda *a, **k: F.gaussian_nll_loss(*a, a[0] * 0.4, full=True, **k), (x.abs(), y)),
        "gaussian (of rows)": (lambda *a, **k: F.gaussian_nll_loss(*a, a[0][:, 0] ** 2, **k), (x, y)),
        "multi_margin": (lambda *a, **k: F.multi_margin_loss(*a, weight=weight, **k), (x, classes)),
        "multi_margin (squares)": (lambda *a, **k: F.multi_margin_loss(*a, p=2, margin=0.7, **k), (x, classes)),
        "multilabel_margin": (F.multilabel_margin_loss, (x, labels)),
    }


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", _losses())
def test_losses_are_pytorchs(name: str, exporter: str) -> None:
    function, (x, *others) = _losses()[name]
    for reduction in ("mean", "sum", "none"):
        expected = _step(lambda x: function(x, *others, reduction=reduction), x)
        with written_out(exporter):
            torch.testing.assert_close(_step(lambda x: function(x, *others, reduction=reduction), x), expected)


def test_adaptive_max_pools_are_pytorchs() -> None:
    """Of equal elements the same one has the gradient."""
    pools = (
        lambda x: F.adaptive_max_pool1d(x[0], 5),
        lambda x: F.adaptive_max_pool2d(x, (3, 5)),
        lambda x: F.adaptive_max_pool2d(x, (None, 4)),
        lambda x: F.adaptive_max_pool3d(x[None], (2, 3, 4)),
        lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True)[0],
    )
    x = torch.randn(2, 3, 8, 9).round()
    for pool in pools:
        expected = _step(pool, x)
        with written_out("dynamo"):
            torch.testing.assert_close(_step(pool, x), expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
def test_projected_lstms_are_pytorchs(bias: bool, both_ways: bool) -> None:
    layer = nn.LSTM(6, 5, 2, proj_size=3, bias=bias, bidirectional=both_ways, batch_first=True)
    x = torch.randn(4, 7, 6)

    def run(x: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        y, (h, c) = layer(x)
        return y, h, c

    expected = _step(run, x)
    with written_out("torchscript"):
        torch.testing.assert_close(_step(run, x), expected)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_quantization_in_training_is_pytorchs(exporter: str) -> None:
    """Codes outside their range are among them, and codes right at its ends."""
    x = torch.cat([torch.randn(3, 40), torch.linspace(-1.5, 1.5, 3 * 60).reshape(3, 60)], 1)
    scales, zeros = torch.tensor([0.01, 0.02, 0.004]), torch.tensor([0, 3, -5], dtype=torch.int32)
    functions = (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.01, 4, -100, 100),
        lambda x: torch.fake_quantize_per_tensor_affine(x, scales[1], zeros[1], 0, 15),
        lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -128, 127),
    )
    for function in functions:
        expected = _step(function, x)
        with written_out(exporter):
            torch.testing.assert_close(_step(function, x), expected)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_filled_diagonals_are_pytorchs(exporter: str) -> None:
    for x in (torch.randn(4, 4), torch.randn(3, 5), torch.randn(5, 3)):
        expected = _step(lambda x: (x * 2).fill_diagonal_(0.5), x)
        with written_out(exporter):
            torch.testing.assert_close(_step(lambda x: (x * 2).fill_diagonal_(0.5), x), expected)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_variances_of_all_elements_are_pytorchs(exporter: str) -> None:
    """Also of equal elements, where a deviation's gradient is 0, and those of some axes, which are left alone."""
    functions = (
        lambda x: x.var(),
        lambda x: torch.std(x),
        lambda x: x.std(unbiased=False),
        lambda x: x.var(correction=0) + x.std(False),
        lambda x: x.std(0) + torch.var(x, dim=0),
        lambda x: x.std((0, 1), keepdim=True),
    )
    for x in (torch.randn(4, 5), torch.ones(4, 5)):
        for function in functions:
            expected = _step(function, x)
            with written_out(exporter):
                torch.testing.assert_close(_step(function, x), expected)
