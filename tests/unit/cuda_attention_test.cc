#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"
#include "tests/unit/attention_cases.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

using namespace attention_cases;

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(cuda::RegisterCudaAttention, c, tolerance);
}

// As for the processor's kernels: up to 300 products in float32, and exponentials to 2 units in the last place.
constexpr double kTolerance = 3e-6;

TEST(CudaAttention, AgreesWithTheReference) {
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    EXPECT_GT(Compare(Forward(f), kTolerance), 0);
  }
}

TEST(CudaAttention, TheGradientAgreesWithTheReference) {
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    EXPECT_GT(Compare(Gradient(f), kTolerance), 0);
  }
}

// A kernel of the card, with the planned workspace or another.
CudaResult OnTheCard(const OpCase& c, std::optional<int64_t> workspace = {}) {
  CudaResult result = RunCuda(CudaKernels(cuda::RegisterCudaAttention).For(c.op).front(), c,
                              workspace.value_or(PlannedWorkspace(c, CudaTarget())));
  EXPECT_FALSE(result.refused) << result.error;
  EXPECT_EQ(result.error, "");
  return result;
}

void ExpectSameBytes(const CudaResult& a, const CudaResult& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_EQ(a.tensors[i].bytes, b.tensors[i].bytes) << "result " << i;
}

// Heads of 150 and 270 elements: a block has some columns of a result.
const Form kWide = {.name = "wide", .q = {1, 2, 20, 150}, .k = {1, 1, 70, 150}, .v = {1, 1, 70, 270}};

TEST(CudaAttention, WideHeads) {
  for (const OpCase& c : {Forward(kWide), Gradient(kWide)}) EXPECT_GT(Compare(c, kTolerance), 0);
}

// Heads of 70 and 128 elements, which take two tiles of 64 columns.
const Form kTwoChunks = {
    .name = "two chunks", .q = {1, 2, 20, 70}, .k = {1, 1, 70, 70}, .v = {1, 1, 70, 128}};

// Factors are rounded to bfloat16 on both sides. Here a weight is rounded before the largest score is known, so it may
// become another neighbour: that changes a term by 2^-8 of itself. Forms of few tiles: the fake takes long for tensor
// cores.
TEST(CudaAttention, InBFloat16OnTensorCores) {
  for (const Form& f : kForms) {
    if (f.q[2] > 75 || f.k[2] > 75) continue;
    SCOPED_TRACE(f.name);
    for (const OpCase& c : {Forward(f), Gradient(f)}) EXPECT_GT(Compare(InBFloat16(c), std::ldexp(1, -8)), 0);
  }
  for (const Form& f : {kTwoChunks, kWide}) {
    SCOPED_TRACE(f.name);
    for (const OpCase& c : {Forward(f), Gradient(f)}) EXPECT_GT(Compare(InBFloat16(c), std::ldexp(1, -8)), 0);
  }
}

TEST(CudaAttention, BFloat16ResultsAreRoundedOnce) {
  for (const OpCase& c : {Forward(kForms[6]), Gradient(kForms[6])}) {
    const OpCase wide = InBFloat16(c);
    const CudaResult sums = OnTheCard(wide), rounded = OnTheCard(WithBFloat16Results(wide));
    for (size_t i = 0; i < sums.tensors.size(); ++i)
      EXPECT_EQ(rounded.tensors[i].bytes, Narrow(sums.tensors[i]).bytes) << "result " << i;
  }
}

// With 10 bits of mantissa: 2^-11 for each factor, of terms of both signs.
TEST(CudaAttention, InTf32OnTensorCores) {
  TheTestCard().MultiplyIn(cuda::FloatMath::kTf32);
  for (const Form& f : {kForms[1], kForms[6], kTwoChunks}) {
    SCOPED_TRACE(f.name);
    for (const OpCase& c : {Forward(f), Gradient(f)}) {
      EXPECT_GT(Compare(c, 2e-3), 0);
      EXPECT_GT(Distance(OnTheCard(c).tensors[0], RunReference(c).tensors[0]), 1e-5) << "not tf32";
    }
  }
  // Sums of wider heads do not fit the registers of the tensor cores' kernels.
  for (const OpCase& c : {Forward(kWide), Gradient(kWide)}) EXPECT_GT(Compare(c, kTolerance), 0);
  TheTestCard().MultiplyIn(cuda::FloatMath::kStrict);
}

TEST(CudaAttention, GradientsMayLieWhereOperandsDo) {
  const auto expect_same = [](const OpCase& apart, const std::vector<std::pair<size_t, size_t>>& places) {
    OpCase in_place = apart;
    in_place.in_place = places;
    ExpectSameBytes(OnTheCard(apart), OnTheCard(in_place));
  };
  Form same = kWide;  // operands and their gradients have the same size
  same.v = same.k;
  for (const Form& f : {kForms[4], kForms[6], same}) {
    SCOPED_TRACE(f.name);
    expect_same(Gradient(f), {{0, 1}, {1, 2}, {2, 3}});
  }
  expect_same(WithBFloat16Results(InBFloat16(Gradient(kForms[6]))), {{0, 1}, {1, 2}, {2, 3}});
  const OpCase packed = PackedGradient();
  EXPECT_GT(Compare(packed, kTolerance), 0);
  expect_same(packed, {{0, 1}, {0, 2}, {0, 3}});
}

