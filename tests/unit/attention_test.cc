#include "kernels/math/convert.h"
#include "kernels/site/dereference.h"
#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

// In logical order; perm -1: axes as they are, else [N,T,H,D].
struct Form {
  const char* name;
  Ints q, k, v;
  bool heads_second = false;
  Ints bias = {}, mask = {};
  bool causal = false;
  int64_t offset = 0;
  std::optional<int64_t> window = {};  // its offset
  double softcap = 0, dropout = 0;
  std::string empty_row = "nan";
  bool hidden_gradient = false;
  bool bias_gradient = true;
};

Ints Stored(const Form& f, Ints dims) {
  if (f.heads_second) std::swap(dims[1], dims[2]);
  return dims;
}

TestTensor Mask(Ints dims, unsigned seed) {
  TestTensor t = Empty(std::move(dims), DType::kBool);
  std::mt19937 engine(seed);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<uint8_t>()[i] = engine() % 3 != 0;
  return t;
}

OpCase Forward(const Form& f) {
  Ints o = f.q;
  o.back() = f.v.back();
  OpCase c{"Attention",
           {},
           {Random(Stored(f, f.q), 1), Random(Stored(f, f.k), 2), Random(Stored(f, f.v), 3)},
           {Empty(Stored(f, o))},
           {},
           {.seed = 5, .step = 3}};
  c.inputs.push_back(f.bias.empty() ? Absent() : Random(f.bias, 4));
  if (!f.mask.empty()) c.inputs.push_back(Mask(f.mask, 5));
  c.attrs.Set("scale", .3);
  c.attrs.Set("causal", int64_t{f.causal});
  c.attrs.Set("causal_offset", f.offset);
  c.attrs.Set("window", int64_t{f.window.has_value()});
  c.attrs.Set("window_offset", f.window.value_or(0));
  c.attrs.Set("softcap", f.softcap);
  c.attrs.Set("probability", f.dropout);
  c.attrs.Set("stream", int64_t{2});
  c.attrs.Set("empty_row", f.empty_row);
  c.attrs.Set("hidden_gradient", int64_t{f.hidden_gradient});
  if (f.heads_second)
    for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"}) c.attrs.Set(perm, Ints{0, 2, 1, 3});
  return c;
}

OpCase Gradient(const Form& f) {
  OpCase c = Forward(f);
  c.op = "AttentionGrad";
  c.inputs.insert(c.inputs.begin(), Random(c.outputs[0].dims, 6));
  c.outputs = {Empty(c.inputs[1].dims), Empty(c.inputs[2].dims), Empty(c.inputs[3].dims)};
  if (!f.bias.empty() && f.bias_gradient) c.outputs.push_back(Empty(f.bias));
  return c;
}

