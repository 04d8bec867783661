// GridSample and its gradients on a card against the reference.
#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

void AddGridSampleKernels(KernelRegistry& registry, const cuda::CudaContext& context) {
  cuda::RegisterCudaGridSample(registry, context);
  cuda::RegisterCudaGridGradient(registry, context);
}

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(AddGridSampleKernels, c, tolerance);
}

struct Sampling {
  Ints x, grid;  // dims
  std::string mode = "linear", outside = "zeros";
  int64_t align_corners = 0, pixels = 0;
};

// Coordinates inside, at the ends, outside and far outside.
TestTensor Grid(const Sampling& s) {
  TestTensor grid = Random(s.grid, 2);
  for (int64_t i = 0; i < grid.elements(); ++i) {
    float& at = grid.as<float>()[i];
    if (i % 11 == 5) at = i % 2 ? 1.f : -1.f;
    if (i % 29 == 7) at *= 10;
    if (s.pixels) at = 3 * at + 2;
  }
  return grid;
}

OpCase Forward(const Sampling& s) {
  Ints dims(s.grid.begin(), s.grid.end() - 1);
  dims.push_back(s.x.back());
  OpCase c{"GridSample", {}, {Random(s.x, 1), Grid(s)}, {Empty(dims)}, {}, {}};
  c.attrs.Set("mode", s.mode);
  c.attrs.Set("outside", s.outside);
  c.attrs.Set("align_corners", s.align_corners);
  c.attrs.Set("pixels", s.pixels);
  return c;
}

OpCase GradInput(const Sampling& s) {
  const OpCase c = Forward(s);
  return {"GridSampleGradInput", c.attrs, {Random(c.outputs[0].dims, 3), c.inputs[1]}, {Empty(s.x)}, {}, {}};
}

OpCase GradGrid(const Sampling& s) {
  const OpCase c = Forward(s);
  return {"GridSampleGradGrid", c.attrs, {Random(c.outputs[0].dims, 3), c.inputs[0], c.inputs[1]},
          {Empty(s.grid)},      {},      {}};
}

// Forward and the gradient of x add in the reference's order. The gradient of the grid shares a sum in double among
// lanes, which turns a rounding to float32 now and then.
void ExpectAgreement(const Sampling& s) {
  SCOPED_TRACE(s.mode + " " + s.outside + (s.align_corners ? ", corners" : "") +
               (s.pixels ? ", pixels" : ""));
  EXPECT_EQ(Compare(Forward(s), 0), 1);
  EXPECT_EQ(Compare(GradInput(s), 0), 1);
  EXPECT_EQ(Compare(GradGrid(s), s.x.back() == 1 ? 0 : 1.2e-7), 1);
}

TEST(CudaGridSample, EveryModeAgreesWithTheReference) {
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const std::string outside : {"zeros", "border", "reflection"})
      for (const int64_t align : {0, 1})
        for (const int64_t pixels : {0, 1}) {
          ExpectAgreement({{2, 4, 5, 3}, {2, 3, 7, 2}, mode, outside, align, pixels});
          ExpectAgreement({{2, 9, 4}, {2, 13, 1}, mode, outside, align, pixels});
        }
}

TEST(CudaGridSample, OfVolumes) {
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const std::string outside : {"zeros", "reflection"})
      ExpectAgreement({{2, 3, 4, 5, 2}, {2, 2, 3, 4, 3}, mode, outside});
}

TEST(CudaGridSample, OddAndLargeShapes) {
  ExpectAgreement({{1, 1, 1, 1}, {1, 1, 1, 2}, "linear", "border", 1});
  ExpectAgreement({{3, 1, 7, 1}, {3, 20, 1, 2}, "cubic", "reflection", 1});
  ExpectAgreement({{2, 6, 5, 40}, {2, 30, 20, 2}});
  ExpectAgreement({{2, 6, 5, 33}, {2, 3, 2, 2}});
  ExpectAgreement({{2, 2, 2, 4}, {2, 40, 30, 2}, "linear", "border"});  // many parts a pixel
  ExpectAgreement({{1, 70, 60, 3}, {1, 50, 30, 2}});                    // and pixels without one
}

TEST(CudaGridSample, OfNothing) {
  ExpectAgreement({{0, 4, 5, 3}, {0, 3, 7, 2}});
  ExpectAgreement({{2, 4, 5, 3}, {2, 0, 7, 2}});
  ExpectAgreement({{2, 4, 5, 0}, {2, 3, 7, 2}});
}

TEST(CudaGridSample, WildCoordinates) {
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const std::string outside : {"zeros", "border", "reflection"}) {
      const Sampling s{{1, 3, 4}, {1, 6, 1}, mode, outside};
      for (OpCase c : {Forward(s), GradInput(s), GradGrid(s)}) {
        c.inputs.back() = Floats({1, 6, 1}, {3e38f, -3e38f, INFINITY, -INFINITY, 1e10f, .1f});
        EXPECT_EQ(Compare(c, 1.2e-7), 1) << c.op << " " << mode << " " << outside;
        c.inputs.back().as<float>()[1] = NAN;
        EXPECT_EQ(Compare(c, 1.2e-7), 1) << c.op << " " << mode << " " << outside;
      }
    }
}

TEST(CudaGridSample, TheGradientTakesAsManySamplesAtATimeAsHaveRoom) {
  const KernelRegistry registry = CudaKernels(AddGridSampleKernels);
  const KernelEntry& entry = registry.For("GridSampleGradInput").front();
  const OpCase c = GradInput({{5, 6, 5, 3}, {5, 4, 30, 2}});
  const int64_t of_sample = 4 * 30 * 4;  // parts
  const OpResult truth = RunReference(c);
  for (const int64_t samples : {1, 2, 5}) {
    const CudaResult y = RunCuda(entry, c, CudaGridGradientBytes(samples * of_sample));
    EXPECT_EQ(y.error, "");
    EXPECT_EQ(y.description, std::to_string(samples) + " samples at a time");
    EXPECT_EQ(y.tensors[0].bytes, truth.tensors[0].bytes);
  }
  EXPECT_TRUE(RunCuda(entry, c, CudaGridGradientBytes(of_sample) - 1).refused);
}

TEST(CudaGridSample, RefusesWhatTheReferenceRefuses) {
  const KernelRegistry registry = CudaKernels(AddGridSampleKernels);
  const Sampling wrong{{2, 4, 5, 3}, {2, 3, 7, 2}, "spline"};
  for (const OpCase& c : {Forward(wrong), GradInput(wrong), GradGrid(wrong)})
    EXPECT_TRUE(RunCuda(registry.For(c.op).front(), c, 1 << 20).refused);
}

TEST(CudaGridSample, AWarpReadsNeighbours) {
  EXPECT_LT(SectorsOverIdeal(AddGridSampleKernels, Forward({{1, 8, 8, 128}, {1, 8, 8, 2}})), 1.05);
  EXPECT_LT(SectorsOverIdeal(AddGridSampleKernels, GradGrid({{1, 8, 8, 128}, {1, 8, 8, 2}})), 1.05);
}

}  // namespace
}  // namespace act
