#include "kernels/cuda/source/resize_parameters.h"

#include "kernels/cuda/device_table.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/resize_shape.h"

namespace act::cuda {
namespace {

// The tables of an axis, and what keeps them.
struct Uploaded {
  RowTerms rows;
  std::shared_ptr<DeviceTable> ends, terms;
};

std::optional<Uploaded> Upload(const CudaContext& context, const WeightedRows& rows, std::string* why) {
  std::vector<RowTerm> terms;
  for (const WeightedRows::Term& term : rows.terms) terms.push_back({term.at, term.weight});
  Uploaded table;
  table.ends = DeviceTable::Of(context, rows.ends, why);
  if (table.ends) table.terms = DeviceTable::Of(context, terms, why);
  if (!table.terms) return std::nullopt;
  table.rows = {table.ends->as<int64_t>(), table.terms->as<RowTerm>()};
  return table;
}

std::unique_ptr<Kernel> Create(const CudaContext& context, const std::optional<ResizeShape>& shape,
                               const KernelSite& site, bool backward, std::string* why) {
  if (!shape) return nullptr;
  const TensorView &from = site.inputs[0], &to = site.outputs[0];
  if (from.elements == 0 && to.elements > 0) return Refuse(why, "an empty tensor");
  if (to.elements == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  const PlaneRows plane = PlaneRowsOf(*shape, backward);
  const int count = shape->channels % 4 == 0 ? 4 : 1;
  if (to.elements / count >= kMaxCount) return Refuse(why, "2^31 elements or more");
  const auto outer = Upload(context, plane.outer, why);
  if (!outer) return nullptr;
  const auto inner = Upload(context, plane.inner, why);
  if (!inner) return nullptr;
  ResizeParameters p;
  p.outer = outer->rows;
  p.inner = inner->rows;
  p.outer_columns = plane.outer.columns;
  p.inner_columns = plane.inner.columns;
  p.channels = shape->channels;
  p.outer_rows = DivisorOf(plane.outer.rows());
  p.inner_rows = DivisorOf(plane.inner.rows());
  p.groups = DivisorOf(shape->channels / count);
  p.items = static_cast<int32_t>(to.elements / count);
  const OwnKernel<ResizeParameters> kernel(context, "resize", "ResizeParameters", "resize",
                                           "Resize<" + std::to_string(count) + ">");
  return MakeKernel(
      [p, kernel, outer = *outer, inner = *inner](const KernelArgs& args) mutable -> std::string {
        p.from = args.inputs[0].as<float>();
        p.to = args.outputs[0].as<float>();
        return kernel.LaunchItems(p.items, p);
      });
}

}  // namespace

void RegisterCudaResize(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Resize", {"cuda.resize", [&context](const KernelSite& site, std::string* why) {
                            const auto shape =
                                ResizeShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
                            return Create(context, shape, site, false, why);
                          }});
  registry.Add("ResizeGrad", {"cuda.resize_grad", [&context](const KernelSite& site, std::string* why) {
                                const auto shape =
                                    ResizeShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
                                return Create(context, shape, site, true, why);
                              }});
}

}  // namespace act::cuda
