// Fused loops of the CUDA backend, on the fake card.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "kernels/cuda/fused_text.h"
#include "tests/unit/card_compiler.h"
#include "tests/unit/cuda_fused_case.h"
#include "tests/unit/network_loops.h"
#include "tests/unit/random_program.h"

namespace act {
namespace {

// Whether every operation has the same result on a card and on a processor with fused multiply-add, to the
// bit: all but sums, whose order is another, and functions that come from a library.
bool IsExact(const Program& program) {
  return std::none_of(program.instrs.begin(), program.instrs.end(), [](const Instr& x) {
    return x.op == Opcode::kRowSum || x.op == Opcode::kLog || x.op == Opcode::kPow || x.op == Opcode::kSin ||
           x.op == Opcode::kCos;
  });
}

std::vector<Codec> CodecsOf(const Program& program) {
  std::vector<Codec> codecs;
  for (const ProgramInput& input : program.inputs) codecs.push_back(input.codec);
  for (const ProgramOutput& output : program.outputs) codecs.push_back(output.codec);
  return codecs;
}

bool SameFloat(float a, float b) { return (a != a && b != b) || BitsOf(a) == BitsOf(b); }

// A loop, its operands, and results of the processor's kernel, of the reference and of the card.
struct LoopCase {
  LoopCase(RandomNumbers& random, RandomCase r)
      : r(std::move(r)), given(Build(random, this->r)), card(CopyOf(this->r, given)) {}
  // Result, operand.
  void InPlace(const std::vector<std::pair<size_t, size_t>>& pairs) {
    for (const auto& [output, input] : pairs) card.Alias(output, input);
  }
  void Request(std::optional<int64_t> workspace_bytes = std::nullopt) {
    kernel = std::make_unique<FusedOnCard>(card, workspace_bytes);
  }

  // Exact results are equal to those of the processor, all others as close to the reference as those.
  void Check() {
    SCOPED_TRACE(ToString(r.program.space) + ", batch " + std::to_string(r.batch) + "\n" +
                 ToString(r.program));
    ASSERT_EQ(kernel->refusal(), "");
    kernel->Run();
    FusedCase truth = CopyOf(r, given), cpu = CopyOf(r, given);
    truth.Run("reference.fused");
    cpu.Run("fused");
    for (size_t i = 0; i < r.program.outputs.size() && !::testing::Test::HasFailure(); ++i)
      CheckResult(i, truth, cpu);
  }

  void CheckResult(size_t i, FusedCase& truth, FusedCase& cpu) {
    const std::vector<ProgramOutput>& outputs = r.program.outputs;
    const bool exact = IsExact(r.program) && outputs[i].kind != OutputKind::kSum;
    if (outputs[i].kind == OutputKind::kEncode) {
      if (exact) {
        ASSERT_TRUE(card.OutBytes(i) == cpu.OutBytes(i)) << "out" << i << " is another code";
      }
      // The code of what the next result stores, unless that was rounded.
      if (RegisterOf(r, card, i)) ExpectCode(r, card, i);
      return;
    }
    if (r.outputs[i].dtype == DType::kBFloat16) {
      if (exact) {
        ASSERT_TRUE(card.OutBytes(i) == cpu.OutBytes(i)) << "out" << i << " has other bits";
      }
      return ExpectBFloat16s(r, card, truth, i);
    }
    const auto columns = static_cast<double>(std::max<int64_t>(1, card.output_views[i].elements));
    const double terms =
        outputs[i].kind == OutputKind::kSum
            ? 1 + static_cast<double>(ElementCount(DimsAt(r.program.space, r.batch))) / columns
            : 1;
    for (int64_t e = 0; e < card.output_views[i].elements; ++e) {
      const float x = card.Out(i)[e];
      if (exact) {
        ASSERT_TRUE(SameFloat(x, cpu.Out(i)[e]))
            << "out" << i << "[" << e << "] = " << x << ", processor " << cpu.Out(i)[e];
      }
      ASSERT_TRUE(IsClose(x, truth.Out(i)[e], terms))
          << "out" << i << "[" << e << "] = " << x << ", reference " << truth.Out(i)[e];
    }
  }

