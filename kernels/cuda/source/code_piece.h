// What the codes of a fused loop are on a device: a codec with its layout, and the part of a sample that a
// warp encodes and decodes at a time.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/math/codec_spec.h"
#include "kernels/math/random.h"
#include "kernels/math/rounding.h"
#include "kernels/math/step_block.h"

namespace act {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// A codec, and the layout of a sample's code (runtime/codec/codec.h, CodeLayout).
struct DeviceCode {
  CodecSpec codec;
  int64_t elements = 0, groups = 0, metadata_bytes = 0, payload_offset = 0, group_bytes = 0,
          payload_bytes = 0, sample_bytes = 0;
  int codes = 1, bits = 0;  // CodePacking

  // Codes that a lane holds of a full group.
  ACT_HOST_DEVICE constexpr int PerLane() const { return codec.group_size / 32; }
};

// Consecutive elements of a sample, which a warp works on: lane l has elements 32 j + l. They begin at a
// multiple of 256 and of every codec's group, and end before the next group or with the sample.
struct Piece {
  int64_t sample = 0;         // of the operands
  int64_t random_sample = 0;  // of the whole batch: random numbers are drawn by sample
  int64_t first = 0;          // element of the sample
  int count = 0;              // elements; 0 or less: none
  int lane = 0;
};

// ---- Random numbers

ACT_DEVICE StepBlock LoadStep(const StepBlock* from) {
  StepBlock block;
  block.seed = Load(&from->seed);
  block.step = Load(&from->step);
  block.rounding = Load(&from->rounding);
  block.rounding_stream = Load(&from->rounding_stream);
  return block;
}
ACT_DEVICE RandomStream RoundingStream(const StepBlock& block, int32_t stream) {
  return {RoundingSeed(block, stream), block.step, static_cast<uint32_t>(stream)};
}
ACT_DEVICE RandomStream DropoutStream(const StepBlock& block, int32_t stream) {
  return {block.seed, block.step, static_cast<uint32_t>(stream)};
}

// The starts of dither sequences. A random call serves eight groups and each lane makes one, so that a warp
// draws for 256 consecutive groups at a time. `words`: kWords of shared memory for each warp and stream.
class DitherStarts {
 public:
  static constexpr int kWords = 4 * 32;
  ACT_DEVICE DitherStarts(const RandomStream& stream, uint32_t* words) : stream_(stream), words_(words) {}

  // `number` counts the group among those of all samples. All lanes ask for the same one.
  ACT_DEVICE uint32_t Of(uint64_t number, int lane) {
    const uint64_t call = number / 8;
    if (call - first_call_ >= 32) Draw(call, lane);
    const uint32_t word = words_[number % 8 / 2 * 32 + (call - first_call_)];
    return number % 2 == 0 ? word & 0xFFFFu : word >> 16;  // as DitherStart
  }

 private:
  ACT_DEVICE void Draw(uint64_t call, int lane) {
    first_call_ = call;
    const RandomWords drawn = RandomCall(stream_, call + static_cast<uint64_t>(lane));
    SyncWarp();
#pragma unroll
    for (int w = 0; w < 4; ++w) words_[w * 32 + lane] = drawn.word[w];
    SyncWarp();
  }

  const RandomStream stream_;
  uint32_t* const words_;
  uint64_t first_call_ = ~uint64_t{0} - 64;  // of no group
};

// For codes without levels.
struct NoStarts {
  ACT_DEVICE uint32_t Of(uint64_t, int) const { return 0; }
};

// Bit j says that dropout keeps the lane's element j of a piece. One call serves two of them.
template <int kPerLane>
ACT_DEVICE uint32_t DropoutKeeps(const RandomStream& stream, const Piece& piece, int64_t elements,
                                 uint32_t threshold) {
  const uint64_t first_call = FirstCall(kRandom32Block, piece.random_sample, elements, piece.first) +
                              static_cast<uint64_t>(piece.lane % kRandomLanes);
  const bool upper = piece.lane >= kRandomLanes;
  uint32_t keeps = 0;
#pragma unroll
  for (int j = 0; j < kPerLane; j += 2) {
    const RandomWords drawn = RandomCall(stream, first_call + static_cast<uint64_t>(j / 2 * kRandomLanes));
    keeps |= static_cast<uint32_t>((upper ? drawn.word[1] : drawn.word[0]) >= threshold) << j;
    keeps |= static_cast<uint32_t>((upper ? drawn.word[3] : drawn.word[2]) >= threshold) << (j + 1);
  }
  return keeps;
}

// The 16 bits with which each element of a piece is rounded, but for dither, whose bits follow from the
// group's start.
template <Rounding kRounding, int kPerLane>
class RoundingBits {
 public:
  ACT_DEVICE RoundingBits(const RandomStream& stream, const Piece& piece, int64_t elements) {
    if constexpr (kRounding != Rounding::kStochastic) return;
    upper_ = piece.lane >= kRandomLanes ? 1 : 0;
    uint64_t call = FirstCall(kRandom16Block, piece.random_sample, elements, piece.first) +
                    static_cast<uint64_t>(piece.lane % kRandomLanes);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block, call += kRandomLanes)
      words_[block] = RandomCall(stream, call);
  }
  // Of the lane's element j of the piece, which is element `in_group` of a group whose dither starts at
  // `start`.
  ACT_DEVICE uint32_t Of(int j, int in_group, uint32_t start) const {
    if constexpr (kRounding == Rounding::kDither) return DitherBits(start, in_group);
    if constexpr (kRounding == Rounding::kNearest) return kNearestBits;
    return SubWord16(words_[j / 8].word[j % 8 / 2], 2 * (j % 2) + upper_);
  }

 private:
  static constexpr int kBlocks = kRounding == Rounding::kStochastic ? kPerLane / 8 : 1;
  RandomWords words_[kBlocks];
  int upper_ = 0;
};

}  // namespace act
