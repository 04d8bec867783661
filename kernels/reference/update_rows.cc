// Updates of a table of which rows have a gradient, by the definition: the gradient is made whole, and the update
// is that of any other parameter. It allocates while it runs.
#include "kernels/reference/update_rows.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/reference/fused.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/quantized_shape.h"
#include "kernels/site/row_update_shape.h"

namespace act {
namespace {

// The operands of the update with a whole gradient, whose bytes are null.
std::vector<TensorView> WholeOperands(std::span<const TensorView> inputs, const RowUpdate& at) {
  std::vector<TensorView> whole(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(at.index));
  whole[at.rows] = whole[at.table];
  whole[at.rows].data = nullptr;
  return whole;
}

std::vector<float> WholeGradient(const RowUpdateShape& s, const KernelArgs& args) {
  std::vector<float> gradient(static_cast<size_t>(args.inputs[s.at.table].elements), 0.0f);
  const float* rows = args.inputs[s.at.rows].as<float>();
  ForRowsThatCount(s, args, [&](int64_t i, int64_t row) {
    for (int64_t k = 0; k < s.row_elements; ++k)
      gradient[static_cast<size_t>(row * s.row_elements + k)] += rows[i * s.row_elements + k];
  });
  return gradient;
}

std::unique_ptr<Kernel> ByRows(const KernelEntry& entry, const KernelSite& site, std::string* why) {
  const auto shape = RowUpdateShapeOf(site, why);
  if (!shape) return nullptr;
  KernelSite whole = site;
  whole.inputs = WholeOperands(site.inputs, shape->at);
  std::shared_ptr<Kernel> kernel = entry.create(whole, why);
  if (!kernel) return nullptr;
  return MakeKernel([s = *shape, kernel](const KernelArgs& args) -> std::string {
    if (std::string wrong = s.lookup.CheckIndices(args.inputs[s.at.index]); !wrong.empty()) return wrong;
    std::vector<float> gradient = WholeGradient(s, args);
    std::vector<TensorView> inputs = WholeOperands(args.inputs, s.at);
    inputs[s.at.rows].data = DevicePointer(gradient.data());
    KernelArgs update = args;
    update.inputs = inputs;
    return kernel->Run(update);
  });
}

void Add(KernelRegistry& registry, const std::string& op, const std::string& name,
         const KernelEntry& update) {
  registry.Add(
      op, {name, [update](const KernelSite& site, std::string* why) { return ByRows(update, site, why); }});
}

}  // namespace

void RegisterReferenceUpdateRows(KernelRegistry& registry) {
  KernelRegistry whole;
  RegisterReferenceFusedKernel(whole);
  RegisterReferenceQuantizedUpdates(whole);
  Add(registry, "UpdateRows", "reference.update_rows", whole.For("Fused").front());
  for (const QuantizedRule& rule : QuantizedRules())
    if (!rule.makes_direction)
      Add(registry, rule.RowsOp(), "reference." + rule.RowsName(), whole.For(std::string(rule.op)).front());
}

}  // namespace act
