// Random fused programs with random operands, and their expected results, for property tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference/codec.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "runtime/codec/code_samples.h"
#include "tests/unit/fused_case.h"
#include "tests/unit/row_codecs.h"

namespace act {

using RandomNumbers = std::mt19937;

inline int64_t Pick(RandomNumbers& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// ---- Random programs ----------------------------------------------------------------------------

inline const std::vector<Dims> kSpaces = {
    {},
    {Dim(1)},
    {Dim(0), Dim(3)},
    {Dim::Batch(), Dim(5)},
    {Dim::Batch(), Dim(1000)},
    {Dim::Batch(), Dim(3), Dim(3), Dim(64)},
    {Dim(7), Dim(33)},
    {Dim::Batch(), Dim(7), Dim(5), Dim(48)},
    {Dim(2500)},
    {Dim::Batch(), Dim(0)},
    {Dim(2), Dim(9000)},
    {Dim::Batch(), Dim(4), Dim(1024)},
    {Dim(13), Dim::Batch()},
    {Dim::Batch(), Dim(1), Dim(257)},
    {Dim::Batch(), Dim(6), Dim(768)},
    {Dim::Batch(), Dim(2), Dim(2500)},
    {Dim(3), Dim::Batch(), Dim(32)},
    {Dim::Batch(), Dim(300), Dim(1)},
};
inline const std::vector<DType> kTypes = {DType::kFloat32, DType::kFloat32, DType::kFloat32,
                                          DType::kInt64,   DType::kInt32,   DType::kUint8,
                                          DType::kBool,    DType::kFloat64, DType::kBFloat16};

// Dims that broadcast to the space: leading axes are left out, others are 1.
inline Dims BroadcastDims(RandomNumbers& random, const Dims& space) {
  const int64_t form = Pick(random, 0, 3);
  if (form == 0) return space;
  Dims dims(space.begin() + (space.empty() ? 0 : Pick(random, 0, static_cast<int64_t>(space.size()))),
            space.end());
  for (Dim& d : dims)
    if (form == 1 && Pick(random, 0, 1) == 0) d = Dim(1);
  if (form == 3 && dims.size() < space.size()) dims.insert(dims.begin(), Dim(1));
  return dims;
}

inline Codec PickCodec(RandomNumbers& random) {
  const int64_t group = int64_t{64} << Pick(random, 0, 4);
  if (Pick(random, 0, 3) == 0) return Codec::Mask();
  if (Pick(random, 0, 4) == 0) return Codec::Index(static_cast<int>(Pick(random, 1, 8)));
  if (Pick(random, 0, 4) == 0) {
    const std::vector<Codec> codecs = CastsAndGroups();
    return codecs[static_cast<size_t>(Pick(random, 0, static_cast<int>(codecs.size()) - 1))];
  }
  const Codec plain = Codec::Uniform(static_cast<int>(Pick(random, 1, 8)), group);
  // Any levels, rounding, metadata and spacing that are allowed together.
  Codec codec = plain;
  const CodecKind kinds[] = {CodecKind::kUniform, CodecKind::kSign, CodecKind::kZero};
  codec.kind = kinds[Pick(random, 0, 2)];
  codec =
      codec.OfLevels(static_cast<int>(Pick(random, 2, 40))).With(static_cast<Metadata>(Pick(random, 0, 3)));
  codec.rounding = static_cast<Rounding>(Pick(random, 0, 2));
  if (codec.kind == CodecKind::kSign) codec.below = static_cast<int32_t>(Pick(random, 2, codec.levels));
  if (Pick(random, 0, 2) == 0) codec.spacing = static_cast<Spacing>(Pick(random, 1, kFittedSpacingCount));
  return CheckCodec(codec) ? plain : codec;
}

// Opcodes whose results are steps in their operands have a test of their own: a difference in the
// last bit of their operand would make a large one in their result. Every other opcode is within a
// few units in the last place of the reference.
inline Instr PickInstr(RandomNumbers& random, int32_t registers) {
  static const std::vector<Opcode> kOps = {Opcode::kAdd,    Opcode::kSub,  Opcode::kMul,     Opcode::kDiv,
                                           Opcode::kFma,    Opcode::kMax,  Opcode::kMin,     Opcode::kNeg,
                                           Opcode::kAbs,    Opcode::kTanh, Opcode::kSigmoid, Opcode::kErf,
                                           Opcode::kDropout};
  Instr instr;
  instr.op = kOps[static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(kOps.size()) - 1))];
  const auto operand = [&] { return static_cast<int32_t>(Pick(random, 0, registers - 1)); };
  instr.a = operand();
  if (Arity(instr.op) > 1) instr.b = operand();
  if (Arity(instr.op) > 2) instr.c = operand();
  if (instr.op == Opcode::kDropout) {
    instr.parameter = 0.25f;
    instr.stream = static_cast<int32_t>(Pick(random, 0, 100));
  }
  return instr;
}

