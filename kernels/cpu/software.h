// What beside the program itself decides which kernels the processor runs, and how fast.
#pragma once

#include <string>

namespace act {

// "oneDNN 3.2.0 avx512_core_bf16": the library that runs, and the instructions that it uses here.
std::string CpuSoftware();

}  // namespace act
