#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/math/convert.h"
#include "kernels/reference/codec.h"
#include "tests/unit/each_target.h"
#include "tests/unit/fused_case.h"

namespace act {
namespace {

using Random = std::mt19937;

int64_t Pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// ---- Random programs
// ---------------------------------------------------------------------------------------------------

const std::vector<Dims> kSpaces = {
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
};
const std::vector<DType> kTypes = {DType::kFloat32, DType::kFloat32, DType::kFloat32,
                                   DType::kInt64,   DType::kInt32,   DType::kUint8,
                                   DType::kBool,    DType::kFloat64, DType::kBFloat16};

// Dims that broadcast to the space: leading axes left out, others made 1.
Dims BroadcastDims(Random& random, const Dims& space) {
  const int64_t form = Pick(random, 0, 3);
  if (form == 0) return space;
  Dims dims(space.begin() + (space.empty() ? 0 : Pick(random, 0, static_cast<int64_t>(space.size()))),
            space.end());
  for (Dim& d : dims)
    if (form == 1 && Pick(random, 0, 1) == 0) d = Dim(1);
  if (form == 3 && dims.size() < space.size()) dims.insert(dims.begin(), Dim(1));
  return dims;
}

Codec PickCodec(Random& random) {
  const int64_t group = int64_t{64} << Pick(random, 0, 4);
  if (Pick(random, 0, 2) == 0) return Codec::Mask();
  if (Pick(random, 0, 3) == 0) return Codec::Index(static_cast<int>(Pick(random, 1, 8)));
  return Codec::Uniform(static_cast<int>(Pick(random, 1, 8)), group);
}

// Opcodes whose results are steps in their operands are left to their own test: a last-bit difference in
// front of them would be a large one behind. All others are within a few units in the last place of the
// reference, each.
Instr PickInstr(Random& random, int32_t registers) {
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
};

RandomCase MakeRandomCase(Random& random) {
  RandomCase c;
  Program& p = c.program;
  p.space = kSpaces[static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(kSpaces.size()) - 1))];
  c.batch = Pick(random, 1, 5);
  const bool codes = SamplesOf(p.space).elements.IsFixed();
  const auto pick_type = [&random] {
    return kTypes[static_cast<size_t>(Pick(random, 0, static_cast<int64_t>(kTypes.size()) - 1))];
  };
  for (int64_t i = Pick(random, 1, 5); i > 0; --i) {
    ProgramInput input;
    if (codes && Pick(random, 0, 4) == 0) input.codec = PickCodec(random);
    p.inputs.push_back(input);
    c.inputs.push_back({pick_type(), BroadcastDims(random, p.space)});
  }
  for (int64_t i = Pick(random, 0, 2); i > 0; --i)
    p.constants.push_back({static_cast<float>(Pick(random, -2, 2)), Pick(random, 0, 1) ? Dim(0, 2) : Dim(0)});
  for (int64_t i = Pick(random, 0, 12); i > 0; --i) p.instrs.push_back(PickInstr(random, p.Registers()));
  for (int64_t i = Pick(random, 1, 4); i > 0; --i) {
    ProgramOutput output;
    output.reg = static_cast<int32_t>(Pick(random, 0, p.Registers() - 1));
    output.kind = static_cast<OutputKind>(Pick(random, 0, codes ? 2 : 0));
    TensorType type{DType::kFloat32, p.space};
    if (output.kind == OutputKind::kEncode) output.codec = PickCodec(random);
    if (output.kind == OutputKind::kSum && !p.space.empty())
      type.dims.erase(type.dims.begin(),
                      type.dims.begin() + Pick(random, 0, static_cast<int64_t>(p.space.size())));
    p.outputs.push_back(output);
    c.outputs.push_back(type);
    // The register behind a code, so that codes can be checked to the byte whatever rounding came before.
    if (output.kind == OutputKind::kEncode) {
      p.outputs.push_back({OutputKind::kStore, output.reg, {}, 0});
      c.outputs.push_back({DType::kFloat32, p.space});
    }
  }
  return c;
}

void FillNormal(Random& random, const TensorView& view) {
  std::normal_distribution<float> normal(0, 2);
  for (int64_t i = 0; i < view.elements; ++i) {
    const float x = normal(random);
    WriteFromFloat(view.dtype, &x, 1, view.as<std::byte>() + i * ByteSize(view.dtype));
  }
}

