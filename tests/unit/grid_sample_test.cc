#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

OpCase Sample(TestTensor x, TestTensor grid, const std::string& mode, const std::string& outside,
              int64_t align_corners = 0) {
  Ints dims(grid.dims.begin(), grid.dims.end() - 1);
  dims.push_back(x.dims.back());
  OpCase c{"GridSample", {}, {std::move(x), std::move(grid)}, {Empty(dims)}, {}, {}};
  c.attrs.Set("mode", mode);
  c.attrs.Set("outside", outside);
  c.attrs.Set("align_corners", align_corners);
  return c;
}

// Samples of {1, 2, 4}, which lie at -2/3, 0 and 2/3, or with corners at -1, 0 and 1.
void ExpectSamples(const std::vector<float>& at, const std::vector<float>& expected, const std::string& mode,
                   const std::string& outside, int64_t align_corners = 0) {
  const auto points = static_cast<int64_t>(at.size());
  const OpResult y = RunReference(
      Sample(Floats({1, 3, 1}, {1, 2, 4}), Floats({1, points, 1}, at), mode, outside, align_corners));
  ASSERT_FALSE(y.refused) << y.error;
  for (size_t i = 0; i < at.size(); ++i)
    EXPECT_NEAR(y.tensors[0].as<float>()[i], expected[i], 1e-6) << mode << " " << outside << " at " << at[i];
}

TEST(GridSample, ByHand) {
  ExpectSamples({-2.f / 3, 0, 1.f / 3, 1}, {1, 2, 3, 2}, "linear", "zeros");
  ExpectSamples({-1, -.5f, .5f, 2}, {1, 1.5f, 3, 0}, "linear", "zeros", 1);
  ExpectSamples({-5, 1, 5}, {1, 4, 4}, "linear", "border");
  // 8/3 is three elements after the end's mirror: back at the first.
  ExpectSamples({-1, 4.f / 3, 2, 8.f / 3}, {1, 3 + 1, 2, 1}, "linear", "reflection");
  ExpectSamples({1.5f, 3, 3.5f, -1.25f}, {3, 1, 1.5f, 1.25f}, "linear", "reflection", 1);
  ExpectSamples({-.5f, .5f, .2f}, {1, 4, 2}, "nearest", "zeros", 1);  // ties at .5 and 1.5: to even
  // Keys' weights with a = -3/4, halfway: -3/32, 19/32, 19/32, -3/32.
  ExpectSamples({-.5f}, {(19 * 1 + 19 * 2 - 3 * 4) / 32.f}, "cubic", "zeros", 1);
  ExpectSamples({-.5f}, {(-3 * 1 + 19 * 1 + 19 * 2 - 3 * 4) / 32.f}, "cubic", "border", 1);
  ExpectSamples({-.5f}, {(-3 * 2 + 19 * 1 + 19 * 2 - 3 * 4) / 32.f}, "cubic", "reflection", 1);
}

// The grid's last axis has the coordinate of the image's last axis first.
TEST(GridSample, CoordinatesAreInReverseOrder) {
  const OpResult y = RunReference(
      Sample(Floats({1, 2, 2, 1}, {1, 2, 3, 4}), Floats({1, 1, 1, 2}, {1, -1}), "nearest", "border"));
  EXPECT_EQ(y.tensors[0].as<float>()[0], 2);
}

TEST(GridSample, GradientsAreThoseOfTheForwardPass) {
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const std::string outside : {"zeros", "border", "reflection"})
      for (const int64_t align : {0, 1}) {
        SCOPED_TRACE(mode + " " + outside);
        const OpCase c = Sample(Random({2, 4, 5, 3}, 1), Random({2, 3, 7, 2}, 2), mode, outside, align);
        const TestTensor dy = Random(c.outputs[0].dims, 3);
        const OpCase input{"GridSampleGradInput",     c.attrs, {dy, c.inputs[1]},
                           {Empty(c.inputs[0].dims)}, {},      {}};
        CheckGradient(c, 0, input, 1.0f, 1e-5);  // linear in x
        if (mode == "nearest") continue;         // a step
        const OpCase grid{"GridSampleGradGrid",      c.attrs, {dy, c.inputs[0], c.inputs[1]},
                          {Empty(c.inputs[1].dims)}, {},      {}};
        // Differences of float32 results over 1e-3: some 1e-4 of rounding, and the curvature of cubics.
        CheckGradient(c, 1, grid, 1e-3f, 2e-2);
      }
}

// Coordinates far outside, infinite or no number neither trap nor read outside of x.
TEST(GridSample, WildCoordinates) {
  const float wild = 3e38f, infinite = INFINITY;
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    ExpectSamples({wild, -wild, infinite, -infinite}, {0, 0, 0, 0}, mode, "zeros");
    for (const std::string outside : {"zeros", "border", "reflection"}) {
      const OpResult y = RunReference(
          Sample(Floats({1, 3, 1}, {1, 2, 4}), Floats({1, 3, 1}, {NAN, wild, -infinite}), mode, outside));
      EXPECT_EQ(y.error, "");
      EXPECT_TRUE(std::isnan(y.tensors[0].as<float>()[0])) << mode << " " << outside;
    }
  }
  ExpectSamples({wild, -infinite}, {4, 1}, "linear", "border");
}

TEST(GridSample, RefusesNonsense) {
  const TestTensor x = Random({2, 4, 5, 3}, 1), grid = Random({2, 3, 7, 2}, 2);
  for (const OpCase& c : {Sample(x, grid, "spline", "zeros"), Sample(x, grid, "linear", "ones"),
                          Sample(x, Random({1, 3, 7, 2}, 2), "linear", "zeros"),
                          Sample(x, Random({2, 3, 7, 3}, 2), "linear", "zeros"),
                          Sample(x, Random({2, 21, 2}, 2), "linear", "zeros"),
                          Sample(Random({2, 0, 5, 3}, 1), grid, "linear", "border")})
    EXPECT_TRUE(RunReference(c).refused);
}

}  // namespace
}  // namespace act