struct RandomCase {
  Program program;
  std::vector<TensorType> inputs, outputs;
  int64_t batch = 1;

  // The register that one more instruction makes.
  int32_t Op(Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) {
    program.instrs.push_back({op, a, b, c});
    return program.Registers() - 1;
  }
  // Adds one more result, of the whole space.
  void Store(int32_t reg, DType dtype = DType::kFloat32) {
    program.outputs.push_back({OutputKind::kStore, reg, {}, 0});
    outputs.push_back({dtype, program.space});
  }
};

// The mean of each row of a register, whose error is no larger than that of its elements, or the
// largest element.
inline void AddRowInstrs(RandomNumbers& random, Program& p, int32_t inverse_row) {
  const auto a = static_cast<int32_t>(Pick(random, 0, p.Registers() - 1));
  const bool mean = Pick(random, 0, 1) != 0;
  if (mean) p.instrs.push_back({Opcode::kMul, a, inverse_row});
  p.instrs.push_back({mean ? Opcode::kRowSum : Opcode::kRowMax, mean ? p.Registers() - 1 : a});
}

inline Dims RowDims(const Program& p, bool ones) {
  Dims dims(p.space.begin(), p.space.end() - p.row_axes);
  if (ones) dims.resize(p.space.size(), Dim(1));
  return dims;
}

inline RandomCase AnyRandomCase(RandomNumbers& random) {
  RandomCase c;
  Program& p = c.program;
  p.space = kSpaces[static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(kSpaces.size()) - 1))];
  c.batch = Pick(random, 1, 5);
  const bool codes = SamplesOf(p.space).elements.IsFixed();
  if (!p.space.empty() && Pick(random, 0, 1) == 0) {
    p.row_axes = static_cast<int32_t>(Pick(random, 1, static_cast<int64_t>(p.space.size())));
    if (!RowElements(p.space, p.row_axes)) p.row_axes = 0;
  }
  const auto pick_type = [&random] {
    return kTypes[static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(kTypes.size()) - 1))];
  };
  for (int64_t i = Pick(random, 1, 5); i > 0; --i) {
    ProgramInput input;
    if (codes && Pick(random, 0, 4) == 0) input.codec = PickCodec(random);
    p.inputs.push_back(input);
    const bool row = p.row_axes > 0 && Pick(random, 0, 3) == 0;
    c.inputs.push_back({pick_type(), row ? RowDims(p, true) : BroadcastDims(random, p.space)});
  }
  for (int64_t i = Pick(random, 0, 2); i > 0; --i)
    p.constants.push_back({static_cast<float>(Pick(random, -2, 2)), Pick(random, 0, 1) ? Dim(0, 2) : Dim(0)});
  const int32_t inverse_row = p.FirstInstr();
  if (p.row_axes > 0)
    p.constants.push_back({1.0f / static_cast<float>(*RowElements(p.space, p.row_axes)), Dim(0)});
  for (int64_t i = Pick(random, 0, 12); i > 0; --i) {
    if (p.row_axes > 0 && Pick(random, 0, 3) == 0)
      AddRowInstrs(random, p, inverse_row);
    else
      p.instrs.push_back(PickInstr(random, p.Registers()));
  }
  for (int64_t i = Pick(random, 1, 4); i > 0; --i) {
    ProgramOutput output;
    output.reg = static_cast<int32_t>(Pick(random, 0, p.Registers() - 1));
    output.kind = static_cast<OutputKind>(Pick(random, 0, codes ? 2 : 0));
    if (p.row_axes > 0 && Pick(random, 0, 3) == 0) output.kind = OutputKind::kRowStore;
    TensorType type{DType::kFloat32, p.space};
    if (output.kind == OutputKind::kRowStore) type.dims = RowDims(p, Pick(random, 0, 1) != 0);
    if (output.kind == OutputKind::kEncode) output.codec = PickCodec(random);
    if (output.kind == OutputKind::kSum && !p.space.empty())
      type.dims.erase(type.dims.begin(),
                      type.dims.begin() + Pick(random, 0, static_cast<int64_t>(p.space.size())));
    if (output.kind == OutputKind::kStore && Pick(random, 0, 2) == 0) type.dtype = DType::kBFloat16;
    p.outputs.push_back(output);
    c.outputs.push_back(type);
    // The register from which a code was made, so that codes can be checked to the byte despite
    // earlier rounding. So can bfloat16, where its register is a result too.
    if (output.kind == OutputKind::kEncode || (type.dtype == DType::kBFloat16 && Pick(random, 0, 1) == 0)) {
      p.outputs.push_back({OutputKind::kStore, output.reg, {}, 0});
      c.outputs.push_back({DType::kFloat32, p.space});
    }
  }
  return c;
}