void FillUniformCode(Random& random, const TensorView& view, const ProgramInput& input,
                     const Program& program, int64_t batch) {
  const SampleShape shape = SamplesOf(program.space);
  const int64_t elements = shape.elements.fixed, samples = shape.samples.At(batch);
  const int64_t bytes = LayoutOf(input.codec, elements).sample_bytes;
  std::vector<float> x(static_cast<size_t>(elements));
  std::normal_distribution<float> normal(0, 2);
  for (int64_t s = 0; s < samples; ++s) {
    for (float& v : x) v = normal(random);
    EncodeSampleReference(input.codec, {1, 2, 3}, s, elements, x.data(), view.as<uint8_t>() + s * bytes);
  }
}

FusedCase Build(Random& random, const RandomCase& r) {
  FusedCase c(r.program, r.inputs, r.outputs, r.batch);
  for (size_t i = 0; i < c.input_views.size(); ++i) {
    const ProgramInput& input = r.program.inputs[i];
    const TensorView& view = c.input_views[i];
    if (input.codec.kind == CodecKind::kNone)
      FillNormal(random, view);
    else if (input.codec.kind == CodecKind::kUniform)
      FillUniformCode(random, view, input, r.program, r.batch);
    else  // any bytes are masks or indices
      for (int64_t b = 0; b < view.bytes; ++b)
        view.as<uint8_t>()[b] = static_cast<uint8_t>(Pick(random, 0, 255));
  }
  return c;
}

// Same operands in other memory.
FusedCase CopyOf(const RandomCase& r, FusedCase& from) {
  FusedCase c(r.program, r.inputs, r.outputs, r.batch);
  c.state = from.state;
  for (size_t i = 0; i < c.input_views.size(); ++i)
    std::memcpy(c.input_views[i].data, from.input_views[i].data, static_cast<size_t>(c.input_views[i].bytes));
  return c;
}

// A dozen operations of a few units in the last place (6e-8 each); cancellation makes the error relative to
// the largest intermediate value, which here is that of the operands (|x| < 10) raised by the program itself:
// so an error relative to max(|x|, 1), and a sum's relative to its number of terms.
bool IsClose(float x, float expected, double terms = 1) {
  if (std::isnan(x) || std::isnan(expected)) return std::isnan(x) == std::isnan(expected);
  if (std::isinf(x) || std::isinf(expected)) return std::fabs(x) > 1e30f && std::fabs(expected) > 1e30f;
  return std::fabs(x - expected) <= 2e-5 * terms * std::max(1.0f, std::fabs(expected));
}

