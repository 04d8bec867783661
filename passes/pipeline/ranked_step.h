// The steps among which actc --memory-limit chooses, from the least expected variance of the gradient to the largest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/pipeline/pipeline.h"

namespace act {

// What the choice may change beside the level and the bits of its codes.
struct StepChoices {
  bool bfloat16 = false;         // --compute=auto
  bool quantized_state = false;  // --optimizer-state=auto
  bool frozen_weights = false;   // --frozen-weights=auto
  int64_t host_limit = 0;        // --host-limit: bytes of codes that may wait in the host's memory
};

// A step of the list, and its peak at CompileOptions::batch: bytes of the device's arena, and on a machine without
// other memory of the host's, too.
struct RankedStep {
  int rank = 0;  // 0: the best
  std::string level;
  double bits = 0;        // CompileOptions::bits; 0: the level stores exactly
  double exact_part = 0;  // CompileOptions::exact_part
  // Set by a choice alone. What the user asked for is in no step's name.
  bool bfloat16 = false, quantized_state = false;
  std::string frozen_weights = {};  // a FrozenForm's name
  int64_t host_limit = 0;           // > 0: codes wait in the host's memory, in at most so many bytes
  int64_t swapped = 0;              // at most so many codes; 0: as many as there are
  // Found when the step is compiled.
  std::vector<RerunCandidate> reruns = {};  // of several, one is chosen
  int64_t peak_bytes = 0, host_bytes = 0;

  // "L3 with --bits=4.5 --compute=bf16", "L0 with 2.0 MiB of codes on the host".
  std::string Name() const;
  // Makes these the options of this step.
  void SetIn(CompileOptions& options) const;
};

// Best first; ranks are positions. The list depends on nothing else.
std::vector<RankedStep> ListSteps(const StepChoices& choices);

// The ranks of steps that differ in the bits of codes and in the exact part alone, best first. Each rank is in one of
// them.
std::vector<std::vector<int>> ColumnsOf(const std::vector<RankedStep>& steps);

}  // namespace act