const Form kForms[] = {
    {.name = "one block", .q = {2, 3, 17, 16}, .k = {2, 3, 17, 16}, .v = {2, 3, 17, 16}},
    {.name = "[N,T,H,D]", .q = {2, 3, 65, 20}, .k = {2, 3, 33, 20}, .v = {2, 3, 33, 7}, .heads_second = true},
    {.name = "many blocks and panels", .q = {1, 2, 131, 70}, .k = {1, 2, 197, 70}, .v = {1, 2, 197, 66}},
    {.name = "long sums", .q = {1, 1, 7, 150}, .k = {1, 1, 300, 150}, .v = {1, 1, 300, 3}},
    {.name = "causal", .q = {2, 2, 130, 8}, .k = {2, 2, 130, 8}, .v = {2, 2, 130, 8}, .causal = true},
    {.name = "causal, past keys",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 90, 8},
     .v = {1, 2, 90, 8},
     .causal = true,
     .offset = 20},
    {.name = "grouped", .q = {2, 6, 19, 8}, .k = {2, 2, 21, 8}, .v = {2, 2, 21, 8}, .bias = {6, 19, 21}},
    {.name = "bias of a head", .q = {40, 3, 9, 8}, .k = {40, 3, 9, 8}, .v = {40, 3, 9, 8}, .bias = {3, 9, 9}},
    {.name = "bias of all", .q = {5, 3, 9, 8}, .k = {5, 3, 9, 8}, .v = {5, 3, 9, 8}, .bias = {9, 9}},
    {.name = "bias of keys",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 12, 8},
     .v = {3, 2, 12, 8},
     .bias = {3, 1, 1, 12}},
    {.name = "bias of queries, without gradient",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 12, 8},
     .v = {3, 2, 12, 8},
     .bias = {9, 1},
     .bias_gradient = false},
    {.name = "mask", .q = {3, 2, 9, 8}, .k = {3, 2, 40, 8}, .v = {3, 2, 40, 8}, .mask = {3, 1, 9, 40}},
    {.name = "mask of queries, mean",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 40, 8},
     .v = {3, 2, 40, 8},
     .mask = {3, 1, 9, 1},
     .empty_row = "mean"},
    {.name = "mask of queries, zero",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 40, 8},
     .v = {3, 2, 40, 8},
     .mask = {3, 1, 9, 1},
     .empty_row = "zero"},
    {.name = "mask of queries, nan",
     .q = {3, 2, 9, 8},
     .k = {3, 2, 40, 8},
     .v = {3, 2, 40, 8},
     .mask = {3, 1, 9, 1}},
    {.name = "causal mask, mean, with gradient",
     .q = {2, 2, 70, 8},
     .k = {2, 2, 70, 8},
     .v = {2, 2, 70, 8},
     .mask = {2, 1, 70, 1},
     .causal = true,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "causal, first queries see nothing",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 70, 8},
     .v = {1, 2, 70, 8},
     .causal = true,
     .offset = -5,
     .empty_row = "zero"},
    {.name = "window",
     .q = {2, 2, 200, 8},
     .k = {2, 2, 200, 8},
     .v = {2, 2, 200, 8},
     .causal = true,
     .window = -9},
    {.name = "window on both sides, past keys",
     .q = {1, 2, 130, 8},
     .k = {1, 2, 300, 8},
     .v = {1, 2, 300, 8},
     .causal = true,
     .offset = 130,
     .window = 70},
    {.name = "window without causal",
     .q = {2, 2, 70, 8},
     .k = {2, 1, 90, 8},
     .v = {2, 1, 90, 8},
     .window = 5},
    {.name = "window, bias, mask, cap, dropout",
     .q = {2, 3, 220, 8},
     .k = {2, 3, 220, 8},
     .v = {2, 3, 220, 5},
     .bias = {3, 1, 220},
     .mask = {2, 1, 1, 220},
     .causal = true,
     .window = -40,
     .softcap = .7,
     .dropout = .3,
     .empty_row = "zero"},
    {.name = "window and padding, mean",
     .q = {2, 2, 200, 8},
     .k = {2, 2, 200, 8},
     .v = {2, 2, 200, 8},
     .mask = {2, 1, 1, 200},
     .causal = true,
     .window = -20,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "window, some queries see nothing",
     .q = {1, 2, 200, 8},
     .k = {1, 2, 40, 8},
     .v = {1, 2, 40, 8},
     .window = 20,
     .empty_row = "zero"},
    {.name = "window, some queries see nothing, mean",
     .q = {1, 2, 200, 8},
     .k = {1, 2, 40, 8},
     .v = {1, 2, 40, 8},
     .window = 20,
     .empty_row = "mean"},
    {.name = "window, some queries see nothing, nan",
     .q = {1, 1, 300, 8},
     .k = {1, 1, 128, 8},
     .v = {1, 1, 128, 8},
     .causal = true,
     .offset = 3,
     .window = -2},
    {.name = "empty window",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 70, 8},
     .v = {1, 2, 70, 8},
     .causal = true,
     .offset = -3,
     .window = 3,
     .empty_row = "zero"},
    {.name = "window beyond all integers",
     .q = {1, 2, 70, 8},
     .k = {1, 2, 70, 8},
     .v = {1, 2, 70, 8},
     .window = INT64_MAX,
     .empty_row = "mean"},
    {.name = "capped",
     .q = {2, 2, 20, 8},
     .k = {2, 2, 18, 8},
     .v = {2, 2, 18, 8},
     .bias = {18},
     .softcap = .7},
    {.name = "capped, mean, with gradient",
     .q = {2, 2, 9, 8},
     .k = {2, 2, 18, 8},
     .v = {2, 2, 18, 8},
     .mask = {2, 1, 9, 1},
     .softcap = .7,
     .empty_row = "mean",
     .hidden_gradient = true},
    {.name = "dropout",
     .q = {2, 3, 33, 8},
     .k = {2, 3, 75, 8},
     .v = {2, 3, 75, 8},
     .bias = {3, 1, 75},
     .dropout = .3},
    {.name = "dropout, causal",
     .q = {2, 2, 70, 8},
     .k = {2, 2, 70, 8},
     .v = {2, 2, 70, 8},
     .causal = true,
     .dropout = .5},
};

