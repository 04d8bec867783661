#include <algorithm>
#include <numbers>

#include "kernels/math/random_number.h"
#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

OpCase Draw(const std::string& distribution, std::vector<int64_t> dims, uint64_t seed = 1, uint64_t step = 0,
            int64_t stream = 0) {
  OpCase c{"Random", {}, {}, {Empty(std::move(dims))}, {}, {}};
  c.attrs.Set("distribution", distribution);
  c.attrs.Set("stream", stream);
  c.state.seed = seed;
  c.state.step = step;
  return c;
}

std::vector<float> Drawn(const OpCase& c) {
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.error, "");
  const float* numbers = y.tensors[0].as<float>();
  return {numbers, numbers + y.tensors[0].elements()};
}

// The largest distance of the numbers' distribution function from `expected`, times the root of their count.
// Kolmogorov: above 1.95 in one of a thousand samples.
double Distance(std::vector<float> numbers, double (*expected)(double)) {
  std::sort(numbers.begin(), numbers.end());
  const auto count = static_cast<double>(numbers.size());
  double distance = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double f = expected(numbers[i]);
    distance =
        std::max({distance, f - static_cast<double>(i) / count, static_cast<double>(i + 1) / count - f});
  }
  return distance * std::sqrt(count);
}

TEST(Random, HasItsDistribution) {
  const std::vector<float> uniform = Drawn(Draw("uniform", {100, 201})),
                           normal = Drawn(Draw("normal", {20101}));
  EXPECT_LT(Distance(uniform, [](double x) { return x; }), 1.95);
  EXPECT_LT(Distance(normal, [](double x) { return .5 * std::erfc(-x / std::sqrt(2)); }), 1.95);
  EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), 0);
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 1);
}

// The mean product of neighbours, times the root of their count, is standard normal if they are independent.
TEST(Random, NeighboursAreIndependent) {
  const std::vector<float> z = Drawn(Draw("normal", {20000}));
  for (const size_t distance : {1, 2, 16, 64}) {
    double sum = 0;
    for (size_t i = 0; i + distance < z.size(); ++i) sum += double{z[i]} * double{z[i + distance]};
    EXPECT_LT(std::fabs(sum / std::sqrt(static_cast<double>(z.size() - distance))), 4) << distance;
  }
}

TEST(Random, FollowsFromSeedStepAndStream) {
  for (const std::string distribution : {"uniform", "normal"}) {
    const std::vector<float> numbers = Drawn(Draw(distribution, {50}));
    EXPECT_EQ(Drawn(Draw(distribution, {5, 10})), numbers);
    EXPECT_NE(Drawn(Draw(distribution, {50}, 2)), numbers);
    EXPECT_NE(Drawn(Draw(distribution, {50}, 1, 1)), numbers);
    EXPECT_NE(Drawn(Draw(distribution, {50}, 1, 0, 1)), numbers);
  }
}

TEST(Random, IsScaledAndShifted) {
  OpCase c = Draw("uniform", {50});
  const std::vector<float> plain = Drawn(c);
  c.attrs.Set("scale", 4.0);
  c.attrs.Set("offset", -1.0);
  const std::vector<float> moved = Drawn(c);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(moved[i], 4 * plain[i] - 1);
}

TEST(Random, NothingAndNonsense) {
  EXPECT_TRUE(Drawn(Draw("normal", {0, 3})).empty());
  EXPECT_TRUE(RunReference(Draw("cauchy", {3})).refused);
}

// Of double, whose units in the last place are at most 2^-52 of a number.
TEST(Random, LogarithmAndCosineAreThoseOfTheLibrary) {
  std::mt19937_64 engine(1);
  double of_log = 0, of_cosine = 0;
  const auto compare = [&](uint64_t n, uint32_t turn) {
    const double log = std::log(static_cast<double>(n) * 0x1p-32);
    // In long double: the product with pi is rounded, which a cosine near 0 shows.
    const long double angle = 2 * std::numbers::pi_v<long double> * turn * 0x1p-32L;
    const auto cosine = static_cast<double>(std::cos(angle));
    if (n < uint64_t{1} << 32) of_log = std::max(of_log, std::fabs(LogOfPart(n) / log - 1));
    of_cosine = std::max(of_cosine, std::fabs(CosineOfTurn(turn) - cosine));
  };
  for (int i = 0; i < 200'000; ++i)
    compare(engine() % (uint64_t{1} << 32) + 1, static_cast<uint32_t>(engine()));
  for (uint64_t i = 0; i < 1000; ++i)
    for (uint32_t octant = 0; octant < 8; ++octant) {
      compare(i + 1, (octant << 29) + static_cast<uint32_t>(i));
      compare((uint64_t{1} << 32) - i, (octant << 29) - static_cast<uint32_t>(i));
      compare((uint64_t{1} << (octant * 4)) + i, static_cast<uint32_t>(i));
    }
  EXPECT_LT(of_log, 2 * 0x1p-52);
  EXPECT_LT(of_cosine, 2 * 0x1p-53);
  EXPECT_EQ(LogOfPart(uint64_t{1} << 32), 0);
  EXPECT_EQ(CosineOfTurn(0), 1);
  EXPECT_EQ(CosineOfTurn(uint32_t{1} << 30), 0);
  EXPECT_EQ(CosineOfTurn(uint32_t{1} << 31), -1);
}

}  // namespace
}  // namespace act
