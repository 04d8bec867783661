#include "runtime/data/sharded_array.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace act {

ShardedArray::ShardedArray(std::vector<ArrayFile> files)
    : files_(std::move(files)),
      touched_(files_.size()),
      sample_bytes_(files_[0].view().bytes / files_[0].view().dims[0]) {
  int64_t samples = 0;
  for (const ArrayFile& file : files_) {
    end_.push_back(samples += file.view().dims[0]);
    file.mapped().ExpectPartsInAnyOrder();
  }
}

size_t ShardedArray::ShardOf(uint32_t sample) const {
  return static_cast<size_t>(std::upper_bound(end_.begin(), end_.end(), int64_t{sample}) - end_.begin());
}

const std::byte* ShardedArray::Find(size_t shard, uint32_t sample) const {
  const int64_t first = shard == 0 ? 0 : end_[shard - 1];
  return files_[shard].view().data + (int64_t{sample} - first) * sample_bytes_;
}

void ShardedArray::Copy(std::span<const uint32_t> samples, std::byte* to) {
  if (sample_bytes_ == 0) return;
  for (const uint32_t sample : samples) {
    const size_t shard = ShardOf(sample);
    files_[shard].mapped().WillRead(Find(shard, sample), sample_bytes_);
  }
  for (const uint32_t sample : samples) {
    const size_t shard = ShardOf(sample);
    std::memcpy(to, Find(shard, sample), static_cast<size_t>(sample_bytes_));
    to += sample_bytes_;
    touched_[shard] = true;
  }
  for (size_t shard = 0; shard < files_.size(); ++shard) {
    if (!touched_[shard]) continue;
    files_[shard].mapped().CheckLength();
    files_[shard].mapped().ReleasePages();
    touched_[shard] = false;
  }
}

}  // namespace act
