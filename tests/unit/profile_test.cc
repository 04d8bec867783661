#include "runtime/executor/profile.h"

#include <gtest/gtest.h>

namespace act {
namespace {

// Ten steps of 2 ms in 3 GB each: 1.5 TB/s.
TEST(Profile, ShowsTimeOfAStepAndRateOfOperandsAndResults) {
  const ProfileRow row{
      .what = "Add a", .op = "Add", .kernel = "cuda.fused", .nodes = 1, .seconds = .02, .bytes = 30e9};
  Profile profile{.nodes = {row}, .kernels = {row}, .seconds = .04};
  const auto shows = [](const std::string& text, const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  };
  shows(FormatProfile(profile, 10), "     2.000 ms  50.0 %     1   1500.0  cuda.fused");
  // Nothing ran.
  profile.kernels[0].seconds = profile.nodes[0].seconds = profile.seconds = 0;
  shows(FormatProfile(profile, 0), "     0.000 ms   0.0 %     1      0.0  cuda.fused");
}

}  // namespace
}  // namespace act
