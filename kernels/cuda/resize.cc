#include "kernels/cuda/source/resize_parameters.h"

#include <sstream>

#include "kernels/cuda/device_window.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/resize_shape.h"

namespace act::cuda {
namespace {

// With more, a kernel's text is megabytes long.
constexpr size_t kMaxTerms = 1 << 16;

// The rows of an axis as NAME_ends and NAME_terms. The last term belongs to no row: an array has at least one
// element.
std::string TableText(const std::string& name, const WeightedRows& rows) {
  std::ostringstream text;
  text << std::hexfloat << "  static constexpr int32_t " << name << "_ends[] = {";
  for (const int64_t end : rows.ends) text << end << ", ";
  text << "};\n  static constexpr act::cuda::RowTerm " << name << "_terms[] = {";
  for (const WeightedRows::Term& term : rows.terms) text << "{" << term.at << ", " << term.weight << "f}, ";
  text << "{0, 0}};\n";
  return text.str();
}

std::unique_ptr<Kernel> Create(const CudaContext& context, const std::optional<ResizeShape>& shape,
                               const KernelSite& site, bool backward, std::string* why) {
  if (!shape) return nullptr;
  const TensorView &from = site.inputs[0], &to = site.outputs[0];
  if (from.elements == 0 && to.elements > 0) return Refuse(why, "an empty tensor");
  if (to.elements == 0) return MakeKernel([](const KernelArgs&) -> std::string { return ""; });
  const PlaneRows plane = PlaneRowsOf(*shape, backward);
  const int count = ChannelsAtOnce(shape->channels);
  if (to.elements / count >= kMaxCount || plane.outer.columns >= kMaxCount ||
      plane.inner.columns >= kMaxCount)
    return Refuse(why, "2^31 elements or more");
  if (plane.outer.terms.size() + plane.inner.terms.size() > kMaxTerms)
    return Refuse(why, "mixes more than 65536 elements in different ways");
  ResizeParameters p;
  p.outer_columns = plane.outer.columns;
  p.inner_columns = plane.inner.columns;
  p.channels = shape->channels;
  p.outer_rows = DivisorOf(plane.outer.rows());
  p.inner_rows = DivisorOf(plane.inner.rows());
  p.groups = DivisorOf(shape->channels / count);
  p.items = static_cast<int32_t>(to.elements / count);
  const OwnKernel<ResizeParameters> kernel(
      context, SourceWith("resize", OwnKernel<ResizeParameters>::kThreads, "ResizeParameters", "resize",
                          TableText("outer", plane.outer) + TableText("inner", plane.inner) +
                              "  act::cuda::Resize<" + std::to_string(count) +
                              ">(p, {outer_ends, outer_terms}, {inner_ends, inner_terms});\n"));
  return MakeKernel([p, kernel](const KernelArgs& args) mutable -> std::string {
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