  RandomCase r;
  FusedCase given, card;
  std::unique_ptr<FusedOnCard> kernel;
};

// Kernels of many cases are compiled together.
void CheckAll(std::deque<LoopCase>& cases) {
  for (LoopCase& c : cases) {
    ASSERT_NO_FATAL_FAILURE(c.Check());
    if (::testing::Test::HasFailure()) return;
  }
}

// 1,500 programs, of which each test has a part, so that parts run beside each other and need little memory.
constexpr unsigned kProgramsInPart = 125, kParts = 12;

class CudaFusedPart : public ::testing::TestWithParam<unsigned> {};

TEST_P(CudaFusedPart, RandomProgramsGiveTheProcessorsResults) {
  std::deque<LoopCase> cases;
  for (unsigned seed = GetParam(); cases.size() < kProgramsInPart; seed += kParts) {
    RandomNumbers random(seed);
    RandomCase r = MakeRandomCase(random);
    const std::vector<Codec> codecs = CodecsOf(r.program);
    // Codecs of functions, which cuda.host runs.
    if (std::any_of(codecs.begin(), codecs.end(), [](const Codec& codec) { return codec.groups != nullptr; }))
      continue;
    cases.emplace_back(random, std::move(r)).Request();
    // A program that needs more than a block's shared memory runs on the host.
    if (cases.back().kernel->refusal().find("of shared memory") != std::string::npos) cases.pop_back();
  }
  CheckAll(cases);
}

INSTANTIATE_TEST_SUITE_P(, CudaFusedPart, ::testing::Range(0u, kParts));

TEST(CudaFused, NetworkLoopsGiveTheProcessorsResultsInPlace) {
  std::deque<LoopCase> cases;
  std::vector<NetworkLoop> loops = NetworkLoops();
  for (NetworkLoop& loop : NetworkLoops())
    if (loop.name != "Adam") loops.push_back(InBFloat16(std::move(loop)));
  for (NetworkLoop& loop : loops) {
    RandomNumbers random(static_cast<unsigned>(cases.size()));
    LoopCase& c = cases.emplace_back(random, std::move(loop.loop));
    c.InPlace(loop.in_place);
    c.Request();
  }
  CheckAll(cases);
}

// The same with bfloat16 wherever an operand or a result has the whole space.
std::vector<NetworkLoop> NetworkLoopsInBFloat16() {
  std::vector<NetworkLoop> loops = NetworkLoops();
  for (NetworkLoop& loop : loops) {
    RandomCase& r = loop.loop;
    const auto narrow = [&](TensorType& type) {
      if (type.dims == r.program.space) type.dtype = DType::kBFloat16;
    };
    for (size_t i = 0; i < r.inputs.size(); ++i)
      if (r.program.inputs[i].codec.kind == CodecKind::kNone) narrow(r.inputs[i]);
    for (size_t i = 0; i < r.outputs.size(); ++i)
      if (r.program.outputs[i].kind == OutputKind::kStore) narrow(r.outputs[i]);
  }
  return loops;
}

TEST(CudaFused, NetworkLoopsInBFloat16GiveTheProcessorsResultsInPlace) {
  std::deque<LoopCase> cases;
  for (NetworkLoop& loop : NetworkLoopsInBFloat16()) {
    RandomNumbers random(static_cast<unsigned>(cases.size()));
    LoopCase& c = cases.emplace_back(random, std::move(loop.loop));
    c.InPlace(loop.in_place);
    c.Request();
  }
  CheckAll(cases);
}

// Columns of every relation to pieces of 256 elements and to warps, rows of every relation to tiles, samples
// of a few elements and of none.
// Reductions by pi/2 of every exponent, of the floats around multiples of it, and of those that are none.
TEST(CudaFused, SineAndCosineAreAccurateOverTheWholeRange) {
  std::vector<float> grid = {0, -0.0f, INFINITY, -INFINITY, NAN, 1048576.0f, 1048575.9375f};
  for (uint32_t bits = 1; bits < 0x7F800000u; bits += 99991) {
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    grid.insert(grid.end(), {x, -x});
  }
  for (int k = 1; k < 2000; ++k) {
    const auto multiple = static_cast<float>(k * 1.5707963267948966);
    grid.insert(grid.end(), {multiple, std::nextafter(multiple, 0.0f)});
  }
  const auto n = static_cast<int64_t>(grid.size());
  for (const Opcode opcode : {Opcode::kSin, Opcode::kCos}) {
    Program program;
    program.space = {Dim(n)};
    program.inputs.resize(1);
    program.instrs = {{opcode, 0}};
    program.outputs = {{OutputKind::kStore, 1, {}, 0}};
    FusedCase c(program, {{DType::kFloat32, {Dim(n)}}}, {{DType::kFloat32, {Dim(n)}}}, 1);
    for (int64_t i = 0; i < n; ++i) c.In(0)[i] = grid[static_cast<size_t>(i)];
    FusedOnCard on_card(c);
    ASSERT_EQ(on_card.refusal(), "");
    on_card.Run();
    for (int64_t i = 0; i < n; ++i) {
      const double x = c.In(0)[i], expected = opcode == Opcode::kSin ? std::sin(x) : std::cos(x);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(c.Out(0)[i])) << x;
        continue;
      }
      // Half a unit for the rest, half for the last operation, and the polynomial's.
      const double unit = std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
      ASSERT_LE(std::fabs(c.Out(0)[i] - expected), 2 * unit) << ToString(opcode) << " of " << x;
    }
  }
}

