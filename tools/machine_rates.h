// What this machine does in a second: measured once, and kept in a file beside the choices of kernels
// (runtime/executor/choice_file.h).
//
//   # Rates that actc has measured on this machine (docs/memory_report.md). To measure anew, delete this file.
//   machine: AMD EPYC, 2 threads, actrun 0.1.0, oneDNN 3.7.1 avx512_core_bf16, kernels 61c8...
//   product_gflops: 176.2
//   rounded_gflops: 301.5
//   gbytes: 11.8
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <string>
#include <string_view>

#include "passes/pipeline/step_time.h"
#include "runtime/executor/choice_file.h"

namespace act {

std::string FormatRates(const StepRates& rates, const TimedMachine& machine);
// The error says what is wrong with the text: "line 2 is not 'machine: ...'".
llvm::Expected<StepRates> ParseRates(std::string_view text, const TimedMachine& machine);

// The rates of the file, or else new ones, which become the file. `say` is told where the rates come from, and what
// is wrong with a file that does not count. Errors: a kernel fails.
llvm::Expected<StepRates> RatesOfThisMachine(const std::function<void(const std::string&)>& say);

}  // namespace act
