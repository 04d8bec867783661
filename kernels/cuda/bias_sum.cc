#include "kernels/cuda/bias_sum.h"

#include "kernels/cuda/device_window.h"
#include "kernels/cuda/float_type.h"

namespace act::cuda {

BiasSum::BiasSum(const CudaContext& context, int64_t channels, DType to)
    : kernel_(context, "add_bias", "AddBiasParameters", "add_bias",
              "AddBias" + TemplateArguments(FloatType(to), ChannelsAtOnce(channels))),
      groups_(DivisorOf(channels / ChannelsAtOnce(channels))),
      at_once_(ChannelsAtOnce(channels)) {}

Status BiasSum::Run(const void* from, const float* bias, void* to, int64_t elements) const {
  const auto items = static_cast<int32_t>(elements / at_once_);
  return kernel_.LaunchItems(items,
                             {.from = from, .bias = bias, .to = to, .groups = groups_, .items = items});
}

}  // namespace act::cuda
