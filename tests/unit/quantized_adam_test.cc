// Updates with moments of 8 bits against plain loops in double.
#include "tests/unit/quantized_adam_case.h"

#include <algorithm>

namespace act {
namespace {

OpResult Updated(const OpCase& c, int threads = 1) {
  return RunKernel(CpuRegistry().For(c.op).back(), c, threads, 0);
}

// |a - b| as a part of the gap between the numbers of the map around b.
void ExpectNeighbour(const DynamicMap& map, uint8_t code, double b, bool may_be_raised) {
  ASSERT_LT(code, map.size());
  int above = 1;
  while (above + 1 < map.size() && map[above] < b) ++above;
  const bool raised = may_be_raised && b > 0 && code == 1;
  // float32 arithmetic may move a number across one of the map's by its own rounding
  EXPECT_TRUE(raised || (map[code] >= map[above - 1] - 1e-6 && map[code] <= map[above] + 1e-6)) << b;
}

TEST(QuantizedAdam, AgreesWithLoopsInDouble) {
  for (const bool decoupled : {false, true})
    for (const int64_t n : {1, 255, 256, 257, 1000}) {
      const OpCase c = QuantizedAdamCase(n, 3, decoupled);
      const OpResult result = Updated(c);
      ASSERT_EQ(result.error, "");
      const auto scalar = [&c](size_t i) { return static_cast<double>(*c.inputs[i].as<float>()); };
      std::vector<double> first, second;
      for (int64_t i = 0; i < n; ++i) {
        double p = c.inputs[9].as<float>()[i], g = scalar(8) * c.inputs[0].as<float>()[i];
        if (decoupled) p *= scalar(7);
        if (!decoupled) g += scalar(7) * p;
        const double m = static_cast<double>(kSignedMap[c.inputs[10].as<uint8_t>()[i]]) * .7f;
        const double v = static_cast<double>(kUnsignedMap[c.inputs[12].as<uint8_t>()[i]]) * .3f;
        first.push_back(m + scalar(2) * (g - m));
        second.push_back(scalar(3) * v + scalar(4) * g * g);
        const double step = scalar(1) * first.back() / (scalar(5) * std::sqrt(second.back()) + scalar(6));
        // a dozen float32 roundings of numbers up to 4
        EXPECT_NEAR(result.tensors[0].as<float>()[i], p - step, 4e-6) << n << " " << i;
      }
      for (int64_t begin = 0; begin < n; begin += kMomentBlock) {
        const int64_t end = std::min(n, begin + kMomentBlock), block = begin / kMomentBlock;
        double most[2] = {};
        for (int64_t i = begin; i < end; ++i) {
          most[0] = std::max(most[0], std::fabs(first[static_cast<size_t>(i)]));
          most[1] = std::max(most[1], second[static_cast<size_t>(i)]);
        }
        EXPECT_FLOAT_EQ(result.tensors[2].as<float>()[block], static_cast<float>(most[0]));
        EXPECT_FLOAT_EQ(result.tensors[4].as<float>()[block], static_cast<float>(most[1]));
        for (int64_t i = begin; i < end; ++i) {
          const auto at = static_cast<size_t>(i);
          ExpectNeighbour(kSignedMap, result.tensors[1].as<uint8_t>()[i], first[at] / most[0], false);
          ExpectNeighbour(kUnsignedMap, result.tensors[3].as<uint8_t>()[i], second[at] / most[1], true);
        }
      }
    }
}

TEST(QuantizedAdam, IsTheSameOnSeveralThreads) {
  const OpCase c = QuantizedAdamCase(5000, 9);
  const OpResult one = Updated(c), three = Updated(c, 3);
  for (size_t i = 0; i < one.tensors.size(); ++i) EXPECT_EQ(one.tensors[i].bytes, three.tensors[i].bytes);
}

// State starts as zero bytes, and a gradient of zeros leaves the moments at 0.
TEST(QuantizedAdam, StartsFromZeroBytes) {
  OpCase c = QuantizedAdamCase(600, 4);
  for (const size_t i : {0, 10, 11, 12, 13})
    std::fill(c.inputs[i].bytes.begin(), c.inputs[i].bytes.end(), std::byte{});
  const OpResult result = Updated(c);
  for (int64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(result.tensors[0].as<float>()[i], .999f * c.inputs[9].as<float>()[i]);
    EXPECT_EQ(kSignedMap[result.tensors[1].as<uint8_t>()[i]], 0);
  }
  EXPECT_EQ(result.tensors[2].as<float>()[0], 0);
}

TEST(QuantizedAdam, ANumberThatIsNotFiniteSpoilsItsBlockAlone) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    OpCase c = QuantizedAdamCase(600, 4);
    c.inputs[0].as<float>()[300] = bad;
    const OpResult result = Updated(c);
    for (const size_t maxima : {2u, 4u}) {
      EXPECT_TRUE(std::isnan(result.tensors[maxima].as<float>()[1]));
      EXPECT_TRUE(std::isfinite(result.tensors[maxima].as<float>()[0]));
      EXPECT_TRUE(std::isfinite(result.tensors[maxima].as<float>()[2]));
    }
  }
}

}  // namespace
}  // namespace act
