#include "kernels/site/recurrent_shape.h"

#include <cctype>
#include <vector>

#include "kernels/site/strided.h"
#include "runtime/plan/recurrent_signature.h"

namespace act {
namespace {

std::vector<int64_t> DimsOf(char letter, const RecurrentShape& s) {
  switch (std::toupper(letter)) {
    case 'G':
      return {s.batch, s.steps, s.Width()};
    case 'S':
      return {s.batch, s.steps, s.units};
    case 'N':
      return {s.batch, s.units};
    case 'H':
      return {s.units};
    default:
      return {s.Width(), s.units};
  }
}

}  // namespace

std::optional<RecurrentShape> RecurrentShapeOf(const KernelSite& site, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  const RecurrentSignature* signature = FindRecurrentSignature(site.node->op);
  if (!signature) return no("no recurrent operator");
  const size_t weights = signature->inputs.find('W');
  if (site.inputs.size() <= weights || site.inputs.size() > signature->inputs.size() ||
      site.outputs.size() != signature->outputs.size() || site.inputs[0].dims.size() != 3 ||
      site.inputs[weights].dims.size() != 2)
    return no("not [N,T,GH] and [GH,H]");
  RecurrentShape s;
  s.batch = site.inputs[0].dims[0];
  s.steps = site.inputs[0].dims[1];
  s.units = site.inputs[weights].dims[1];
  s.gates = signature->gates;
  s.reverse = site.node->attrs.Int("reverse") != 0;
  const std::string activation = site.node->attrs.String("activation", "Tanh");
  if (activation != "Tanh" && activation != "Relu") return no("no activation '" + activation + "'");
  s.relu = activation == "Relu";
  const auto fits = [&](const TensorView& t, char letter) {
    return t.dtype == DType::kFloat32 && t.dims == DimsOf(letter, s);
  };
  for (size_t i = 0; i < signature->inputs.size(); ++i) {
    const char letter = signature->inputs[i];
    const bool there = i < site.inputs.size() && !(site.inputs[i].dims.empty() && site.inputs[i].bytes == 0);
    if (there ? !fits(site.inputs[i], letter) : std::isupper(letter) != 0)
      return no("operand " + std::to_string(i) + " is not f32" + DimsText(DimsOf(letter, s)));
  }
  for (size_t o = 0; o < site.outputs.size(); ++o)
    if (!fits(site.outputs[o], signature->outputs[o]))
      return no("result " + std::to_string(o) + " is not f32" + DimsText(DimsOf(signature->outputs[o], s)));
  return s;
}

}  // namespace act
