#include "kernels/cuda/registry.h"
#include "kernels/site/strided.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/gather_cases.h"

namespace act {
namespace {

using cuda::RegisterCudaGather;

// Several blocks of a sort; targets whose updates lie in many chunks; keys of one, two and three digits.
const std::vector<Lookup> kOnCard = {
    {{30, 70}, {90, 1}, {90, 70}},
    {{3, 5}, {700, 1}, {700, 5}},
    {{900}, {5000}, {5000}},
    {{70000}, {300}, {300}},
    {{12, 10, 8}, {12, 20, 1}, {12, 20, 8}, 1},
    {{12, 10, 8}, {1, 20, 1}, {12, 20, 8}, 1},
    {{70, 9}, {200, 9}, {200, 9}},
    {{70, 9}, {200, 5}, {200, 5}},
    {{3, 4, 100}, {3, 4, 90}, {3, 4, 90}, 2},
    {{4, 0}, {3, 1}, {3, 0}},
    {{4, 3}, {0, 1}, {0, 3}},
    {{1}, {1}, {1}},
};

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(RegisterCudaGather, c, tolerance);
}

TEST(CudaGather, AgreesWithTheReference) {
  ForGatherCases(kOnCard, [](const OpCase& c) { EXPECT_GT(Compare(c, 0), 0) << DimsText(c.inputs[0].dims); });
}

// The reference adds the updates of a target one after the other in float32; a card does so with 32 of
// them, and adds what 32 give in double. Each of up to 300 additions rounds by 2^-25 of the sum on
// average. A product of as many factors differs by as many roundings. All else is exact.
double ToleranceOf(const OpCase& c) {
  const std::string reduction = c.attrs.String("reduction");
  return reduction == "add" ? 2e-6 : reduction == "mul" ? 1e-5 : 0;
}

TEST(CudaScatter, AgreesWithTheReference) {
  ForScatterCases(kOnCard, [](const OpCase& c) {
    EXPECT_GT(Compare(c, ToleranceOf(c)), 0)
        << c.attrs.String("reduction") << " into " << DimsText(c.outputs[0].dims);
  });
}

TEST(CudaScatter, OfFewUpdatesATargetHasTheBitsOfTheReference) {
  EXPECT_GT(Compare(ScatterCase({{500, 6}, {40, 1}, {40, 6}}, "add"), 0), 0);
  EXPECT_GT(Compare(ScatterCase({{3, 6}, {30, 1}, {30, 6}}, "add", true), 0), 0);
}

TEST(CudaScatter, CombinesIntegersExactly) {
  for (const char* reduction : {"add", "mul", "min", "max"}) {
    OpCase c{"Scatter", {}, {}, {Empty({5}, DType::kInt32)}, {}, {}};
    std::vector<int32_t> updates;
    for (uint32_t i = 0; i < 200; ++i) updates.push_back(static_cast<int32_t>(i * 1234567891u));
    c.inputs = {Of({200}, updates, DType::kInt32), Indices({200}, 5, 1)};
    c.attrs.Set("axis", int64_t{0});
    c.attrs.Set("reduction", std::string(reduction));
    EXPECT_GT(Compare(c, 0), 0) << reduction;
  }
}

TEST(CudaScatter, WithoutASpaceForTheOrderItRefuses) {
  const OpCase c = ScatterCase({{5, 3}, {7, 1}, {7, 3}}, "add");
  const KernelRegistry registry = CudaKernels(RegisterCudaGather);
  EXPECT_TRUE(RunCuda(registry.For("Scatter").front(), c, 100).refused);
}

TEST(CudaLookup, AnIndexOutsideIsReportedAndMovesNothing) {
  const KernelRegistry registry = CudaKernels(RegisterCudaGather);
  for (const int64_t wrong : {int64_t{3}, int64_t{-4}, INT64_MIN, INT64_MAX}) {
    OpCase gather = GatherCase({{3, 2}, {4, 1}, {4, 2}});
    gather.inputs[1] = Labels({4, 1}, {2, 0, wrong, 1});
    OpCase scatter = ScatterCase({{3, 2}, {4, 1}, {4, 2}}, "add");
    scatter.inputs[1] = gather.inputs[1];
    for (const OpCase& c : {gather, scatter}) {
      const CudaResult y = RunCuda(registry.For(c.op).front(), c, PlannedWorkspace(c, CudaTarget()));
      EXPECT_EQ(y.error, "");
      EXPECT_EQ(y.fault.kind, static_cast<uint32_t>(DataFault::kIndex));
      EXPECT_EQ(y.fault.value, wrong);
      const std::string& place = TheTestCard().context().fault_sites.Place(y.fault.node);
      EXPECT_EQ(place, "node '' (" + c.op + "), an axis of extent 3");
      EXPECT_TRUE(std::isfinite(y.tensors[0].as<float>()[4]));
    }
    const CudaResult fine = RunCuda(registry.For("Gather").front(), GatherCase({{3, 2}, {4, 1}, {4, 2}}), 0);
    EXPECT_EQ(fine.fault.kind, 0u);
  }
}

TEST(CudaGather, AWarpReadsNeighbours) {
  EXPECT_LT(SectorsOverIdeal(RegisterCudaGather, GatherCase({{50, 256}, {64, 1}, {64, 256}})), 1.05);
}

}  // namespace
}  // namespace act
