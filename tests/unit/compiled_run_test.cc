#include "kernels/cpu/compiled_run.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/math/convert.h"
#include "tests/unit/random_program.h"

namespace act {
namespace {

// Tests run for each instruction set that the processor has.
std::vector<RunIsa> Isas() {
  std::vector<RunIsa> isas;
  for (const RunIsa isa : {RunIsa::kAvx2, RunIsa::kAvx512, RunIsa::kAvx512Bytes})
    if (isa <= BestRunIsa()) isas.push_back(isa);
  return isas;
}
class RunCodeTest : public ::testing::TestWithParam<RunIsa> {};
class CompiledRunTest : public ::testing::TestWithParam<RunIsa> {};
std::string NameOf(const ::testing::TestParamInfo<RunIsa>& info) {
  return info.param == RunIsa::kAvx2 ? "Avx2" : info.param == RunIsa::kAvx512 ? "Avx512" : "Avx512Bytes";
}
INSTANTIATE_TEST_SUITE_P(Isas, RunCodeTest, ::testing::ValuesIn(Isas()), NameOf);
INSTANTIATE_TEST_SUITE_P(Isas, CompiledRunTest, ::testing::ValuesIn(Isas()), NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunCodeTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CompiledRunTest);

// The bits, with one of all NaNs: instructions may keep those of either operand.
uint32_t Bits(float x) { return std::isnan(x) ? 0x7FC00000u : std::bit_cast<uint32_t>(x); }

// Zeros, denormal numbers, infinities, NaNs (quiet and signalling), ties between two bfloat16, numbers that bfloat16
// rounds to infinity, and plain ones.
std::vector<float> Numbers(size_t count, unsigned seed) {
  constexpr uint32_t kSpecial[] = {0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x7F800000,
                                   0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x3F808000,
                                   0x3F818000, 0xBF808000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000,
                                   0x3F800000, 0xBF800000, 0x00008000, 0x00018000};
  RandomNumbers random(seed);
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i)
    numbers.push_back(
        Pick(random, 0, 3)
            ? static_cast<float>(Pick(random, -1000, 1000)) / 64
            : std::bit_cast<float>(kSpecial[static_cast<size_t>(Pick(random, 0, std::ssize(kSpecial) - 1))]));
  return numbers;
}

constexpr size_t kCounts[] = {0, 1, 15, 16, 17, 31, 32, 33, 70, 1024};
constexpr float kGuard = -123.5f;

std::vector<TileInstr> Instructions() {
  std::vector<TileInstr> instrs;
  for (int op = 0; op <= static_cast<int>(TileOp::kSidedAbs); ++op)
    if (HasRunCode({static_cast<TileOp>(op), false})) instrs.push_back({static_cast<TileOp>(op), false});
  for (const TileOp op : {ToTileOp(Opcode::kAdd), ToTileOp(Opcode::kSub), ToTileOp(Opcode::kMul),
                          ToTileOp(Opcode::kFma), TileOp::kMulSub, TileOp::kNegMulAdd})
    instrs.push_back({op, true});
  return instrs;
}

TEST_P(RunCodeTest, InstructionsHaveTheBitsOfTheirLoops) {
  const std::vector<TileInstr> instrs = Instructions();
  EXPECT_GE(instrs.size(), 24u);
  for (const TileInstr instr : instrs)
    for (const size_t count : kCounts) {
      SCOPED_TRACE("operation " + std::to_string(static_cast<int>(instr.op)) + ", " + std::to_string(count));
      const std::vector<float> a = Numbers(count + 1, 1), b = Numbers(count + 1, 2),
                               c = Numbers(count + 1, 3);
      std::vector<float> expected(count + 1, kGuard), made(count + 1, kGuard);
      ApplyTile(instr, count, {a.data()}, {b.data()}, {c.data()}, expected.data());
      const auto code = RunCode::Make(GetParam(),
                                      {{.op = RunOp::kLoad, .to = 0, .stream = 0},
                                       {.op = RunOp::kLoad, .to = 1, .stream = 1},
                                       {.op = RunOp::kLoad, .to = 2, .stream = 2},
                                       {.op = RunOp::kApply, .instr = instr, .to = 3, .a = 0, .b = 1, .c = 2},
                                       {.op = RunOp::kStore, .a = 3, .stream = 3}},
                                      std::vector<StreamType>(4, StreamType::kFloat));
      ASSERT_NE(code, nullptr);
      const void* streams[] = {a.data(), b.data(), c.data(), made.data()};
      (*code)(streams, count);
      for (size_t i = 0; i <= count; ++i)
        ASSERT_EQ(Bits(made[i]), Bits(expected[i])) << a[i] << " " << b[i] << " " << c[i];
    }
}

TEST_P(RunCodeTest, BFloat16IsReadAndRoundedAsByConvert) {
  const auto code = RunCode::Make(GetParam(),
                                  {{.op = RunOp::kLoad, .to = 0, .stream = 0},
                                   {.op = RunOp::kStore, .a = 0, .stream = 1},
                                   {.op = RunOp::kLoad, .to = 1, .stream = 1},
                                   {.op = RunOp::kStore, .a = 1, .stream = 2}},
                                  {StreamType::kFloat, StreamType::kBFloat16, StreamType::kFloat});
  ASSERT_NE(code, nullptr);
  for (const size_t count : kCounts)
    for (unsigned seed = 0; seed < 30; ++seed) {
      // Vectors without any special number go another way.
      std::vector<float> x = Numbers(count + 1, seed);
      for (size_t i = 0; seed % 2 && i < count; ++i)
        if (std::fpclassify(x[i]) != FP_NORMAL) x[i] = 1.0f / static_cast<float>(i + 3);
      std::vector<BFloat16> narrow(count + 1, BFloat16{0x1234});
      std::vector<float> wide(count + 1, kGuard);
      const void* streams[] = {x.data(), narrow.data(), wide.data()};
      (*code)(streams, count);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(narrow[i].bits, FromFloat<BFloat16>(x[i]).bits) << x[i];
        ASSERT_EQ(Bits(wide[i]), Bits(ToFloat(narrow[i])));
      }
      ASSERT_EQ(narrow[count].bits, 0x1234);
      ASSERT_EQ(wide[count], kGuard);
    }
}