TEST(Attention, TheFastKernelsAgreeWithTheReference) {
  // Up to 300 products in float32, and exponentials to 2 ulp. The reference adds gradients up
  // in float32, too.
  constexpr double kTolerance = 3e-6;
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    EXPECT_GT(CompareWithReference(Forward(f), kTolerance), 0);
    EXPECT_GT(CompareWithReference(Gradient(f), kTolerance), 0);
  }
}

// Threads share a head where the scratch space does not hold one for each. Then they compute the same bits.
void CompareShared(const OpCase& c, int64_t keys) {
  const KernelEntry& entry = CpuRegistry().For(c.op).front();
  const OpResult alone = RunKernel(entry, c, 1, PlannedWorkspace(c));
  ASSERT_FALSE(alone.refused) << alone.error;
  constexpr int kThreads = 5;
  // One head, and up to two rows a thread.
  const int64_t workspace = alone.workspace_bytes + kThreads * 2 * AttentionRowFloats(keys) * 4;
  const OpResult shared = RunKernel(entry, c, kThreads, workspace);
  ASSERT_FALSE(shared.refused) << shared.error;
  for (size_t i = 0; i < alone.tensors.size(); ++i)
    EXPECT_EQ(shared.tensors[i].bytes, alone.tensors[i].bytes) << c.op << ", result " << i;
}

TEST(Attention, ThreadsThatShareAHeadComputeTheSameBits) {
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    const int64_t keys = f.k[f.k.size() - 2];
    CompareShared(Forward(f), keys);
    if (f.bias.empty() || !f.bias_gradient) CompareShared(Gradient(f), keys);
  }
}

// ---- bfloat16 ------------------------------------------------------------------------------------

TestTensor Narrow(const TestTensor& wide) {
  TestTensor t = Empty(wide.dims, DType::kBFloat16);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<BFloat16>()[i] = FromFloat<BFloat16>(wide.as<float>()[i]);
  return t;
}

// The case with bfloat16 operands but bias and mask. Results are float32.
OpCase InBFloat16(OpCase c) {
  for (size_t i = 0; i < (c.op == "Attention" ? 3 : 4); ++i) c.inputs[i] = Narrow(c.inputs[i]);
  return c;
}
OpCase WithBFloat16Results(OpCase c) {
  for (TestTensor& result : c.outputs) result = Empty(result.dims, DType::kBFloat16);
  return c;
}