// A program whose rows fit a tile, with the codes that it has.
inline RandomCase MakeRandomCase(RandomNumbers& random) {
  for (;;) {
    RandomCase c = AnyRandomCase(random);
    if (TileElements(c.program)) return c;
  }
}

inline void FillNormal(RandomNumbers& random, const TensorView& view) {
  std::normal_distribution<float> normal(0, 2);
  for (int64_t i = 0; i < view.elements; ++i) {
    const float x = normal(random);
    WriteFromFloat(view.dtype, &x, 1, view.as<std::byte>() + i * ByteSize(view.dtype));
  }
}

inline void FillCode(RandomNumbers& random, const TensorView& view, const ProgramInput& input,
                     const Program& program, int64_t batch) {
  const SampleShape shape = CodeSamplesOf(program.space);
  const int64_t elements = shape.elements.fixed, samples = shape.samples.At(batch);
  const int64_t bytes = LayoutOf(input.codec, elements).sample_bytes;
  std::vector<float> x(static_cast<size_t>(elements));
  std::normal_distribution<float> normal(0, 2);
  for (int64_t s = 0; s < samples; ++s) {
    for (float& v : x) v = normal(random);
    EncodeSampleReference(input.codec, {1, 2, 3}, s, elements, x.data(), view.as<uint8_t>() + s * bytes);
  }
}

inline FusedCase Build(RandomNumbers& random, const RandomCase& r) {
  FusedCase c(r.program, r.inputs, r.outputs, r.batch);
  for (size_t i = 0; i < c.input_views.size(); ++i) {
    const ProgramInput& input = r.program.inputs[i];
    const TensorView& view = c.input_views[i];
    if (input.codec.kind == CodecKind::kNone)
      FillNormal(random, view);
    else if (input.codec.HasLevels() || input.codec.IsCast())
      FillCode(random, view, input, r.program, r.batch);
    else  // any bytes are masks or indices
      for (int64_t b = 0; b < view.bytes; ++b)
        view.as<uint8_t>()[b] = static_cast<uint8_t>(Pick(random, 0, 255));
  }
  return c;
}

// The same operands in other memory.
inline FusedCase CopyOf(const RandomCase& r, FusedCase& from) {
  FusedCase c(r.program, r.inputs, r.outputs, r.batch);
  c.state = from.state;
  for (size_t i = 0; i < c.input_views.size(); ++i)
    std::memcpy(c.input_views[i].as<void>(), from.input_views[i].as<void>(),
                static_cast<size_t>(c.input_views[i].bytes));
  return c;
}

