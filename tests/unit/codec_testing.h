// What the tests of codecs share: data, codes by the reference and by tiles, and what
// must hold for both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/code_tile.h"
#include "kernels/reference/codec.h"
#include "runtime/codec/codec.h"
#include "tests/unit/each_target.h"

namespace act {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::vector<float> Normal(int64_t count, float scale = 1, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(random);
  return x;
}

inline std::vector<uint8_t> Encode(const Codec& codec, const std::vector<float>& x,
                                   RandomStream random = {}) {
  const int64_t elements = static_cast<int64_t>(x.size());
  std::vector<uint8_t> code(static_cast<size_t>(LayoutOf(codec, elements).sample_bytes));
  EncodeSampleReference(codec, random, 0, elements, x.data(), code.data());
  return code;
}

inline std::vector<float> RoundTrip(const Codec& codec, const std::vector<float>& x,
                                    RandomStream random = {}) {
  const std::vector<uint8_t> code = Encode(codec, x, random);
  std::vector<float> y(x.size());
  DecodeSampleReference(codec, random, 0, static_cast<int64_t>(x.size()), code.data(), y.data());
  return y;
}

// Compares the mean of decode(encode(x)) over many steps with x, in standard errors.
inline void ExpectUnbiased(const std::vector<float>& x, const Codec& codec) {
  constexpr int kSteps = 4000;
  std::vector<double> sum(x.size(), 0), square(x.size(), 0);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> y = RoundTrip(codec, x, {42, static_cast<uint64_t>(step), 9});
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
      sum[i] += error;
      square[i] += error * error;
    }
  }
  double pooled = 0, scale = 0;
  const double range = *std::max_element(x.begin(), x.end()) - *std::min_element(x.begin(), x.end());
  const double step = range / (codec.levels - 1);
  for (size_t i = 0; i < x.size(); ++i) {
    const double mean = sum[i] / kSteps,
                 deviation = std::sqrt(std::max(square[i] / kSteps - mean * mean, 0.0) / kSteps);
    // 5.5 standard errors: a probability under 1e-4 for all 512 elements together. Three events,
    // for elements so close to a level that the error was not seen often enough to be estimated.
    // And 2^-17 of a step, for the fixed-point position.
    EXPECT_LE(std::fabs(mean), 5.5 * deviation + 3 * step / kSteps + step * 0x1p-17 + 1e-12)
        << "element " << i << " = " << x[i] << " with " << ToString(codec);
    pooled += mean;
    scale += deviation * deviation;
  }
  EXPECT_LE(std::fabs(pooled), 5 * std::sqrt(scale) + 1e-9) << ToString(codec);
}

inline void EncodeByTiles(const Codec& codec, const RandomStream& stream, int64_t sample,
                          const std::vector<float>& x, std::vector<uint8_t>& code) {
  DrawnStream random(stream);
  const int64_t elements = static_cast<int64_t>(x.size());
  const CodeLayout layout = LayoutOf(codec, elements);
  code.assign(static_cast<size_t>(layout.sample_bytes) + 16, 0xEE);
  for (int64_t first = 0; first < elements; first += kTileElements)
    EncodeTile(codec, layout, random, {sample, elements, first, std::min(kTileElements, elements - first)},
               x.data() + first, code.data());
  for (size_t i = 0; i < 16; ++i) ASSERT_EQ(code[code.size() - 16 + i], 0xEE) << "wrote past the code";
  code.resize(code.size() - 16);
}

inline void ExpectSameCode(const Codec& codec, const std::vector<float>& x, int64_t sample) {
  const int64_t elements = static_cast<int64_t>(x.size());
  const CodeLayout layout = LayoutOf(codec, elements);
  const RandomStream random{99, 3, 5};
  std::vector<uint8_t> code, expected(static_cast<size_t>(layout.sample_bytes));
  EncodeByTiles(codec, random, sample, x, code);
  EncodeSampleReference(codec, random, sample, elements, x.data(), expected.data());
  ASSERT_EQ(code, expected) << ToString(codec) << ", " << elements << " elements";

  std::vector<float> y(x.size() + 16, -77), decoded(x.size());
  DrawnStream drawn(random);
  for (int64_t first = 0; first < elements; first += kTileElements)
    DecodeTile(codec, layout, drawn, {sample, elements, first, std::min(kTileElements, elements - first)},
               code.data(), {}, y.data() + first);
  DecodeSampleReference(codec, random, sample, elements, code.data(), decoded.data());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(y[i] == decoded[i] || (std::isnan(y[i]) && std::isnan(decoded[i])))
        << ToString(codec) << "[" << i << "] = " << y[i] << ", reference " << decoded[i];
  for (size_t i = 0; i < 16; ++i) ASSERT_EQ(y[x.size() + i], -77) << "wrote past the tensor";
  if (!codec.HoldsMask()) return;
  DecodeMaskReference(codec, elements, code.data(), decoded.data());
  for (int64_t first = 0; first < elements; first += kTileElements)
    DecodeTile(codec, layout, drawn, {sample, elements, first, std::min(kTileElements, elements - first)},
               code.data(), {.mask = true}, y.data() + first);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], decoded[i]) << ToString(codec) << ", mask " << i;
}

}  // namespace act
