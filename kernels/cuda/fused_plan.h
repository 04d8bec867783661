// A fused loop as a CUDA kernel computes it: who works on what. docs/fused_loops.md, "On a card".
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/source/fused_parameters.h"
#include "kernels/loops/loop_program.h"
#include "kernels/site/fused_shape.h"

namespace act::cuda {

struct LoopSum {
  int32_t output = -1;
  int64_t columns = 0;
  bool sliced = false;    // the blocks of a part share its columns: LoopWalk::slices
  int64_t parts = 0;      // one of each block or, if it is sliced, of each LoopWalk::slices blocks
  int64_t workspace = 0;  // byte offset of parts x columns partial sums in double precision
};

// A use of random numbers. Its stream is a parameter, so that loops that differ in nothing else share a
// kernel.
struct LoopStream {
  std::string of;  // "in0", "out1", "r2": what is decoded, encoded or dropped out
  int32_t stream = 0;
  bool draws_starts = false;  // of dither sequences
};

// Shared memory that a kernel may declare.
inline constexpr int64_t kSharedLimit = 44 * 1024;

struct CudaLoop {
  const Program* program = nullptr;
  FusedShape shape;
  std::vector<LoopOperand> operands;
  std::vector<ReadPattern> patterns;  // of kBroadcast operands
  LoopProgram instructions;
  std::vector<LoopStream> streams;
  std::vector<bool> used;  // which operands an instruction or a result reads

  // Codes and random numbers begin anew with each sample. Without them, and unless samples are whole units,
  // the whole space counts as one sample, or as one for each summand of a sum of many columns.
  bool by_sample = false;
  int64_t samples = 0, elements = 0;  // so counted
  bool rows = false, one_row = false;
  int piece = 0;             // elements that a warp works on at a time
  int64_t unit = 0;          // elements of a unit: a piece or, with rows, a block's tile
  int teams = 1;             // that share a block; each works on a unit
  int warps = 1;             // of a block
  int stage_bytes = 0;       // of a warp, in shared memory, where several codes share a number (packing.h)
  bool double_slots = true;  // of sums, in shared memory
  int64_t shared_bytes = 0;  // static
  std::vector<LoopSum> sums;
  int64_t sum_blocks = 0;  // if there are sums: as many blocks, on any card
  int64_t workspace_bytes = 0;
  LoopWalk walk;

  int PerLane() const { return piece / 32; }
  // Threads of a multiprocessor, which its 64 Ki registers are divided among: more, if a thread has fewer
  // arrays.
  int ResidentThreads() const;
  int ResidentBlocks() const { return std::max(1, ResidentThreads() / (32 * warps)); }
  // Whether units may, or must, have fewer elements than their pieces.
  bool MayBeFull() const { return unit % piece == 0; }
  bool MayBeShort() const { return unit % piece != 0 || !by_sample || elements % unit != 0; }
  bool IsUsed(size_t input) const { return used[input]; }
  int64_t Units() const { return CeilDiv(elements, unit) * samples; }
};

// Nullopt, with the reason in *why, if the backend has no kernel for it.
std::optional<CudaLoop> MakeCudaLoop(const KernelSite& site, std::string* why);

}  // namespace act::cuda
