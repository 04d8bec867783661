#include "runtime/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <new>

#include "runtime/base/error.h"
#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "runtime/data/splitmix.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"

namespace {
std::atomic<int64_t> g_allocations = 0;
}

#ifndef ACT_SANITIZER  // those of the sanitizer do not mix with these
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace act {
namespace {

constexpr int64_t kSamples = 23;
const std::vector<InputSlot> kSlots = {{"x", {DType::kFloat32, {Dim::Batch(), 5}}, 0},
                                       {"y", {DType::kInt64, {Dim::Batch()}}, 0},
                                       {"unread", {DType::kFloat32, {Dim::Batch(), 5}}, 0}};
const SampleBytes kSampleBytes = {20, 8, 0};

// A data set of 23 samples, whose number is y.
class PrefetchTest : public ::testing::Test {
 protected:
  PrefetchTest() { Write({}); }
  // `not_a_number`: the samples whose x has NaN.
  void Write(const std::vector<size_t>& not_a_number) {
    std::vector<float> x(kSamples * 5);
    std::vector<int64_t> y(kSamples);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int64_t>(i);
    for (const size_t sample : not_a_number) x[sample * 5 + 1] = std::numeric_limits<float>::quiet_NaN();
    const auto write = [&](const char* name, DType dtype, std::vector<int64_t> dims, const void* data,
                           size_t bytes) {
      EXPECT_EQ(Text(WriteNpy(folder_ / name, {.dtype = dtype,
                                               .dims = std::move(dims),
                                               .data = static_cast<const std::byte*>(data),
                                               .bytes = static_cast<int64_t>(bytes)})),
                "");
    };
    write("x.npy", DType::kFloat32, {kSamples, 5}, x.data(), x.size() * sizeof(float));
    write("y.npy", DType::kInt64, {kSamples}, y.data(), y.size() * sizeof(int64_t));
  }
  std::unique_ptr<BatchSource> Open(int64_t batch, bool partial = true, uint64_t seed = 3) {
    return Take(
        OpenDataSet(kSlots, batch, "--data",
                    "x=" + folder_ / "x.npy" + ",y=" + folder_ / "y.npy" + ",unread=" + folder_ / "x.npy",
                    {.seed = seed, .partial_batch = partial}));
  }

  testing::TemporaryFolder folder_;
};

// What a batch is, for comparison: its samples, its bits, and the warnings after it was filled.
std::string Read(BatchSource& source, int64_t batch, int fills = 1) {
  const int64_t samples = source.Next(batch);
  std::string text = std::to_string(samples) + " samples\n";
  for (int fill = 0; samples > 0 && fill < fills; ++fill) {
    for (size_t slot = 0; slot < 2; ++slot) {
      std::string bytes(static_cast<size_t>(samples * kSampleBytes[slot]), '?');
      source.Fill(slot, std::as_writable_bytes(std::span(bytes)));
      text += bytes;
    }
  }
  for (const std::string& warning : source.TakeWarnings()) text += "\n" + warning;
  return text;
}

// Epochs, positions and repeated reads in any order, with and without a batch ahead.
TEST_F(PrefetchTest, GivesWhatTheSourceGives) {
  for (const bool partial : {true, false}) {
    for (const int64_t batch : {1, 4, 23}) {
      auto plain = Open(batch, partial);
      auto staging = std::make_shared<BatchStaging>(StagedBytes(kSampleBytes, batch));
      auto ahead = Prefetch(Open(batch, partial), staging, kSampleBytes, batch);
      EXPECT_EQ(ahead->SamplesPerEpoch(), kSamples);
      SplitMix64 random(1, static_cast<uint64_t>(batch));
      for (int i = 0; i < 200; ++i) {
        const int fills = 1 + static_cast<int>(random.Below(3));
        ASSERT_EQ(Read(*ahead, batch, fills), Read(*plain, batch, fills))
            << "batch " << batch << ", read " << i;
        if (random.Below(4) > 0) ahead->FetchNext();
        if (random.Below(8) > 0) continue;
        const uint64_t epoch = random.Below(3);
        const auto position = static_cast<int64_t>(random.Below(kSamples + 1));
        ahead->StartEpoch(epoch, position);
        plain->StartEpoch(epoch, position);
      }
    }
  }
}

TEST_F(PrefetchTest, TwoSourcesShareTheMemory) {
  constexpr int64_t kBatch = 4;
  auto staging = std::make_shared<BatchStaging>(StagedBytes(kSampleBytes, kBatch));
  auto one = Prefetch(Open(kBatch), staging, kSampleBytes, kBatch);
  auto two = Prefetch(Open(kBatch, true, 99), staging, kSampleBytes, kBatch);
  auto plain_one = Open(kBatch), plain_two = Open(kBatch, true, 99);
  SplitMix64 random(1, 2);
  for (int i = 0; i < 300; ++i) {
    const bool first = random.Below(2) == 0;
    BatchSource &source = first ? *one : *two, &plain = first ? *plain_one : *plain_two;
    ASSERT_EQ(Read(source, kBatch), Read(plain, kBatch)) << i;
    if (random.Below(3) > 0) source.FetchNext();
    if (random.Below(5) > 0) continue;
    const uint64_t epoch = random.Below(3);
    source.StartEpoch(epoch, 0);
    plain.StartEpoch(epoch, 0);
  }
}

// A warning is told with the batch that it is about, although that was read before.
TEST_F(PrefetchTest, WarnsWithTheBatch) {
  constexpr int64_t kBatch = 2;
  Write({4});
  auto source =
      Take(OpenDataSet({kSlots[0]}, kBatch, "--data", "x=" + folder_ / "x.npy", {.shuffle = false}));
  auto staging = std::make_shared<BatchStaging>(StagedBytes({20}, kBatch));
  auto ahead = Prefetch(std::move(source), staging, {20}, kBatch);
  std::vector<size_t> told;
  for (size_t i = 0; ahead->Next(kBatch) == kBatch; ++i) {
    float x[10];
    ahead->Fill(0, std::as_writable_bytes(std::span(x)));
    ahead->FetchNext();
    staging->Wait();
    for (const std::string& warning : ahead->TakeWarnings()) {
      EXPECT_NE(warning.find("x.npy: holds NaN"), std::string::npos) << warning;
      told.push_back(i);
    }
  }
  EXPECT_EQ(told, std::vector<size_t>{2}) << "sample 4 is in the third batch";
}

TEST_F(PrefetchTest, AllocatesNothing) {
#ifdef ACT_SANITIZER
  GTEST_SKIP() << "allocations are not counted here";
#endif
  constexpr int64_t kBatch = 4;
  auto staging = std::make_shared<BatchStaging>(StagedBytes(kSampleBytes, kBatch));
  auto source = Prefetch(Open(kBatch), staging, kSampleBytes, kBatch);
  float x[kBatch * 5];
  int64_t y[kBatch];
  const int64_t before = g_allocations;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    source->StartEpoch(epoch, 0);
    while (const auto samples = static_cast<size_t>(source->Next(kBatch))) {
      source->Fill(0, std::as_writable_bytes(std::span(x).first(samples * 5)));
      source->Fill(1, std::as_writable_bytes(std::span(y).first(samples)));
      source->FetchNext();
    }
  }
  const int64_t allocations = g_allocations - before;
  EXPECT_EQ(allocations, 0);
}

// Tells when its second batch is begun, and ends it only when the test allows that.
class Gate : public BatchSource {
 public:
  Gate(std::promise<void>& begun, std::future<void> open) : begun_(begun), open_(std::move(open)) {}
  int64_t Next(int64_t) override { return ++batch_, 1; }
  void Fill(size_t, std::span<std::byte> to) override {
    if (batch_ == 2) begun_.set_value(), open_.wait();
    to[0] = static_cast<std::byte>(batch_);
  }

 private:
  std::promise<void>& begun_;
  std::future<void> open_;
  int batch_ = 0;
};

TEST(Prefetch, ReadsWhileTheCallerGoesOn) {
  std::promise<void> begun, open;
  const auto staging = std::make_shared<BatchStaging>(64);
  auto source = Prefetch(std::make_unique<Gate>(begun, open.get_future()), staging, {1}, 1);
  std::byte byte{};
  ASSERT_EQ(source->Next(1), 1);
  source->Fill(0, {&byte, 1});
  EXPECT_EQ(byte, std::byte{1});
  source->FetchNext();
  begun.get_future().wait();  // for ever, if nobody but Fill reads
  ASSERT_EQ(source->Next(1), 1) << "the number of samples is known before they are read";
  open.set_value();
  source->Fill(0, {&byte, 1});
  EXPECT_EQ(byte, std::byte{2});
  source->FetchNext();  // a batch that is read and never used is no harm
}

}  // namespace
}  // namespace act
