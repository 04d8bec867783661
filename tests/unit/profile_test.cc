#include "runtime/executor/profile.h"

#include <gmock/gmock.h>

namespace act {
namespace {

// Ten steps of 2 ms in 3 GB each: 1.5 TB/s.
TEST(Profile, ShowsTimeOfAStepAndRateOfOperandsAndResults) {
  const ProfileRow row{
      .what = "Add a", .op = "Add", .kernel = "cuda.fused", .nodes = 1, .seconds = .02, .bytes = 30e9};
  Profile profile{.nodes = {row}, .kernels = {row}, .seconds = .04};
  EXPECT_THAT(FormatProfile(profile, 10),
              testing::HasSubstr("     2.000 ms  50.0 %     1   1500.0  cuda.fused"));
  // Nothing ran.
  profile.kernels[0].seconds = profile.nodes[0].seconds = profile.seconds = 0;
  EXPECT_THAT(FormatProfile(profile, 0),
              testing::HasSubstr("     0.000 ms   0.0 %     1      0.0  cuda.fused"));
}

}  // namespace
}  // namespace act