void ExpectCode(const RandomCase& r, FusedCase& c, size_t i) {
  const Codec& codec = r.program.outputs[i].codec;
  const SampleShape shape = SamplesOf(r.program.space);
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

void ExpectSameResults(const RandomCase& r, FusedCase& fast, FusedCase& truth) {
  for (size_t i = 0; i < r.program.outputs.size(); ++i) {
    const ProgramOutput& output = r.program.outputs[i];
    if (output.kind == OutputKind::kEncode) {
      ExpectCode(r, fast, i);
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

TEST(FusedLoop, RandomProgramsGiveTheReferencesResults) {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const RandomCase r = MakeRandomCase(random);
    SCOPED_TRACE(ToString(r.program.space) + " batch " + std::to_string(r.batch) + "\n" +
                 ToString(r.program));
    ASSERT_EQ(CheckProgram(r.program), std::nullopt);
    FusedCase fast = Build(random, r);
    FusedCase truth = CopyOf(r, fast);
    fast.Run("fused", static_cast<int>(1 + seed % 3));
    truth.Run("reference.fused");
    ExpectSameResults(r, fast, truth);
    if (HasFatalFailure()) return;
  }
}

// A result may lie on an operand of the same dims: the planner reuses memory so. Every such pair, one at a
// time.
TEST(FusedLoop, ResultsMayOverwriteOperandsOfTheirShape) {
  int pairs = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const RandomCase r = MakeRandomCase(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ToString(r.program));
    FusedCase plain = Build(random, r);
    const auto fits = [&](size_t in, size_t out) {
      return r.program.inputs[in].codec.kind == CodecKind::kNone && r.inputs[in].dtype == DType::kFloat32 &&
             r.program.outputs[out].kind == OutputKind::kStore && r.inputs[in].dims == r.program.space;
    };
    for (size_t in = 0; in < r.inputs.size(); ++in)
      for (size_t out = 0; out < r.outputs.size(); ++out) {
        if (!fits(in, out)) continue;
        FusedCase aliased = CopyOf(r, plain);
        aliased.Alias(out, in);
        aliased.Run("fused", 2);
        FusedCase fresh = CopyOf(r, plain);
        fresh.Run("fused", 2);
        for (size_t i = 0; i < r.outputs.size(); ++i)
          ASSERT_TRUE(aliased.OutBytes(i) == fresh.OutBytes(i))
              << "out" << out << " on in" << in << ": out" << i;
        ++pairs;
      }
  }
  EXPECT_GT(pairs, 100);
}

// Writes programs over [N, 40, 130] with a column of 130.
struct Builder {
  RandomCase r;
  Builder() {
    r.program.space = {Dim::Batch(), Dim(40), Dim(130)};
    r.batch = 9;
  }
  int32_t In(Dims dims, Codec codec = {}, DType dtype = DType::kFloat32) {
    r.program.inputs.push_back({codec, 0});
    r.inputs.push_back({dtype, std::move(dims)});
    return r.program.FirstConstant() - 1;
  }
  int32_t Full(Codec codec = {}) { return In(r.program.space, codec); }
  int32_t Constant(float value, Dim extent = Dim(0)) {
    r.program.constants.push_back({value, extent});
    return r.program.FirstInstr() - 1;
  }
  int32_t Op(Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) {
    r.program.instrs.push_back({op, a, b, c});
    return r.program.Registers() - 1;
  }
  void Out(OutputKind kind, int32_t reg, TensorType type, Codec codec = {}) {
    r.program.outputs.push_back({kind, reg, codec, 3});
    r.outputs.push_back(std::move(type));
  }
  void Store(int32_t reg, DType dtype = DType::kFloat32) {
    Out(OutputKind::kStore, reg, {dtype, r.program.space});
  }
};

// xhat, the mask and a code of relu, and three sums: everything that is cut into parts or tiles.
RandomCase Everything() {
  Builder b;
  const int32_t x = b.Full(), code = b.Full(Codec::Uniform(3)), scale = b.In({Dim(130)}),
                zero = b.Constant(0);
  const int32_t y = b.Op(Opcode::kMax, b.Op(Opcode::kFma, x, scale, code), zero);
  const int32_t dropped = b.Op(Opcode::kDropout, y);
  b.r.program.instrs.back().parameter = 0.3f;
  b.Store(dropped);
  b.Out(OutputKind::kEncode, y, {}, Codec::Uniform(2));
  b.Out(OutputKind::kEncode, y, {}, Codec::Mask());
  b.Out(OutputKind::kSum, y, {DType::kFloat32, {Dim(130)}});
  b.Out(OutputKind::kSum, x, {DType::kFloat32, {}});
  b.Out(OutputKind::kSum, x, {DType::kFloat32, {Dim(40), Dim(130)}});
  return b.r;
}

TEST(FusedLoop, ResultsAreBitIdenticalForEveryNumberOfThreads) {
  Random random(1);
  const RandomCase r = Everything();
  FusedCase one = Build(random, r);
  one.Run("fused", 1);
  for (int threads : {2, 3, 4, 7}) {
    FusedCase many = CopyOf(r, one);
    many.Run("fused", threads);
    for (size_t i = 0; i < r.outputs.size(); ++i)
      ASSERT_EQ(many.OutBytes(i), one.OutBytes(i)) << threads << " threads, out" << i;
  }
}

TEST(FusedLoop, EveryInstructionSetGivesTheReferencesResults) {
  Random random(2);
  Builder b;
  const int32_t x = b.Full(), y = b.Full();
  const int32_t half = b.Constant(0.5f);
  b.Out(OutputKind::kEncode, x, {}, Codec::Uniform(2));
  b.Store(x);
  const int32_t dropped = b.Op(Opcode::kDropout, y);
  b.r.program.instrs.back().parameter = 0.5f;
  b.Store(b.Op(Opcode::kErf, b.Op(Opcode::kTanh, b.Op(Opcode::kFma, dropped, half, x))));
  b.Out(OutputKind::kSum, y, {DType::kFloat32, {Dim(130)}});
  const RandomCase& r = b.r;
  FusedCase truth = Build(random, r);
  truth.Run("reference.fused");
  ForEachTarget([&] {
    FusedCase fast = CopyOf(r, truth);
    fast.Run("fused");
    ExpectSameResults(r, fast, truth);
    ASSERT_EQ(fast.OutBytes(0), truth.OutBytes(0)) << "the code";
  });
}

// ---- Single rules
// ------------------------------------------------------------------------------------------------------

// Units in the last place of the reference's float32.
// least: what the error is at least relative to.
double Ulps(float x, double expected, double least = 0x1p-126) {
  if (std::isnan(expected)) return std::isnan(x) ? 0 : 1e9;
  const float rounded = static_cast<float>(expected);
  if (std::isinf(rounded)) return x == rounded ? 0 : 1e9;
  const double unit = std::max(std::fabs(expected), std::max(least, 0x1p-126)) * 0x1p-23;
  return std::fabs(static_cast<double>(x) - expected) / unit;
}

TEST(Opcodes, AreAccurateAndDefinedOverTheWholeRange) {
  const float inf = INFINITY;
  std::vector<float> grid = {0,   -0.0f, 1,    -1,     2,     -2,     0.5f, 88,   89, 100,
                             -88, -104,  -110, 1e-40f, 1e30f, -1e30f, inf,  -inf, NAN};
  Random random(5);
  for (int i = 0; i < 400; ++i) grid.push_back(std::normal_distribution<float>(0, 3)(random));
  for (int i = 0; i < 400; ++i)
    grid.push_back(std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                              static_cast<int>(Pick(random, -60, 60))));
  const int64_t n = static_cast<int64_t>(grid.size());
  for (int op = 0; op <= static_cast<int>(Opcode::kCos); ++op) {
    const Opcode opcode = static_cast<Opcode>(op);
    if (opcode == Opcode::kDropout) continue;
    Builder b;
    b.r.program.space = {Dim(3), Dim(n)};
    b.r.batch = 1;
    const int arity = Arity(opcode);
    const int32_t x = b.Full(), y = arity > 1 ? b.Full() : -1, z = arity > 2 ? b.Full() : -1;
    b.Store(b.Op(opcode, x, y, z));
    ForEachTarget([&] {
      FusedCase c(b.r.program, b.r.inputs, b.r.outputs, 1);
      for (int64_t i = 0; i < 3 * n; ++i)
        for (int k = 0; k < arity; ++k)
          c.In(static_cast<size_t>(k))[i] = grid[static_cast<size_t>(k == 0 ? i % n : (i * (7 + k) + k) % n)];
      c.Run("fused");
      // One rounding for arithmetic (two, relative to the product, for a multiply-add without the
      // instruction); Highway states 4 units for log and tanh; sigmoid is a quotient of an exp; the C
      // library's sin, cos and pow are within 1.
      const bool library = opcode == Opcode::kSin || opcode == Opcode::kCos || opcode == Opcode::kPow;
      const bool function = opcode >= Opcode::kExp && opcode <= Opcode::kErf;
      const double bound = function ? 4 : library || opcode == Opcode::kFma ? 1 : 0.5001;
      for (int64_t i = 0; i < 3 * n; ++i) {
        const double a0 = c.In(0)[i], a1 = arity > 1 ? c.In(1)[i] : 0, a2 = arity > 2 ? c.In(2)[i] : 0;
        const double product = opcode == Opcode::kFma && std::isfinite(a0 * a1) ? std::fabs(a0 * a1) : 0;
        ASSERT_LE(Ulps(c.Out(0)[i], Evaluate(opcode, a0, a1, a2), product), bound)
            << ToString(opcode) << "(" << a0 << ", " << a1 << ", " << a2 << ") = " << c.Out(0)[i];
      }
    });
  }
}

TEST(FusedLoop, SumsOfManyElementsKeepFloatPrecision) {
  Builder b;
  b.r.program.space = {Dim::Batch(), Dim(1000), Dim(64)};
  b.r.batch = 40;
  b.Out(OutputKind::kSum, b.Full(), {DType::kFloat32, {Dim(64)}});
  b.Out(OutputKind::kSum, 0, {DType::kFloat32, {}});
  Random random(3);
  FusedCase c = Build(random, b.r);
  for (int64_t i = 0; i < c.input_views[0].elements; ++i)
    c.In(0)[i] += 100;  // no cancellation: relative error means something
  FusedCase truth = CopyOf(b.r, c);
  c.Run("fused", 2);
  truth.Run("reference.fused");
  // Up to 256 float32 additions in a row before double precision takes over, with random rounding: 2^-24
  // sqrt(256) at most.
  for (int64_t i = 0; i < 64; ++i) EXPECT_NEAR(c.Out(0)[i] / truth.Out(0)[i], 1, 1e-6);
  EXPECT_NEAR(c.Out(1)[0] / truth.Out(1)[0], 1, 1e-6);
}

TEST(FusedLoop, ConstantsDivideByTheBatch) {
  Builder b;
  b.r.program.space = {Dim::Batch(), Dim(3)};
  const int32_t x = b.Full(), mean = b.Constant(6, Dim(0, 2));
  b.Store(b.Op(Opcode::kMul, x, mean));
  FusedCase c(b.r.program, b.r.inputs, b.r.outputs, 5);
  for (int i = 0; i < 15; ++i) c.In(0)[i] = 10;
  c.Run("fused");
  for (int i = 0; i < 15; ++i) EXPECT_FLOAT_EQ(c.Out(0)[i], 6.0f);
}

TEST(FusedLoop, ConvertsWhatItReadsAndWrites) {
  Builder b;
  b.r.program.space = {Dim(6)};
  b.In({Dim(6)}, {}, DType::kInt64);
  for (DType to : {DType::kBool, DType::kUint8, DType::kInt32, DType::kFloat64, DType::kBFloat16})
    b.Store(0, to);
  FusedCase c(b.r.program, b.r.inputs, b.r.outputs, 1);
  const int64_t values[] = {0, 1, -1, 255, 1000, int64_t{1} << 40};
  std::copy(values, values + 6, c.input_views[0].as<int64_t>());
  c.Run("fused");
  const uint8_t bools[] = {0, 1, 1, 1, 1, 1}, bytes[] = {0, 1, 0, 255, 255, 255};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(c.output_views[0].as<uint8_t>()[i], bools[i]);
    EXPECT_EQ(c.output_views[1].as<uint8_t>()[i], bytes[i]);
    EXPECT_EQ(c.output_views[2].as<int32_t>()[i], i == 5 ? INT32_MAX : values[i]);
    EXPECT_EQ(c.output_views[3].as<double>()[i], static_cast<double>(values[i]));
    EXPECT_EQ(ToFloat(c.output_views[4].as<BFloat16>()[i]),
              values[i] == 255 || values[i] < 256 || i == 4 || i == 5 ? static_cast<float>(values[i]) : 0);
  }
}