// A dozen operations of a few units in the last place (6e-8 each). Cancellation makes the error
// relative to the largest intermediate value, which here is that of the operands (|x| < 10) raised
// by the program itself. So an error is relative to max(|x|, 1), and a sum's error is relative to
// its number of terms.
inline bool IsClose(float x, float expected, double terms = 1) {
  if (std::isnan(x) || std::isnan(expected)) return std::isnan(x) == std::isnan(expected);
  if (std::isinf(x) || std::isinf(expected)) return std::fabs(x) > 1e30f && std::fabs(expected) > 1e30f;
  return std::fabs(x - expected) <= 2e-5 * terms * std::max(1.0f, std::fabs(expected));
}

inline void ExpectCode(const RandomCase& r, FusedCase& c, size_t i) {
  const Codec& codec = r.program.outputs[i].codec;
  const SampleShape shape = CodeSamplesOf(r.program.space);
  const int64_t elements = shape.elements.fixed, samples = shape.samples.At(r.batch);
  const int64_t bytes = LayoutOf(codec, elements).sample_bytes;
  std::vector<uint8_t> expected(static_cast<size_t>(bytes * samples));
  for (int64_t s = 0; s < samples; ++s)
    EncodeSampleReference(codec,
                          {c.state.seed, c.state.step, static_cast<uint32_t>(r.program.outputs[i].stream)}, s,
                          elements, c.Out(i + 1) + s * elements, expected.data() + s * bytes);
  for (size_t b = 0; b < expected.size(); ++b)
    ASSERT_EQ(c.output_views[i].as<uint8_t>()[b], expected[b]) << "byte " << b << " of " << ToString(codec);
}

// The next result, if it is the float32 register from which result i was rounded; else null.
inline const float* RegisterOf(const RandomCase& r, FusedCase& c, size_t i) {
  const std::vector<ProgramOutput>& outputs = r.program.outputs;
  const bool stored = i + 1 < outputs.size() && outputs[i + 1].reg == outputs[i].reg &&
                      outputs[i + 1].kind == OutputKind::kStore && r.outputs[i + 1].dtype == DType::kFloat32;
  return stored ? c.Out(i + 1) : nullptr;
}

// The nearest bfloat16 of the register. Where the register is not a result, its error may take it to the
// other side of a tie: then the next bfloat16, 2^-7 of it away, is right too.
inline void ExpectBFloat16s(const RandomCase& r, FusedCase& fast, FusedCase& truth, size_t i) {
  const auto *made = fast.output_views[i].as<BFloat16>(), *expected = truth.output_views[i].as<BFloat16>();
  const float* exact = RegisterOf(r, fast, i);
  for (int64_t e = 0; e < fast.output_views[i].elements; ++e) {
    const float x = ToFloat(made[e]), y = ToFloat(expected[e]);
    if (exact) {
      ASSERT_EQ(made[e].bits, FromFloat<BFloat16>(exact[e]).bits) << "out" << i << "[" << e << "]";
    } else {
      ASSERT_TRUE(IsClose(x, y) || std::fabs(x - y) <= 0x1p-7f * std::fabs(y))
          << "out" << i << "[" << e << "] = " << x << ", reference " << y;
    }
  }
}

inline void ExpectSameResults(const RandomCase& r, FusedCase& fast, FusedCase& truth) {
  for (size_t i = 0; i < r.program.outputs.size(); ++i) {
    const ProgramOutput& output = r.program.outputs[i];
    if (output.kind == OutputKind::kEncode) {
      ExpectCode(r, fast, i);
      continue;
    }
    if (r.outputs[i].dtype == DType::kBFloat16) {
      ExpectBFloat16s(r, fast, truth, i);
      continue;
    }
    const double columns = static_cast<double>(std::max<int64_t>(1, fast.output_views[i].elements));
    const double terms =
        output.kind == OutputKind::kSum ? 1 + ElementCount(DimsAt(r.program.space, r.batch)) / columns : 1;
    for (int64_t e = 0; e < fast.output_views[i].elements; ++e)
      ASSERT_TRUE(IsClose(fast.Out(i)[e], truth.Out(i)[e], terms))
          << "out" << i << "[" << e << "] = " << fast.Out(i)[e] << ", reference " << truth.Out(i)[e];
  }
}

}  // namespace act
