#include "runtime/base/target.h"

#include <algorithm>

namespace act {
namespace {

class Cpu final : public Target {
 public:
  TargetKind kind() const override { return TargetKind::kCpu; }
  int64_t LoopSumParts(int64_t columns) const override {
    return columns <= kManyColumns ? kParts : kPartsOfMany;
  }
  int64_t RowSumParts(int64_t) const override { return kParts; }
  int64_t SharedGradientParts(int64_t elements) const override {
    constexpr int64_t kFloat = 4;
    return elements > 0 ? std::clamp<int64_t>(kSharedBytes / kFloat / elements, 1, kParts) : 1;
  }

 private:
  // The number of threads that sums assume: each computes one part.
  static constexpr int64_t kParts = 16;
  // In a loop, sums of more columns than this have few parts, to bound the scratch space.
  static constexpr int64_t kManyColumns = 8192, kPartsOfMany = 2;
  // Limit for all parts of a shared gradient together, in float32.
  static constexpr int64_t kSharedBytes = 1024 * 1024;
};

class Cuda final : public Target {
 public:
  TargetKind kind() const override { return TargetKind::kCuda; }
  int64_t LoopSumParts(int64_t columns) const override { return Parts(kLoopSums, columns, kBlocks); }
  // Where parts are fewer than kBlocks, all of them have at most kLoopSums, or are one.
  Dim LoopPartialSums(const Dim& columns) const override {
    return columns.IsFixed() ? Target::LoopPartialSums(columns) : columns + Dim(kLoopSums);
  }
  int64_t RowSumParts(int64_t columns) const override { return Parts(kBlocks * kRowTile, columns, kBlocks); }
  int64_t SharedGradientParts(int64_t elements) const override {
    return Parts(kSharedSums, elements, kSharedParts);
  }

 private:
  static int64_t Parts(int64_t sums, int64_t columns, int64_t most) {
    return std::clamp<int64_t>(sums / std::max<int64_t>(columns, 1), 1, most);
  }
  // Three for each of some 150 multiprocessors, and a power of two.
  static constexpr int64_t kBlocks = 512;
  // A part of a loop is one block, or the blocks that share the columns of a longer sum. 16 MiB in double bound the
  // scratch space of each sum.
  static constexpr int64_t kLoopSums = 2 * 1024 * 1024;
  // A part of a reduction has a block for each tile of its columns.
  static constexpr int64_t kRowTile = 128;
  // Heads and samples are computed in blocks, each of which fills the card on its own. So a few parts
  // of 2 MiB together, in float32, suffice.
  static constexpr int64_t kSharedParts = 64, kSharedSums = 512 * 1024;
};

}  // namespace

const char* ToString(TargetKind kind) { return kind == TargetKind::kCpu ? "cpu" : "cuda"; }

std::optional<TargetKind> ParseTargetKind(std::string_view name) {
  for (const TargetKind kind : kTargets)
    if (name == ToString(kind)) return kind;
  return std::nullopt;
}

int64_t AlignmentOf(TargetKind kind) { return kind == TargetKind::kCpu ? 64 : 256; }

const Target& CpuTarget() {
  static const Cpu cpu;
  return cpu;
}

const Target& CudaTarget() {
  static const Cuda cuda;
  return cuda;
}

const Target& TargetOf(TargetKind kind) { return kind == TargetKind::kCpu ? CpuTarget() : CudaTarget(); }

}  // namespace act
