#include "kernels/site/dereference.h"
#include "tests/unit/attention_cases.h"

namespace act {
namespace {

using namespace attention_cases;

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
    CompareShared(InBFloat16(Forward(f)), keys);
    if (!f.bias.empty() && f.bias_gradient) continue;
    CompareShared(Gradient(f), keys);
    CompareShared(InBFloat16(Gradient(f)), keys);
  }
}

// Padding that products read must be zero: zero times a NaN would not be.
TEST(Attention, WhatTheWorkspaceHeldBeforeIsNotRead) {
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    for (OpCase c : {Forward(f), Gradient(f), InBFloat16(Forward(f)), InBFloat16(Gradient(f))}) {
      const KernelEntry& entry = CpuRegistry().For(c.op).front();
      const OpResult first = RunKernel(entry, c, 1, PlannedWorkspace(c));
      c.workspace_byte = std::byte{0xff};
      const OpResult second = RunKernel(entry, c, 1, PlannedWorkspace(c));
      ASSERT_FALSE(first.refused || second.refused) << first.error << second.error;
      for (size_t i = 0; i < first.tensors.size(); ++i)
        EXPECT_TRUE(second.tensors[i].bytes == first.tensors[i].bytes) << c.op << ", result " << i;
    }
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
  const OpCase packed = PackedGradient();
  ExpectSameInPlace(packed, {{0, 1}, {0, 2}, {0, 3}});
  ExpectSameInPlace(WithBFloat16Results(InBFloat16(packed)), {{0, 1}, {0, 2}, {0, 3}});
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
