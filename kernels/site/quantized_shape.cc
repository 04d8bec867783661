#include "kernels/site/quantized_shape.h"

#include "kernels/site/dereference.h"

namespace act {
namespace {

constexpr QuantizedRule kRules[] = {
    {QuantizedRule::Kind::kMomentum, "QuantizedMomentum", "quantized_momentum", 5, 1, false},
    {QuantizedRule::Kind::kAdam, "QuantizedAdam", "quantized_adam", 7, 2, false},
    {QuantizedRule::Kind::kLamb, "QuantizedLamb", "quantized_lamb", 7, 2, true},
};

}  // namespace

std::span<const QuantizedRule> QuantizedRules() { return kRules; }

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

std::optional<QuantizedShape> QuantizedUpdateShapeOf(std::string_view op, const KernelSite& site,
                                                     std::string* why) {
  const auto shape = QuantizedShapeOf(op, site, why);
  if (!shape) return std::nullopt;
  const QuantizedRule& rule = *shape->rule;
  const auto refuse = [why](const char* reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (site.inputs.size() != rule.state(rule.states, shape->coded))
    return refuse("it has operands after those of its state");
  const auto fits = [&shape](const TensorView& view) {
    return view.dtype == DType::kFloat32 && view.elements == shape->elements;
  };
  if (!fits(site.inputs[0]) || (rule.makes_direction && !fits(site.outputs[0])))
    return refuse("its gradient is not that of its parameter");
  return shape;
}

MomentScalars MomentScalarsOf(const KernelArgs& args, const QuantizedShape& shape) {
  const auto scalar = [&args](size_t i) { return *args.inputs[i].as<float>(); };
  MomentScalars scalars;
  scalars.clip = scalar(shape.rule->clip());
  scalars.decoupled = shape.decoupled;
  for (size_t i = 0; i < shape.rule->scalars; ++i) scalars.of[i] = scalar(i + 1);
  return scalars;
}

}  // namespace act
