#include "tests/unit/resize_case.h"

namespace act {
namespace {

// One axis, one channel.
void ExpectLine(const std::vector<float>& x, const std::vector<float>& expected, const std::string& mode,
                const std::string& coordinates, const std::string& nearest = "round_prefer_floor") {
  const auto in = static_cast<int64_t>(x.size()), out = static_cast<int64_t>(expected.size());
  OpCase c = Resize({1, in, 1}, {1, out, 1}, {static_cast<double>(out) / static_cast<double>(in)}, mode,
                    coordinates, nearest);
  c.inputs = {Floats({1, in, 1}, x)};
  const OpResult y = RunReference(c);
  ASSERT_FALSE(y.refused) << y.error;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(y.tensors[0].as<float>()[i], expected[i], 1e-6)
        << mode << " " << coordinates << ", element " << i;
}

TEST(Resize, ByHand) {
  ExpectLine({1, 2, 3}, {1, 1.25f, 1.75f, 2.25f, 2.75f, 3}, "linear", "half_pixel");
  ExpectLine({0, 3}, {0, 1, 2, 3}, "linear", "align_corners");
  ExpectLine({0, 4}, {0, 2, 4, 4}, "linear", "asymmetric");
  ExpectLine({2, 4, 9}, {2}, "linear", "pytorch_half_pixel");
  ExpectLine({2, 4, 9}, {4}, "linear", "half_pixel");
  // Keys' weights with a = -3/4 at distances of 1/4, 3/4, 5/4 and 7/4.
  ExpectLine({0, 0, 64, 0, 0}, {0, -2.25f, -6.75f, 16.75f, 56.25f, 56.25f, 16.75f, -6.75f, -2.25f, 0},
             "cubic", "half_pixel");
  ExpectLine({1, 2}, {1, 1, 2, 2}, "nearest", "asymmetric", "floor");
  ExpectLine({1, 2}, {1, 2, 2, 2}, "nearest", "asymmetric", "ceil");
  ExpectLine({1, 2, 3, 4}, {1, 3}, "nearest", "half_pixel", "round_prefer_floor");  // 0.5 and 2.5
  ExpectLine({1, 2, 3, 4}, {2, 4}, "nearest", "half_pixel", "round_prefer_ceil");
  // 2 / (2/3) is 3 although 2/3 is not exact. Every framework's upsampling by sizes relies on this.
  ExpectLine({1, 2, 3, 4, 5, 6}, {1, 2, 4, 5}, "nearest", "asymmetric", "floor");
}

TEST(Resize, FastKernelsAgreeAndGradientsAreThoseOfTheForwardPass) {
  for (const auto& [name, c] : ResizeCases()) {
    SCOPED_TRACE(name);
    EXPECT_GT(CompareWithReference(c, 1e-6), 0);
    EXPECT_GT(CompareWithReference(Grad(c), 1e-6), 0);
    CheckGradient(c, 0, Grad(c), 1.0f, 1e-5);  // linear in x
  }
}

TEST(Resize, LargeOnes) {
  for (const OpCase& c : LargeResizeCases()) {
    EXPECT_GT(CompareWithReference(c, 1e-6), 0);
    EXPECT_GT(CompareWithReference(Grad(c), 1e-6), 0);
  }
}

TEST(Resize, EmptyBatchAndNonsense) {
  EXPECT_GT(CompareWithReference(Resize({0, 4, 2}, {0, 8, 2}, {2}, "linear", "half_pixel"), 0), 0);
  CompareWithReference(Grad(Resize({0, 4, 2}, {0, 8, 2}, {2}, "linear", "half_pixel")), 0);
  for (const OpCase& c : {Resize({1, 4, 2}, {1, 8, 2}, {0}, "linear", "half_pixel"),
                          Resize({1, 4, 2}, {1, 8, 2}, {2}, "spline", "half_pixel"),
                          Resize({1, 4, 2}, {1, 8, 2}, {2}, "linear", "no_pixel"),
                          Resize({1, 4, 2}, {1, 8, 2}, {2}, "nearest", "half_pixel", "up"),
                          Resize({1, 4, 2}, {1, 8, 2}, {1e-30}, "cubic", "half_pixel"),
                          Resize({1, 4, 2}, {1, 8, 2}, {INFINITY}, "linear", "half_pixel"),
                          Resize({1, 4, 2}, {1, 8, 2}, {2, 2}, "linear", "half_pixel"),
                          Resize({1, 4, 2}, {1, 8, 3}, {2}, "linear", "half_pixel"),
                          Resize({1, 0, 2}, {1, 8, 2}, {2}, "linear", "half_pixel")})
    for (const KernelEntry& entry : CpuRegistry().For("Resize"))
      EXPECT_TRUE(RunKernel(entry, c, 1, 0).refused);
}

}  // namespace
}  // namespace act
