// What device code is written with, for a processor: kernels/cuda/source/README.md says what everything
// here means. Reads and writes of global memory, barriers and collectives go to the machine (machine.h),
// which checks them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/fake_cuda/machine.h"

extern "C" {
__attribute__((visibility("default"))) act::fake::Machine* act_fake_machine;
}

#define ACT_DEVICE inline
#define ACT_ALWAYS_INLINE inline __attribute__((always_inline))

#define ACT_KERNEL(name, max_threads, Type, p)                                                              \
  static void name(const Type& p);                                                                          \
  extern "C" __attribute__((visibility("default")))                                                         \
  const act::fake::KernelEntryPoint act_fake_kernel_##name;                                                 \
  const act::fake::KernelEntryPoint act_fake_kernel_##name = {                                              \
      [](const void* parameter) { name(*static_cast<const Type*>(parameter)); }, max_threads, sizeof(Type), \
      alignof(Type)};                                                                                       \
  static_assert(std::is_trivially_copyable_v<Type>, "parameters are copied as bytes");                      \
  static void name([[maybe_unused]] const Type& p)

#define ACT_RESIDENT_KERNEL(name, max_threads, blocks, Type, p) ACT_KERNEL(name, max_threads, Type, p)

#define threadIdx (act_fake_machine->thread)
#define blockIdx (act_fake_machine->block)
#define blockDim (act_fake_machine->block_dim)
#define gridDim (act_fake_machine->grid_dim)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) int2 {
  int32_t x, y;
};
struct alignas(16) int4 {
  int32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline int2 make_int2(int32_t x, int32_t y) { return {x, y}; }
inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w) { return {x, y, z, w}; }

template <class T>
ACT_ALWAYS_INLINE T Load(const T* pointer) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, act_fake_machine->At(pointer, sizeof(T), alignof(T), act::fake::Access::kLoad),
              sizeof(T));
  return value;
}

template <class T>
ACT_ALWAYS_INLINE void Store(T* pointer, std::type_identity_t<T> value) {
  static_assert(std::is_trivially_copyable_v<T>);
  act_fake_machine->BeforeStore();
  std::memcpy(act_fake_machine->At(pointer, sizeof(T), alignof(T), act::fake::Access::kStore), &value,
              sizeof(T));
}

// ---- Shared memory

namespace act::fake {

template <class T, int kCount>
struct SharedArray {
  // The array of the running block. Its bytes are NaNs when a block begins.
  T (&Of(Machine& machine))[kCount] {
    if (serial != machine.block_serial) {
      std::memset(bytes, 0xff, sizeof bytes);
      serial = machine.block_serial;
      machine.AddShared(bytes, sizeof bytes);
    }
    return *reinterpret_cast<T(*)[kCount]>(bytes);
  }
  uint64_t serial = 0;
  alignas(16) unsigned char bytes[sizeof(T) * kCount];
};

}  // namespace act::fake

#define ACT_SHARED(Type, name, count)                          \
  static act::fake::SharedArray<Type, (count)> name##_storage; \
  Type(&name)[count] = name##_storage.Of(*act_fake_machine)

inline unsigned char* SharedBytes() { return act_fake_machine->dynamic_shared; }

// ---- Barriers and collectives

ACT_ALWAYS_INLINE void SyncThreads(int line = __builtin_LINE()) { act_fake_machine->SyncThreads(line); }

inline constexpr uint32_t kWholeWarp = 0xffffffffu;

inline void SyncWarp(uint32_t mask = kWholeWarp) {
  act_fake_machine->Meet(act::fake::Collective::kSync, mask, 0, 0);
}
inline uint32_t Ballot(uint32_t mask, bool bit) {
  return act_fake_machine->Meet(act::fake::Collective::kBallot, mask, bit, 0);
}
inline uint32_t LaneOfThread() {
  const act::fake::Machine& m = *act_fake_machine;
  return (m.thread.x + m.block_dim.x * (m.thread.y + m.block_dim.y * m.thread.z)) % 32;
}
// The value of `v` in another lane of the mask.
template <class T>
inline T Shuffle(uint32_t mask, T v, int lane) {
  static_assert(sizeof(T) == 4 && std::is_trivially_copyable_v<T>, "shuffles move 32 bits");
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  bits =
      act_fake_machine->Meet(act::fake::Collective::kShuffle, mask, bits, static_cast<uint32_t>(lane) % 32);
  std::memcpy(&v, &bits, 4);
  return v;
}
template <class T>
inline T ShuffleXor(uint32_t mask, T v, int lane_mask) {
  return Shuffle(mask, v, static_cast<int>(LaneOfThread() ^ static_cast<uint32_t>(lane_mask)));
}
// A lane without one `by` lanes further keeps its own value.
template <class T>
inline T ShuffleDown(uint32_t mask, T v, int by) {
  const int from = static_cast<int>(LaneOfThread()) + by;
  return Shuffle(mask, v, from < 32 ? from : static_cast<int>(LaneOfThread()));
}
inline uint32_t ReduceMin(uint32_t mask, uint32_t v) {
  return act_fake_machine->Meet(act::fake::Collective::kReduceMin, mask, v, 0);
}
inline uint32_t ReduceMax(uint32_t mask, uint32_t v) {
  return act_fake_machine->Meet(act::fake::Collective::kReduceMax, mask, v, 0);
}
inline uint32_t ReduceAdd(uint32_t mask, uint32_t v) {
  return act_fake_machine->Meet(act::fake::Collective::kReduceAdd, mask, v, 0);
}

