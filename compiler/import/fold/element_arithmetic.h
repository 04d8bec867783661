// Arithmetic on known integers, which are polynomials in the batch size N. A result is nullopt where it
// is no polynomial in N (a maximum that depends on N), or is too large.
#pragma once

#include <optional>

#include "compiler/import/known/known.h"

namespace act::onnx_import {

using OptionalDim = std::optional<Dim>;
using OptionalElement = std::optional<Element>;

// Of elements that may grow with their position.
OptionalElement AddElements(const Element& a, const Element& b);
OptionalElement SubElements(const Element& a, const Element& b);
OptionalElement MulElements(const Element& a, const Element& b);

// a / b toward zero, as ONNX's.
OptionalDim DivDims(const Dim& a, const Dim& b);
// The remainder with the sign of the dividend, and with the sign of the divisor.
OptionalDim RemDims(const Dim& a, const Dim& b);
OptionalDim ModDims(const Dim& a, const Dim& b);
OptionalDim MaxDims(const Dim& a, const Dim& b);
OptionalDim MinDims(const Dim& a, const Dim& b);
OptionalDim PowDims(const Dim& a, const Dim& b);
// Logic: any number but 0 is true. The results are 0 or 1.
OptionalDim AndDims(const Dim& a, const Dim& b);
OptionalDim OrDims(const Dim& a, const Dim& b);
OptionalDim XorDims(const Dim& a, const Dim& b);

// The low bits of an integer, which a type of that width stores.
int64_t Wrapped(int64_t value, DType to);
// The number of the type that is nearest: what a cast from float gives.
int64_t Clamped(int64_t value, DType to);

}  // namespace act::onnx_import
