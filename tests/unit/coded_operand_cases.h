// Lookups, products and convolutions of frozen weights that lie in memory as codes, for every backend's kernels.
#pragma once

#include <utility>

#include "kernels/site/strided.h"
#include "runtime/codec/encode_numbers.h"
#include "tests/unit/conv_case.h"
#include "tests/unit/exact_numbers.h"
#include "tests/unit/gather_cases.h"
#include "tests/unit/matmul_case.h"

namespace act {

// The codes of --frozen-weights=8bit and 4bit.
inline const Codec kFrozenCodecs[] = {Codec::Uniform(8, 256, Rounding::kNearest),
                                      Codec::Uniform(4, 64, Rounding::kNearest)};

inline TestTensor CodeOf(const TestTensor& numbers, const Codec& codec) {
  const CodedParameter coded{codec, {DType::kFloat32, Dims(numbers.dims.begin(), numbers.dims.end())}};
  const TensorType type = *coded.ArenaType();
  TestTensor code = Empty(DimsAt(type.dims, 1), type.dtype);
  EncodeNumbers(codec, numbers.bytes.data(), numbers.elements(), code.bytes);
  code.coded = std::make_shared<const CodedParameter>(coded);
  return code;
}

// Numbers that the codec stores exactly, with a step of 1: each group has the lowest and the highest.
inline TestTensor WholeNumbers(std::vector<int64_t> dims, const Codec& codec) {
  TestTensor t = Empty(std::move(dims));
  std::mt19937 engine(2);
  std::uniform_int_distribution<int> any(-codec.levels / 2, codec.levels / 2 - 1);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const int64_t in_group = i % codec.group_size;
    t.as<float>()[i] = static_cast<float>(in_group == 0   ? any.min()
                                          : in_group == 1 ? any.max()
                                                          : any(engine));
  }
  return t;
}

inline TestTensor AsBFloat16(const TestTensor& wide) {
  TestTensor t = Empty(wide.dims, DType::kBFloat16);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<BFloat16>()[i] = FromFloat<BFloat16>(wide.as<float>()[i]);
  return t;
}

// Calls check(case, the same case of the numbers): rows that begin and end within groups, a group that the weight's end
// cuts, single numbers, another axis, flags, nothing.
template <class Check>
void ForCodedLookups(Check check) {
  const std::vector<Lookup> lookups = {{{30, 70}, {90, 1}, {90, 70}},
                                       {{50, 768}, {200, 1}, {200, 768}},
                                       {{900}, {700}, {700}},
                                       {{12, 40, 30}, {12, 110, 1}, {12, 110, 30}, 1},
                                       {{3, 20, 100}, {3, 20, 90}, {3, 20, 90}, 2},
                                       {{40, 3}, {0, 1}, {0, 3}},
                                       {{1}, {1}, {1}}};
  for (const Codec& codec : kFrozenCodecs)
    for (const Lookup& l : lookups)
      for (const bool flags : {false, true}) {
        OpCase numbers = GatherCase(l);
        if (flags) numbers.inputs.push_back(Flags(l.part[static_cast<size_t>(l.axis)]));
        OpCase coded = numbers;
        coded.inputs[0] = CodeOf(numbers.inputs[0], codec);
        check(coded, numbers);
      }
}

// Of the other operand, and of the result.
inline constexpr std::pair<DType, DType> kCodedTypes[] = {{DType::kFloat32, DType::kFloat32},
                                                          {DType::kBFloat16, DType::kFloat32},
                                                          {DType::kBFloat16, DType::kBFloat16}};

struct CodedProductCase {
  std::vector<int64_t> a, b, y;
  bool trans_a = false, trans_b = false;
};

// Calls check(case): each order of the operands, odd extents, one row, column or term, and folded batches, of numbers
// whose sums are exact. `large`: cases of more than one piece of the weight.
template <class Check>
void ForCodedProducts(const std::vector<CodedProductCase>& large, Check check) {
  std::vector<CodedProductCase> cases = {{{17, 100}, {100, 33}, {17, 33}, false, false},
                                         {{17, 100}, {33, 100}, {17, 33}, false, true},
                                         {{100, 17}, {100, 33}, {17, 33}, true, false},
                                         {{100, 17}, {33, 100}, {17, 33}, true, true},
                                         {{2, 3, 64}, {64, 130}, {2, 3, 130}, false, false},
                                         {{1, 70}, {70, 9}, {1, 9}, false, false},
                                         {{5, 70}, {1, 70}, {5, 1}, false, true},
                                         {{5, 1}, {1, 70}, {5, 70}, false, false},
                                         {{1, 1}, {1, 1}, {1, 1}, false, true}};
  cases.insert(cases.end(), large.begin(), large.end());
  for (const Codec& codec : kFrozenCodecs)
    for (const CodedProductCase& l : cases)
      for (const auto& [a, y] : kCodedTypes) {
        OpCase c = MatMul(l.a, l.b, l.y, l.trans_a, l.trans_b);
        c.inputs[0] = Integers(l.a, 1);
        c.inputs[1] = CodeOf(WholeNumbers(l.b, codec), codec);
        if (a == DType::kBFloat16) c.inputs[0] = AsBFloat16(c.inputs[0]);
        c.outputs[0] = Empty(l.y, y);
        check(c);
      }
}

// The same of dense convolutions and their gradients of x. Those in one type have no bias.
template <class Check>
void ForCodedConvolutions(const std::vector<ConvCase>& large, Check check) {
  std::vector<ConvCase> cases;
  for (const auto& [name, c] : ConvCases())
    if (c.group == 1) cases.push_back(c);
  cases.insert(cases.end(), large.begin(), large.end());
  for (const Codec& codec : kFrozenCodecs)
    for (const ConvCase& l : cases)
      for (const auto& [from, to] : kCodedTypes)
        for (OpCase c : {l.Forward(from != to), l.GradInput()}) {
          c.inputs[0] = Integers(c.inputs[0].dims, 1);
          c.inputs[1] = CodeOf(WholeNumbers(l.WeightDims(), codec), codec);
          if (c.inputs.size() > 2) c.inputs[2] = Integers(c.inputs[2].dims, 3);
          if (from == DType::kBFloat16) c.inputs[0] = AsBFloat16(c.inputs[0]);
          c.outputs[0] = Empty(c.outputs[0].dims, to);
          check(c);
        }
}

inline std::string Describe(const OpCase& c) {
  return c.op + " of " + DimsText(c.inputs[0].dims) + ", " + std::string(ToString(c.inputs[0].dtype)) +
         ", by " + ToString(c.inputs[1].coded->type) + " in " + ToString(c.inputs[1].coded->codec) + " to " +
         std::string(ToString(c.outputs[0].dtype));
}

}  // namespace act