// The fast kernel on several numbers of threads, with the planned workspace, beside the reference. Results
// in bfloat16 must be those in float32, rounded.
void CompareInBFloat16(const OpCase& wide, double tolerance) {
  const OpResult truth = RunReference(wide);
  ASSERT_FALSE(truth.refused) << truth.error;
  const KernelEntry& entry = CpuRegistry().For(wide.op).front();
  const OpCase narrow = WithBFloat16Results(wide);
  const OpResult first = RunKernel(entry, wide, 1, PlannedWorkspace(wide));
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    const OpResult got = RunKernel(entry, wide, threads, PlannedWorkspace(wide));
    const OpResult rounded = RunKernel(entry, narrow, threads, PlannedWorkspace(narrow));
    ASSERT_FALSE(got.refused || rounded.refused) << got.error << rounded.error;
    for (size_t i = 0; i < truth.tensors.size(); ++i) {
      EXPECT_LE(Distance(got.tensors[i], truth.tensors[i]), tolerance) << "result " << i;
      EXPECT_EQ(got.tensors[i].bytes, first.tensors[i].bytes) << "result " << i;
      EXPECT_EQ(rounded.tensors[i].bytes, Narrow(got.tensors[i]).bytes) << "result " << i;
    }
  }
}

TEST(Attention, BFloat16AgreesWithTheReference) {
  // Where a probability or the gradient of a score lies almost between two bfloat16 numbers, the kernel may
  // round it to the other one: that changes a term by 2^-8 of itself.
  const double tolerance = std::ldexp(1, -10);
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    CompareInBFloat16(InBFloat16(Forward(f)), tolerance);
    CompareInBFloat16(InBFloat16(Gradient(f)), tolerance);
  }
}

TEST(Attention, TheReferenceRoundsBFloat16ResultsOnce) {
  const Form f{.name = "", .q = {1, 2, 9, 8}, .k = {1, 2, 12, 8}, .v = {1, 2, 12, 8}, .bias = {12}};
  for (const OpCase& c : {InBFloat16(Forward(f)), InBFloat16(Gradient(f))}) {
    const OpResult wide = RunReference(c), narrow = RunReference(WithBFloat16Results(c));
    ASSERT_FALSE(narrow.refused) << narrow.error;
    for (size_t i = 0; i < wide.tensors.size(); ++i)
      EXPECT_EQ(narrow.tensors[i].bytes, Narrow(wide.tensors[i]).bytes) << c.op << ", result " << i;
  }
}

// Gradients that lie where q, k and v do are those that lie elsewhere.
void ExpectSameInPlace(const OpCase& apart, const std::vector<std::pair<size_t, size_t>>& places) {
  OpCase in_place = apart;
  in_place.in_place = places;
  for (const KernelEntry& entry : CpuRegistry().For(apart.op))
    for (const int threads : {1, 5}) {
      const OpResult a = RunKernel(entry, apart, threads, PlannedWorkspace(apart)),
                     b = RunKernel(entry, in_place, threads, PlannedWorkspace(apart));
      ASSERT_FALSE(a.refused || b.refused) << a.error << b.error;
      for (size_t i = 0; i < a.tensors.size(); ++i)
        EXPECT_EQ(a.tensors[i].bytes, b.tensors[i].bytes) << entry.name << ", result " << i;
    }
}

TEST(Attention, GradientsMayLieWhereOperandsDo) {
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    const std::vector<std::pair<size_t, size_t>> places = {{0, 1}, {1, 2}, {2, 3}};
    ExpectSameInPlace(Gradient(f), places);
    ExpectSameInPlace(WithBFloat16Results(InBFloat16(Gradient(f))), places);
  }
  // One product [N,T,3,H,D] makes all three.
  const Form f{
      .name = "", .q = {2, 3, 130, 8}, .k = {2, 3, 130, 8}, .v = {2, 3, 130, 8}, .heads_second = true};
  OpCase packed = Gradient(f);
  packed.attrs.Set("packed", int64_t{2});
  const TestTensor qkv = Random({2, 130, 3, 3, 8}, 7);
  for (size_t i = 1; i < 4; ++i) packed.inputs[i] = qkv;
  packed.outputs = {Empty(qkv.dims)};
  ExpectSameInPlace(packed, {{0, 1}, {0, 2}, {0, 3}});
  ExpectSameInPlace(WithBFloat16Results(InBFloat16(packed)), {{0, 1}, {0, 2}, {0, 3}});
}

