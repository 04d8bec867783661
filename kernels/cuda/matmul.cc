#include "kernels/cuda/coded_product.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/loss_shape.h"

namespace act::cuda {
namespace {

// f(shape, operands) if the node's operands fit.
template <class F>
std::unique_ptr<Kernel> WithProduct(const KernelSite& site, std::string* why, const F& f) {
  const auto shape =
      MixedMatMulShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.outputs[0], why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  ProductOperands operands;
  if (OptionalInput(site.inputs, 2)) operands.bias = 2;
  return f(*shape, operands);
}

}  // namespace

void RegisterCudaMatMul(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("MatMul",
               {"cublaslt.matmul", [&context](const KernelSite& site, std::string* why) {
                  return WithProduct(site, why, [&](const MatMulShape& shape, ProductOperands operands) {
                    return CreateLibraryProduct(context, site, shape, operands, context.product_math, why);
                  });
                }});
  registry.Add("MatMul", {"cublaslt.coded_matmul", [&context](const KernelSite& site, std::string* why) {
                            return CreateCodedProduct(context, site, why);
                          }});
  registry.Add("MatMul", {"cuda.matmul", [&context](const KernelSite& site, std::string* why) {
                            return WithProduct(
                                site, why, [&](const MatMulShape& shape, ProductOperands operands) {
                                  return CreateProductTiles(context, site, shape, operands, why);
                                });
                          }});
}

}  // namespace act::cuda
