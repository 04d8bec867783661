"""Complex numbers, which few operators of ONNX know, as pairs of real tensors.

Rotary embeddings are often products of complex numbers. While a model is exported, its complex tensors are objects
that compute with their two parts. So both exporters see real tensors alone."""

from __future__ import annotations

import contextlib
import functools
import operator
import re
from typing import Any, Callable, Dict, Iterator, Tuple

import torch
from torch import nn

_view_as_complex, _zeros = torch.view_as_complex, torch.zeros

# What is true of a complex tensor if it is of its parts.
_ASKED = set("shape size dim ndim numel device layout is_cuda is_contiguous __len__".split())
# What is done to each part alone: functions that choose, move and add elements.
_EACH = set(
    "__getitem__ __neg__ broadcast_to cat chunk clone concat contiguous cpu cuda cumsum detach expand expand_as "
    "flatten flip gather index_select mT mean movedim narrow neg permute repeat repeat_interleave reshape "
    "resolve_conj roll select split squeeze stack sum swapaxes t T take_along_dim tile to transpose tril triu unbind "
    "unflatten unsqueeze view view_as zeros_like".split()
)
# Likewise, with numbers among the operands. The imaginary part of a real number is 0.
_SUMS = set("add __add__ __radd__ sub __sub__ __rsub__ rsub subtract masked_fill where".split())
_IN_PLACE = re.compile(r"__set(item)?__|__i(add|sub|mul|matmul|truediv|div|pow)__|\w*[^_]_")


class Complex(torch.Tensor):
    """A complex tensor of any shape as its real and its imaginary part, `re` and `im` of this shape.

    Functions without a form here get PyTorch's complex tensor. The error is then what an exporter says of it.
    Errors: NotImplementedError for what changes it in place other than by an index, since PyTorch's tensor would be a
    copy."""

    re: torch.Tensor
    im: torch.Tensor

    def __new__(cls, re: torch.Tensor, im: torch.Tensor) -> Complex:
        # The shape of this object is never read: a trace finds the batch in the shapes of the parts.
        self: Complex = torch.Tensor._make_wrapper_subclass(cls, (), dtype=re.dtype.to_complex(), device=re.device)
        self.re, self.im = re, im
        return self

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        asked = func.__self__ if func.__name__ == "__get__" else func  # type: ignore[attr-defined]
        name = getattr(asked, "__name__", "")  # a property of Python has none
        if name == "__setitem__" and isinstance(args[0], Complex):
            return _assign(*args)
        if _IN_PLACE.fullmatch(name) or "out" in kwargs:
            raise NotImplementedError(f"complex numbers changed in place are not supported: {name}")
        if name in _ASKED:
            return func(args[0].re, *args[1:], **kwargs)
        result = NotImplemented
        if name in _EACH:
            result = _each(func, args, kwargs)
        elif name in _SUMS and not kwargs:
            result = _each(func, [complex(x) if isinstance(x, (int, float)) else x for x in args], kwargs)
        elif name in _FORMS and not kwargs:
            result = _FORMS[name](func, *args)
        return func(*_map(_native, args), **_map(_native, kwargs)) if result is NotImplemented else result

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{func} of complex numbers is not supported")


