// The headers of kernels/math compile for the host and, with nvcc or NVRTC, for the device: one
// arithmetic for both.
#pragma once

#ifdef __CUDACC__
#define ACT_HOST_DEVICE __host__ __device__
#else
#define ACT_HOST_DEVICE
#endif
