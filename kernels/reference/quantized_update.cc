// Updates whose optimizer state lives in bfloat16 or 8 bits: SGD with momentum, Adam, AdamW, and the direction
// of LAMB. A block of 256 elements is decoded, updated in float32 and rounded again, so no state ever exists
// whole in float32. The parameter takes its step with the state before it is rounded.
#include "kernels/reference/quantized_update.h"

#include <algorithm>
#include <cmath>
#include <string>

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

}  // namespace

// Operands: gradient, scalars, clipping factor, parameter, states.
struct QuantizedRule {
  std::string_view op;
  const char* kernel;
  size_t scalars, states;
  bool makes_direction;
  void (*update)(const Scalars&, Block&);

  size_t clip() const { return scalars + 1; }
  size_t parameter() const { return scalars + 2; }
  size_t state(size_t i, bool coded) const { return parameter() + 1 + (coded ? 2 * i : i); }
};

namespace {

constexpr QuantizedRule kRules[] = {
    {"QuantizedMomentum", "reference.quantized_momentum", 5, 1, false, Momentum},
    {"QuantizedAdam", "reference.quantized_adam", 7, 2, false, Adam},
    {"QuantizedLamb", "reference.quantized_lamb", 7, 2, true, LambDirection},
};

void UpdateBlock(const KernelArgs& args, const QuantizedShape& s, const Scalars& scalars,
                 const float* gradient, int64_t at) {
  const QuantizedRule& rule = *s.rule;
  const int64_t begin = at * kMomentBlock;
  Block block;
  block.count = std::min(kMomentBlock, s.elements - begin);
  block.gradient = gradient;
  block.parameter = args.inputs[rule.parameter()].as<float>() + begin;
  if (rule.makes_direction) block.direction = args.outputs[0].as<float>() + begin;
  const auto moment = [&](size_t i, const DynamicMap& map) -> MomentBlock {
    const TensorView& view = args.inputs[rule.state(i, s.coded)];
    if (!s.coded) return {&map, block.count, view.as<BFloat16>() + begin, nullptr, nullptr};
    float* const maxima = args.inputs[rule.state(i, true) + 1].as<float>();
    return {&map, block.count, nullptr, view.as<uint8_t>() + begin, maxima + at};
  };
  const MomentBlock first = moment(0, kSignedMap), second = moment(rule.states - 1, kUnsignedMap);
  first.Decode(block.first);
  if (rule.states == 2) second.Decode(block.second);
  rule.update(scalars, block);
  const RandomStream stream = {args.state->seed, args.state->step, s.stream};
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

std::unique_ptr<Kernel> Create(const QuantizedRule& rule, const KernelSite& site, std::string* why) {
  const auto shape = QuantizedShapeOf(rule.op, site, why);
  if (!shape) return nullptr;
  if (site.inputs.size() != rule.state(rule.states, shape->coded))
    return Refuse(why, "it has operands after those of its state");
  const auto fits = [&shape](const TensorView& view) {
    return view.dtype == DType::kFloat32 && view.elements == shape->elements;
  };
  if (!fits(site.inputs[0]) || (rule.makes_direction && !fits(site.outputs[0])))
    return Refuse(why, "its gradient is not that of its parameter");
  return MakeKernel([s = *shape, threads = site.threads](const KernelArgs& args) -> std::string {
    UpdateQuantizedBlocks(args, s, args.inputs[0].as<float>(), 0, s.blocks, threads);
    return "";
  });
}

}  // namespace

std::optional<QuantizedShape> QuantizedShapeOf(std::string_view op, const KernelSite& site,
                                               std::string* why) {
  QuantizedShape s;
  for (const QuantizedRule& rule : kRules)
    if (rule.op == op) s.rule = &rule;
  const QuantizedRule& rule = *s.rule;
  const auto is = [&site](size_t at, DType dtype, int64_t elements) {
    return at < site.inputs.size() && site.inputs[at].dtype == dtype && site.inputs[at].elements == elements;
  };
  if (rule.parameter() < site.inputs.size()) s.elements = site.inputs[rule.parameter()].elements;
  s.blocks = (s.elements + kMomentBlock - 1) / kMomentBlock;
  s.coded = is(rule.state(0, true), DType::kUint8, s.elements);
  bool fits = is(rule.parameter(), DType::kFloat32, s.elements);
  for (size_t i = 1; i <= rule.clip(); ++i) fits &= is(i, DType::kFloat32, 1);
  for (size_t i = 0; i < rule.states; ++i) {
    const size_t at = rule.state(i, s.coded);
    fits &= s.coded ? is(at, DType::kUint8, s.elements) && is(at + 1, DType::kFloat32, s.blocks)
                    : is(at, DType::kBFloat16, s.elements);
  }
  if (!fits) {
    if (why) *why = "its operands are not those of one parameter";
    return std::nullopt;
  }
  s.decoupled = site.node->attrs.Int("decoupled", 0) != 0;
  s.stream = static_cast<uint32_t>(site.node->attrs.Int("stream", 0));
  return s;
}

void UpdateQuantizedBlocks(const KernelArgs& args, const QuantizedShape& shape, const float* gradient,
                           int64_t first, int64_t last, int threads) {
  const QuantizedRule& rule = *shape.rule;
  const auto scalar = [&args](size_t i) { return *args.inputs[i].as<float>(); };
  Scalars scalars{.clip = scalar(rule.clip()), .decoupled = shape.decoupled};
  for (size_t i = 0; i < rule.scalars; ++i) scalars.of[i] = scalar(i + 1);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t block = first; block < last; ++block)
    UpdateBlock(args, shape, scalars, gradient + (block - first) * kMomentBlock, block);
}

void RegisterReferenceQuantizedUpdates(KernelRegistry& registry) {
  for (const QuantizedRule& rule : kRules)
    registry.Add(std::string(rule.op), {rule.kernel, [&rule](const KernelSite& site, std::string* why) {
                                          return Create(rule, site, why);
                                        }});
}

}  // namespace act
