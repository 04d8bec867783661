// Updates whose optimizer state lives in bfloat16 or 8 bits (kernels/math/moment_update.h). A block of 256 elements is
// decoded, updated in float32 and rounded again, so no state ever exists whole in float32. The parameter takes its step
// with the state before it is rounded.
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/math/moment_update.h"
#include "kernels/math/random.h"
#include "kernels/reference/moment_block.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/quantized_shape.h"

namespace act {
namespace {

// A block's elements; kUpdate is what moment_update.h has for the operator.
template <void (*kUpdate)(const MomentScalars&, MomentElement&)>
void UpdateElements(const MomentScalars& scalars, int64_t count, const float* gradient, float* parameter,
                    float* direction, float* firsts, float* seconds) {
  for (int64_t i = 0; i < count; ++i) {
    MomentElement e{
        .gradient = gradient[i], .parameter = parameter[i], .first = firsts[i], .second = seconds[i]};
    kUpdate(scalars, e);
    firsts[i] = e.first, seconds[i] = e.second;
    if constexpr (kUpdate == DirectionByLamb)
      direction[i] = e.direction;
    else
      parameter[i] = e.parameter;
  }
}

void UpdateBlock(const KernelArgs& args, const QuantizedShape& s, const MomentScalars& scalars,
                 const float* gradient, int64_t at) {
  const QuantizedRule& rule = *s.rule;
  const int64_t begin = at * kMomentBlock, count = std::min(kMomentBlock, s.elements - begin);
  float* const parameter = args.inputs[rule.parameter()].as<float>() + begin;
  float* const direction = rule.makes_direction ? args.outputs[0].as<float>() + begin : nullptr;
  const auto moment = [&](size_t i, const DynamicMap& map) -> MomentBlock {
    const TensorView& view = args.inputs[rule.state(i, s.coded)];
    if (!s.coded) return {&map, count, view.as<BFloat16>() + begin, nullptr, nullptr};
    float* const maxima = args.inputs[rule.state(i, true) + 1].as<float>();
    return {&map, count, nullptr, view.as<uint8_t>() + begin, maxima + at};
  };
  const MomentBlock first = moment(0, kSignedMap), second = moment(rule.states - 1, kUnsignedMap);
  float firsts[kMomentBlock] = {}, seconds[kMomentBlock] = {};
  first.Decode(firsts);
  if (rule.states == 2) second.Decode(seconds);
  const auto update = rule.kind == QuantizedRule::Kind::kMomentum ? UpdateElements<UpdateByMomentum>
                      : rule.kind == QuantizedRule::Kind::kAdam   ? UpdateElements<UpdateByAdam>
                                                                  : UpdateElements<DirectionByLamb>;
  update(scalars, count, gradient, parameter, direction, firsts, seconds);
  const RandomStream stream = {args.state->seed, args.state->step, s.stream};
  uint32_t bits[kMomentBlock] = {};
  for (int64_t i = 0; i < kMomentBlock; i += 4) {
    const RandomWords words = RandomCall(stream, static_cast<uint64_t>((begin + i) / 4));
    std::copy_n(words.word, 4, bits + i);
  }
  first.Encode(firsts, bits, 0);
  if (rule.states == 1) return;
  second.Encode(seconds, bits, 16);
  second.RaiseZeros(seconds);
}

std::unique_ptr<Kernel> Create(const QuantizedRule& rule, const KernelSite& site, std::string* why) {
  const auto shape = QuantizedUpdateShapeOf(rule.op, site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const MomentScalars scalars = MomentScalarsOf(args, s);
    const auto* gradient = args.inputs[0].as<float>();
    for (int64_t block = 0; block < s.blocks; ++block)
      UpdateBlock(args, s, scalars, gradient + block * kMomentBlock, block);
    return "";
  });
}

}  // namespace

void RegisterReferenceQuantizedUpdates(KernelRegistry& registry) {
  for (const QuantizedRule& rule : QuantizedRules())
    registry.Add(std::string(rule.op),
                 {"reference." + std::string(rule.name),
                  [&rule](const KernelSite& site, std::string* why) { return Create(rule, site, why); }});
}

}  // namespace act