TEST(FusedLoop, DropoutKeepsItsShareAndScalesIt) {
  Builder b;
  b.r.program.space = {Dim::Batch(), Dim(100000)};
  const int32_t y = b.Op(Opcode::kDropout, b.Full());
  b.r.program.instrs.back().parameter = 0.3f;
  b.Store(y);
  FusedCase c(b.r.program, b.r.inputs, b.r.outputs, 4);
  std::fill_n(c.In(0), 400000, 7.0f);
  c.Run("fused");
  int64_t kept = 0;
  for (int64_t i = 0; i < 400000; ++i) {
    if (c.Out(0)[i] == 0) continue;
    ASSERT_FLOAT_EQ(c.Out(0)[i], 10.0f);
    ++kept;
  }
  // Deviation sqrt(0.3 0.7 / 400,000) = 7.2e-4; five of them.
  EXPECT_NEAR(static_cast<double>(kept) / 400000, 0.7, 5 * 7.2e-4);
}

TEST(FusedLoop, NewStepsAndSeedsGiveNewCodesAndTheSameGiveTheSame) {
  Builder b;
  b.Out(OutputKind::kEncode, b.Full(), {}, Codec::Uniform(2));
  Random random(4);
  FusedCase c = Build(random, b.r);
  c.Run("fused");
  const std::vector<std::byte> first = c.OutBytes(0);
  c.state.step = 8;
  c.Repeat();
  EXPECT_NE(c.OutBytes(0), first);
  c.state = {.seed = c.state.seed + 1, .step = 7};
  c.Repeat();
  EXPECT_NE(c.OutBytes(0), first);
  c.state = FusedCase(b.r.program, b.r.inputs, b.r.outputs, 1).state;
  c.Repeat();
  EXPECT_EQ(c.OutBytes(0), first);
}