TEST(CudaFused, SumsOfManySizes) {
  std::deque<LoopCase> cases;
  const auto add = [&](Dims space, int64_t batch, size_t kept, int32_t row_axes = 0) {
    RandomNumbers random(static_cast<unsigned>(cases.size()));
    RandomCase r;
    r.batch = batch;
    r.program.space = space;
    r.program.row_axes = row_axes;
    r.program.inputs = {{}, {}};
    r.inputs = {{DType::kFloat32, space},
                {DType::kFloat32, {space.end() - static_cast<int64_t>(kept), space.end()}}};
    const int32_t product = r.Op(Opcode::kMul, 0, 1);
    const Dims columns(space.end() - static_cast<int64_t>(kept), space.end());
    for (const int32_t reg : {0, product}) {
      r.program.outputs.push_back({OutputKind::kSum, reg, {}, 0});
      r.outputs.push_back({DType::kFloat32, columns});
    }
    if (row_axes > 0) {
      r.Store(r.Op(Opcode::kRowMax, product));
      r.program.outputs.push_back({OutputKind::kRowStore, r.Op(Opcode::kRowSum, 0), {}, 0});
      r.outputs.push_back({DType::kFloat32, RowDims(r.program, true)});
    }
    cases.emplace_back(random, std::move(r)).Request();
  };
  for (const int64_t channels : {1, 3, 10, 31, 64, 100, 197, 256, 320, 1000, 2048})
    add({Dim::Batch(), Dim(37), Dim(channels)}, 3, 1);
  add({Dim::Batch(), Dim(300)}, 70000, 0);     // to one number
  add({Dim::Batch(), Dim(3), Dim(5)}, 7, 2);   // a column is a sample
  add({Dim::Batch(), Dim(3), Dim(5)}, 1, 3);   // nothing to add up
  add({Dim(4), Dim::Batch(), Dim(32)}, 9, 2);  // columns that vary with the batch
  add({Dim::Batch(), Dim(9000)}, 3, 1);        // longer than what is computed once
  add({Dim::Batch(), Dim(16), Dim(64)}, 0, 1);
  for (const int64_t row : {1, 2, 7, 33, 197, 256, 768, 1000, 2500, 4096})
    add({Dim::Batch(), Dim(5), Dim(row)}, 4, 1, 1);
  CheckAll(cases);
}

