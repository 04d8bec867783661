// The fake card (tests/fake_cuda) finds the faults of kernels for which it is made, and runs what is right.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/fake_cuda_source.h"

namespace act {
namespace {

constexpr int kSeeds = 1000;

// Runs the kernel on TheTestCard with arrays of 256 elements: x = 0, 1, .., y and words are 0.
std::string Fault(const std::string& name, const std::string& body, int64_t blocks = 1, int threads = 64,
                  int64_t shared_bytes = 0) {
  TestCard& card = TheTestCard();
  CardArray x(card, 256), y(card, 256), words(card, 256);
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.0f);
  x.Set(values);
  y.Set(std::vector<float>(256));
  words.Set(std::vector<uint32_t>(256));
  return RunSource(card, SourceOf(name, body), {x.as<float>(), y.as<float>(), words.as<uint32_t>(), 256},
                   blocks, threads, shared_bytes);
}

TEST(FakeCuda, RunsAKernelOnAnyGrid) {
  TestCard& card = TheTestCard();
  const cuda::KernelSource source = SourceOf("scale", "if (i < p.count) Store(p.y + i, 2 * Load(p.x + i));");
  for (const int64_t count : {1, 31, 32, 1000, 70000}) {
    CardArray x(card, count), y(card, count);
    std::vector<float> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 1.0f);
    x.Set(values);
    EXPECT_EQ(
        RunSource(card, source, {x.as<float>(), y.as<float>(), nullptr, count}, (count + 255) / 256, 256),
        "");
    for (float& v : values) v *= 2;
    EXPECT_EQ(y.Get<float>(), values) << count;
  }
}

// ---- Accesses

TEST(FakeCuda, FindsAccessesOutsideOfAnAllocation) {
  EXPECT_SUBSTRING("Load of 4 bytes at 0x", Fault("past_the_end", "Store(p.y, Load(p.x + i));", 5, 64));
  EXPECT_SUBSTRING(" of an allocation of 1024 bytes",
                   Fault("past_the_end", "Store(p.y, Load(p.x + i));", 5, 64));
  EXPECT_SUBSTRING("kernel past_the_end, block (4,0,0), thread (",
                   Fault("past_the_end", "Store(p.y, Load(p.x + i));", 5, 64));
  EXPECT_SUBSTRING("Store of 4 bytes", Fault("before_the_start", "Store(p.y - 1 + i, 1);"));
  EXPECT_SUBSTRING("Load of 16 bytes",
                   Fault("across_the_end",
                         "Load(reinterpret_cast<float4*>(p.x + 4 * i)); Load(reinterpret_cast<float4*>("
                         "p.x + 256));"));
  EXPECT_SUBSTRING("atomic operation of 4 bytes",
                   Fault("atomic_past_the_end", "AtomicAdd(p.words + 256, 1);"));
  EXPECT_SUBSTRING("not memory of the device", Fault("null", "Load(static_cast<float*>(nullptr));"));
  EXPECT_SUBSTRING("not memory of the device", Fault("of_the_stack", "float mine = 1; Load(&mine);"));
  EXPECT_EQ(Fault("inside", "Store(p.y + i, Load(p.x + i));", 4, 64), "");  // and the card goes on
}

TEST(FakeCuda, FindsMisalignedAccesses) {
  EXPECT_EQ(Fault("aligned4", "Store(p.y + i, Load(reinterpret_cast<float4*>(p.x + 4 * (i % 64))).y);"), "");
  EXPECT_SUBSTRING("not aligned to 16 bytes",
                   Fault("misaligned4", "Store(p.y + i, Load(reinterpret_cast<float4*>(p.x + i % 32)).y);"));
  EXPECT_SUBSTRING(
      "not aligned to 4 bytes",
      Fault("misaligned_word", "Load(reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(p.x) + i));"));
  EXPECT_SUBSTRING("not aligned to 8 bytes",
                   Fault("misaligned_store", "Store(reinterpret_cast<uint2*>(p.y + 1), uint2{1, 2});"));
}

TEST(FakeCuda, FindsFreedMemory) {
  TestCard& card = TheTestCard();
  float* freed = nullptr;
  {
    CardArray gone(card, 256);
    freed = gone.as<float>();
  }
  CardArray another(card, 256);  // never where the first one was
  EXPECT_SUBSTRING(
      "freed", RunSource(card, SourceOf("read_x", "Load(p.x + i);"), {freed, nullptr, nullptr, 0}, 1, 32));
}

TEST(FakeCuda, FindsAccessesThatBypassLoadAndStore) {
  EXPECT_SUBSTRING("without Load and Store", Fault("dereference", "Store(p.y + i, p.x[i]);"));
  EXPECT_SUBSTRING("without Load and Store", Fault("assign", "p.y[i] = 1;"));
}

