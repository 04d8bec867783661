// Updates whose optimizer state lives in bfloat16 or 8 bits: SGD with momentum, Adam, AdamW, and the direction
// of LAMB. A block of 256 elements is decoded, updated in float32 and rounded again, so no state ever exists
// whole in float32. The parameter takes its step with the state before it is rounded.
#include <algorithm>
#include <cmath>

#include "kernels/math/random.h"
#include "kernels/reference/moment_block.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// The part of a parameter that is in one block. first, second: of its state, and updated in place.
struct Block {
  int64_t count = 0;
  const float* gradient = nullptr;
  float* parameter = nullptr;
  float* direction = nullptr;  // may be the gradient
  float first[kMomentBlock] = {}, second[kMomentBlock] = {};
};

struct Scalars {
  float of[7] = {};  // the operator's, in order
  float clip = 1;
  bool decoupled = false;  // AdamW
};

// lr, momentum, weight_decay, velocity_part, gradient_part
void Momentum(const Scalars& s, Block& b) {
  const float lr = s.of[0], momentum = s.of[1], decay = s.of[2], velocity_part = s.of[3],
              gradient_part = s.of[4];
  for (int64_t i = 0; i < b.count; ++i) {
    const float p = b.parameter[i], g = decay * p + s.clip * b.gradient[i];
    b.first[i] = momentum * b.first[i] + g;
    b.parameter[i] = p - lr * (velocity_part * b.first[i] + gradient_part * g);
  }
}

// one_minus_beta1, beta2, one_minus_beta2 are numbers 1 to 3 of Adam and of LAMB.
void NextMoments(const Scalars& s, Block& b, int64_t i, float g) {
  b.first[i] += s.of[1] * (g - b.first[i]);
  b.second[i] = s.of[2] * b.second[i] + s.of[3] * (g * g);
}

// lr_over_bias1, three of the moments, rsqrt_bias2, eps, decay
void Adam(const Scalars& s, Block& b) {
  const float rate = s.of[0], rsqrt_bias2 = s.of[4], eps = s.of[5], decay = s.of[6];
  for (int64_t i = 0; i < b.count; ++i) {
    float g = s.clip * b.gradient[i], p = b.parameter[i];
    if (s.decoupled)
      p *= decay;
    else
      g += decay * p;
    NextMoments(s, b, i, g);
    b.parameter[i] = p - rate * b.first[i] / (rsqrt_bias2 * std::sqrt(b.second[i]) + eps);
  }
}

// inverse_bias1, three of the moments, rsqrt_bias2, eps, weight_decay
void LambDirection(const Scalars& s, Block& b) {
  const float inverse_bias1 = s.of[0], rsqrt_bias2 = s.of[4], eps = s.of[5], decay = s.of[6];
  for (int64_t i = 0; i < b.count; ++i) {
    NextMoments(s, b, i, s.clip * b.gradient[i]);
    const float adam = inverse_bias1 * b.first[i] / (rsqrt_bias2 * std::sqrt(b.second[i]) + eps);
    b.direction[i] = decay * b.parameter[i] + adam;
  }
}

struct Rule {
  const char* op;
  const char* kernel;
  size_t scalars, states;
  bool makes_direction;
  void (*update)(const Scalars&, Block&);

  // Operands: gradient, scalars, clipping factor, parameter, states.
  size_t clip() const { return scalars + 1; }
  size_t parameter() const { return scalars + 2; }
  size_t state(size_t i, bool coded) const { return parameter() + 1 + (coded ? 2 * i : i); }
};
constexpr Rule kRules[] = {
    {"QuantizedMomentum", "reference.quantized_momentum", 5, 1, false, Momentum},
    {"QuantizedAdam", "reference.quantized_adam", 7, 2, false, Adam},
    {"QuantizedLamb", "reference.quantized_lamb", 7, 2, true, LambDirection},
};

