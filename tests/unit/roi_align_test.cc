#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

using Ints = std::vector<int64_t>;

OpCase Pool(TestTensor x, std::vector<float> regions, const Ints& images, const Ints& bins, int64_t samples,
            int64_t half_pixel = 1) {
  const auto count = static_cast<int64_t>(images.size());
  OpCase c{"RoiAlign",
           {},
           {x, Floats({count, 4}, std::move(regions)), Labels({count}, images)},
           {Empty({count, bins[0], bins[1], x.dims.back()})},
           {},
           {}};
  c.attrs.Set("bins", bins);
  c.attrs.Set("samples", samples);
  c.attrs.Set("half_pixel", half_pixel);
  return c;
}

TestTensor Ramp() { return Floats({1, 3, 3, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8}); }

void ExpectPooled(const OpCase& c, const std::vector<float>& expected) {
  const OpResult y = RunReference(c);
  ASSERT_FALSE(y.refused) << y.error;
  ASSERT_EQ(y.error, "");
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(y.tensors[0].as<float>()[i], expected[i], 1e-6) << i;
}

// Values of torchvision.ops.roi_align, with aligned=True where half_pixel is 1.
TEST(RoiAlign, AsTorchvision) {
  const std::vector<float> region{.5f, 0, 2.5f, 2};
  ExpectPooled(Pool(Ramp(), region, {0}, {2, 2}, 2), {.875f, 1.875f, 3.5f, 4.5f});
  ExpectPooled(Pool(Ramp(), region, {0}, {2, 2}, 2, 0), {2.5f, 3.375f, 5.5f, 6.375f});
  // As many samples as pixels: two along y, one along x.
  ExpectPooled(Pool(Ramp(), {0, 0, 1, 4}, {0}, {2, 1}, 0, 0), {3.5f, 3.25f});
  // A region of no extent has one pixel where pixels are edges.
  ExpectPooled(Pool(Ramp(), {1, 1, 1, 1}, {0}, {1, 1}, 1, 0), {6});
  // More than a pixel outside: zeros.
  ExpectPooled(Pool(Ramp(), {-9, -9, -7, -7}, {0}, {1, 1}, 2), {0});
}

TEST(RoiAlign, GradientIsThatOfTheForwardPass) {
  for (const int64_t samples : {0, 1, 3})
    for (const int64_t half : {0, 1}) {
      const OpCase c = Pool(Random({2, 5, 6, 3}, 1), {0, 0, 3, 4, 1, 1.5f, 5.5f, 5, -3, 2, 9, 3}, {1, 0, 1},
                            {2, 3}, samples, half);
      const TestTensor dy = Random(c.outputs[0].dims, 3);
      const OpCase grad{
          "RoiAlignGrad", c.attrs, {dy, c.inputs[1], c.inputs[2]}, {Empty(c.inputs[0].dims)}, {}, {}};
      CheckGradient(c, 0, grad, 1.0f, 1e-5);  // linear in x
    }
}

TEST(RoiAlign, RegionsThatAreNonePartOfAnImageAreErrors) {
  const auto error = [](std::vector<float> region, int64_t image) {
    return RunReference(Pool(Ramp(), std::move(region), {image}, {1, 1}, 0)).error;
  };
  EXPECT_EQ(error({0, 0, 1, 1}, 0), "");
  EXPECT_NE(error({0, 0, 1, 1}, 1).find("is of image 1, there are 1"), std::string::npos);
  EXPECT_NE(error({0, 0, 1, 1}, -1).find("is of image -1"), std::string::npos);
  for (const float wild : {NAN, INFINITY, -INFINITY, 1e30f})
    EXPECT_NE(error({0, 0, wild, 1}, 0).find("no part of an image"), std::string::npos) << wild;
  EXPECT_EQ(error({1e30f, 0, 1e30f, 1}, 0), "");  // no extent
}

TEST(RoiAlign, RefusesNonsense) {
  OpCase no_bins = Pool(Ramp(), {0, 0, 1, 1}, {0}, {1, 1}, 0);
  no_bins.attrs.Set("bins", Ints{1});
  OpCase fewer = Pool(Ramp(), {0, 0, 1, 1}, {0}, {1, 1}, 0);
  fewer.inputs[2] = Labels({2}, {0, 0});
  for (const OpCase& c : {no_bins, fewer, Pool(Ramp(), {0, 0, 1, 1}, {0}, {1, 1}, -1),
                          Pool(Floats({1, 0, 3, 1}, {}), {0, 0, 1, 1}, {0}, {1, 1}, 1)})
    EXPECT_TRUE(RunReference(c).refused);
}

}  // namespace
}  // namespace act