// ---- Atomics: they return what was there before

template <class T, class F>
ACT_ALWAYS_INLINE T AtomicUpdate(T* pointer, F update) {
  act_fake_machine->BeforeStore();
  void* place = act_fake_machine->At(pointer, sizeof(T), sizeof(T), act::fake::Access::kAtomic);
  T before;
  std::memcpy(&before, place, sizeof(T));
  const T after = update(before);
  std::memcpy(place, &after, sizeof(T));
  return before;
}
inline uint32_t AtomicAdd(uint32_t* pointer, uint32_t v) {
  return AtomicUpdate(pointer, [v](uint32_t before) { return before + v; });
}
inline uint32_t AtomicMin(uint32_t* pointer, uint32_t v) {
  return AtomicUpdate(pointer, [v](uint32_t before) { return v < before ? v : before; });
}
inline uint32_t AtomicMax(uint32_t* pointer, uint32_t v) {
  return AtomicUpdate(pointer, [v](uint32_t before) { return v > before ? v : before; });
}
inline uint64_t AtomicMin(uint64_t* pointer, uint64_t v) {
  return AtomicUpdate(pointer, [v](uint64_t before) { return v < before ? v : before; });
}
inline uint64_t AtomicMax(uint64_t* pointer, uint64_t v) {
  return AtomicUpdate(pointer, [v](uint64_t before) { return v > before ? v : before; });
}

// ---- Arithmetic

inline float MulAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double MulAdd(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float ApproximatePowerOf2(float x) {
  const float power = exp2f(x);
  return power < std::numeric_limits<float>::min() ? 0 : power;
}
inline uint32_t FloatBits(float f) { return __builtin_bit_cast(uint32_t, f); }
inline float FromBits(uint32_t u) { return __builtin_bit_cast(float, u); }

// ---- Tensor cores

namespace act::fake {

// d += a b of a warp. Lanes put their factors where the whole warp sees them. `element(bits, k)`: of a register, the
// element whose term is k. The products are added in double, so that their order does not matter.
template <uint32_t kTermsOfRegister, class Element>
void AddProduct(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const Element& element) {
  struct Factors {
    uint32_t a[4], b[2];
  };
  static Factors of_warps[32][32];
  const uint32_t warp = act_fake_machine->thread.x / 32, lane = LaneOfThread();
  const Factors(&lanes)[32] = of_warps[warp];
  of_warps[warp][lane] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  SyncWarp();
  constexpr uint32_t kHalf = 4 * kTermsOfRegister;  // of the terms
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = lane / 4, column = lane % 4 * 2 + i % 2;
    double sum = d[i];
    for (uint32_t k = 0; k < 2 * kHalf; ++k) {
      const uint32_t t = k % kHalf / kTermsOfRegister;
      sum += double{element(lanes[row * 4 + t].a[k / kHalf * 2 + i / 2], k)} *
             element(lanes[column * 4 + t].b[k / kHalf], k);
    }
    d[i] = static_cast<float>(sum);
  }
  SyncWarp();
}

// Row `row` of matrix m of four: 16 bytes in shared memory.
inline const unsigned char* MatrixRow(const void* from, int32_t row_bytes, uint32_t m, uint32_t row) {
  return static_cast<const unsigned char*>(from) + static_cast<int64_t>(m % 2 * 8 + row) * row_bytes +
         m / 2 * 16;
}

}  // namespace act::fake

// Factors lose what tensor cores ignore.
inline void AddTf32Product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  act::fake::AddProduct<1>(d, a, b0, b1,
                           [](uint32_t bits, uint32_t) { return FromBits(bits & ~uint32_t{0x1fff}); });
}
inline void AddBFloat16Product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  act::fake::AddProduct<2>(d, a, b0, b1, [](uint32_t bits, uint32_t k) {
    return FromBits(k % 2 == 0 ? bits << 16 : bits & 0xffff0000u);
  });
}
inline uint32_t BFloat16Pair(float first, float second) {
  const auto rounded = [](float f) -> uint32_t {
    const uint32_t bits = FloatBits(f);
    return f != f ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  return rounded(first) | rounded(second) << 16;
}
inline void LoadMatrices(const void* from, int32_t row_bytes, uint32_t (&x)[4]) {
  const uint32_t lane = LaneOfThread();
  for (uint32_t m = 0; m < 4; ++m)
    std::memcpy(&x[m], act::fake::MatrixRow(from, row_bytes, m, lane / 4) + lane % 4 * 4, 4);
}
inline void LoadTransposedMatrices(const void* from, int32_t row_bytes, uint32_t (&x)[4]) {
  const uint32_t lane = LaneOfThread();
  for (uint32_t m = 0; m < 4; ++m) {
    uint16_t pair[2];
    for (uint32_t i = 0; i < 2; ++i)
      std::memcpy(&pair[i], act::fake::MatrixRow(from, row_bytes, m, lane % 4 * 2 + i) + lane / 4 * 2, 2);
    x[m] = pair[0] | uint32_t{pair[1]} << 16;
  }
}
