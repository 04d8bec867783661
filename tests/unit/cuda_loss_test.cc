#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/loss_cases.h"

namespace act {
namespace {

using cuda::RegisterCudaLoss;

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(RegisterCudaLoss, c, tolerance);
}

TEST(CudaLoss, AgreesWithTheReference) {
  ForLossCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(Compare(c, c.inputs[0].elements() == 0 ? 0 : kLossTolerance), 0) << c.op << ", " << what;
  });
}

TEST(CudaLoss, ResultsMayLieWhereOperandsDo) {
  const KernelRegistry registry = CudaKernels(cuda::RegisterCudaLoss);
  const auto compare = [&](const OpCase& apart, const std::string& what) {
    const std::optional<OpCase> in_place = LossInPlace(apart);
    if (!in_place) return;
    const KernelEntry& entry = registry.For(apart.op).front();
    const int64_t workspace = PlannedWorkspace(apart, CudaTarget());
    const CudaResult a = RunCuda(entry, apart, workspace), b = RunCuda(entry, *in_place, workspace);
    ASSERT_EQ(a.error + b.error, "") << what;
    for (size_t i = 0; i < a.tensors.size(); ++i)
      EXPECT_EQ(a.tensors[i].bytes, b.tensors[i].bytes) << what << ", result " << i;
  };
  ForLossCases(compare);
  const OpCase wide = LossCase({3, 50000}, {0, 49999, 7}, false, "mean");  // a row of many elements a thread
  compare(wide, "a wide row");
  compare(LossGradCase(wide, 1), "the gradient of a wide row");
}

TEST(CudaLoss, LongRowsAndManyRows) {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{3, 5000}, {2, 17001}, {2, 40000}, {6000, 7}}) {
    OpCase c = LossCase(dims, SomeLabels(dims[0], dims[1]), true, "mean");
    c.attrs.Set("ignore_index", int64_t{0});
    EXPECT_GT(Compare(c, kLossTolerance), 0) << DimsText(dims);
    EXPECT_GT(Compare(LossGradCase(c, 1.5f), kLossTolerance), 0) << DimsText(dims);
    OpCase count{"CountCorrect", c.attrs, {c.inputs[0], c.inputs[1]}, {Empty({})}, {}, {}};
    // So that some rows are right.
    for (int64_t r = 0; r < dims[0]; r += 2)
      count.inputs[0].as<float>()[r * dims[1] + count.inputs[1].as<int64_t>()[r]] = 9;
    EXPECT_GT(Compare(count, 0), 0) << DimsText(dims);
  }
}

TEST(CudaLoss, ALabelOutOfRangeIsReported) {
  const KernelRegistry registry = CudaKernels(RegisterCudaLoss);
  for (const int64_t wrong : {int64_t{12}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const OpCase fine = LossCase({5, 10}, {0, 1, 2, 3, 4}, true, "mean");
    OpCase c = fine, grad = LossGradCase(fine, 1);
    c.inputs[1] = grad.inputs[2] = Labels({5}, {0, 1, 2, wrong, 4});
    for (const OpCase& bad : {c, grad}) {
      const CudaResult y = RunCuda(registry.For(bad.op).front(), bad, PlannedWorkspace(bad, CudaTarget()));
      EXPECT_EQ(y.error, "");
      EXPECT_EQ(y.fault.kind, static_cast<uint32_t>(DataFault::kLabel));
      EXPECT_EQ(y.fault.value, wrong);
      EXPECT_EQ(TheTestCard().context().fault_sites.Place(y.fault.node),
                "node '' (" + bad.op + "), classes 0..9");
      EXPECT_TRUE(std::isfinite(y.tensors[0].as<float>()[0]));
    }
    EXPECT_EQ(RunCuda(registry.For(fine.op).front(), fine, 0).fault.kind, 0u);
    c.attrs.Set("ignore_index", wrong);
    EXPECT_EQ(RunCuda(registry.For(c.op).front(), c, 0).fault.kind, 0u) << "ignored";
  }
}

TEST(CudaLoss, DenominatorsAreThoseOfTheReference) {
  for (const int64_t rows : {int64_t{1}, int64_t{130}, int64_t{70000}})
    for (const bool weighted : {false, true}) {
      OpCase c = DenominatorCase({rows}, SomeLabels(rows, 9), weighted ? Random({9}, 3) : Absent(), 9);
      EXPECT_GT(Compare(c, kLossTolerance), 0) << rows;
      c.attrs.Set("ignore_index", int64_t{0});
      EXPECT_GT(Compare(c, kLossTolerance), 0) << rows << ", some ignored";
    }
}

TEST(CudaLoss, ADenominatorReportsALabelOutOfRange) {
  const KernelRegistry registry = CudaKernels(RegisterCudaLoss);
  const OpCase c = DenominatorCase({5}, {0, 1, 12, 2, 3}, Absent(), 10);
  const CudaResult y = RunCuda(registry.For(c.op).front(), c, PlannedWorkspace(c, CudaTarget()));
  EXPECT_EQ(y.fault.kind, static_cast<uint32_t>(DataFault::kLabel));
  EXPECT_EQ(y.fault.value, 12);
}

TEST(CudaCountCorrect, CountsTheFirstMaximum) { EXPECT_GT(Compare(CountCorrectCase(), 0), 0); }

TEST(CudaCountCorrect, NanIsTheLargestOnlyIfItIsFirst) {
  const float inf = INFINITY;
  OpCase c{"CountCorrect",
           {},
           {Floats({7, 3}, {NAN, 2,    inf,  1,    NAN, 0,   -inf, NAN, -inf,  NAN, NAN,
                            NAN, -inf, -inf, -inf, 1,   inf, inf,  0,   -0.0f, 0}),
            Labels({7}, {0, 0, 0, 0, 0, 1, 0})},
           {Empty({})},
           {},
           {}};
  EXPECT_EQ(RunReference(c).tensors[0].as<float>()[0], 7);
  EXPECT_GT(Compare(c, 0), 0);
  for (int64_t& label : std::span(c.inputs[1].as<int64_t>(), 7)) label = 2;
  EXPECT_GT(Compare(c, 0), 0);
}

TEST(CudaLoss, WarpsReadNeighbours) {
  const OpCase c = LossCase({64, 1000}, SomeLabels(64, 1000), false, "mean");
  EXPECT_LT(SectorsOverIdeal(RegisterCudaLoss, c), 1.05);
  EXPECT_LT(SectorsOverIdeal(RegisterCudaLoss, LossGradCase(c, 1)), 1.05);
}

}  // namespace
}  // namespace act
