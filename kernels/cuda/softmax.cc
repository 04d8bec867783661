// Softmax, LogSoftmax and SoftmaxGrad: a team of threads for each row, which is read once where it fits into
// their registers.
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/row_plan.h"
#include "kernels/cuda/source/divisor.h"
#include "kernels/cuda/source/softmax_parameters.h"
#include "kernels/cuda/strided_copy.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/softmax_shape.h"

namespace act::cuda {
namespace {

// `function`: of device code, for a row shape.
std::unique_ptr<Kernel> Create(const CudaContext& context, const KernelSite& site, const std::string& name,
                               const std::string& function, std::string* why) {
  const auto shape = SoftmaxShapeOf(site, why);
  if (!shape) return nullptr;
  const TensorView& x = site.inputs[0];
  if (shape->columns >= kMaxCount) return Refuse(why, "2^31 columns");
  const bool aligned = CommonAlignment(x, x) % 16 == 0;
  const RowPlan plan = PlanRows(shape->columns, 2, static_cast<int>(site.inputs.size()), aligned);
  const OwnKernel<SoftmaxParameters> kernel(context, name, "SoftmaxParameters", "softmax",
                                            function + TemplateArguments("act::cuda::" + plan.shape),
                                            plan.threads);
  return MakeKernel([s = *shape, plan, kernel](const KernelArgs& args) -> std::string {
    return kernel.Launch(DivideUp(s.rows, plan.teams), {.a = args.inputs.front().as<float>(),
                                                        .b = args.inputs.back().as<float>(),
                                                        .result = args.outputs[0].as<float>(),
                                                        .rows = s.rows,
                                                        .columns = static_cast<int32_t>(s.columns)});
  });
}

}  // namespace

void RegisterCudaSoftmax(KernelRegistry& registry, const CudaContext& context) {
  const auto add = [&](const std::string& op, const std::string& name) {
    registry.Add(op, {"cuda." + name, [&context, op, name](const KernelSite& site, std::string* why) {
                        return Create(context, site, name, op, why);
                      }});
  };
  add("Softmax", "softmax");
  add("LogSoftmax", "log_softmax");
  add("SoftmaxGrad", "softmax_grad");
}

}  // namespace act::cuda
