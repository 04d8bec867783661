#include "runtime/data/prefetch.h"

#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/base/dim.h"

namespace act {
namespace {

// Where each input begins in the memory, and at last the bytes of all.
std::vector<int64_t> Offsets(const SampleBytes& sample_bytes, int64_t batch) {
  constexpr int64_t kCacheLine = 64;
  std::vector<int64_t> offsets = {0};
  for (const int64_t bytes : sample_bytes)
    offsets.push_back(SaturatingAdd(offsets.back(), RoundUp(SaturatingMul(bytes, batch), kCacheLine)));
  return offsets;
}

class Prefetcher : public BatchSource {
 public:
  Prefetcher(std::unique_ptr<BatchSource> source, std::shared_ptr<BatchStaging> staging,
             SampleBytes sample_bytes, int64_t batch)
      : source_(std::move(source)),
        staging_(std::move(staging)),
        sample_bytes_(std::move(sample_bytes)),
        offsets_(Offsets(sample_bytes_, batch)),
        batch_(batch) {
    parts_.reserve(sample_bytes_.size());
    TakeOverWarnings();
  }
  ~Prefetcher() override { Forget(); }

  int64_t SamplesPerEpoch() const override { return source_->SamplesPerEpoch(); }

  void StartEpoch(uint64_t epoch, int64_t position) override {
    Forget();
    source_->StartEpoch(epoch, position);
  }

  int64_t Next(int64_t batch) override {
    assert(!ahead_ || batch == batch_);
    if (!ahead_) {
      Forget();
      return source_->Next(batch);
    }
    const int64_t samples = *std::exchange(ahead_, std::nullopt);
    staged_ = samples > 0;
    return samples;
  }

  void Fill(size_t slot, std::span<std::byte> to) override {
    assert(!ahead_);
    if (staged_) {
      staging_->Wait();
      if (!to.empty()) std::memcpy(to.data(), staging_->memory().data() + offsets_[slot], to.size());
    } else {
      source_->Fill(slot, to);
    }
    TakeOverWarnings();
  }

  void FetchNext() override {
    if (ahead_ || !staging_->Claim(this)) return;
    // The number of samples is known at once. Only their bytes take time.
    ahead_ = source_->Next(batch_);
    staged_ = false;
    if (*ahead_ == 0) return staging_->Release(this);
    parts_.clear();
    for (size_t slot = 0; slot < sample_bytes_.size(); ++slot) {
      const auto bytes = static_cast<size_t>(sample_bytes_[slot] * *ahead_);
      if (bytes > 0)
        parts_.push_back({slot, staging_->memory().subspan(static_cast<size_t>(offsets_[slot]), bytes)});
    }
    staging_->Start(*source_, parts_);
  }

 private:
  void TakeOverWarnings() {
    for (std::string& warning : source_->TakeWarnings()) warnings_.push_back(std::move(warning));
  }
  // Gives up the batch that was read, or is being read.
  void Forget() {
    if (ahead_ || staged_) staging_->Wait();
    TakeOverWarnings();
    ahead_.reset();
    staged_ = false;
    staging_->Release(this);
  }

  std::unique_ptr<BatchSource> source_;
  std::shared_ptr<BatchStaging> staging_;
  const SampleBytes sample_bytes_;
  const std::vector<int64_t> offsets_;
  const int64_t batch_;
  std::vector<BatchStaging::Part> parts_;
  std::optional<int64_t> ahead_;  // samples of the batch after this one, once FetchNext has been called
  bool staged_ = false;           // whether this batch is in the staging memory
};

}  // namespace

BatchStaging::BatchStaging(int64_t bytes)
    : memory_(static_cast<size_t>(bytes)), thread_([this] { RunJobs(); }) {}

BatchStaging::~BatchStaging() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool BatchStaging::Claim(const void* user) {
  if (!user_) user_ = user;
  return user_ == user;
}

void BatchStaging::Release(const void* user) {
  if (user_ == user) user_ = nullptr;
}

void BatchStaging::Job::Run() const {
  if (!source) return;
  for (const Part& part : *parts) source->Fill(part.slot, part.to);
}

void BatchStaging::Start(BatchSource& source, const std::vector<Part>& parts) {
  {
    const std::lock_guard lock(mutex_);
    next_ = {&source, &parts};
  }
  changed_.notify_all();
}

void BatchStaging::Wait() {
  Job mine;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !running_; });
    mine = std::exchange(next_, {});
  }
  mine.Run();
}

void BatchStaging::RunJobs() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || next_.source; });
    if (ends_) return;
    const Job job = std::exchange(next_, {});
    running_ = true;
    lock.unlock();
    job.Run();
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

int64_t StagedBytes(const SampleBytes& sample_bytes, int64_t batch) {
  return Offsets(sample_bytes, batch).back();
}

std::unique_ptr<BatchSource> Prefetch(std::unique_ptr<BatchSource> source,
                                      std::shared_ptr<BatchStaging> staging, SampleBytes sample_bytes,
                                      int64_t batch) {
  return std::make_unique<Prefetcher>(std::move(source), std::move(staging), std::move(sample_bytes), batch);
}

}  // namespace act
