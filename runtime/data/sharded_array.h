// The samples of an input of a data set, in one file or in several that follow one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/array_file.h"

namespace act {

class ShardedArray {
 public:
  // The files have at least one sample each, and samples of the same type.
  explicit ShardedArray(std::vector<ArrayFile> files);

  const std::vector<ArrayFile>& files() const { return files_; }
  int64_t samples() const { return end_.back(); }
  int64_t sample_bytes() const { return sample_bytes_; }
  const ArrayFile& FileOf(uint32_t sample) const { return files_[ShardOf(sample)]; }

  // Copies these samples to `to`, one after another. Afterwards none of their pages is resident. Ends
  // the process with an error if a file has become shorter. The system
  // is told of all before the first is read, so that a disk may read several at once.
  void Copy(std::span<const uint32_t> samples, std::byte* to);

 private:
  size_t ShardOf(uint32_t sample) const;
  const std::byte* Find(size_t shard, uint32_t sample) const;

  std::vector<ArrayFile> files_;
  std::vector<int64_t> end_;   // by file: the samples up to its end
  std::vector<bool> touched_;  // by file: whether the copy under way reads it
  int64_t sample_bytes_;
};

}  // namespace act