// Sums of an operand, and of what is made of two, each over all but some trailing axes.
RandomCase SumsOver(Dims space, int64_t batch, const std::vector<size_t>& kept, int32_t row_axes = 0) {
  RandomCase r;
  r.batch = batch;
  r.program.space = space;
  r.program.row_axes = row_axes;
  r.program.inputs = {{}, {}};
  r.inputs = {{DType::kFloat32, space}, {DType::kFloat32, space}};
  int32_t value = r.Op(Opcode::kMul, 0, 1);
  if (row_axes > 0) value = r.Op(Opcode::kSub, value, r.Op(Opcode::kRowMax, 0));
  for (const size_t axes : kept)
    for (const int32_t reg : {0, value}) {
      r.program.outputs.push_back({OutputKind::kSum, reg, {}, 0});
      r.outputs.push_back({DType::kFloat32, {space.end() - static_cast<int64_t>(axes), space.end()}});
    }
  r.Store(value);
  return r;
}
// The same of a program with dropout, whose random numbers begin anew with each sample.
RandomCase WithDropout(RandomCase r) {
  r.program.instrs.push_back({.op = Opcode::kDropout, .a = 0, .parameter = .25f, .stream = 3});
  r.program.outputs[0].reg = r.program.Registers() - 1;
  return r;
}

TEST(CudaFused, SumsOfManyColumns) {
  std::deque<LoopCase> cases;
  const auto add = [&](const RandomCase& r, std::optional<int64_t> workspace_bytes = std::nullopt) {
    RandomNumbers random(static_cast<unsigned>(cases.size()));
    cases.emplace_back(random, r).Request(workspace_bytes);
  };
  const Dim n = Dim::Batch();
  for (const auto& change : {+[](RandomCase r) { return r; }, &WithDropout}) {
    add(change(SumsOver({n, Dim(16), Dim(512)}, 5, {2})));
    add(change(SumsOver({n, Dim(37), Dim(300)}, 5, {2})));         // units that end with the sample
    add(change(SumsOver({n, Dim(37), Dim(300)}, 70, {1, 2, 0})));  // other sums beside it
    add(change(SumsOver({n, Dim(3), Dim(7), Dim(800)}, 2, {3, 2, 1})));
    add(change(SumsOver({n, Dim(3), Dim(5001)}, 3, {1})));  // columns that are a part of a sample
    add(change(SumsOver({n, Dim(3), Dim(5120)}, 3, {1})));
    add(change(SumsOver({n, Dim(9001), Dim(1)}, 3, {2})));  // rows of one element
    add(change(SumsOver({n, Dim(4097)}, 1, {1})));          // one summand
    add(change(SumsOver({n, Dim(40), Dim(200)}, 0, {2})));  // none
    add(change(SumsOver({n, Dim(0), Dim(5000)}, 3, {1})));
    add(change(SumsOver({Dim(6), Dim(9000)}, 1, {1})));          // no batch
    add(change(SumsOver({n, Dim(9), Dim(768)}, 3, {2, 1}, 1)));  // rows
  }
  add(SumsOver({n, Dim(41), Dim(197)}, 3, {2, 1}, 1));
  add(SumsOver({n, Dim(5), Dim(8), Dim(130)}, 3, {3, 2, 1}, 2));
  add(SumsOver({n, Dim(1601), Dim(3)}, 4, {2, 1}, 1));
  add(SumsOver({Dim(4), n, Dim(800)}, 9, {2}));  // columns that vary with the batch
  // Samples whose tokens are samples to random numbers: columns of many of them.
  add(WithDropout(SumsOver({n, Dim(kLeastLongTokens), Dim(kLeastTokenElements)}, 2, {2})));
  // Room for as few parts as there may be, and for one or a few slices of them.
  const RandomCase embedding = SumsOver({n, Dim(20), Dim(768)}, 4, {2, 1}, 1);
  constexpr int64_t kWhole = 2 * 768 * 8, kSliced = 20 * kWhole;
  for (const int64_t blocks : {1, 2, 7}) add(embedding, kSliced + blocks * kWhole);
  add(embedding, 3 * kSliced + 3 * 4 * kWhole - 8);
  CheckAll(cases);
}

// Whatever number of columns they have.
TEST(CudaFused, SumsFillACard) {
  constexpr int64_t kMultiprocessors = 132;
  const Dim n = Dim::Batch();
  const auto blocks = [](const RandomCase& r) {
    const FusedCase c(r.program, r.inputs, r.outputs, r.batch);
    const KernelSite site = FusedOnCard::SiteOnCard(c);
    const std::optional<cuda::CudaLoop> loop = cuda::MakeCudaLoop(site, nullptr);
    EXPECT_LE(loop->workspace_bytes, site.workspace_bytes);
    return loop->sum_blocks;
  };
  for (const bool dropout : {false, true})
    for (const auto& [tokens, row_axes] : std::vector<std::pair<int64_t, int32_t>>{
             {1, 1}, {128, 1}, {197, 1}, {1024, 1}, {4096, 1}, {128, 0}, {197, 0}, {1024, 0}, {4096, 0}}) {
      SCOPED_TRACE(std::to_string(tokens) + " tokens, row axes: " + std::to_string(row_axes));
      const RandomCase r = SumsOver({n, Dim(tokens), Dim(768)}, tokens == 1 ? 8192 : 16, {2, 1}, row_axes);
      EXPECT_GE(blocks(dropout ? WithDropout(r) : r), 2 * kMultiprocessors);
    }
}

