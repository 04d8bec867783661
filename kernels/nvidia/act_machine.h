// What device code is written with, for CUDA: kernels/cuda/source/README.md lists it. NVRTC gets this text as
// <act_machine.h>. tests/fake_cuda/act_machine.h is the same for a processor.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#define ACT_DEVICE __device__
// The compiler defines ACT_RESIDENT_THREADS: as many shall fit on a multiprocessor, which bounds registers.
#define ACT_RESIDENT_BLOCKS(threads) (((threads) + ACT_RESIDENT_THREADS - 1) / (threads))
// __grid_constant__: parameters are read where they lie, so that taking their address makes no copy on the
// stack.
#define ACT_KERNEL(name, threads, Type, p) \
  ACT_RESIDENT_KERNEL(name, threads, ACT_RESIDENT_BLOCKS(threads), Type, p)
// The same where the kernel says how many of its blocks shall fit at most.
#define ACT_RESIDENT_KERNEL(name, threads, blocks, Type, p)                                         \
  extern "C" __global__ void __launch_bounds__(                                                     \
      threads, ((blocks) < ACT_RESIDENT_BLOCKS(threads) ? (blocks) : ACT_RESIDENT_BLOCKS(threads))) \
      name(const __grid_constant__ Type p)
#define ACT_SHARED(Type, name, count) __shared__ Type name[count]

ACT_DEVICE inline unsigned char* SharedBytes() {
  extern __shared__ __align__(16) unsigned char act_shared_bytes[];
  return act_shared_bytes;
}

// ---- Global memory. The assumption makes instructions for global memory of what would be generic ones.

template <class T>
ACT_DEVICE inline T Load(const T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return *pointer;
}

template <class T>
ACT_DEVICE inline void Store(T* pointer, std::type_identity_t<T> value) {
  __builtin_assume(__isGlobal(pointer));
  *pointer = value;
}

// ---- Threads of a block and of a warp

inline constexpr uint32_t kWholeWarp = 0xffffffffu;

ACT_DEVICE inline void SyncThreads() { __syncthreads(); }
ACT_DEVICE inline void SyncWarp(uint32_t mask = kWholeWarp) { __syncwarp(mask); }

ACT_DEVICE inline uint32_t Ballot(uint32_t mask, bool bit) { return __ballot_sync(mask, bit); }

// T has 32 bits.
template <class T>
ACT_DEVICE inline T Shuffle(uint32_t mask, T value, int lane) {
  static_assert(sizeof(T) == 4);
  return __shfl_sync(mask, value, lane);
}
template <class T>
ACT_DEVICE inline T ShuffleXor(uint32_t mask, T value, int lane_mask) {
  static_assert(sizeof(T) == 4);
  return __shfl_xor_sync(mask, value, lane_mask);
}
template <class T>
ACT_DEVICE inline T ShuffleDown(uint32_t mask, T value, int by) {
  static_assert(sizeof(T) == 4);
  return __shfl_down_sync(mask, value, by);
}

ACT_DEVICE inline uint32_t ReduceMin(uint32_t mask, uint32_t value) { return __reduce_min_sync(mask, value); }
ACT_DEVICE inline uint32_t ReduceMax(uint32_t mask, uint32_t value) { return __reduce_max_sync(mask, value); }
ACT_DEVICE inline uint32_t ReduceAdd(uint32_t mask, uint32_t value) { return __reduce_add_sync(mask, value); }

// ---- Atomics, on integers alone: a sum of floats would depend on the order. They return what was there.

ACT_DEVICE inline uint32_t AtomicAdd(uint32_t* pointer, uint32_t value) { return atomicAdd(pointer, value); }
ACT_DEVICE inline uint32_t AtomicMin(uint32_t* pointer, uint32_t value) { return atomicMin(pointer, value); }
ACT_DEVICE inline uint32_t AtomicMax(uint32_t* pointer, uint32_t value) { return atomicMax(pointer, value); }
ACT_DEVICE inline uint64_t AtomicMin(uint64_t* pointer, uint64_t value) {
  return atomicMin(reinterpret_cast<unsigned long long*>(pointer), static_cast<unsigned long long>(value));
}
ACT_DEVICE inline uint64_t AtomicMax(uint64_t* pointer, uint64_t value) {
  return atomicMax(reinterpret_cast<unsigned long long*>(pointer), static_cast<unsigned long long>(value));
}

// ---- Arithmetic

// a b + c with one rounding. Nothing else is contracted (-fmad=false).
ACT_DEVICE inline float MulAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
ACT_DEVICE inline double MulAdd(double a, double b, double c) { return __fma_rn(a, b, c); }

// 2^x to 2 units in the last place (PTX ISA, ex2.approx).
ACT_DEVICE inline float ApproximatePowerOf2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// ---- Tensor cores: README.md of kernels/cuda/source says which elements a lane has.

// d += a b, of a warp: a [16,8], b [8,8], d [16,8] (PTX ISA, mma.m16n8k8 with .tf32).
ACT_DEVICE inline void AddTf32Product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same: a [16,16], b [16,8] (mma.m16n8k16 with .bf16).
ACT_DEVICE inline void AddBFloat16Product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Two floats in bfloat16, to nearest; the first has the lower bits.
ACT_DEVICE inline uint32_t BFloat16Pair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
// ldmatrix: a lane gives the address of a row, 0..15, of the first or the second 16 bytes. Volatile: it stays between
// barriers.
ACT_DEVICE inline uint32_t MatrixRowOfLane(const void* from, int32_t row_bytes) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  return static_cast<uint32_t>(__cvta_generic_to_shared(from)) +
         static_cast<uint32_t>(lane % 16 * row_bytes + lane / 16 * 16);
}
ACT_DEVICE inline void LoadMatrices(const void* from, int32_t row_bytes, uint32_t (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(MatrixRowOfLane(from, row_bytes)));
}
ACT_DEVICE inline void LoadTransposedMatrices(const void* from, int32_t row_bytes, uint32_t (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(MatrixRowOfLane(from, row_bytes)));
}

ACT_DEVICE inline uint32_t FloatBits(float value) { return __float_as_uint(value); }
ACT_DEVICE inline float FromBits(uint32_t bits) { return __uint_as_float(bits); }