TEST(FakeCuda, SurvivesWhatTheProcessorFinds) {
  EXPECT_SUBSTRING("division by 0", Fault("divide_by_0", "Store(p.words + i, 7 / Load(p.words + i));"));
  EXPECT_SUBSTRING("without Load and Store",
                   Fault("past_dynamic_shared", "SharedBytes()[1024 + i] = 1;", 1, 32, 1024));
  EXPECT_EQ(Fault("in_dynamic_shared", "SharedBytes()[1023 - i] = 1;", 1, 32, 1024), "");
}

// ---- Barriers and collectives

TEST(FakeCuda, FindsWrongMasks) {
  EXPECT_SUBSTRING("lacks the calling lane", Fault("without_the_caller", "Ballot(0xfffffffe, true);"));
  EXPECT_SUBSTRING("only lanes 0xffff", Fault("of_half_a_warp", "Ballot(0xffffffff, true);", 1, 48));
  EXPECT_SUBSTRING("exit",
                   Fault("one_lane_stays_away", "if (threadIdx.x % 32 != 5) Ballot(0xffffffff, true);"));
  EXPECT_SUBSTRING("with mask",
                   Fault("two_masks", "Ballot(threadIdx.x % 32 == 0 ? 0x00ffffff : 0xffffffff, true);"));
  EXPECT_SUBSTRING(
      "wait in", Fault("two_collectives", "if (threadIdx.x % 2) Ballot(~0u, true); else ReduceMin(~0u, 1);"));
  EXPECT_SUBSTRING("whose value it reads, is not in it",
                   Fault("reads_another_half",
                         "const uint32_t half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;"
                         "ShuffleXor(half, 1.0f, 16);"));
}

TEST(FakeCuda, FindsBarriersInDivergentCode) {
  EXPECT_SUBSTRING("exit", Fault("half_a_barrier", "if (threadIdx.x < 32) SyncThreads();"));
  EXPECT_SUBSTRING(
      "but others wait in that at line",
      Fault("two_barriers", "if (threadIdx.x < 32) {\nSyncThreads();\n} else {\nSyncThreads();\n}"));
  EXPECT_SUBSTRING(
      "no thread can go on",
      Fault("barrier_and_ballot", "if (threadIdx.x % 2) Ballot(~0u, true); else SyncThreads();"));
}

TEST(FakeCuda, CollectivesGiveWhatCudaGives) {
  TestCard& card = TheTestCard();
  CardArray x(card, 64), y(card, 64 * 7);
  std::vector<float> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = static_cast<float>(i * 37 % 64);
  x.Set(values);
  const cuda::KernelSource source = SourceOf("collectives", R"(
    const uint32_t v = static_cast<uint32_t>(Load(p.x + i));
    uint32_t* out = reinterpret_cast<uint32_t*>(p.y) + i;
    Store(out, Ballot(~0u, v % 3 == 0));
    Store(out + 64, ShuffleXor(~0u, v, 5));
    Store(out + 128, ShuffleDown(~0u, v, 8));
    Store(out + 192, Shuffle(~0u, v, 3));
    Store(out + 256, ReduceMin(~0u, v));
    Store(out + 320, ReduceMax(~0u, v));
    const uint32_t half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
    Store(out + 384, ReduceAdd(half, v));)");
  std::vector<uint32_t> expected(64 * 7);
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t warp = i / 32 * 32, half = i / 16 * 16;
    const auto v = [&](uint32_t at) { return static_cast<uint32_t>(values[at]); };
    for (uint32_t j = 0; j < 32; ++j) expected[i] |= (v(warp + j) % 3 == 0 ? 1u : 0u) << j;
    expected[64 + i] = v(i ^ 5);
    expected[128 + i] = i % 32 + 8 < 32 ? v(i + 8) : v(i);
    expected[192 + i] = v(warp + 3);
    const auto [least, most] = std::minmax_element(values.begin() + warp, values.begin() + warp + 32);
    expected[256 + i] = static_cast<uint32_t>(*least);
    expected[320 + i] = static_cast<uint32_t>(*most);
    for (uint32_t j = 0; j < 16; ++j) expected[384 + i] += v(half + j);
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    card.controls().Seed(seed);
    ASSERT_EQ(RunSource(card, source, {x.as<float>(), y.as<float>(), nullptr, 64}, 1, 64), "");
    ASSERT_EQ(y.Get<uint32_t>(), expected) << seed;
  }
}

// ---- Races

// How many of the seeds give words[0] = expected, from words of 0.
int SeedsThatGive(uint32_t expected, const std::string& name, const std::string& body, int64_t blocks,
                  int threads) {
  TestCard& card = TheTestCard();
  CardArray words(card, 1);
  int count = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    card.controls().Seed(seed);
    words.Set(std::vector<uint32_t>{0});
    EXPECT_EQ(
        RunSource(card, SourceOf(name, body), {nullptr, nullptr, words.as<uint32_t>(), 0}, blocks, threads),
        "");
    count += words.Get<uint32_t>()[0] == expected;
  }
  return count;
}

