#include "kernels/nvidia/driver_functions.h"

#include <dlfcn.h>

namespace act::cuda {
namespace {

// 13000 as "13.0".
std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The libraries of a major version run on every driver of that version (CUDA's minor version compatibility).
constexpr int kLeastVersion = CUDA_VERSION / 1000 * 1000;

}  // namespace

Status DriverFunctions::Check(CUresult result, const std::string& call) const {
  if (result == CUDA_SUCCESS) return "";
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "an unknown error";
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS) text = "no text";
  return call + ": " + name + " (" + text + ")";
}

Status LoadDriver(DriverFunctions* functions, std::string* hint) {
  const std::string install = "install NVIDIA's driver for CUDA " + VersionText(kLeastVersion) +
                              " or later (580), or run with --device=cpu";
  *hint = install;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::string("this machine has no NVIDIA driver: ") + dlerror();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
#define ACT_TEXT(name) #name
#define ACT_FIND(name) find(functions->name, ACT_TEXT(name))
  // What tells of a driver that cannot be used comes first: an old one lacks some of the others.
  int version = 0;
  if (!ACT_FIND(cuDriverGetVersion) || !ACT_FIND(cuInit) || !ACT_FIND(cuGetErrorName) ||
      !ACT_FIND(cuGetErrorString) || functions->cuDriverGetVersion(&version) != CUDA_SUCCESS)
    return "libcuda.so.1 is no driver of NVIDIA's: it does not tell its version";
  if (version < kLeastVersion)
    return "NVIDIA's driver is too old: it has CUDA " + VersionText(version) + ", and this program needs " +
           VersionText(kLeastVersion);
  const CUresult result = functions->cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE) {
    *hint =
        "check that nvidia-smi lists one and that CUDA_VISIBLE_DEVICES does not hide it, or run with "
        "--device=cpu";
    return "this machine has no card that NVIDIA's driver can use";
  }
  if (result != CUDA_SUCCESS) {
    *hint =
        "check that nvidia-smi works and that its version is that of the driver's module, or run with "
        "--device=cpu";
    return "NVIDIA's driver does not start: " + functions->Check(result, "cuInit");
  }
  const char* missing = nullptr;
#define ACT_FIND_OR_NAME(name) \
  if (!ACT_FIND(name)) missing = ACT_TEXT(name);
  ACT_DRIVER_FUNCTIONS(ACT_FIND_OR_NAME)
  if (missing) return std::string("NVIDIA's driver has no function ") + missing;
  hint->clear();
  return "";
}

}  // namespace act::cuda