def _map(function: Callable[[Any], Any], values: Any) -> Any:
    """`values` with the function's result for each that they contain."""
    if isinstance(values, dict):
        return {key: _map(function, value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return (list if isinstance(values, list) else tuple)(_map(function, value) for value in values)
    return function(values)


def _native(x: Any) -> Any:
    return _view_as_complex(torch.stack([x.re, x.im], -1)) if isinstance(x, Complex) else x


def parts_of(x: Any) -> Tuple[Any, Any]:
    """Real and imaginary part of a tensor or number; None for that of a real one."""
    if isinstance(x, Complex):
        return x.re, x.im
    if isinstance(x, torch.Tensor) and x.is_complex():  # of a function without a form here
        pair = torch.view_as_real(x)
        return pair[..., 0], pair[..., 1]
    return (x.real, x.imag) if isinstance(x, complex) else (x, None)


def _each(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The function of the real parts and of the imaginary ones, which are 0 of a real tensor."""

    def real(x: Any) -> Any:
        return x.to_real() if isinstance(x, torch.dtype) else parts_of(x)[0]

    def imaginary(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return torch.zeros_like(x)
        return real(x) if parts_of(x)[1] is None else parts_of(x)[1]

    read = [*args, *kwargs.values()]
    if any(isinstance(x, torch.dtype) and not x.is_complex for x in read):
        return NotImplemented
    re, im = (func(*_map(part, args), **_map(part, kwargs)) for part in (real, imaginary))
    return Complex(re, im) if isinstance(re, torch.Tensor) else tuple(map(Complex, re, im))


def _assign(z: Complex, index: Any, value: Any) -> None:
    """z[index] = value. Views of z have views of its parts, and see it."""
    re, im = parts_of(value)
    z.re[index] = re
    z.im[index] = 0.0 if im is None else im


def _einsum(func: Callable[..., Any], equation: Any, *operands: Any) -> Any:
    if len(operands) != 2:
        return NotImplemented
    return _product(functools.partial(func, equation), *operands)


def _product(func: Callable[..., Any], a: Any, b: Any) -> Complex:
    (ar, ai), (br, bi) = parts_of(a), parts_of(b)
    if bi is None:
        return Complex(func(ar, br), func(ai, br))
    if ai is None:
        return Complex(func(ar, br), func(ar, bi))
    return Complex(func(ar, br) - func(ai, bi), func(ar, bi) + func(ai, br))


def _quotient(func: Callable[..., Any], a: Any, b: Any) -> Complex:
    br, bi = parts_of(b)
    if bi is None:
        return Complex(func(a.re, br), func(a.im, br))
    size = br * br + bi * bi
    return _product(operator.mul, a, Complex(br / size, -bi / size))


def _power(func: Callable[..., Any], z: Complex, exponent: Any = 2) -> Any:
    if not isinstance(exponent, int) or exponent < 1:
        return NotImplemented
    return functools.reduce(functools.partial(_product, operator.mul), [z] * exponent)


def _size(func: Callable[..., Any], z: Complex) -> torch.Tensor:
    square = z.re * z.re + z.im * z.im
    none = square == 0  # where the gradient is 0, as in PyTorch
    return torch.where(none, torch.zeros_like(square), torch.where(none, torch.ones_like(square), square).sqrt())


def _exported_view_as_complex(input: torch.Tensor) -> Complex:
    return Complex(input[..., 0], input[..., 1])


def _exported_complex(real: torch.Tensor, imag: torch.Tensor) -> Complex:
    re, im = torch.broadcast_tensors(real, imag)  # type: ignore[no-untyped-call]
    return Complex(re.clone(), im.clone())  # what is changed in it changes no operand


def _filled(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.zeros or torch.ones: of complex numbers, a real part like that and an imaginary part of zeros."""

    def function(*sizes: Any, dtype: Any = None, **options: Any) -> Any:
        if dtype is None or not dtype.is_complex:
            return original(*sizes, dtype=dtype, **options)
        real = dtype.to_real()
        return Complex(original(*sizes, dtype=real, **options), _zeros(*sizes, dtype=real, **options))

    return function


def _exported_polar(abs: torch.Tensor, angle: torch.Tensor) -> Complex:
    return Complex(abs * torch.cos(angle), abs * torch.sin(angle))


_FORMS: Dict[str, Callable[..., Any]] = {
    **dict.fromkeys("mul __mul__ __rmul__ multiply matmul __matmul__ __rmatmul__ mm bmm outer".split(), _product),
    **dict.fromkeys("div __div__ __truediv__ divide true_divide".split(), _quotient),
    **dict.fromkeys("pow __pow__ square".split(), _power),
    **dict.fromkeys("conj conj_physical".split(), lambda func, z: Complex(z.re, -z.im)),
    **dict.fromkeys("reciprocal __rdiv__ __rtruediv__".split(), lambda func, z, x=1: _quotient(operator.truediv, x, z)),
    **dict.fromkeys("abs __abs__ absolute".split(), _size),
    "einsum": _einsum,
    "angle": lambda func, z: torch.atan2(z.im, z.re),
    "exp": lambda func, z: _exported_polar(z.re.exp(), z.im),
    "real": lambda func, z: z.re,
    "imag": lambda func, z: z.im,
    "view_as_real": lambda func, z: torch.stack([z.re, z.im], -1),
    "dtype": lambda func, z: z.re.dtype.to_complex(),
    "requires_grad": lambda func, z: z.re.requires_grad or z.im.requires_grad,
    "__iter__": lambda func, z: iter(z.unbind(0)),
    "is_complex": lambda func, z: True,
    "is_floating_point": lambda func, z: False,
}
_MAKERS = {
    "view_as_complex": _exported_view_as_complex,
    "complex": _exported_complex,
    "polar": _exported_polar,
    "zeros": _filled(torch.zeros),
    "ones": _filled(torch.ones),
}


_OF_MODULES = set(vars(nn.Module()))  # what each module has: its parameters, its hooks


def _holds_complex(x: Any) -> bool:
    """Whether it is a complex tensor, or a list, tuple or dict with one."""
    if type(x) in (list, tuple, dict):
        return any(map(_holds_complex, x.values() if isinstance(x, dict) else x))
    return isinstance(x, torch.Tensor) and x.is_complex()


@contextlib.contextmanager
def complex_as_pairs(module: nn.Module) -> Iterator[None]:
    """While it lasts, functions that make complex tensors of real ones make pairs, and complex tensors that
    `module` holds, as buffers or in attributes, are pairs. After it the module holds what it held."""
    makers = {name: getattr(torch, name) for name in _MAKERS}
    pairs: Dict[int, Complex] = {}  # one for a tensor that several modules share

    def pair(x: Any) -> Any:
        if not _holds_complex(x):
            return x
        if id(x) not in pairs:
            parts = torch.view_as_real(x.detach().resolve_conj()).unbind(-1)
            pairs[id(x)] = Complex(*(part.contiguous() for part in parts))
        return pairs[id(x)]

    changed = []
    for m in module.modules():
        own = {name: x for name, x in vars(m).items() if name not in _OF_MODULES}
        held = {name: x for name, x in {**own, **m._buffers}.items() if _holds_complex(x)}
        if held:
            changed.append((m, held, m._buffers))
    try:
        for m, held, buffers in changed:
            m._buffers = {name: buffer for name, buffer in buffers.items() if name not in held}
            vars(m).update({name: _map(pair, x) for name, x in held.items()})
        for name, function in _MAKERS.items():
            setattr(torch, name, function)
        yield
    finally:
        for name, function in makers.items():
            setattr(torch, name, function)
        for m, held, buffers in changed:
            for name, x in held.items():
                if name in buffers:
                    vars(m).pop(name, None)
                else:
                    vars(m)[name] = x
            m._buffers = buffers