// ---- Sites that no kernel may take
// -------------------------------------------------------------------------------------

TEST(FusedSite, IsRefusedWithAReason) {
  const auto refusal = [](RandomCase r, auto&& edit) -> std::string {
    FusedCase c(r.program, r.inputs, r.outputs, r.batch);
    edit(c);
    try {
      c.Run("fused");
    } catch (const std::exception& e) {
      return e.what();
    }
    return "none";
  };
  const RandomCase r = Everything();
  EXPECT_EQ(refusal(r, [](FusedCase&) {}), "none");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.input_views[1].bytes -= 4; }).substr(0, 34),
            "fused refuses: in1: its code has 1");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.input_views[2].dims = {129}; }),
            "fused refuses: in2: [129] does not broadcast to [9,40,130]");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.output_views[0].elements = 1; }).substr(0, 20),
            "fused refuses: out0:");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.output_views[3].elements = 131; }).substr(0, 20),
            "fused refuses: out3:");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.output_views[1].bytes += 1; }).substr(0, 20),
            "fused refuses: out1:");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.workspace_bound = 64; }).substr(0, 33),
            "fused refuses: partial sums need ");
  EXPECT_EQ(refusal(r, [](FusedCase& c) { c.input_views[2].dtype = DType::kFloat16; }),
            "fused refuses: in2: a fused loop does not read f16");
}

}  // namespace
}  // namespace act
