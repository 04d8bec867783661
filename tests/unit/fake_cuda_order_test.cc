// The fake card runs what streams and graphs leave open in any order, and keeps the host away from
// memory that is not its own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <numeric>
#include <vector>

#include "tests/unit/fake_cuda_source.h"

namespace act {
namespace {

using cuda::Driver;

constexpr int kSeeds = 1000;
constexpr int64_t kBytes = 4096;

// A card with two streams, device memory and pinned memory.
class FakeCudaOrder : public testing::Test {
 protected:
  FakeCudaOrder() : device_(card_, kBytes / 4), other_(card_, kBytes / 4) {
    EXPECT_EQ(driver().CreateStream(&side_), "");
    EXPECT_EQ(driver().CreateEvent(false, &event_), "");
    EXPECT_EQ(driver().AllocatePinned(kBytes, &pinned_), "");
    std::memset(pinned_, 7, kBytes);
  }
  ~FakeCudaOrder() override {
    driver().FreePinned(pinned_);
    driver().Destroy(event_);
    driver().Destroy(side_);
  }
  Driver& driver() { return card_.driver(); }
  cuda::Stream* stream() { return card_.context().stream; }
  std::byte* device() { return device_.as<std::byte>(); }
  std::byte* other() { return other_.as<std::byte>(); }

