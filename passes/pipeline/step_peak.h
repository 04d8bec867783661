// What a compiled step takes, as exactly as it is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/memory/layout.h"

namespace act {

class StepPeak {
 public:
  // `sizes` are those of PlanSizes::At, whose plan need not live on.
  StepPeak(MemoryLayout sizes, Arenas arenas) : sizes_(std::move(sizes)), arenas_(arenas) {}

  // Whether the step's layout (LayOut) takes at most so many bytes. Mostly bounds tell.
  bool Fits(int64_t bytes);
  // No layout takes less.
  int64_t Least() const;
  // BytesOf the step's layout.
  int64_t Bytes() { return Exact().bytes; }
  // The bytes of its host's arena.
  int64_t HostBytes() { return Exact().host_bytes; }

 private:
  struct Taken {
    int64_t bytes = 0, host_bytes = 0;
  };
  const Taken& Exact();

  const MemoryLayout sizes_;
  const Arenas arenas_;
  std::optional<int64_t> most_;  // by quick packing
  std::optional<Taken> exact_;
};

}  // namespace act
