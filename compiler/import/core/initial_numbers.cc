#include "compiler/import/core/initial_numbers.h"

#include <cmath>
#include <numbers>

#include "kernels/math/philox.h"

namespace act::onnx_import {
namespace {

uint64_t Fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Two normal numbers from two uniform ones (Box and Muller 1958); 32 bits each, never log(0).
void BoxMuller(uint32_t a, uint32_t b, float deviation, float* out) {
  const float u = (static_cast<float>(a >> 8) + 0.5f) * 0x1p-24f;
  const float angle = static_cast<float>(b) * (2 * std::numbers::pi_v<float> * 0x1p-32f);
  const float radius = deviation * std::sqrt(-2 * std::log(u));
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

// `four` makes four numbers from four words of 32 random bits.
template <class F>
HostTensor Draw(const std::string& name, const TensorType& type, uint64_t seed, const F& four) {
  const int64_t count = type.Elements().fixed;
  const auto data = std::make_shared_for_overwrite<float[]>(static_cast<size_t>(count));
  float* out = data.get();
  const uint64_t hash = Fnv1a(name) ^ seed;
  const auto key0 = static_cast<uint32_t>(hash), key1 = static_cast<uint32_t>(hash >> 32);
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < (count + 3) / 4; ++block) {
    const RandomWords counter{{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}};
    float numbers[4];
    four(Philox(counter, key0, key1).word, numbers);
    for (int64_t i = 0; i < 4 && 4 * block + i < count; ++i) out[4 * block + i] = numbers[i];
  }
  return {data, reinterpret_cast<const std::byte*>(out), count * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

HostTensor HeNormal(const std::string& name, const TensorType& type, uint64_t seed) {
  const int64_t count = type.Elements().fixed;
  if (type.rank() >= 2 && count > 0) {
    const int64_t fan_in = count / type.dims[0].fixed;
    return Normal(name, type, 0, std::sqrt(2 / static_cast<double>(fan_in)), seed);
  }
  const bool ones =
      type.rank() < 2 && (name.find("weight") != std::string::npos || name.find("var") != std::string::npos);
  const auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(count), ones ? 1.f : 0.f);
  return {data, reinterpret_cast<const std::byte*>(data->data()),
          count * static_cast<int64_t>(sizeof(float))};
}

HostTensor Normal(const std::string& name, const TensorType& type, double mean, double deviation,
                  uint64_t seed) {
  const auto scale = static_cast<float>(deviation), offset = static_cast<float>(mean);
  return Draw(name, type, seed, [scale, offset](const auto& random, float* out) {
    BoxMuller(random[0], random[1], scale, out);
    BoxMuller(random[2], random[3], scale, out + 2);
    if (offset != 0)
      for (int i = 0; i < 4; ++i) out[i] += offset;
  });
}

HostTensor Uniform(const std::string& name, const TensorType& type, double low, double high, uint64_t seed) {
  return Draw(name, type, seed, [low, high](const auto& random, float* out) {
    for (size_t i = 0; i < 4; ++i)
      out[i] = static_cast<float>(low + (high - low) * 0x1p-24 * static_cast<double>(random[i] >> 8));
  });
}

}  // namespace act::onnx_import