// A lane's accesses to tensors of numbers are next to its neighbours', and a plane of a code is one access
// for all.
void ExpectCoalesced(NetworkLoop loop) {
  SCOPED_TRACE(loop.name);
  RandomNumbers random(1);
  LoopCase c(random, std::move(loop.loop));
  c.Request();
  TheTestCard().controls().WatchAccesses(true);
  c.kernel->Run();
  int64_t sectors = 0, ideal = 0;
  for (const auto& [kernel, counts] : TheTestCard().controls().Accesses()) {
    sectors += counts.sectors;
    ideal += counts.ideal_sectors;
  }
  EXPECT_GT(ideal, 0);
  EXPECT_LE(static_cast<double>(sectors), 1.25 * static_cast<double>(ideal));
  TheTestCard().controls().WatchAccesses(false);
}

TEST(CudaFused, AccessesOfNetworkLoopsAreCoalesced) {
  if (IsRealCard()) GTEST_SKIP() << "only the fake card counts accesses";
  for (const NetworkLoop& loop : NetworkLoops()) ExpectCoalesced(loop);
  for (const NetworkLoop& loop : NetworkLoopsInBFloat16()) ExpectCoalesced(loop);
  ExpectCoalesced({"position embedding", SumsOver({Dim::Batch(), Dim(64), Dim(768)}, 4, {2, 1}, 1), {}});
}

std::string TextOf(NetworkLoop loop) {
  RandomNumbers random(1);
  const LoopCase c(random, std::move(loop.loop));
  const KernelSite site = FusedOnCard::SiteOnCard(c.card);
  return cuda::FusedSource(*cuda::MakeCudaLoop(site, nullptr), site).text;
}

// The text is the same for every batch, and for other streams.
TEST(CudaFused, OneKernelServesEveryBatch) {
  const auto text = [](int64_t batch, int32_t stream) {
    NetworkLoop loop =
        BatchNormReluEncode({Dim::Batch(), Dim(28), Dim(28), Dim(64)}, batch, Codec::Uniform(3));
    loop.loop.program.outputs[1].stream = stream;
    return TextOf(std::move(loop));
  };
  EXPECT_EQ(text(2, 1), text(64, 1));
  EXPECT_EQ(text(2, 1), text(2, 77));
  const auto embedding = [](int64_t batch) {
    return TextOf({"", SumsOver({Dim::Batch(), Dim(12), Dim(768)}, batch, {2, 1}, 1), {}});
  };
  EXPECT_EQ(embedding(1), embedding(64));
}

TEST(CudaFused, OneKernelUpdatesParametersOfAllShapes) {
  EXPECT_EQ(TextOf(AdamUpdate({Dim(13), Dim(5)})), TextOf(AdamUpdate({Dim(7), Dim(3), Dim(3), Dim(3)})));
}

TEST(CudaFused, NetworkLoopsPassTheCompileGate) {
  if (!testing::HasNvidia()) GTEST_SKIP() << "libact_cuda.so was not built";
  for (NetworkLoop& loop : NetworkLoops()) {
    RandomNumbers random(1);
    LoopCase c(random, std::move(loop.loop));
    const KernelSite site = c.card.Site();
    const std::optional<cuda::CudaLoop> kernel = cuda::MakeCudaLoop(site, nullptr);
    const cuda::KernelSource source = cuda::FusedSource(*kernel, site);
    EXPECT_EQ(testing::FaultsOnCards(source, 64 * 1024 / kernel->ResidentThreads()), "") << loop.name;
  }
}

}  // namespace
}  // namespace act