// With equal scores of 64 keys, probabilities are exact, and with them all sums.
TEST(Attention, BFloat16ProductsOfExactNumbersAreExact) {
  const Form f{.name = "", .q = {1, 2, 70, 8}, .k = {1, 2, 64, 8}, .v = {1, 2, 64, 24}};
  const auto exact = [](OpCase c, size_t first) {
    for (TestTensor& t : c.inputs)
      for (int64_t i = 0; t.present && i < t.elements(); ++i)
        t.as<float>()[i] = static_cast<float>(i * 7 % 11 - 5);
    std::fill_n(c.inputs[first].as<float>(), c.inputs[first].elements(), 0.0f);
    return InBFloat16(c);
  };
  CompareInBFloat16(exact(Forward(f), 0), 0);
  const OpCase gradient = exact(Gradient(f), 1);
  const OpResult got = RunKernel(CpuRegistry().For(gradient.op).front(), gradient, 1, 1 << 22);
  EXPECT_EQ(got.tensors[2].bytes, RunReference(gradient).tensors[2].bytes) << "dv = p^T do";
}

// Factors are rounded: a probability of 1/3 becomes the nearest bfloat16.
TEST(Attention, BFloat16ProbabilitiesAreRoundedAsFactors) {
  // v of 1, 0, 0: the result is the first key's weight, rounded, by the sum of the weights.
  const Form f{.name = "", .q = {1, 1, 1, 1}, .k = {1, 1, 3, 1}, .v = {1, 1, 3, 1}};
  OpCase c = Forward(f);
  c.attrs.Set("scale", 1.0);
  c.inputs[0] = Floats({1, 1, 1, 1}, {1});
  c.inputs[1] = Floats({1, 1, 3, 1}, {-1, 0, 0});
  c.inputs[2] = Floats({1, 1, 3, 1}, {1, 0, 0});
  c = InBFloat16(c);
  const double weight = std::exp(-1.0), sum = 2 + weight;
  const double rounded = ToFloat(FromFloat<BFloat16>(static_cast<float>(weight)));
  ASSERT_GT(std::fabs(rounded - weight), 1e-4);
  for (const KernelEntry& entry : CpuRegistry().For(c.op)) {
    const OpResult o = RunKernel(entry, c, 1, 1 << 20);
    EXPECT_NEAR(o.tensors[0].as<float>()[0], rounded / sum, 1e-7) << entry.name;  // some 2 ulp
  }
}

TEST(Attention, BFloat16OnlyWhereTheOperatorAllowsIt) {
  for (OpCase c : {Forward(kForms[0]), Gradient(kForms[0])}) {
    const size_t first = c.op == "Attention" ? 0 : 1;
    std::vector<OpCase> bad;
    for (size_t i = 0; i < first + 3; ++i) {
      bad.push_back(c);  // one operand
      bad.back().inputs[i] = Narrow(c.inputs[i]);
    }
    bad.push_back(c);  // results alone
    bad.back().outputs[0] = Empty(c.outputs[0].dims, DType::kBFloat16);
    bad.push_back(c);
    for (size_t i = 0; i < first + 3; ++i) bad.back().inputs[i] = Empty(c.inputs[i].dims, DType::kFloat16);
    for (const OpCase& b : bad)
      for (const KernelEntry& entry : CpuRegistry().For(c.op))
        EXPECT_TRUE(RunKernel(entry, b, 1, 1 << 20).refused) << entry.name;
  }
}

