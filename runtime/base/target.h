// The kinds of machine whose kernels run a plan, as far as sizes depend on them. A plan's bounds are
// computed for each kind, and the kind's kernels ask the same functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "runtime/base/dim.h"

namespace act {

// Stored in plans by value: append, and add a row to kTargets.
enum class TargetKind : uint8_t { kCpu, kCuda };
inline constexpr TargetKind kTargets[] = {TargetKind::kCpu, TargetKind::kCuda};
inline constexpr size_t kTargetKinds = std::size(kTargets);

// "cpu" or "cuda", as in flags and reports; and back.
const char* ToString(TargetKind kind);
std::optional<TargetKind> ParseTargetKind(std::string_view name);

// Bytes: every tensor and every scratch space of an arena starts at a multiple, and is rounded up to
// one. A line of the CPU's cache; what cudaMalloc promises, and what NVIDIA's libraries ask of pointers.
int64_t AlignmentOf(TargetKind kind);

// A thing for each kind of machine.
template <class T>
struct ByTarget {
  T of[kTargetKinds] = {};

  T& operator[](TargetKind kind) { return of[static_cast<size_t>(kind)]; }
  const T& operator[](TargetKind kind) const { return of[static_cast<size_t>(kind)]; }
  bool operator==(const ByTarget&) const = default;
};

// A sum over rows is computed in parts, which are then added in order, so that the result does not
// depend on the number of threads or blocks of a machine. The number of parts may therefore depend
// on the target and on shapes, and on nothing else. A kernel computes fewer parts if there are
// fewer rows: the number of rows varies with the batch, and a bound holds for any batch.
class Target {
 public:
  virtual ~Target() = default;
  virtual TargetKind kind() const = 0;
  // Parts of a fused loop's sum over leading axes, with `columns` results. More columns never give
  // more parts.
  virtual int64_t LoopSumParts(int64_t columns) const = 0;
  // Partial sums of all parts together, at most: parts x columns, for any N.
  virtual Dim LoopPartialSums(const Dim& columns) const {
    return columns * Dim(LoopSumParts(columns.IsFixed() ? columns.fixed : 0));
  }
  // Parts of the statistics or of the reduction of rows, with `columns` results.
  virtual int64_t RowSumParts(int64_t columns) const = 0;
  // Parts of a gradient of `elements` elements that heads or samples share (of a bias
  // in attention).
  virtual int64_t SharedGradientParts(int64_t elements) const = 0;
};

const Target& CpuTarget();
// Any card: a plan does not know which one will run it. Sums have parts enough for one of some 150
// multiprocessors.
const Target& CudaTarget();
const Target& TargetOf(TargetKind kind);

}  // namespace act
