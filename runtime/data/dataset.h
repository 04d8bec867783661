// Data sets: .npy and safetensors files, mapped. The first axis of each array counts the samples.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"

namespace act {

struct DataSetOptions {
  bool shuffle = true;  // a new order each epoch, drawn from (seed, epoch)
  uint64_t seed = 0;
  bool partial_batch = true;  // the last batch of an epoch may be smaller; otherwise it is left out
};

// `spec` says which files hold which slot (data_spec.h). `flag` is named in errors ("--data"). Errors: an
// input without a file, a name that is not an input, a file that does not fit its input's type,
// different lengths, no samples.
llvm::Expected<std::unique_ptr<BatchSource>> OpenDataSet(const std::vector<InputSlot>& slots, int64_t batch,
                                                         const std::string& flag, const std::string& spec,
                                                         const DataSetOptions& options);

// The order of an epoch: Fisher and Yates's shuffle of 0..samples-1 by SplitMix64(seed, epoch).
void ShuffleSamples(uint64_t seed, uint64_t epoch, std::vector<uint32_t>& order);

}  // namespace act
