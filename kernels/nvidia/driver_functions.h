// The functions of NVIDIA's driver that we call, found in libcuda.so.1 at run time: a machine without a
// driver can load this library too, and be told what is missing.
#pragma once

#include <cuda.h>

#include <string>

#include "kernels/cuda/driver.h"

// cuda.h defines most of these names as others with a version (cuMemAlloc_v2), which is what the library
// exports.
#define ACT_DRIVER_FUNCTIONS(X)                                                                             \
  X(cuInit)                                                                                                 \
  X(cuDriverGetVersion)                                                                                     \
  X(cuGetErrorName)                                                                                         \
  X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute)         \
      X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)       \
          X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuStreamCreate)   \
              X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamIsCapturing)         \
                  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuEventCreate) X(cuEventDestroy)          \
                      X(cuEventRecordWithFlags) X(cuEventSynchronize) X(cuEventElapsedTime)                 \
                          X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) \
                              X(cuMemsetD32Async) X(cuLaunchHostFunc) X(cuLaunchKernel)                     \
                                  X(cuGraphInstantiate) X(cuGraphDestroy) X(cuGraphLaunch)                  \
                                      X(cuGraphExecDestroy) X(cuModuleLoadData) X(cuModuleUnload)           \
                                          X(cuModuleGetFunction) X(cuFuncSetAttribute)

namespace act::cuda {

struct DriverFunctions {
#define ACT_MEMBER(name) decltype(&::name) name = nullptr;
  ACT_DRIVER_FUNCTIONS(ACT_MEMBER)
#undef ACT_MEMBER

  // An empty string for CUDA_SUCCESS, otherwise "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Status Check(CUresult result, const std::string& call) const;
};

// Loads the driver and starts it. On failure returns the reason, and what to do in *hint: there is no driver,
// it is too old, or it does not start.
Status LoadDriver(DriverFunctions* functions, std::string* hint);

}  // namespace act::cuda
