// Updates whose optimizer state lives in bfloat16 or in 8 bits: a warp for each block of 256 elements.
#include <algorithm>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/divisor.h"
#include "kernels/cuda/source/quantized_update_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/quantized_shape.h"
#include "runtime/codec/dynamic_map.h"

namespace act::cuda {
namespace {

constexpr int kBlockWarps = 8;

// In device code.
const char* RuleName(QuantizedRule::Kind kind) {
  switch (kind) {
    case QuantizedRule::Kind::kMomentum:
      return "act::cuda::ByMomentum";
    case QuantizedRule::Kind::kAdam:
      return "act::cuda::ByAdam";
    case QuantizedRule::Kind::kLamb:
      return "act::cuda::ByLamb";
  }
  return "";
}

void Fill(const DynamicMap& map, QuantizedState& state) {
  state.size = map.size();
  state.zero = map.zero();
  std::copy(map.values().begin(), map.values().end(), state.map);
}

std::unique_ptr<Kernel> Create(const CudaContext& context, const QuantizedRule& rule, const KernelSite& site,
                               std::string* why) {
  const auto shape = QuantizedUpdateShapeOf(rule.op, site, why);
  if (!shape) return nullptr;
  if (shape->blocks >= kMaxCount) return Refuse(why, "2^31 blocks of 256 elements");
  QuantizedUpdateParameters shared;
  shared.elements = shape->elements;
  shared.scalar_count = static_cast<int32_t>(rule.scalars);
  shared.stream = static_cast<int32_t>(shape->stream);
  shared.decoupled = shape->decoupled;
  Fill(kSignedMap, shared.states[0]);
  Fill(kUnsignedMap, shared.states[1]);
  const OwnKernel<QuantizedUpdateParameters> kernel(
      context, std::string(rule.name), "QuantizedUpdateParameters", "quantized_update",
      "QuantizedUpdate" + TemplateArguments(RuleName(rule.kind), shape->coded ? "true" : "false"),
      32 * kBlockWarps);
  return MakeKernel([&context, s = *shape, shared, kernel](const KernelArgs& args) -> std::string {
    const QuantizedRule& r = *s.rule;
    QuantizedUpdateParameters p = shared;
    p.gradient = args.inputs[0].as<float>();
    for (size_t i = 0; i < r.scalars; ++i) p.scalars[i] = args.inputs[i + 1].as<float>();
    p.clip = args.inputs[r.clip()].as<float>();
    p.parameter = args.inputs[r.parameter()].as<float>();
    if (r.makes_direction) p.direction = args.outputs[0].as<float>();
    p.step = context.step_block.as<StepBlock>();
    for (size_t i = 0; i < r.states; ++i) {
      const size_t at = r.state(i, s.coded);
      if (s.coded) {
        p.states[i].codes = args.inputs[at].as<uint8_t>();
        p.states[i].maxima = args.inputs[at + 1].as<float>();
      } else {
        p.states[i].numbers = args.inputs[at].as<uint16_t>();
      }
    }
    return kernel.Launch(DivideUp(s.blocks, kBlockWarps), p);
  });
}

}  // namespace

void RegisterCudaQuantizedUpdates(KernelRegistry& registry, const CudaContext& context) {
  for (const QuantizedRule& rule : QuantizedRules())
    registry.Add(std::string(rule.op), {"cuda." + std::string(rule.name),
                                        [&context, &rule](const KernelSite& site, std::string* why) {
                                          return Create(context, rule, site, why);
                                        }});
}

}  // namespace act::cuda
