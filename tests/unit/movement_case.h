// Operators that move elements, as test cases.
#pragma once

#include <numeric>

#include "kernels/site/strided.h"
#include "tests/unit/kernel_testing.h"

namespace act {

using Ints = std::vector<int64_t>;

inline TestTensor Counting(Ints dims) {
  TestTensor t = Empty(std::move(dims));
  std::iota(t.as<float>(), t.as<float>() + t.elements(), 1.0f);
  return t;
}

inline OpCase Transpose(const Ints& in, const Ints& perm, DType dtype) {
  OpCase c{"Transpose", {}, {Empty(in, dtype)}, {}, {}, {}};
  std::mt19937 engine(3);
  // No byte pattern is a NaN.
  for (std::byte& b : c.inputs[0].bytes) b = static_cast<std::byte>(engine() & 0x3f);
  Ints out;
  for (int64_t p : perm) out.push_back(in[static_cast<size_t>(p)]);
  c.outputs = {Empty(out, dtype)};
  c.attrs.Set("perm", perm);
  return c;
}

// Every permutation of four axes, for every size of an element, and shapes of their own.
inline std::vector<OpCase> TransposeCases() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUint8, DType::kFloat16}) {
    Ints perm{0, 1, 2, 3};
    do cases.push_back(Transpose({2, 3, 35, 7}, perm, dtype));
    while (std::next_permutation(perm.begin(), perm.end()));
  }
  cases.push_back(Transpose({5, 3, 67, 66}, {0, 2, 3, 1}, DType::kFloat32));   // an image
  cases.push_back(Transpose({2, 40, 20, 30}, {0, 2, 1, 3}, DType::kFloat32));  // rows
  cases.push_back(Transpose({1, 1, 5, 1}, {3, 2, 1, 0}, DType::kFloat32));
  cases.push_back(Transpose({0, 3, 5}, {2, 0, 1}, DType::kFloat32));
  cases.push_back(Transpose({}, {}, DType::kFloat32));
  return cases;
}

// Four parts along each axis, one of them empty.
inline std::vector<OpCase> ConcatCases() {
  std::vector<OpCase> cases;
  for (int64_t axis = 0; axis < 4; ++axis) {
    OpCase c{"Concat", {}, {}, {}, {}, {}};
    c.attrs.Set("axis", axis);
    Ints out{3, 4, 5, 6};
    out[static_cast<size_t>(axis)] = 0;
    for (int64_t extent : {2, 0, 7, 1}) {
      Ints in{3, 4, 5, 6};
      in[static_cast<size_t>(axis)] = extent;
      out[static_cast<size_t>(axis)] += extent;
      c.inputs.push_back(Random(in, static_cast<unsigned>(extent)));
    }
    c.outputs = {Empty(out)};
    cases.push_back(c);
  }
  return cases;
}

inline OpCase Slice(const Ints& whole, const Ints& part, const Ints& starts, const Ints& steps) {
  OpCase c{"Slice", {}, {Counting(whole)}, {Empty(part)}, {}, {}};
  c.attrs.Set("starts", starts);
  c.attrs.Set("steps", steps);
  return c;
}

inline std::vector<OpCase> SliceCases() {
  return {Slice({3, 9, 8, 5}, {3, 9, 8, 5}, {0, 0, 0, 0}, {1, 1, 1, 1}),
          Slice({20, 30, 100}, {20, 30, 70}, {0, 0, 25}, {1, 1, 1}),
          Slice({3, 9, 8, 5}, {2, 4, 8, 5}, {1, 1, 0, 0}, {1, 2, 1, 1}),
          Slice({3, 9, 8, 5}, {3, 9, 3, 2}, {0, 0, 7, 1}, {1, 1, -2, 2}),
          Slice({3, 9, 8, 5}, {3, 0, 8, 5}, {0, 0, 0, 0}, {1, 1, 1, 1})};
}
inline OpCase SliceGrad(const OpCase& slice) {
  OpCase grad = slice;
  grad.op = "SliceGrad";
  grad.inputs = {Random(slice.outputs[0].dims, 5)};
  grad.outputs = {Empty(slice.inputs[0].dims)};
  return grad;
}

inline OpCase Pad(const Ints& in, const Ints& pads, const std::string& mode, double value = 0) {
  OpCase c{"Pad", {}, {Counting(in)}, {}, {}, {}};
  Ints out;
  for (size_t d = 0; d < in.size(); ++d) out.push_back(in[d] + pads[d] + pads[in.size() + d]);
  c.outputs = {Empty(out)};
  c.attrs.Set("pads", pads);
  c.attrs.Set("mode", mode);
  c.attrs.Set("value", value);
  return c;
}

inline std::vector<OpCase> PadCases() {
  std::vector<OpCase> cases;
  for (const std::string mode : {"constant", "reflect", "edge"}) {
    cases.push_back(Pad({2, 5, 6, 7}, {0, 1, 2, 0, 0, 2, 1, 0}, mode, 3));
    cases.push_back(Pad({2, 5, 6, 7}, {1, 0, -2, 1, 0, 0, 1, 2}, mode, 3));
    cases.push_back(Pad({2, 3}, {0, 0, 0, 0}, mode));
  }
  cases.push_back(Pad({20, 30, 100}, {0, 1, 0, 0, 1, 0}, "constant"));
  cases.push_back(Pad({0, 3}, {0, 1, 0, 0}, "reflect"));
  cases.push_back(Pad({0, 3}, {1, 0, 1, 0}, "constant", 4));
  return cases;
}

}  // namespace act
