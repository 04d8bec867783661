// Reads the next batch of a source in the background, while a step computes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/data/batch_source.h"

namespace act {

// One batch in host memory and the thread that fills it. Several sources may share it: it holds a batch of
// one of them at a time.
class BatchStaging {
 public:
  explicit BatchStaging(int64_t bytes);
  ~BatchStaging();
  BatchStaging(const BatchStaging&) = delete;
  BatchStaging& operator=(const BatchStaging&) = delete;

  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

  // An input of the batch, and its place in the memory.
  struct Part {
    size_t slot = 0;
    std::span<std::byte> to;
  };
  // Whether the memory is free, or already `user`'s. If so, it is now `user`'s.
  bool Claim(const void* user);
  void Release(const void* user);
  std::span<std::byte> memory() { return memory_; }
  // The thread fills `parts` from `source`. Both must stay as they are until Wait().
  void Start(BatchSource& source, const std::vector<Part>& parts);
  // Returns when the parts are filled. Fills them itself if the thread has not begun: where all cores are
  // busy, that may be long after Start.
  void Wait();

 private:
  struct Job {
    BatchSource* source = nullptr;  // null: nothing is to be filled
    const std::vector<Part>* parts = nullptr;

    void Run() const;
  };
  void RunJobs();

  std::vector<std::byte> memory_;
  const void* user_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  Job next_;              // that nobody has begun
  bool running_ = false;  // whether the thread fills
  bool ends_ = false;
  std::thread thread_;  // last: it uses the rest
};

// By input: the bytes of a sample. 0: nothing reads the input, so it is never filled.
using SampleBytes = std::vector<int64_t>;
// The bytes that a batch of `batch` samples takes in a BatchStaging.
int64_t StagedBytes(const SampleBytes& sample_bytes, int64_t batch);

// The same batches, bits and warnings as `source`, whose Next is always called with `batch`. FetchNext lets
// `staging` read the next batch, if it is not in use by another source. Fill then waits for it and copies.
std::unique_ptr<BatchSource> Prefetch(std::unique_ptr<BatchSource> source,
                                      std::shared_ptr<BatchStaging> staging, SampleBytes sample_bytes,
                                      int64_t batch);

}  // namespace act
