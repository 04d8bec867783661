// What libact_fake_cuda.so exports.
#include "tests/fake_cuda/compiler.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/libraries.h"

namespace act::fake {
namespace {

constexpr int kOldestDriver = 12000;

class FakeToolkit : public cuda::Toolkit, public Controls {
 public:
  explicit FakeToolkit(const Options& options)
      : driver_(options),
        compiler_(options.cache_folder),
        convolutions_(driver_, options),
        products_(driver_, options) {}

  cuda::Driver& driver() override { return driver_; }
  cuda::KernelCompiler& compiler() override { return compiler_; }
  cuda::ConvolutionLibrary& convolutions() override { return convolutions_; }
  cuda::ProductLibrary& products() override { return products_; }

  void Seed(uint64_t seed) override { driver_.Seed(seed); }
  void WatchAccesses(bool watch) override {
    driver_.runner().watch_accesses = watch;
    driver_.runner().statistics.clear();
  }
  const AccessStatistics& Accesses() override { return driver_.runner().statistics; }
  Work WorkSoFar() override {
    return {compiler_.compiled(), convolutions_.searched(), convolutions_.loaded()};
  }

 private:
  FakeDriver driver_;
  HostCompiler compiler_;
  Convolutions convolutions_;
  Products products_;
};

}  // namespace
}  // namespace act::fake

#pragma GCC visibility push(default)
extern "C" {

extern const int act_cuda_version;
const int act_cuda_version = act::cuda::kCurrentToolkit;

act::cuda::Toolkit* act_cuda_open(int device, std::string* error, std::string* hint) {
  const act::fake::Options options = act::fake::OptionsOfEnvironment();
  if (options.no_device || device != 0) {
    *error =
        options.no_device ? "the fake has no device" : "the fake has no device " + std::to_string(device);
    *hint = options.no_device ? "unset ACT_FAKE_NO_DEVICE" : "it has device 0 alone";
    return nullptr;
  }
  if (options.driver_version < act::fake::kOldestDriver) {
    *error = "the fake's driver is of version " + std::to_string(options.driver_version) + ", too old";
    *hint = "set ACT_FAKE_DRIVER to at least " + std::to_string(act::fake::kOldestDriver);
    return nullptr;
  }
  return new act::fake::FakeToolkit(options);
}

act::fake::Controls* act_fake_controls(act::cuda::Toolkit* toolkit) {
  return static_cast<act::fake::FakeToolkit*>(toolkit);
}

}  // extern "C"
#pragma GCC visibility pop
