// Numbers of a frozen weight that lies in memory as a code: bit planes of even levels, rounded to nearest.
#pragma once

#include "kernels/cuda/source/coded_numbers_parameters.h"
#include "kernels/cuda/source/codes.h"
#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/lookup.h"

namespace act::cuda {

// The group of number i.
template <DeviceCode kCode>
class CodedGroup {
 public:
  ACT_DEVICE CodedGroup(const uint8_t* code, int64_t i) {
    const int64_t group = i / kCode.codec.group_size, left = kCode.elements - group * kCode.codec.group_size;
    const auto count = static_cast<int32_t>(left < kCode.codec.group_size ? left : kCode.codec.group_size);
    plane_bytes_ = (count + 7) / 8;
    planes_ = code + kCode.payload_offset + group * kCode.group_bytes;
    uint8_t metadata[8] = {};
    LoadMetadata<static_cast<int>(kCode.metadata_bytes)>(code + group * kCode.metadata_bytes, metadata);
    scale_ = LoadGroupScale(kCode.codec, metadata);
  }
  // Its numbers from `first` on, a multiple of kCount, which divides 8.
  template <int kCount>
  ACT_DEVICE void Decode(int32_t first, Floats<kCount>& x) const {
    uint32_t level[kCount] = {};
#pragma unroll
    for (int bit = 0; bit < kCode.codec.bits; ++bit) {
      const uint32_t plane = uint32_t{Load(planes_ + bit * plane_bytes_ + first / 8)} >> (first % 8);
#pragma unroll
      for (int j = 0; j < kCount; ++j) level[j] |= (plane >> j & 1u) << bit;
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) x.at[j] = DequantizeLevel(kCode.codec, level[j], scale_, {}, 0);
  }

 private:
  const uint8_t* planes_;
  int32_t plane_bytes_;
  GroupScale scale_;
};

template <DeviceCode kCode, int kCount>
ACT_DEVICE void DecodeAt(const uint8_t* code, int64_t i, Floats<kCount>& x) {
  CodedGroup<kCode>(code, i).Decode(static_cast<int32_t>(i % kCode.codec.group_size), x);
}

// A thread decodes four neighbours. The range begins at a multiple of four.
template <DeviceCode kCode, class To>
ACT_DEVICE void DecodeNumbers(const DecodeParameters& p) {
  const int64_t at = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  if (at >= p.count) return;
  To* const to = static_cast<To*>(p.to) + at;
  Floats<4> x;
  DecodeAt<kCode>(p.code, p.first + at, x);
  if (at + 4 <= p.count) return StoreFloats(to, x);
  for (int j = 0; at + j < p.count; ++j) StoreFloat(to + j, x.at[j]);
}

// A thread decodes one number.
template <DeviceCode kCode, class To>
ACT_DEVICE void DecodeStrided(const DecodeStridedParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  Floats<1> x;
  DecodeAt<kCode>(p.code, p.first + PlaceOf(p.axes, i), x);
  StoreFloats(static_cast<To*>(p.to) + i, x);
}

// Rows that are looked up by an index (gather.h). A thread decodes one number.
template <DeviceCode kCode, class Index, LiveFlags kFlags>
ACT_DEVICE void GatherNumbers(const GatherParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t row = i;
  const int32_t column = Split(p.row_units, row);
  const RowPlace at = PlaceOfRow<Index, kFlags>(p.lookup, row, column == 0);
  Floats<1> x = {};
  if (at.inside && at.live) DecodeAt<kCode>(static_cast<const uint8_t*>(p.x), at.place + column, x);
  StoreFloats(static_cast<float*>(p.y) + i, x);
}

}  // namespace act::cuda
