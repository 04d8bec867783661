// kernels/cuda/driver.h over NVIDIA's driver.
#pragma once

#include <memory>

#include "kernels/nvidia/driver_functions.h"

namespace act::cuda {

// The driver, and the primary context of a card, which the libraries share.
struct CardContext {
  DriverFunctions cuda;
  CUdevice device = 0;
  CUcontext handle = nullptr;

  // Makes it the context of the calling thread, as every call of the driver and of the libraries wants it.
  Status Bind() const { return cuda.Check(cuda.cuCtxSetCurrent(handle), "cuCtxSetCurrent"); }
};

// Opens card `device`. On failure returns the reason, and what to do in *hint.
Status OpenContext(int device, CardContext* context, Card* card, std::string* hint);

// Releases the context at its end.
std::unique_ptr<Driver> MakeDriver(const CardContext& context, const Card& card);

// A card that is only described. Its memory is the host's, so that kernels can be made for it, which may
// put tables there. Nothing runs: loading code, launching and capturing fail and say so.
std::unique_ptr<Driver> DescribedDriver(const Card& card);

// Streams of driver.h are CUDA's.
inline CUstream StreamOf(Stream* stream) { return reinterpret_cast<CUstream>(stream); }

}  // namespace act::cuda
