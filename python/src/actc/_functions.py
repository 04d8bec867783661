"""Functions of torch that an exporter lacks, and where PyTorch has them."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch.nn import functional as F

from . import _function_forms as forms
from . import _layer_forms, _maker_forms
from . import _matrix_forms as matrix
from . import _quantized_forms as quantized
from . import _special_forms as special
from . import _spread_forms as spread
from ._complex import Complex
from ._fourier_forms import FOURIER

_randperm = torch.randperm

# Where PyTorch has them besides torch and torch.Tensor.
_ALSO: Dict[str, List[Tuple[Any, str]]] = {
    "atan2": [(torch, "arctan2"), (torch.Tensor, "arctan2")],
    "digamma": [(torch.special, "digamma"), (torch.special, "psi")],
    "lgamma": [(torch.special, "gammaln")],
    "threshold": [(F, "threshold")],
    "bilinear": [(F, "bilinear")],
    "channel_shuffle": [(F, "channel_shuffle")],
    "inverse": [(torch.linalg, "inv")],
    "matrix_power": [(torch.linalg, "matrix_power")],
    "pairwise_distance": [(F, "pairwise_distance")],
    **{name: [(torch.linalg, name)] for name in "cholesky slogdet solve solve_triangular".split()},
    "trunc": [(torch, "fix"), (torch.Tensor, "fix")],
    **{name: [(torch.special, name)] for name in "erfinv erfc exp2 ndtr entr sinc xlogy".split()},
}
NEITHER_HAS: Dict[str, Callable[..., Any]] = {
    "atan2": special.atan2,
    "cdist": forms.cdist,  # TorchScript's exporter has it, with an infinite slope where points are equal
    "cholesky": matrix.cholesky,
    "cholesky_inverse": matrix.cholesky_inverse,
    "cholesky_solve": matrix.cholesky_solve,
    "copysign": forms.copysign,
    "cov": forms.cov,
    "cummax": forms.last_of(torch.ge),
    "cummin": forms.last_of(torch.le),
    "cumprod": forms.cumprod,
    "digamma": special.digamma,
    "erfinv": special.erfinv,
    "fake_quantize_per_channel_affine": quantized.fake_quantize_channels,
    "fake_quantize_per_tensor_affine": quantized.fake_quantize,
    "fill_diagonal_": forms.fill_diagonal_,
    "hypot": forms.hypot,
    "inverse": matrix.inverse,
    "kthvalue": forms.kthvalue,
    "lgamma": special.lgamma,
    "logaddexp": forms.logaddexp,  # dynamo's exporter has it, and overflows
    "logaddexp2": forms.logaddexp2,
    "logcumsumexp": forms.logcumsumexp,  # likewise
    "median": forms.median,
    "sinc": forms.sinc,  # dynamo's exporter has it, with NaN gradients at 0
    "slogdet": matrix.slogdet,
    "solve": matrix.solve,
    "solve_triangular": matrix.solve_triangular,
    "std": spread.std,
    "var": spread.var,
}
TORCHSCRIPT_LACKS: Dict[str, Callable[..., Any]] = {
    "addcdiv": forms.addcdiv,
    "addr": forms.addr,
    "bilinear": _layer_forms.bilinear,
    "channel_shuffle": _layer_forms.channel_shuffle,
    "corrcoef": forms.corrcoef,
    "count_nonzero": forms.count_nonzero,
    "deg2rad": lambda x: x * (math.pi / 180),
    "diag_embed": forms.diag_embed,
    "dist": forms.dist,
    "entr": forms.entr,
    "erfc": lambda x: 1 - x.erf(),
    "exp2": lambda x: (x * math.log(2)).exp(),
    "fliplr": lambda x: x.flip((1,)),
    "flipud": lambda x: x.flip((0,)),
    "frac": forms.frac,
    "heaviside": forms.heaviside,
    "inner": forms.inner,
    "isclose": forms.isclose,
    "kron": forms.kron,
    "ldexp": lambda x, other: x * (other * math.log(2)).exp(),
    "matrix_power": forms.matrix_power,
    "msort": lambda x: x.sort(0)[0],
    "nanmean": forms.nanmean,
    "nansum": forms.nansum,
    "ndtr": lambda x: 0.5 * (1 + (x * math.sqrt(0.5)).erf()),
    "pairwise_distance": _layer_forms.pairwise_distance,  # the exporter has another function
    "quantile": forms.quantile,
    "rad2deg": lambda x: x * (180 / math.pi),
    "renorm": forms.renorm,
    "rot90": forms.rot90,
    "select_scatter": forms.select_scatter,
    "slice_scatter": forms.slice_scatter,
    "take_along_dim": forms.take_along_dim,
    "threshold": _layer_forms.threshold,
    "trace": forms.trace,
    "trapezoid": forms.trapezoid,
    "trunc": forms.trunc,
    "vdot": lambda x, other: (x * other).sum(),
    "xlogy": forms.xlogy,
}
DYNAMO_LACKS: Dict[str, Callable[..., Any]] = {}


def _whole(original: Callable[..., Any], form: Callable[..., Any]) -> Callable[..., Any]:
    """The form, and PyTorch's function for arguments that the form does not take."""

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get("input")
        if not isinstance(first, torch.Tensor) or isinstance(first, Complex) or "out" in kwargs:
            return original(*args, **kwargs)
        found = form(first, *args[1:], **{key: x for key, x in kwargs.items() if key != "input"})
        return original(*args, **kwargs) if found is NotImplemented else found

    return function


def replacements(exporter: str) -> List[Tuple[Any, str, Any]]:
    """For each function that the exporter lacks: a module or class of PyTorch that has it, its name there, and what
    it can export instead."""
    lacks = {**NEITHER_HAS, **(DYNAMO_LACKS if exporter == "dynamo" else TORCHSCRIPT_LACKS)}
    found: List[Tuple[Any, str, Any]] = []
    for name, form in lacks.items():
        for owner, attribute in [(torch, name), (torch.Tensor, name), *_ALSO.get(name, [])]:
            if hasattr(owner, attribute):
                found.append((owner, attribute, _whole(getattr(owner, attribute), form)))
    if torch.randperm is _randperm:  # else a check draws nothing
        found.append((torch, "randperm", _maker_forms.randperm))
    if exporter == "dynamo":
        found.append((torch, "hamming_window", _maker_forms.hamming_window))
    if exporter == "torchscript":
        found += [(torch.fft, name, function) for name, function in FOURIER.items()]
        found.append((torch.Tensor, "mT", property(lambda x: x.transpose(-2, -1))))
        found.append((torch.Tensor, "H", property(lambda x: x.mT.conj() if x.is_complex() else x.mT)))
    return found
