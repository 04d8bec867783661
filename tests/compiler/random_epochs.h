// Random inputs in epochs, as a data set has them: the last batch of an epoch may be smaller.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/data/batch_source.h"

namespace act {

class RandomEpochs : public BatchSource {
 public:
  RandomEpochs(std::vector<InputSlot> slots, int64_t samples)
      : random_(RandomBatch(std::move(slots), 5)), samples_(samples) {}
  int64_t SamplesPerEpoch() const override { return samples_; }
  void StartEpoch(uint64_t, int64_t position) override { position_ = position; }
  int64_t Next(int64_t batch) override {
    const int64_t taken = std::min(batch, samples_ - position_);
    position_ += taken;
    return taken;
  }
  void Fill(size_t slot, std::span<std::byte> to) override { random_->Fill(slot, to); }

 private:
  std::unique_ptr<BatchSource> random_;
  const int64_t samples_;
  int64_t position_ = 0;
};

}  // namespace act
