// Device code begins with this header. What it declares comes from the compiler, as <act_machine.h>:
// CUDA's of kernels/nvidia, or a processor's of tests/fake_cuda. README.md in this folder lists it.
#pragma once

#include <act_machine.h>