TEST(Attention, EmptyTensors) {
  for (const Form& f : {Form{.name = "no samples", .q = {0, 2, 3, 4}, .k = {0, 2, 3, 4}, .v = {0, 2, 3, 4}},
                        Form{.name = "no queries", .q = {1, 2, 0, 4}, .k = {1, 2, 3, 4}, .v = {1, 2, 3, 4}},
                        Form{.name = "no keys", .q = {1, 2, 3, 4}, .k = {1, 2, 0, 4}, .v = {1, 2, 0, 4}},
                        Form{.name = "no depth", .q = {1, 2, 3, 0}, .k = {1, 2, 4, 0}, .v = {1, 2, 4, 5}}}) {
    SCOPED_TRACE(f.name);
    CompareWithReference(Forward(f), 1e-6);
    CompareWithReference(Gradient(f), 1e-6);
    for (const OpCase& c : {Forward(f), Gradient(f)})
      CompareWithReference(WithBFloat16Results(InBFloat16(c)), 0);
  }
}

// The derivative of what is added to hide a pair remains: a query that sees no key has the gradient
// of a query with equal scores.
TEST(Attention, QueriesThatSeeNoKeyHaveTheGradientOfEqualScores) {
  Form f{.name = "", .q = {1, 1, 3, 4}, .k = {1, 1, 5, 4}, .v = {1, 1, 5, 4}};
  const OpResult equal = [&] {
    OpCase c = Gradient(f);
    std::fill_n(c.inputs[1].as<float>(), c.inputs[1].elements(), 0.0f);
    return RunReference(c);
  }();
  f.mask = {1, 1, 1, 1};
  f.empty_row = "mean";
  f.hidden_gradient = true;
  OpCase c = Gradient(f);
  c.inputs[5].as<uint8_t>()[0] = 0;
  for (const KernelEntry& entry : CpuRegistry().For(c.op)) {
    const OpResult masked = RunKernel(entry, c, 2, 1 << 20);
    for (size_t i : {size_t{0}, size_t{2}})  // dq, dv; dk depends on q
      EXPECT_LE(Distance(masked.tensors[i], equal.tensors[i]), 1e-6) << entry.name << ", gradient " << i;
  }
}

TEST(Attention, DropoutKeepsTheMean) {
  // With v of ones, each result is the kept share of its probabilities, which is 1 on average.
  Form f{.name = "", .q = {4, 4, 64, 8}, .k = {4, 4, 64, 8}, .v = {4, 4, 64, 1}, .dropout = .4};
  OpCase c = Forward(f);
  std::fill_n(c.inputs[2].as<float>(), c.inputs[2].elements(), 1.0f);
  const OpResult y = RunKernel(CpuRegistry().For(c.op).front(), c, 2, 1 << 22);
  double sum = 0;
  for (int64_t i = 0; i < y.tensors[0].elements(); ++i) sum += y.tensors[0].as<float>()[i];
  // 1024 results, each with a variance below (1 / (1 - p) - 1) sum p^2 < .67 / 10: six deviations.
  EXPECT_NEAR(sum / static_cast<double>(y.tensors[0].elements()), 1, 6 * std::sqrt(.067 / 1024));
}

TEST(Attention, ExtentsThatDoNotFitAreRefused) {
  const Form good = kForms[0];
  Form bad[] = {good, good, good, good, good, good};
  bad[0].k.back() = 3;
  bad[1].v[2] = 5;
  bad[2].k[1] = 2;
  bad[3].q[0] = 3;
  bad[4].bias = {2, 17, 17};
  bad[5].mask = {1, 1, 1, 1, 17};
  for (const Form& f : bad)
    for (const OpCase& c : {Forward(f), Gradient(f)})
      for (const KernelEntry& entry : CpuRegistry().For(c.op))
        EXPECT_TRUE(RunKernel(entry, c, 1, 1 << 20).refused) << entry.name;
  OpCase c = Forward(good);
  for (const Ints& perm : {Ints{0, 1, 2}, Ints{0, 1, 2, 2}, Ints{0, 1, 2, 4}, Ints{-1, 1, 2, 3}}) {
    c.attrs.Set("perm_k", perm);
    for (const KernelEntry& entry : CpuRegistry().For(c.op))
      EXPECT_TRUE(RunKernel(entry, c, 1, 1 << 20).refused);
  }
}

}  // namespace
}  // namespace act
