// The static memory planner: gives every buffer of a schedule its place in one arena.
//
//   PackingProblem -> SolvePacking -> Packing -> ValidatePacking (packing_validate.h)
//
// Plain values in and out, no state, standard library only. The problem is two-dimensional strip
// packing with the time axis fixed (dynamic storage allocation, NP-hard), so the solver runs a list
// of cheap greedy heuristics, then a search of bounded length, keeps the best, and stops at the
// lower bound.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace act {

// One allocation. It owns the bytes [offset, offset + size rounded up to `alignment`) during the
// ops [lower, upper), so that a kernel may read a full vector at the tail. A buffer without bytes
// or without a live range conflicts with nothing and is placed at offset 0.
struct Buffer {
  int64_t lower = 0;       // first op index at which the buffer is live
  int64_t upper = 0;       // one past the last op index
  int64_t size = 0;        // bytes
  int64_t alignment = 64;  // bytes, positive; need not be a power of two
};

struct PackingProblem {
  std::vector<Buffer> buffers;
};

struct Packing {
  // bytes from the start of the arena, parallel to PackingProblem::buffers
  std::vector<int64_t> offsets;
  int64_t height = 0;  // bytes the arena needs: max of offset + aligned size
};

// The ways to find a packing, tried in this order. The best result counts. Each greedy one places
// all buffers once. Of the steps that remain below the limit, the core search takes up to half,
// where it applies, and the swap search takes the rest. The ejection search's steps are on top.
enum class PackingHeuristic : uint32_t {
  // Fill the lowest place first. Prefer buffers that live where the most bytes live, and among
  // these the long ones.
  kSkylineByPressure,
  kSkylineByPressureAndSize,  // the same, but prefer large ones to long ones
  // the same, but by length alone
  kSkylineByLength,
  kByLength,    // longest live range first, lowest gap: exact for ranges that nest
  kByArea,      // largest size x length first, lowest gap
  kBySize,      // largest size first, lowest gap
  kByStart,     // program order, tightest gap: what an allocator does at run time
  kCoreSearch,  // a search over the buffers that matter most; the others go into gaps
  kSwapSearch,  // random orders for the skyline, hill climbing from the best of them
  // Keeps below a height, pushes buffers up and down, and takes out what is still in the way. Runs only where the
  // others end more than a 500th above the lower bound.
  kEjectionSearch,
};
inline constexpr uint32_t kPackingHeuristicCount = 10;

// The name in dumps and benchmarks, for example "by-length".
std::string_view PackingHeuristicName(PackingHeuristic heuristic);

struct PackingOptions {
  // Work limit in visited (buffer, neighbour) pairs, 1 to 4 ns each. It is a count and not a time,
  // so that the offsets, and with them the peak that a plan promises, are the same on every
  // machine. It is checked between placements: at least one greedy heuristic always runs to its
  // end.
  int64_t max_steps = 40'000'000;
  // The ejection search takes up to so many times max_steps on top, at least 1. Few problems need it, and there it
  // gains a lot. A packing found with fewer steps is no lower.
  int64_t ejection_rounds = 16;
  // Bit i allows PackingHeuristic(i). With none, buffers are placed in program order.
  uint32_t heuristics = (1u << kPackingHeuristicCount) - 1;
  // Of the ejection search's random numbers. No result should hang on it: others find packings about as low.
  uint32_t seed = 1;
  // A height in bytes that is low enough: the search ends at the first packing that takes no more. Whether there is one
  // does not depend on it. For callers that only ask whether a size fits.
  int64_t enough = 0;

  PackingOptions Without(PackingHeuristic heuristic) const {
    PackingOptions options = *this;
    options.heuristics &= ~(1u << static_cast<uint32_t>(heuristic));
    return options;
  }
};

// The largest sum of live bytes at any time, each size rounded up to its alignment. No packing is
// lower. Saturates at INT64_MAX.
int64_t PackingLowerBound(const PackingProblem& problem);

// Packs all buffers. Deterministic. Stops early at the lower bound, or at what is enough. Always returns one offset per
// buffer. Sizes whose sum exceeds INT64_MAX give the height INT64_MAX. Negative sizes are placed as
// 0, and alignments below 1 as 1; ValidatePacking rejects all of these.
Packing SolvePacking(const PackingProblem& problem, const PackingOptions& options = {});

}  // namespace act
