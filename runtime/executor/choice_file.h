// The kernels, or a library's engines, that were chosen by time, as text in a file, so that the next run on the same machine chooses
// the same.
//
//   # Kernels that actrun has timed on this machine (docs/kernels.md). ...
//   machine: Intel(R) Xeon(R) ..., 2 threads, actrun 0.1.0, oneDNN 3.7.1 avx512_core_bf16, kernels 61c8...
//   MatMul trans_a=1 ... -> dnnl.matmul # cpu.rounded_grad_weight 1520.0 us, dnnl.matmul 1304.5 us
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>
#include <string_view>

#include "runtime/executor/kernel_choice.h"

namespace act {

// What times depend on beside the site.
struct TimedMachine {
  std::string processor;  // "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "NVIDIA H100 80GB HBM3"
  int threads = 1;        // 0: of a card, whose threads nobody chooses
  std::string software;   // the program and its libraries, with their versions, and the list of kernels

  std::string Text() const;
  // `of` and the machine: "kernels-intel-r-xeon-r-platinum-8481c-cpu-2-70ghz-2-threads-1a2b3c4d.txt".
  std::string FileName(const std::string& of = "kernels") const;
};

// A text for TimedMachine::software that changes when a list of kernels does.
std::string VersionOf(const KernelRegistry& registry);

using ChoicesBySite = std::map<std::string, KernelChoice>;  // by SiteText

struct ReadChoices {
  ChoicesBySite choices;
  // What is wrong with the file: "line 7 is not 'site -> kernel'". Lines that are right count all the same.
  // A file of another machine has no choices. Empty: nothing is wrong.
  std::string fault;
};

ReadChoices ParseChoices(std::string_view text, const TimedMachine& machine);
std::string FormatChoices(const ChoicesBySite& choices, const TimedMachine& machine);

// No choices if there is no such file. A file that cannot be read is a fault.
ReadChoices ReadChoiceFile(const std::string& path, const TimedMachine& machine);

// Adds the choices to those that the file has now, in place of those of the same sites. Makes the folder.
llvm::Error MergeIntoChoiceFile(const std::string& path, const TimedMachine& machine,
                                const ChoicesBySite& choices);

}  // namespace act