TEST_P(RunCodeTest, EqualRunsShareTheirCode) {
  const auto make = [](StreamType type) {
    return RunCode::Make(
        GetParam(), {{.op = RunOp::kLoad, .to = 0, .stream = 0}, {.op = RunOp::kStore, .a = 0, .stream = 1}},
        {type, StreamType::kFloat});
  };
  const auto code = make(StreamType::kFloat);
  EXPECT_EQ(make(StreamType::kFloat), code);
  EXPECT_NE(make(StreamType::kBFloat16), code);
}

// More streams than registers for addresses, one value for all elements among them, and sums.
TEST_P(RunCodeTest, ManyStreams) {
  constexpr int32_t kStreams = 30;
  std::vector<RunInstr> instrs;
  std::vector<StreamType> types;
  for (int32_t s = 0; s < kStreams; ++s) {
    types.push_back(s % 3 == 0   ? StreamType::kSplat
                    : s % 3 == 1 ? StreamType::kBFloat16
                                 : StreamType::kFloat);
    instrs.push_back({.op = RunOp::kLoad, .to = 2 * s, .stream = s});
    instrs.push_back({.op = RunOp::kApply,
                      .instr = {s == 0 ? TileOp::kCopy : ToTileOp(Opcode::kSub), false},
                      .to = 2 * s + 1,
                      .a = s == 0 ? 0 : 2 * s - 1,
                      .b = s == 0 ? -1 : 2 * s});
  }
  types.insert(types.end(), {StreamType::kFloat, StreamType::kFloat});
  instrs.push_back({.op = RunOp::kSum, .a = 2 * kStreams - 1, .stream = kStreams});
  instrs.push_back({.op = RunOp::kSum, .a = 2 * kStreams - 1, .b = 2 * kStreams - 1, .stream = kStreams + 1});
  const auto code = RunCode::Make(GetParam(), instrs, types);
  ASSERT_NE(code, nullptr);
  for (const size_t count : kCounts) {
    std::vector<std::vector<float>> wide;
    std::vector<std::vector<BFloat16>> narrow;
    std::vector<const void*> streams;
    RandomNumbers random(7);
    for (int32_t s = 0; s < kStreams; ++s) {
      wide.emplace_back(count + 1);
      narrow.emplace_back(count + 1);
      for (size_t i = 0; i < count + 1; ++i) {
        wide.back()[i] = static_cast<float>(Pick(random, -64, 64));  // exact in bfloat16
        narrow.back()[i] = FromFloat<BFloat16>(wide.back()[i]);
      }
    }
    std::vector<float> sum(count + 1, 5), products(count + 1, 7);
    for (size_t s = 0; s < wide.size(); ++s)
      streams.push_back(s % 3 == 1 ? static_cast<const void*>(narrow[s].data()) : wide[s].data());
    streams.insert(streams.end(), {sum.data(), products.data()});
    (*code)(streams.data(), count);
    for (size_t i = 0; i < count; ++i) {
      float x = wide[0][0];
      for (size_t s = 1; s < wide.size(); ++s) x -= wide[s][s % 3 == 0 ? 0 : i];
      ASSERT_EQ(sum[i], 5 + x);
      ASSERT_EQ(products[i], 7 + x * x);
    }
    ASSERT_EQ(sum[count], 5);
    ASSERT_EQ(products[count], 7);
  }
}