// Heads one after the other: the workspace holds one head of keys, and parts of the gradient of a bias.
TEST(CudaAttention, SomeHeadsAtATimeComputeTheSameBits) {
  for (const Form& f : {kForms[4], kWide}) {
    SCOPED_TRACE(f.name);
    const CudaResult all = OnTheCard(Gradient(f));
    const int64_t heads = f.k[0] * f.k[1];
    EXPECT_EQ(all.description, std::to_string(heads) + " heads of keys at a time");
    const CudaResult some = OnTheCard(Gradient(f), all.workspace_bytes / heads + 1024);
    EXPECT_EQ(some.description, "1 heads of keys at a time");
    ExpectSameBytes(all, some);
  }
}

TEST(CudaAttention, TheGradientOfABiasIsAddedInParts) {
  const Ints heads = {12, 2, 20, 8}, more_tiles = {2, 2, 70, 8};
  for (const Form& f :
       {Form{.name = "of all heads", .q = heads, .k = heads, .v = heads, .bias = {20, 20}},
        Form{.name = "of all queries", .q = heads, .k = heads, .v = heads, .bias = {2, 1, 20}},
        Form{.name = "tiles of queries", .q = more_tiles, .k = heads, .v = heads, .bias = {1, 20}}}) {
    SCOPED_TRACE(f.name);
    Form form = f;
    form.k[0] = form.v[0] = form.q[0];
    const OpCase c = Gradient(form);
    EXPECT_GT(Compare(c, kTolerance), 0);
    const CudaResult all = OnTheCard(c);
    const int64_t parts = CudaAttentionPartBytes(c.outputs[3].elements(), true);
    const CudaResult some = OnTheCard(c, parts + (PlannedWorkspace(c, CudaTarget()) - parts) / 3);
    EXPECT_NE(some.description, all.description);
    EXPECT_LE(Distance(some.tensors[3], all.tensors[3]), kTolerance);
  }
}

// A plan has no room for parts if the bias differs from sample to sample. Then heads get the room, and sums are whole.
TEST(CudaAttention, ABiasOfEachSampleLeavesRoomForItsHeads) {
  const Ints heads = {3, 2, 20, 8};
  Form f{.name = "", .q = heads, .k = heads, .v = heads, .bias = {3, 1, 20, 20}, .bias_gradient = false};
  const int64_t planned = PlannedWorkspace(Gradient(f), CudaTarget());
  f.bias_gradient = true;
  const OpCase c = Gradient(f);
  const CudaResult result = OnTheCard(c, planned / 6 + 1024);
  const OpResult truth = RunReference(c);
  for (size_t i = 0; i < truth.tensors.size(); ++i)
    EXPECT_LE(Distance(result.tensors[i], truth.tensors[i]), kTolerance) << "result " << i;
}

// What is added to all scores of a query changes no probability.
TEST(CudaAttention, ABiasOfAQueryHasNoGradient) {
  const Ints heads = {2, 2, 70, 8};
  for (const Ints& bias : {Ints{70, 1}, Ints{1, 1}}) {
    const CudaResult result =
        OnTheCard(Gradient({.name = "", .q = heads, .k = heads, .v = heads, .bias = bias}));
    for (int64_t i = 0; i < result.tensors[3].elements(); ++i)
      EXPECT_LT(std::fabs(result.tensors[3].as<float>()[i]), 1e-4)
          << "of sums of up to 19,600 numbers near 1";
  }
}

TEST(CudaAttention, EmptyTensors) {
  for (const Form& f :
       {Form{.name = "no samples", .q = {0, 2, 3, 4}, .k = {0, 2, 3, 4}, .v = {0, 2, 3, 4}, .bias = {3, 3}},
        Form{.name = "no queries", .q = {1, 2, 0, 4}, .k = {1, 2, 3, 4}, .v = {1, 2, 3, 4}, .bias = {3}},
        Form{.name = "no keys", .q = {1, 2, 3, 4}, .k = {1, 2, 0, 4}, .v = {1, 2, 0, 4}},
        Form{.name = "no depth", .q = {1, 2, 3, 0}, .k = {1, 2, 4, 0}, .v = {1, 2, 4, 5}}}) {
    SCOPED_TRACE(f.name);
    for (const OpCase& c : {Forward(f), Gradient(f)}) {
      EXPECT_GT(Compare(c, 1e-6), 0);
      EXPECT_GT(Compare(WithBFloat16Results(InBFloat16(c)), 0), 0);
    }
  }
}

TEST(CudaAttention, WhatDoesNotFitIsRefused) {
  Form apart = kForms[0];
  apart.k.back() = 3;
  OpCase column = Forward(kForms[0]);  // elements of a head that are not neighbours
  for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"}) column.attrs.Set(perm, Ints{0, 1, 3, 2});
  for (size_t i = 0; i < 3; ++i) std::swap(column.inputs[i].dims[2], column.inputs[i].dims[3]);
  std::swap(column.outputs[0].dims[2], column.outputs[0].dims[3]);
  for (const OpCase& c : {Forward(apart), Gradient(apart), column})
    EXPECT_TRUE(RunCuda(CudaKernels(cuda::RegisterCudaAttention).For(c.op).front(), c,
                        PlannedWorkspace(c, CudaTarget()))
                    .refused);
  const OpCase c = Gradient(kForms[0]);
  EXPECT_TRUE(RunCuda(CudaKernels(cuda::RegisterCudaAttention).For(c.op).front(), c, 0).refused);
}

}  // namespace
}  // namespace act
