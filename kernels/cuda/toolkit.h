// Loads the library that brings a CUDA machine.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "kernels/cuda/libraries.h"

namespace act::cuda {

// `device`: "cuda" (libact_cuda.so: NVIDIA's driver and libraries) or "fake" (libact_fake_cuda.so: a
// processor that plays one, for tests). The library is looked for beside the program, then where the
// system looks. Errors: the library is not there or of another version; no driver, too old a driver, no
// card.
llvm::Expected<std::unique_ptr<Toolkit>> LoadToolkit(const std::string& device);

// A card that need not be there: "h200" or the path of a description (kernels/nvidia/cards/README.md),
// with NVIDIA's compiler and convolutions. It runs nothing. Errors: the library is not there; no such
// card.
llvm::Expected<std::unique_ptr<Toolkit>> LoadCard(const std::string& card);

}  // namespace act::cuda