  TestCard card_;
  CardArray device_, other_;
  cuda::Stream* side_ = nullptr;
  cuda::Event* event_ = nullptr;
  std::byte* pinned_ = nullptr;
};
using FakeCudaOrderDeathTest = FakeCudaOrder;

// ---- The host

TEST_F(FakeCudaOrderDeathTest, AHostThatTouchesDeviceMemoryDies) {
  volatile std::byte* address = device();
  EXPECT_DEATH((void)address[0], "");
  EXPECT_DEATH(address[kBytes - 1] = std::byte{1}, "");
}

TEST_F(FakeCudaOrderDeathTest, PinnedMemoryIsLeftAloneWhileACopyIsPending) {
  volatile std::byte* address = pinned_;
  ASSERT_EQ(driver().CopyToDevice(stream(), device(), pinned_, kBytes), "");
  EXPECT_EQ(static_cast<int>(address[0]), 7);  // reading is allowed
  EXPECT_DEATH(address[0] = std::byte{1}, "");
  ASSERT_EQ(card_.Wait(), "");
  address[0] = std::byte{1};

  ASSERT_EQ(driver().CopyToHost(stream(), pinned_, device(), kBytes), "");
  EXPECT_DEATH((void)address[0], "");
  EXPECT_DEATH(address[0] = std::byte{1}, "");
  ASSERT_EQ(card_.Wait(), "");
  EXPECT_EQ(static_cast<int>(address[0]), 7);

  // Two copies from it: the first one done is not enough.
  ASSERT_EQ(driver().CopyToDevice(stream(), device(), pinned_, kBytes), "");
  ASSERT_EQ(driver().Record(event_, stream()), "");
  ASSERT_EQ(driver().CopyToDevice(stream(), other(), pinned_, kBytes), "");
  ASSERT_EQ(driver().Synchronize(event_), "");
  EXPECT_DEATH(address[0] = std::byte{1}, "");
  ASSERT_EQ(card_.Wait(), "");
  address[0] = std::byte{1};
}

TEST_F(FakeCudaOrderDeathTest, PinnedMemoryEndsWhereItEnds) {
  volatile std::byte* address = pinned_;
  EXPECT_DEATH(address[kBytes] = std::byte{1}, "");
  driver().FreePinned(pinned_);
  EXPECT_DEATH(address[0] = std::byte{1}, "");
  ASSERT_EQ(driver().AllocatePinned(kBytes, &pinned_), "");
}

TEST_F(FakeCudaOrder, RefusesCopiesOfWhatIsNoSuchMemory) {
  std::vector<std::byte> pageable(kBytes);
  EXPECT_SUBSTRING("not memory of the device, nor pinned",
                   driver().CopyToDevice(stream(), device(), pageable.data(), kBytes));
  EXPECT_SUBSTRING("host memory", driver().CopyToDevice(stream(), pinned_, pinned_, kBytes));
  EXPECT_SUBSTRING("device memory", driver().CopyToHost(stream(), device(), device(), kBytes));
  EXPECT_SUBSTRING("byte 4 of an allocation of 4096 bytes",
                   driver().CopyToDevice(stream(), device() + 4, pinned_, kBytes));
  EXPECT_SUBSTRING("of an allocation", driver().Fill8(stream(), device(), 0, kBytes + 1));
  EXPECT_SUBSTRING("not aligned", driver().Fill32(stream(), device() + 2, 0, 1));
  EXPECT_EQ(card_.Wait(), "");
}

TEST_F(FakeCudaOrder, FreshMemoryIsNan) {
  EXPECT_EQ(other_.Get<uint32_t>(), std::vector<uint32_t>(kBytes / 4, ~0u));
}

TEST_F(FakeCudaOrder, ACopyOfMemoryThatIsFreedBeforeItRunsIsAnError) {
  std::byte* memory = nullptr;
  ASSERT_EQ(driver().Allocate(kBytes, &memory), "");
  ASSERT_EQ(driver().CopyToDevice(stream(), memory, pinned_, kBytes), "");
  driver().Free(memory);
  EXPECT_SUBSTRING("CopyToDevice: freed", card_.Wait());
  driver().Free(memory);
  EXPECT_SUBSTRING("Free: no allocation begins there", card_.Wait());
  EXPECT_EQ(card_.Wait(), "");
}

// ---- Streams

// Counts what `enqueue` leaves in the first element, over all seeds.
template <class F>
std::map<uint32_t, int> Outcomes(TestCard& card, CardArray& memory, F&& enqueue) {
  std::map<uint32_t, int> outcomes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    card.controls().Seed(seed);
    enqueue();
    EXPECT_EQ(card.Wait(), "");
    ++outcomes[memory.Get<uint32_t>()[0]];
  }
  return outcomes;
}

TEST_F(FakeCudaOrder, FindsAMissingEventForSomeSeed) {
  const auto enqueue = [this](bool with_event) {
    EXPECT_EQ(driver().Fill32(side_, device(), 1, 1), "");
    EXPECT_EQ(driver().Record(event_, side_), "");
    if (with_event) {
      EXPECT_EQ(driver().Wait(stream(), event_), "");
    }
    EXPECT_EQ(driver().Fill32(stream(), device(), 2, 1), "");
  };
  const auto settle = [this] { EXPECT_EQ(driver().Synchronize(side_), ""); };
  const auto without = Outcomes(card_, device_, [&] { enqueue(false), settle(); });
  EXPECT_GT(without.at(1), kSeeds / 10);
  EXPECT_GT(without.at(2), kSeeds / 10);
  EXPECT_EQ(Outcomes(card_, device_, [&] { enqueue(true), settle(); }),
            (std::map<uint32_t, int>{{2, kSeeds}}));
}

TEST_F(FakeCudaOrder, AStreamKeepsItsOrder) {
  const auto enqueue = [this] {
    for (uint32_t i = 0; i <= 10; ++i) EXPECT_EQ(driver().Fill32(stream(), device(), i, 1), "");
  };
  EXPECT_EQ(Outcomes(card_, device_, enqueue), (std::map<uint32_t, int>{{10, kSeeds}}));
}

TEST_F(FakeCudaOrder, ParametersAreCopiedAtTheCall) {
  const cuda::CompiledKernel& kernel = Compiled(card_, SourceOf("store_count", "Store(p.words, p.count);"));
  Pieces p = {nullptr, nullptr, device_.as<uint32_t>(), 5};
  EXPECT_EQ(cuda::Launch(card_.context(), kernel, 1, 1, p), "");
  p.count = 6;
  EXPECT_EQ(card_.Wait(), "");
  EXPECT_EQ(device_.Get<uint32_t>()[0], 5u);
}

TEST_F(FakeCudaOrder, AnErrorIsReturnedOnceAndDropsWhatWaits) {
  const cuda::CompiledKernel& kernel = Compiled(card_, SourceOf("of_null", "Load(p.x);"));
  EXPECT_EQ(cuda::Launch(card_.context(), kernel, 1, 1, Pieces{}), "");
  EXPECT_EQ(driver().CopyToDevice(stream(), device(), pinned_, kBytes), "");
  EXPECT_SUBSTRING("kernel of_null, block (0,0,0), thread (0,0,0): Load of 4 bytes at 0x0", card_.Wait());
  pinned_[0] = std::byte{1};  // nothing is pending any more
  EXPECT_EQ(card_.Wait(), "");
}

TEST_F(FakeCudaOrder, FunctionsOfTheHostRunInOrderAndCallNothing) {
  struct Seen {
    Driver* driver;
    std::byte* pinned;
    int sum = 0;
    std::string refusal;
  } seen{&driver(), pinned_, 0, {}};
  ASSERT_EQ(driver().Fill8(stream(), device(), 3, kBytes), "");
  ASSERT_EQ(driver().CopyToHost(stream(), pinned_, device(), kBytes), "");
  const auto add = [](void* argument) {
    auto& s = *static_cast<Seen*>(argument);
    for (int64_t i = 0; i < kBytes; ++i) s.sum += static_cast<int>(s.pinned[i]);
    std::memset(s.pinned, 4, kBytes);
    s.refusal = s.driver->Fill8(nullptr, nullptr, 0, 0);
  };
  ASSERT_EQ(driver().HostCall(stream(), add, &seen), "");
  ASSERT_EQ(driver().CopyToDevice(stream(), other(), pinned_, kBytes), "");
  ASSERT_EQ(card_.Wait(), "");
  EXPECT_EQ(seen.sum, 3 * kBytes);
  EXPECT_SUBSTRING("called by a function of the host", seen.refusal);
  EXPECT_EQ(other_.Get<uint32_t>()[0], 0x04040404u);
}

TEST_F(FakeCudaOrder, EventsMeasureTime) {
  cuda::Event *from = nullptr, *to = nullptr;
  ASSERT_EQ(driver().CreateEvent(true, &from), "");
  ASSERT_EQ(driver().CreateEvent(true, &to), "");
  double seconds = -1;
  ASSERT_EQ(driver().Record(from, stream()), "");
  ASSERT_EQ(driver().Record(to, stream()), "");
  EXPECT_SUBSTRING("not done", driver().Seconds(from, to, &seconds));
  ASSERT_EQ(driver().Synchronize(to), "");
  EXPECT_EQ(driver().Seconds(from, to, &seconds), "");
  EXPECT_GE(seconds, 0);
  EXPECT_SUBSTRING("without time", driver().Seconds(event_, to, &seconds));
  driver().Destroy(from);
  driver().Destroy(to);
}

// ---- Graphs

TEST_F(FakeCudaOrder, AGraphKeepsTheOrderOfItsStreamsAndNoMore) {
  // side: 1, then 3 after what the main stream did; main: 2. Joined at the end.
  const auto record = [this](bool with_event) {
    cuda::Graph* graph = nullptr;
    EXPECT_EQ(driver().BeginCapture(stream()), "");
    EXPECT_EQ(driver().Record(event_, stream()), "");
    EXPECT_EQ(driver().Wait(side_, event_), "");
    EXPECT_EQ(driver().Fill32(stream(), device(), 2, 1), "");
    EXPECT_EQ(driver().Record(event_, stream()), "");
    if (with_event) {
      EXPECT_EQ(driver().Wait(side_, event_), "");
    }
    EXPECT_EQ(driver().Fill32(side_, device(), 3, 1), "");
    EXPECT_EQ(driver().Record(event_, side_), "");
    EXPECT_EQ(driver().Wait(stream(), event_), "");
    EXPECT_EQ(driver().EndCapture(stream(), &graph), "");
    return graph;
  };
  for (const bool with_event : {false, true}) {
    cuda::Graph* graph = record(with_event);
    const auto outcomes = Outcomes(card_, device_, [&] { EXPECT_EQ(driver().Launch(stream(), graph), ""); });
    EXPECT_EQ(outcomes.count(2), with_event ? 0u : 1u);
    EXPECT_EQ(outcomes.count(3), 1u);
    driver().Destroy(graph);
  }
}

TEST_F(FakeCudaOrder, LaunchesOfAGraphFollowOneAnother) {
  const cuda::CompiledKernel& kernel =
      Compiled(card_, SourceOf("count_up", "Store(p.words, Load(p.words) + 1);"));
  ASSERT_EQ(driver().BeginCapture(stream()), "");
  ASSERT_EQ(cuda::Launch(card_.context(), kernel, 1, 1, Pieces{nullptr, nullptr, device_.as<uint32_t>(), 0}),
            "");
  cuda::Graph* graph = nullptr;
  ASSERT_EQ(driver().EndCapture(stream(), &graph), "");
  const auto enqueue = [&] {
    EXPECT_EQ(driver().Fill32(stream(), device(), 0, 1), "");
    EXPECT_EQ(driver().Launch(stream(), graph), "");
    EXPECT_EQ(driver().Launch(stream(), graph), "");
  };
  EXPECT_EQ(Outcomes(card_, device_, enqueue), (std::map<uint32_t, int>{{2, kSeeds}}));
  driver().Destroy(graph);
}

TEST_F(FakeCudaOrder, ACaptureRefusesWhatCudaRefuses) {
  cuda::Event* before = nullptr;
  ASSERT_EQ(driver().CreateEvent(false, &before), "");
  ASSERT_EQ(driver().Record(before, side_), "");
  ASSERT_EQ(driver().BeginCapture(stream()), "");
  std::byte* memory = nullptr;
  EXPECT_SUBSTRING("not permitted while a stream is captured", driver().Allocate(1, &memory));
  EXPECT_SUBSTRING("not permitted while a stream is captured", driver().AllocatePinned(1, &memory));
  EXPECT_SUBSTRING("the stream is captured", driver().Synchronize(stream()));
  EXPECT_SUBSTRING("captured already", driver().BeginCapture(stream()));
  EXPECT_SUBSTRING("outside of the capture", driver().Wait(stream(), before));
  ASSERT_EQ(driver().Record(event_, stream()), "");
  EXPECT_SUBSTRING("recorded in a capture", driver().Synchronize(event_));
  ASSERT_EQ(driver().Wait(side_, event_), "");
  ASSERT_EQ(driver().Fill8(side_, device(), 0, 1), "");
  cuda::Graph* graph = nullptr;
  EXPECT_SUBSTRING("did not begin with this stream", driver().EndCapture(side_, &graph));
  EXPECT_SUBSTRING("does not wait for all work of other streams", driver().EndCapture(stream(), &graph));
  EXPECT_SUBSTRING("a capture that is over", driver().Wait(stream(), event_));
  EXPECT_EQ(driver().Synchronize(side_), "");
  EXPECT_EQ(card_.Wait(), "");
  driver().Destroy(before);
}

TEST_F(FakeCudaOrder, NothingIsDoneDuringACapture) {
  device_.Set(std::vector<uint32_t>(kBytes / 4, 5));
  ASSERT_EQ(driver().BeginCapture(stream()), "");
  ASSERT_EQ(driver().Fill32(stream(), device(), 6, 1), "");
  ASSERT_EQ(driver().CopyToDevice(stream(), other(), pinned_, kBytes), "");
  cuda::Graph* graph = nullptr;
  ASSERT_EQ(driver().EndCapture(stream(), &graph), "");
  pinned_[0] = std::byte{9};  // no copy is pending
  EXPECT_EQ(device_.Get<uint32_t>()[0], 5u);
  ASSERT_EQ(driver().Launch(stream(), graph), "");
  driver().Destroy(graph);  // a launch outlives it
  ASSERT_EQ(card_.Wait(), "");
  EXPECT_EQ(device_.Get<uint32_t>()[0], 6u);
  EXPECT_EQ(other_.Get<uint32_t>()[0], 0x07070709u);
}

}  // namespace
}  // namespace act
