// What libact_cuda.so exports: a card of this machine, or one that is only described, with NVIDIA's
// libraries.
#include "kernels/nvidia/card.h"
#include "kernels/nvidia/cublaslt_product.h"
#include "kernels/nvidia/cudnn_convolution.h"
#include "kernels/nvidia/driver.h"
#include "kernels/nvidia/nvrtc.h"

#define ACT_EXPORT extern "C" __attribute__((visibility("default")))

namespace act::cuda {
namespace {

class NvidiaToolkit : public Toolkit {
 public:
  Driver& driver() override { return *driver_; }
  KernelCompiler& compiler() override { return *compiler_; }
  ConvolutionLibrary& convolutions() override { return *convolutions_; }
  ProductLibrary& products() override { return *products_; }

  Status Open(int device, std::string* hint) {
    Card card;
    Status error = OpenContext(device, &context_, &card, hint);
    if (!error.empty()) return error;
    driver_ = MakeDriver(context_, card);
    compiler_ = std::make_unique<NvrtcCompiler>(card.compute_capability);
    *hint =
        "cuDNN and cuBLAS start on a card with free memory, with a driver that is not older than they are: "
        "see nvidia-smi";
    convolutions_ = OpenCudnn(context_, card, &error);
    if (error.empty()) products_ = OpenCublasLt(context_, &error);
    return error;
  }

  Status OpenDescribed(const std::string& name, std::string* hint) {
    *hint = "kernels/nvidia/cards/README.md says how to record a description on a card";
    CardDescription description;
    Status error = ReadCard(name, &description);
    if (!error.empty()) return error;
    driver_ = DescribedDriver(description.card);
    compiler_ = std::make_unique<NvrtcCompiler>(description.card.compute_capability);
    products_ = DescribedProducts();
    convolutions_ = OpenCudnn(description, &error);
    return error.empty() ? "" : name + " does not describe a card: " + error;
  }

 private:
  CardContext context_;
  std::unique_ptr<Driver> driver_;  // the last to go: the libraries live in its context
  std::unique_ptr<KernelCompiler> compiler_;
  std::unique_ptr<ConvolutionLibrary> convolutions_;
  std::unique_ptr<ProductLibrary> products_;
};

// The toolkit that `open` opens, or null.
template <class Open>
Toolkit* Opened(const Open& open, std::string* error, std::string* hint) {
  auto toolkit = std::make_unique<NvidiaToolkit>();
  *error = open(*toolkit, hint);
  if (!error->empty()) return nullptr;
  hint->clear();
  return toolkit.release();
}

}  // namespace
}  // namespace act::cuda

ACT_EXPORT const int act_cuda_version;
const int act_cuda_version = act::cuda::kCurrentToolkit;

ACT_EXPORT act::cuda::Toolkit* act_cuda_open(int device, std::string* error, std::string* hint) {
  return act::cuda::Opened([&](auto& toolkit, std::string* todo) { return toolkit.Open(device, todo); },
                           error, hint);
}

ACT_EXPORT act::cuda::Toolkit* act_cuda_open_card(const char* card, std::string* error, std::string* hint) {
  return act::cuda::Opened(
      [&](auto& toolkit, std::string* todo) { return toolkit.OpenDescribed(card, todo); }, error, hint);
}
