// One thread's walk over tiles of a fused loop.
#pragma once

#include <cstdint>

#include "kernels/cpu/code_tile.h"
#include "kernels/cpu/fused_loop.h"
#include "runtime/executor/kernel.h"

namespace act {

class TileWalker {
 public:
  // `scratch` is loop.scratch_floats floats of this thread's own. Computes scalars and columns.
  TileWalker(const FusedLoop& loop, const KernelArgs& args, float* scratch);

  // Runs tiles first .. last - 1. Their sums go to partial sums number `part`.
  void Run(int64_t first, int64_t last, int64_t part);

 private:
  // The operand, from element `from` of the tile on.
  TileOperand Operand(int32_t reg, int64_t from) const;
  void ComputeOnce();
  void RunOnce(const Step& step);
  void RunTile(const TilePlace& place);
  void PlaceTile(const TilePlace& place);
  void RunStep(const Step& step, const TilePlace& place);
  void RunCompiled(const CompiledRun& run, const TilePlace& place);
  // Of code `number` of the run.
  const PlaneGroup* PlacePlanes(const CompiledRun& run, size_t number, const TilePlace& place);
  void Apply(const Step& step, int64_t count) const;
  void ReadRow(int32_t input, int64_t first_row, int64_t rows, float* x) const;
  void StoreRow(const Step& step, int64_t first_row, int64_t rows) const;
  void Read(int32_t input, int64_t offset, int64_t count, float* x) const;
  void Store(const Step& step, int64_t offset, int64_t count) const;
  void AddToSum(const Step& step, int64_t offset, int64_t count);
  DrawnStream& Drawn(int32_t stream);
  void ClearSums(int64_t part);
  void FlushSums();

  const FusedLoop& loop_;
  const KernelArgs& args_;
  float* const scratch_;
  int64_t part_ = 0;
  float* at_[kMaxLoopRegisters];        // each register in the current tile
  int32_t made_in_[kMaxLoopRegisters];  // the result in which the register is made; -1: none
  PlacedCode placed_[kMostRunCodes];
  DrawnStream drawn_[8];  // of the codes' roundings, by stream; few loops have more
};

// Adds up the partial sums, in order, and writes the results. To be called when all threads are
// done.
void FinishSums(const FusedLoop& loop, const KernelArgs& args);

}  // namespace act
