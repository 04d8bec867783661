#include "kernels/cuda/conversion.h"

#include "kernels/cuda/float_type.h"

namespace act::cuda {
namespace {

int64_t CountAtOnce(int64_t elements, bool vectors) { return vectors && elements % 4 == 0 ? 4 : 1; }

}  // namespace

Conversion::Conversion(const CudaContext& context, DType from, DType to, int64_t elements, bool vectors)
    : kernel_(context, "convert", "ConversionParameters", "conversion",
              "Convert" + TemplateArguments(std::string(FloatType(from)), std::string(FloatType(to)),
                                            CountAtOnce(elements, vectors))),
      items_(elements / CountAtOnce(elements, vectors)) {}

Status Conversion::Run(const void* from, void* to) const {
  return kernel_.LaunchItems(items_, {.from = from, .to = to, .items = items_});
}

}  // namespace act::cuda