TEST_P(RunCodeTest, ValuesThatDoNotFitAreRefused) {
  for (const int32_t values : {10, 40}) {
    std::vector<RunInstr> instrs;
    for (int32_t v = 0; v < values; ++v) instrs.push_back({.op = RunOp::kLoad, .to = v, .stream = 0});
    for (int32_t v = 0; v < values; ++v) instrs.push_back({.op = RunOp::kSum, .a = v, .stream = 1});
    const auto code = RunCode::Make(GetParam(), instrs, {StreamType::kFloat, StreamType::kFloat});
    EXPECT_EQ(code != nullptr, values == 10);
  }
}

void ExpectSameBits(const RandomCase& r, FusedCase& a, FusedCase& b) {
  for (size_t i = 0; i < r.program.outputs.size(); ++i) {
    if (r.program.outputs[i].kind == OutputKind::kEncode || r.outputs[i].dtype != DType::kFloat32) {
      ASSERT_TRUE(a.OutBytes(i) == b.OutBytes(i)) << "out" << i;
      continue;
    }
    for (int64_t e = 0; e < a.output_views[i].elements; ++e)
      ASSERT_EQ(Bits(a.Out(i)[e]), Bits(b.Out(i)[e])) << "out" << i << "[" << e << "]";
  }
}

TEST_P(CompiledRunTest, RandomProgramsHaveTheBitsOfTheirSteps) {
  int compiled = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomNumbers random(seed);
    const RandomCase r = MakeRandomCase(random);
    SCOPED_TRACE(ToString(r.program));
    FusedCase runs = Build(random, r);
    FusedCase steps = CopyOf(r, runs);
    runs.Run(GetParam(), 2);
    steps.Run(RunIsa::kNone, 2);
    compiled += runs.Describe().find(" 0 of them compiled") == std::string::npos;
    ExpectSameBits(r, runs, steps);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compiled, 700);
}

// Of more values than there are registers, a run takes the steps that fit, and the next run the others.
TEST_P(CompiledRunTest, AProgramOfManyValuesTakesSeveralRuns) {
  constexpr int32_t kInputs = 40;
  RandomCase r;
  r.batch = 2;
  r.program.space = {Dim::Batch(), Dim(50), Dim(7)};
  for (int32_t i = 0; i < kInputs; ++i) {
    r.program.inputs.push_back({});
    r.inputs.push_back({i % 2 ? DType::kBFloat16 : DType::kFloat32, r.program.space});
  }
  // The larger of all neighbours, then the sum of these, the first one last.
  for (int32_t i = 0; i + 1 < kInputs; ++i) r.program.instrs.push_back({Opcode::kMax, i, i + 1});
  int32_t sum = kInputs + kInputs - 2;
  for (int32_t i = kInputs + kInputs - 3; i >= kInputs; --i) {
    r.program.instrs.push_back({Opcode::kAdd, sum, i});
    sum = kInputs + static_cast<int32_t>(r.program.instrs.size()) - 1;
  }
  r.program.outputs.push_back({OutputKind::kStore, sum, {}});
  r.outputs.push_back({DType::kFloat32, r.program.space});
  ASSERT_EQ(CheckProgram(r.program), std::nullopt);
  RandomNumbers random(3);
  FusedCase runs = Build(random, r);
  FusedCase steps = CopyOf(r, runs);
  runs.Run(GetParam(), 1);
  steps.Run(RunIsa::kNone, 1);
  ExpectSameBits(r, runs, steps);
  std::string why;
  const KernelSite site = runs.Site();
  auto loop = MakeFusedLoop(site, *FusedShapeOf(site, &why), &why);
  ASSERT_TRUE(loop) << why;
  CompileRuns(GetParam(), site, *loop);
  EXPECT_GT(loop->runs.size(), 1u);
}

}  // namespace
}  // namespace act
