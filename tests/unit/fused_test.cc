#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "kernels/math/convert.h"
#include "kernels/site/dereference.h"
#include "tests/unit/each_target.h"
#include "tests/unit/random_program.h"

namespace act {
namespace {

// Writes programs over [N, 40, 130], with a column of 130.
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
  int32_t Op(Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) { return r.Op(op, a, b, c); }
  void Out(OutputKind kind, int32_t reg, TensorType type, Codec codec = {}) {
    r.program.outputs.push_back({kind, reg, codec, 3});
    r.outputs.push_back(std::move(type));
  }
  void Store(int32_t reg, DType dtype = DType::kFloat32) {
    Out(OutputKind::kStore, reg, {dtype, r.program.space});
  }
};

// xhat, the mask and a code of relu, and three sums: everything that is divided
// into parts or tiles.
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
  RandomNumbers random(1);
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
  RandomNumbers random(2);
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

// ---- Single rules -------------------------------------------------------------------------------

// Units in the last place of the reference's float32.
// least: the smallest magnitude to which the error is relative.
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
  RandomNumbers random(5);
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
      // One rounding for arithmetic. A multiply-add has two, relative to the product, without the
      // instruction. Highway states 4 units for log. The C library's sin, cos and pow are within 1.
      // The others have closer tests below.
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

// Floats of every exponent, both signs and many fractions: every 9973rd bit pattern.
TEST(Opcodes, ElementaryFunctionsAreAccurateFromDenormalsToInfinity) {
  struct Function {
    Opcode opcode;
    double bound;  // units in the last place, as fused_math-inl.h states them
  };
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const auto n = static_cast<int64_t>(x.size());
  for (const auto& [opcode, bound] :
       {Function{Opcode::kExp, 1}, {Opcode::kTanh, 3}, {Opcode::kSigmoid, 2}, {Opcode::kErf, 3}}) {
    Builder b;
    b.r.program.space = {Dim(n)};
    b.Store(b.Op(opcode, b.Full()));
    ForEachTarget([&, opcode = opcode, bound = bound] {
      FusedCase c(b.r.program, b.r.inputs, b.r.outputs, 1);
      std::copy(x.begin(), x.end(), c.In(0));
      c.Run("fused");
      for (int64_t i = 0; i < n; ++i) {
        const float v = x[static_cast<size_t>(i)];
        ASSERT_LE(Ulps(c.Out(0)[i], Evaluate(opcode, v, 0, 0)), bound)
            << ToString(opcode) << "(" << v << ") = " << c.Out(0)[i];
        ASSERT_FALSE(opcode != Opcode::kExp && std::fabs(c.Out(0)[i]) > 1) << v;
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
  RandomNumbers random(3);
  FusedCase c = Build(random, b.r);
  for (int64_t i = 0; i < c.input_views[0].elements; ++i)
    c.In(0)[i] += 100;  // no cancellation: the relative error is meaningful
  FusedCase truth = CopyOf(b.r, c);
  c.Run("fused", 2);
  truth.Run("reference.fused");
  // Up to 256 float32 additions in a row before double precision takes over, with random rounding:
  // at most 2^-24 sqrt(256).
  for (int64_t i = 0; i < 64; ++i) EXPECT_NEAR(c.Out(0)[i] / truth.Out(0)[i], 1, 1e-6);
  EXPECT_NEAR(c.Out(1)[0] / truth.Out(1)[0], 1, 1e-6);
}

// Rows of every length around the vector's, of many to a tile and of several pieces.
TEST(FusedLoop, RowsOfAnyLengthAreReduced) {
  for (int64_t length : {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 96, 130, 768, 1023, 1025, 4096}) {
    SCOPED_TRACE(length);
    Builder b;
    b.r.program.space = {Dim::Batch(), Dim(length)};
    b.r.program.row_axes = 1;
    b.r.batch = 37;
    const int32_t x = b.Full(), row = b.In({Dim::Batch(), Dim(1)});
    const int32_t sum = b.Op(Opcode::kRowSum, x), max = b.Op(Opcode::kRowMax, x);
    b.Store(b.Op(Opcode::kFma, sum, row, x));
    b.Out(OutputKind::kRowStore, sum, {DType::kFloat32, {Dim::Batch(), Dim(1)}});
    b.Out(OutputKind::kRowStore, max, {DType::kFloat32, {Dim::Batch()}});
    b.Out(OutputKind::kRowStore, x, {DType::kFloat32, {Dim::Batch()}});
    b.Out(OutputKind::kSum, b.Op(Opcode::kSub, x, max), {DType::kFloat32, {Dim(length)}});
    RandomNumbers random(6);
    FusedCase truth = Build(random, b.r);
    // There is no cancellation.
    for (int64_t i = 0; i < 37 * length; ++i) truth.In(0)[i] = std::fabs(truth.In(0)[i]);
    truth.Run("reference.fused");
    ForEachTarget([&] {
      FusedCase fast = CopyOf(b.r, truth);
      fast.Run("fused", 2);
      ExpectSameResults(b.r, fast, truth);
    });
  }
}

TEST(FusedLoop, NotANumberIsTheLargestOfItsRow) {
  Builder b;
  b.r.program.space = {Dim(3), Dim(100)};
  b.r.program.row_axes = 1;
  b.Out(OutputKind::kRowStore, b.Op(Opcode::kRowMax, b.Full()), {DType::kFloat32, {Dim(3)}});
  ForEachTarget([&] {
    for (int64_t at : {0, 1, 50, 98, 99}) {
      FusedCase c(b.r.program, b.r.inputs, b.r.outputs, 1);
      std::fill_n(c.In(0), 300, -INFINITY);
      c.In(0)[100 + at] = NAN;
      c.In(0)[200 + at] = 3;
      c.Run("fused");
      EXPECT_EQ(c.Out(0)[0], -INFINITY);
      EXPECT_TRUE(std::isnan(c.Out(0)[1])) << at;
      EXPECT_EQ(c.Out(0)[2], 3) << at;
    }
  });
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
    EXPECT_EQ(ToFloat(c.output_views[4].as<BFloat16>()[i]), static_cast<float>(values[i]));
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
  RandomNumbers random(4);
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

// ---- Sites that no kernel may take --------------------------------------------------------------

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
