// QuantizedAdam: Adam and AdamW with moments of 8 bits. A block of 256 elements is decoded, updated in float32
// and encoded again, so no moment ever exists whole in float32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math/random.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/codec/dynamic_map.h"

namespace act {
namespace {

enum Operand {
  kGradient = 0,
  kFirstScalar = 1,
  kClip = 8,
  kParameter,
  kFirst,
  kFirstMax,
  kSecond,
  kSecondMax
};

struct Numbers {
  float lr_over_bias1, one_minus_beta1, beta2, one_minus_beta2, rsqrt_bias2, eps, decay, clip;
};

// The largest magnitude; NaN where a number is not finite, so that the whole block becomes NaN.
float Maximum(const float* x, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
    most = std::max(most, std::abs(x[i]));
  }
  return most;
}

// x / most lies in -1..1: the quotient of a smaller number by a larger one rounds to at most 1.
void Encode(const DynamicMap& map, const float* x, int64_t count, const uint32_t* bits, int shift,
            uint8_t* codes, float* maximum) {
  const float most = Maximum(x, count);
  *maximum = most;
  for (int64_t i = 0; i < count; ++i)
    codes[i] = most > 0 ? map.Round(x[i] / most, bits[i] >> shift & 0xFFFF) : map.zero();
}

void UpdateBlock(const KernelArgs& args, const Numbers& n, bool decoupled, const RandomStream& stream,
                 int64_t block) {
  const int64_t begin = block * kMomentBlock;
  const int64_t count = std::min(kMomentBlock, args.inputs[kParameter].elements - begin);
  const float* gradient = args.inputs[kGradient].as<float>() + begin;
  float* parameter = args.inputs[kParameter].as<float>() + begin;
  uint8_t* first_codes = args.inputs[kFirst].as<uint8_t>() + begin;
  uint8_t* second_codes = args.inputs[kSecond].as<uint8_t>() + begin;
  float* first_max = args.inputs[kFirstMax].as<float>() + block;
  float* second_max = args.inputs[kSecondMax].as<float>() + block;
  float first[kMomentBlock] = {}, second[kMomentBlock] = {};
  uint32_t bits[kMomentBlock] = {};
  for (int64_t i = 0; i < kMomentBlock; i += 4) {
    const RandomWords words = RandomCall(stream, static_cast<uint64_t>((begin + i) / 4));
    std::copy_n(words.word, 4, bits + i);
  }
  for (int64_t i = 0; i < count; ++i) {
    const float m = kSignedMap[first_codes[i]] * *first_max, v = kUnsignedMap[second_codes[i]] * *second_max;
    float g = n.clip * gradient[i], p = parameter[i];
    if (decoupled)
      p *= n.decay;
    else
      g += n.decay * p;
    first[i] = m + n.one_minus_beta1 * (g - m);
    second[i] = n.beta2 * v + n.one_minus_beta2 * (g * g);
    parameter[i] = p - n.lr_over_bias1 * first[i] / (n.rsqrt_bias2 * std::sqrt(second[i]) + n.eps);
  }
  Encode(kSignedMap, first, count, bits, 0, first_codes, first_max);
  Encode(kUnsignedMap, second, count, bits, 16, second_codes, second_max);
  // A second moment of 0 would let the first one divide by eps alone.
  if (*second_max > 0)
    for (int64_t i = 0; i < count; ++i)
      if (second[i] > 0 && second_codes[i] == kUnsignedMap.zero()) ++second_codes[i];
}

std::unique_ptr<Kernel> QuantizedAdam(const KernelSite& site, std::string* why) {
  const auto is = [&site](int at, DType dtype, int64_t elements) {
    const TensorView& view = site.inputs[static_cast<size_t>(at)];
    return view.dtype == dtype && view.elements == elements;
  };
  const int64_t elements = site.inputs[kParameter].elements;
  const int64_t blocks = (elements + kMomentBlock - 1) / kMomentBlock;
  bool fits = is(kGradient, DType::kFloat32, elements) && is(kParameter, DType::kFloat32, elements) &&
              is(kFirst, DType::kUint8, elements) && is(kSecond, DType::kUint8, elements) &&
              is(kFirstMax, DType::kFloat32, blocks) && is(kSecondMax, DType::kFloat32, blocks);
  for (int i = kFirstScalar; i <= kClip; ++i) fits &= is(i, DType::kFloat32, 1);
  if (!fits) return Refuse(why, "its operands are not those of one parameter");
  const bool decoupled = site.node->attrs.Int("decoupled", 0) != 0;
  const auto stream = static_cast<uint32_t>(site.node->attrs.Int("stream", 0));
  return MakeKernel([=, threads = site.threads](const KernelArgs& args) -> std::string {
    const auto scalar = [&args](int i) { return *args.inputs[static_cast<size_t>(i)].as<float>(); };
    const Numbers n = {scalar(1), scalar(2), scalar(3), scalar(4),
                       scalar(5), scalar(6), scalar(7), scalar(kClip)};
    const RandomStream random = {args.state->seed, args.state->step, stream};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks; ++block) UpdateBlock(args, n, decoupled, random, block);
    return "";
  });
}

}  // namespace

void RegisterReferenceQuantizedAdam(KernelRegistry& registry) {
  registry.Add("QuantizedAdam", {"reference.quantized_adam", QuantizedAdam});
}

}  // namespace act
