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
  // Where the elements of a run's stream begin: for element e of the walk at start + e * element_bytes + *phase_bytes.
  struct Cursor {
    const std::byte* start = nullptr;
    int64_t element_bytes = 0;
    const int64_t* phase_bytes = nullptr;
  };
  Cursor CursorOf(const RunStream& stream) const;
  const int64_t* PhaseOf(int64_t period) const;
  // cursors: of the run.
  void RunCompiled(const CompiledRun& run, const Cursor* cursors, const TilePlace& place);
  void PlacePlanes(const RunPlanes& planes, int64_t block, const TilePlace& place, PlacedCode& to);
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
  Cursor cursors_[kMostRunStreams];     // of each stream of the runs, one run after the other
  int64_t phases_[kMostPeriods + 1];    // byte offset of the present tile in each period of the loop; then 0
  PlacedCode placed_[kMostRunCodes];
  DrawnStream drawn_[8];  // of the codes' roundings, by stream; few loops have more
};

// Adds up the partial sums, in order, and writes the results. To be called when all threads are
// done.
void FinishSums(const FusedLoop& loop, const KernelArgs& args);

}  // namespace act