void UpdateBlock(const KernelArgs& args, const Rule& rule, const Scalars& scalars, bool coded,
                 const RandomStream& stream, int64_t at) {
  const int64_t begin = at * kMomentBlock;
  Block block;
  block.count = std::min(kMomentBlock, args.inputs[0].elements - begin);
  block.gradient = args.inputs[0].as<float>() + begin;
  block.parameter = args.inputs[rule.parameter()].as<float>() + begin;
  if (rule.makes_direction) block.direction = args.outputs[0].as<float>() + begin;
  const auto moment = [&](size_t i, const DynamicMap& map) -> MomentBlock {
    const TensorView& view = args.inputs[rule.state(i, coded)];
    if (!coded) return {&map, block.count, view.as<BFloat16>() + begin, nullptr, nullptr};
    float* const maxima = args.inputs[rule.state(i, coded) + 1].as<float>();
    return {&map, block.count, nullptr, view.as<uint8_t>() + begin, maxima + at};
  };
  const MomentBlock first = moment(0, kSignedMap), second = moment(rule.states - 1, kUnsignedMap);
  first.Decode(block.first);
  if (rule.states == 2) second.Decode(block.second);
  rule.update(scalars, block);
  uint32_t bits[kMomentBlock] = {};
  for (int64_t i = 0; i < kMomentBlock; i += 4) {
    const RandomWords words = RandomCall(stream, static_cast<uint64_t>((begin + i) / 4));
    std::copy_n(words.word, 4, bits + i);
  }
  first.Encode(block.first, bits, 0);
  if (rule.states == 1) return;
  second.Encode(block.second, bits, 16);
  second.RaiseZeros(block.second);
}

std::unique_ptr<Kernel> QuantizedUpdate(const Rule& rule, const KernelSite& site, std::string* why) {
  const auto is = [&site](size_t at, DType dtype, int64_t elements) {
    const TensorView& view = site.inputs[at];
    return view.dtype == dtype && view.elements == elements;
  };
  const size_t operands = site.inputs.size();
  const bool coded = operands == rule.state(rule.states, true);
  if (!coded && operands != rule.state(rule.states, false))
    return Refuse(why, "the number of its operands is that of no form of state");
  const int64_t elements = site.inputs[rule.parameter()].elements;
  const int64_t blocks = (elements + kMomentBlock - 1) / kMomentBlock;
  bool fits = is(0, DType::kFloat32, elements) && is(rule.parameter(), DType::kFloat32, elements);
  for (size_t i = 1; i <= rule.clip(); ++i) fits &= is(i, DType::kFloat32, 1);
  for (size_t i = 0; i < rule.states; ++i) {
    const size_t at = rule.state(i, coded);
    fits &= coded ? is(at, DType::kUint8, elements) && is(at + 1, DType::kFloat32, blocks)
                  : is(at, DType::kBFloat16, elements);
  }
  if (rule.makes_direction)
    fits &= site.outputs[0].dtype == DType::kFloat32 && site.outputs[0].elements == elements;
  if (!fits) return Refuse(why, "its operands are not those of one parameter");
  const bool decoupled = site.node->attrs.Int("decoupled", 0) != 0;
  const auto stream = static_cast<uint32_t>(site.node->attrs.Int("stream", 0));
  return MakeKernel([=, &rule, threads = site.threads](const KernelArgs& args) -> std::string {
    const auto scalar = [&args](size_t i) { return *args.inputs[i].as<float>(); };
    Scalars scalars{.clip = scalar(rule.clip()), .decoupled = decoupled};
    for (size_t i = 0; i < rule.scalars; ++i) scalars.of[i] = scalar(i + 1);
    const RandomStream random = {args.state->seed, args.state->step, stream};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks; ++block) UpdateBlock(args, rule, scalars, coded, random, block);
    return "";
  });
}

}  // namespace

void RegisterReferenceQuantizedUpdates(KernelRegistry& registry) {
  for (const Rule& rule : kRules)
    registry.Add(rule.op, {rule.kernel, [&rule](const KernelSite& site, std::string* why) {
                             return QuantizedUpdate(rule, site, why);
                           }});
}

}  // namespace act
