// Matrix products of bfloat16 factors, of which a float32 one is rounded (docs/runtime_ops.md).
#include <numeric>

#include "kernels/cpu/instructions.h"
#include "kernels/cpu/product_blocks.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/math/convert.h"
#include "tests/unit/each_target.h"
#include "tests/unit/exact_numbers.h"
#include "tests/unit/matmul_case.h"

namespace act {
namespace {

constexpr DType kF32 = DType::kFloat32, kBF16 = DType::kBFloat16;

TestTensor Narrow(const TestTensor& wide) {
  TestTensor t = Empty(wide.dims, kBF16);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<BFloat16>()[i] = FromFloat<BFloat16>(wide.as<float>()[i]);
  return t;
}

// The case with exact numbers of these types.
OpCase Exact(OpCase c, DType a, DType b, DType y) {
  c.inputs[0] = a == kBF16 ? Narrow(Integers(c.inputs[0].dims, 1)) : Fractions(c.inputs[0].dims, 1);
  c.inputs[1] = b == kBF16 ? Narrow(Integers(c.inputs[1].dims, 2)) : Fractions(c.inputs[1].dims, 2);
  c.outputs[0] = Empty(c.outputs[0].dims, y);
  if (c.inputs.size() > 2) c.inputs[2] = Integers(c.inputs[2].dims, 3);
  return c;
}

struct Types {
  DType a, b, y;
};
constexpr Types kTypes[] = {{kBF16, kBF16, kF32}, {kBF16, kBF16, kBF16}, {kBF16, kF32, kF32},
                            {kBF16, kF32, kBF16}, {kF32, kBF16, kF32},   {kF32, kBF16, kBF16}};

std::string Name(const Types& t) {
  const auto name = [](DType dtype) { return std::string(ToString(dtype)); };
  return name(t.a) + " by " + name(t.b) + " to " + name(t.y);
}

const KernelEntry& Entry(const std::string& name) {
  for (const KernelEntry& entry : CpuRegistry().For("MatMul"))
    if (entry.name == name) return entry;
  ADD_FAILURE() << "no kernel " << name;
  return CpuRegistry().For("MatMul").back();
}

TEST(BFloat16MatMul, ByHand) {
  OpCase c = MatMul({2, 3}, {2, 2}, {3, 2}, true, false);
  c.inputs = {Narrow(Floats({2, 3}, {1, 2, 3, 4, 5, 6})),
              // 1 + 2^-8 rounds to 1, 1 + 3 2^-8 to 1 + 2^-6
              Floats({2, 2}, {1.00390625f, 10, 1.01171875f, 1000})};
  c.outputs = {Empty({3, 2})};
  const float expected[] = {1 + 4 * 1.015625f, 4010, 2 + 5 * 1.015625f, 5020, 3 + 6 * 1.015625f, 6030};
  const OpResult y = RunReference(c);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.tensors[0].as<float>()[i], expected[i]);
  c.outputs = {Empty({3, 2}, kBF16)};
  const OpResult rounded = RunReference(c);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(rounded.tensors[0].as<BFloat16>()[i].bits, FromFloat<BFloat16>(expected[i]).bits);
}

TEST(BFloat16MatMul, ProductsOfExactNumbersAreExact) {
  std::vector<std::pair<std::string, OpCase>> cases = MatMulCases();
  for (const OpCase& c : BiasCases()) cases.emplace_back("bias", c);
  // several blocks of each operand, and edges that are no whole vectors
  cases.emplace_back("blocks", MatMul({205, 901}, {901, 451}, {205, 451}, false, false));
  cases.emplace_back("blocks, a^T b^T", MatMul({401, 205}, {1101, 401}, {205, 1101}, true, true));
  cases.emplace_back("one row", MatMul({1, 900}, {900, 70}, {1, 70}, false, false));
  cases.emplace_back("one column", MatMul({300, 900}, {1, 900}, {300, 1}, false, true));
  cases.emplace_back("one term", MatMul({1, 300}, {1, 129}, {300, 129}, true, false));
  for (const Types& t : kTypes)
    for (const auto& [name, c] : cases) {
      SCOPED_TRACE(name + ", " + Name(t));
      EXPECT_GT(CompareWithReference(Exact(c, t.a, t.b, t.y), 0), 0);
    }
}

TEST(BFloat16MatMul, TilesGoOnFromASum) {
  for (const Types& t : kTypes)
    for (const OpCase& c : SumsOverSamples()) {
      if (t.y != kF32) continue;
      OpCase exact = Exact(c, t.a, t.b, t.y);
      exact.outputs[0] = Integers(c.outputs[0].dims, 4);
      SCOPED_TRACE(Name(t) + ", " + std::to_string(c.inputs[0].dims[0]) + " terms");
      EXPECT_GT(CompareWithReference(exact, 0), 0);
    }
}

// Blocks of sums that outlast several blocks of b.
TEST(BFloat16MatMul, LongSumsOfExactNumbersAreExact) {
  const OpCase c = MatMul({300, 10001}, {10001, 70}, {300, 70}, false, false);
  EXPECT_GT(CompareWithReference(Exact(c, kBF16, kF32, kBF16), 0), 0);
  OpCase with_bias = Exact(c, kBF16, kF32, kBF16);
  with_bias.inputs.push_back(Integers({70}, 5));
  EXPECT_GT(CompareWithReference(with_bias, 0), 0);
}

// Columns of the result, or parts of the sum, at a time. The last piece is shorter, and no whole number of blocks.
TEST(BFloat16MatMul, LargeFactorsAreRoundedInPieces) {
  for (const bool across : {false, true})
    for (const auto& [m, k, n] : {std::array<int64_t, 3>{5, 120, 80003}, {3, 24001, 400}, {1, 9001, 1000}})
      for (const bool bias : {false, true}) {
        const DType y = bias ? kBF16 : kF32;
        OpCase c =
            Exact(MatMul({m, k}, across ? std::vector{n, k} : std::vector{k, n}, {m, n}, false, across),
                  kBF16, kF32, y);
        if (bias) c.inputs.push_back(Integers({n}, 5));
        SCOPED_TRACE(std::to_string(k) + " x " + std::to_string(n) + (across ? ", across" : "") +
                     (bias ? ", with a bias" : ""));
        const OpResult got = RunKernel(Entry("dnnl.pieced_matmul"), c, 2, PlannedWorkspace(c));
        EXPECT_EQ(got.refused, !UsesBFloat16Instructions()) << got.error;
        if (!got.refused) {
          EXPECT_TRUE(got.tensors[0].bytes == RunReference(c).tensors[0].bytes);
        }
      }
}

// A bfloat16 result has float32 sums of some rows at a time.
TEST(BFloat16MatMul, RowsOfLargeProductsAreIndependent) {
  if (!UsesBFloat16Instructions()) GTEST_SKIP() << "the processor has no bfloat16 arithmetic";
  constexpr int64_t kRows = 730, kLast = 9, kTerms = 3000, kColumns = 2900;
  const OpCase all =
      Exact(MatMul({kRows, kTerms}, {kTerms, kColumns}, {kRows, kColumns}, false, false), kBF16, kF32, kBF16);
  static_assert(kRows * kColumns * 4 > kRoundedSumBytes);
  OpCase last =
      Exact(MatMul({kLast, kTerms}, {kTerms, kColumns}, {kLast, kColumns}, false, false), kBF16, kF32, kBF16);
  last.inputs[0].bytes.assign(all.inputs[0].bytes.end() - kLast * kTerms * 2, all.inputs[0].bytes.end());
  const OpResult whole = RunKernel(Entry("dnnl.pieced_matmul"), all, 2, PlannedWorkspace(all));
  ASSERT_FALSE(whole.refused) << whole.error;
  const std::vector<std::byte>& bytes = whole.tensors[0].bytes;
  EXPECT_TRUE(std::equal(bytes.end() - kLast * kColumns * 2, bytes.end(),
                         RunReference(last).tensors[0].bytes.begin()));
}

TEST(BFloat16MatMul, EveryInstructionSetAgreesWithTheReference) {
  ForEachTarget([] {
    for (const bool across : {false, true}) {
      const OpCase c =
          MatMul({29, 150}, across ? std::vector<int64_t>{75, 150} : std::vector<int64_t>{150, 75}, {29, 75},
                 false, across);
      for (const Types& t : kTypes) {
        SCOPED_TRACE(Name(t));
        const OpCase exact = Exact(c, t.a, t.b, t.y);
        const OpResult got = RunKernel(Entry("cpu.matmul"), exact, 2, PlannedWorkspace(exact));
        ASSERT_FALSE(got.refused) << got.error;
        EXPECT_EQ(got.tensors[0].bytes, RunReference(exact).tensors[0].bytes);
      }
    }
  });
}

// A bfloat16 result is the float32 result, rounded once.
TEST(BFloat16MatMul, ResultsAreRoundedOnce) {
  OpCase c = MatMul({70, 700}, {700, 90}, {70, 90}, false, false);
  c.inputs[0] = Narrow(c.inputs[0]);
  const KernelEntry& entry = Entry("cpu.matmul");
  const OpResult wide = RunKernel(entry, c, 1, 1 << 22);
  c.outputs[0] = Empty(c.outputs[0].dims, kBF16);
  const OpResult narrow = RunKernel(entry, c, 2, 1 << 22);
  ASSERT_FALSE(wide.refused || narrow.refused) << wide.error << narrow.error;
  EXPECT_EQ(narrow.tensors[0].bytes, Narrow(wide.tensors[0]).bytes);
}

// As in float32: up to 700 products, 2^-24 * sqrt(700), relative to the largest output.
TEST(BFloat16MatMul, RandomNumbersAgreeWithTheReference) {
  for (const Types& t : kTypes) {
    if (t.y != kF32) continue;
    OpCase c = MatMul({70, 700}, {700, 90}, {70, 90}, false, false);
    if (t.a == kBF16) c.inputs[0] = Narrow(c.inputs[0]);
    if (t.b == kBF16) c.inputs[1] = Narrow(c.inputs[1]);
    SCOPED_TRACE(Name(t));
    EXPECT_GT(CompareWithReference(c, 2e-6), 0);
  }
}

TEST(BFloat16MatMul, NotANumberAndInfinityGoThrough) {
  OpCase c = Exact(MatMul({8, 20}, {20, 24}, {8, 24}, false, false), kBF16, kF32, kF32);
  c.inputs[1].as<float>()[3] = NAN;
  c.inputs[1].as<uint32_t>()[28] = 0x7F800001u;  // a signalling NaN whose upper half alone is infinity
  c.inputs[1].as<float>()[9] = 3.4e38f;          // above the largest bfloat16: rounds to infinity
  c.inputs[0].as<BFloat16>()[41] = FromFloat<BFloat16>(INFINITY);
  EXPECT_GT(CompareWithReference(c, 0), 0);
  const OpResult y = RunReference(c);
  EXPECT_TRUE(std::isnan(y.tensors[0].as<float>()[3]) && std::isnan(y.tensors[0].as<float>()[4]));
  EXPECT_TRUE(std::isinf(y.tensors[0].as<float>()[9]));
}

TEST(BFloat16MatMul, EmptyExtents) {
  for (const Types& t : kTypes)
    for (const OpCase& c :
         {MatMul({0, 4}, {4, 3}, {0, 3}, false, false), MatMul({2, 0}, {0, 3}, {2, 3}, false, false)})
      CompareWithReference(Exact(c, t.a, t.b, t.y), 0);
}

TEST(BFloat16MatMul, OtherTypesAreRefused) {
  const OpCase c = MatMul({24, 24}, {24, 24}, {24, 24}, false, false);
  std::vector<OpCase> bad;
  for (const size_t i : {0, 1})  // types of the same size
    for (const DType dtype : {DType::kFloat16, DType::kInt16, DType::kInt32}) {
      bad.push_back(Exact(c, kBF16, kBF16, kF32));
      bad.back().inputs[i] = Empty({24, 24}, dtype);
    }
  bad.push_back(c);  // float32 factors
  bad.back().outputs[0] = Empty({24, 24}, kBF16);
  bad.push_back(Exact(c, kBF16, kBF16, kF32));
  bad.back().outputs[0] = Empty({24, 24}, DType::kFloat16);
  bad.push_back(Exact(c, kBF16, kBF16, kF32));
  bad.back().inputs.push_back(Narrow(Integers({24}, 4)));  // a bias
  for (const OpCase& b : bad)
    for (const KernelEntry& entry : CpuRegistry().For("MatMul"))
      EXPECT_TRUE(RunKernel(entry, b, 1, 1 << 20).refused) << entry.name;
  for (const Types& t : kTypes) {
    const OpCase mixed = Exact(c, t.a, t.b, t.y);
    EXPECT_TRUE(RunKernel(Entry("dnnl.matmul"), mixed, 1, 1 << 20).refused) << Name(t);
  }
}

// ---- Blocks --------------------------------------------------------------------------------------

TEST(BFloat16MatMul, BlocksFitWhatTheyAreGiven) {
  std::mt19937 engine(3);
  const auto draw = [&engine](int64_t most) {
    return static_cast<int64_t>(
        std::exp(std::uniform_real_distribution<double>(0, std::log(static_cast<double>(most)))(engine)));
  };
  int found = 0;
  for (int i = 0; i < 20000; ++i) {
    const ProductSizes s{.m = draw(20000),
                         .n = draw(60000),
                         .k = draw(60000),
                         .batches = engine() % 4 ? 1 : draw(100),
                         .transposed_a = engine() % 2 == 0,
                         .stages_b = engine() % 2 == 0,
                         .sums_apart = engine() % 2 == 0};
    const int threads = static_cast<int>(draw(64));
    const int64_t bytes = draw(int64_t{1} << 24), panel = engine() % 2 ? 64 : 16;
    const auto b = FitProductBlocks(s, panel, threads, bytes);
    if (!b) continue;
    ++found;
    SCOPED_TRACE(testing::Message() << "m " << s.m << " n " << s.n << " k " << s.k << ", " << threads
                                    << " threads, " << bytes << " bytes");
    ASSERT_LE(b->Bytes(s), bytes);
    ASSERT_LE(b->teams * b->threads, threads);
    ASSERT_GE(b->teams, 1);
    ASSERT_GE(b->threads, 1);
    ASSERT_LE(b->teams, s.batches);
    ASSERT_GT(b->rows, 0);
    ASSERT_EQ(b->rows % 6, 0);
    ASSERT_GT(b->columns, 0);
    ASSERT_LE(b->columns, s.n);
    ASSERT_TRUE(b->columns == s.n || b->columns % panel == 0);
    ASSERT_GT(b->b_depth, 0);
    ASSERT_LE(b->b_depth, s.k);
    ASSERT_EQ(b->sum_rows > 0, s.sums_apart);
    if (b->sums_of_a_thread) {
      ASSERT_EQ(b->b_depth, s.k);
      ASSERT_EQ(b->sum_rows, b->rows);
    }
    ASSERT_EQ(b->sum_rows % b->rows, 0) << "a block of rows lies in one block of sums";
  }
  EXPECT_GT(found, 5000);
}

// Of ViT-B/16 with 8 images, BERT-base with 8 sequences of 128, GPT-2 with one of 1024.
TEST(BFloat16MatMul, KnownNetworksFitThePlannedWorkspaceOnAnyNumberOfThreads) {
  struct Shape {
    int64_t m, k, n;
    bool gradient_of_weight;
  };
  for (const Shape& s : {Shape{1576, 768, 3072, false},
                         {1576, 3072, 768, false},
                         {1024, 768, 768, false},
                         {1024, 768, 50257, false},
                         {1024, 50257, 768, false},
                         {8, 768, 1000, false},
                         {3072, 1576, 768, true},
                         {768, 1024, 3072, true},
                         {50257, 1024, 768, true}}) {
    Node node;
    node.op = "MatMul";
    node.attrs.Set("trans_a", int64_t{s.gradient_of_weight});
    const auto view = [](std::vector<int64_t> dims, DType dtype) {
      const int64_t elements = ElementCount(dims);
      return TensorView{{}, dtype, std::move(dims), elements, elements * ByteSize(dtype)};
    };
    const std::vector<int64_t> a = s.gradient_of_weight ? std::vector{s.k, s.m} : std::vector{s.m, s.k};
    KernelSite site{&node,
                    {view(a, kBF16), view({s.k, s.n}, s.gradient_of_weight ? kBF16 : kF32)},
                    {view({s.m, s.n}, s.gradient_of_weight ? kF32 : kBF16)}};
    Graph graph;
    for (const TensorView& v : {site.inputs[0], site.inputs[1], site.outputs[0]})
      graph.values.push_back({"", {v.dtype, Dims(v.dims.begin(), v.dims.end())}, ValueKind::kActivation, {}});
    node.inputs = {0, 1};
    node.outputs = {2};
    site.workspace_bytes = WorkspaceBound(node, graph, CpuTarget(), 0).At(1);
    for (const int threads : {1, 2, 4, 8, 16}) {
      SCOPED_TRACE(testing::Message() << s.m << " x " << s.k << " x " << s.n << ", " << threads
                                      << " threads, " << site.workspace_bytes << " bytes");
      site.threads = threads;
      std::string why;
      const auto kernel = Entry("cpu.matmul").create(site, &why);
      ASSERT_NE(kernel, nullptr) << why;
      EXPECT_LE(kernel->WorkspaceBytes(), site.workspace_bytes);
      EXPECT_EQ(kernel->Describe().find(std::to_string(threads) + " threads"), 0u) << kernel->Describe();
    }
  }
}

}  // namespace
}  // namespace act