TEST(FakeCuda, FindsMissingBarriersForSomeSeed) {
  const auto reverse = [](const std::string& barrier) {
    return "ACT_SHARED(uint32_t, s, 128); s[threadIdx.x] = threadIdx.x + 1;" + barrier +
           "if (threadIdx.x == 7) Store(p.words, s[127 - threadIdx.x]);";
  };
  const int wrong = kSeeds - SeedsThatGive(121, "no_barrier", reverse(""), 1, 128);
  EXPECT_GT(wrong, kSeeds / 10);
  EXPECT_EQ(SeedsThatGive(121, "with_barrier", reverse("SyncThreads();"), 1, 128), kSeeds);
}

TEST(FakeCuda, FindsLostUpdatesForSomeSeed) {
  const int right = SeedsThatGive(4 * 128, "load_and_store", "Store(p.words, Load(p.words) + 1);", 4, 128);
  EXPECT_LT(right, kSeeds);
  EXPECT_EQ(SeedsThatGive(4 * 128, "atomic_add", "AtomicAdd(p.words, 1);", 4, 128), kSeeds);
}

TEST(FakeCuda, OrdersBlocksBySeed) {
  const int last_wins = SeedsThatGive(4, "order", "Store(p.words, blockIdx.x + 1);", 4, 1);
  EXPECT_GT(last_wins, kSeeds / 10);
  EXPECT_LT(last_wins, kSeeds / 2);
}

TEST(FakeCuda, SharedMemoryBeginsAsNan) {
  TestCard& card = TheTestCard();
  CardArray words(card, 4);
  // Each block reads what it has not written, then leaves something for the next one.
  const cuda::KernelSource source = SourceOf("uninitialised", R"(
    ACT_SHARED(uint32_t, fixed, 32);
    uint32_t* dynamic = reinterpret_cast<uint32_t*>(SharedBytes());
    if (threadIdx.x == 0) Store(p.words + blockIdx.x, fixed[3] & dynamic[5]);
    SyncThreads();
    fixed[threadIdx.x] = dynamic[threadIdx.x] = 0;)");
  EXPECT_EQ(RunSource(card, source, {nullptr, nullptr, words.as<uint32_t>(), 0}, 4, 32, 128), "");
  EXPECT_EQ(words.Get<uint32_t>(), std::vector<uint32_t>(4, ~0u));
}

// ---- Sectors

fake::AccessCounts Counts(const std::string& name, const std::string& body) {
  fake::Controls& controls = TheTestCard().controls();
  controls.WatchAccesses(true);
  EXPECT_EQ(Fault(name, body, 1, 64), "");
  const fake::AccessCounts counts = controls.Accesses().at(name);
  controls.WatchAccesses(false);
  return counts;
}

TEST(FakeCuda, CountsSectorsOfEachRequest) {
  const fake::AccessCounts row = Counts("row", "Store(p.y + i, Load(p.x + i));");
  EXPECT_EQ(row.launches, 1);
  EXPECT_EQ(row.requests, 4);  // of two warps: a load and a store
  EXPECT_EQ(row.sectors, 16);
  EXPECT_EQ(row.ideal_sectors, 16);
  const fake::AccessCounts column = Counts("column", "Load(p.x + i * 4);");
  EXPECT_EQ(column.requests, 2);
  EXPECT_EQ(column.sectors, 32);
  EXPECT_EQ(column.ideal_sectors, 8);
  const fake::AccessCounts broadcast = Counts("broadcast", "Load(p.x + 9);");
  EXPECT_EQ(broadcast.sectors, 2);
  EXPECT_EQ(broadcast.ideal_sectors, 2);
  const fake::AccessCounts shifted = Counts("shifted", "Load(p.x + i + 1);");
  EXPECT_EQ(shifted.sectors, 10);
  EXPECT_EQ(shifted.ideal_sectors, 8);
  const fake::AccessCounts twice = Counts("twice", "for (int k = 0; k < 3; ++k) Load(p.x + i + 64 * k);");
  EXPECT_EQ(twice.requests, 6);
  EXPECT_EQ(twice.sectors, twice.ideal_sectors);
}

// ---- Launches

TEST(FakeCuda, RefusesLaunchesThatACardRefuses) {
  TestCard& card = TheTestCard();
  const cuda::CompiledKernel& kernel = Compiled(card, SourceOf("nothing", ""));
  const Pieces p = {};
  EXPECT_SUBSTRING("a grid of 0 x 1 x 1 blocks", cuda::Launch(card.context(), kernel, 0, 32, p));
  EXPECT_SUBSTRING("blocks of 1025 threads", cuda::Launch(card.context(), kernel, 1, 1025, p));
  EXPECT_SUBSTRING("bytes of shared memory", cuda::Launch(card.context(), kernel, 1, 32, p, 1 << 20));
  EXPECT_SUBSTRING("a parameter of 8 bytes", cuda::Launch(card.context(), kernel, 1, 32, int64_t{0}));
  EXPECT_EQ(card.Wait(), "");
}

TEST(FakeCuda, SaysWhatTheCompilerSays) {
  TestCard card;
  card.cache().Request(SourceOf("typing_error", "Lod(p.x);"));
  EXPECT_SUBSTRING("Lod", card.cache().CompileAll());
}

}  // namespace
}  // namespace act
