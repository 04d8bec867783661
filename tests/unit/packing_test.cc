#include "runtime/memory/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/memory/packing_validate.h"
#include "tests/paths.h"

namespace act {
namespace {

// Columns id,lower,upper,size (see tests/data/packing/README.md). Sizes are packed without padding.
PackingProblem ReadProblem(const std::string& name) {
  std::ifstream file(TestDataFolder() + "/packing/" + name);
  EXPECT_TRUE(file) << name;
  std::string header;
  std::getline(file, header);
  PackingProblem problem;
  int64_t id = 0;
  char comma = 0;
  for (Buffer b{.alignment = 1}; file >> id >> comma >> b.lower >> comma >> b.upper >> comma >> b.size;) {
    problem.buffers.push_back(b);
  }
  EXPECT_FALSE(problem.buffers.empty()) << name;
  return problem;
}

PackingProblem RandomProblem(uint32_t seed, int count, int64_t time, int64_t max_size, bool aligned) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  const int64_t alignments[] = {1, 8, 48, 64};
  PackingProblem problem;
  for (int i = 0; i < count; ++i) {
    const int64_t lower = below(time);
    problem.buffers.push_back(
        {lower, lower + below(time), below(max_size), aligned ? alignments[below(4)] : 1});
  }
  return problem;
}

// One training step of a chain of layers. Forward op i writes an activation and a workspace, and
// encodes the input (layer i's saved code). Backward op i decodes the code, and makes an input
// gradient and a workspace.
PackingProblem TrainingStep(uint32_t seed, int layers) {
  std::mt19937 random(seed);
  const auto kib = [&](int64_t from, int64_t to) {
    return 1024 * (from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from)));
  };
  PackingProblem problem;
  const int64_t end = 2 * layers;
  for (int i = 0; i < layers; ++i) {
    const int64_t forward = i;
    const int64_t backward = end - 1 - i;
    // Early layers are larger.
    const int64_t activation = kib(512, 4096) * layers / (layers + 2 * i);
    problem.buffers.push_back({0, end, kib(1, 256)});  // parameters
    problem.buffers.push_back({forward, forward + 2, activation});
    problem.buffers.push_back({forward, backward + 1, activation / static_cast<int64_t>(4 + random() % 12)});
    problem.buffers.push_back(
        {forward, backward + 1, 4 * static_cast<int64_t>(1 + random() % 512)});  // scales
    problem.buffers.push_back({forward, forward + 1, kib(1, 512)});              // workspaces
    problem.buffers.push_back({backward, backward + 1, activation});             // decoded input
    problem.buffers.push_back({backward, backward + 2, activation});             // its gradient
    problem.buffers.push_back({backward, backward + 1, kib(1, 512)});
    if (i % 3 == 0 && i + 3 < layers)
      problem.buffers.push_back({forward, forward + 4, activation});  // shortcut
  }
  return problem;
}

// The least height, found by trying all orders with the lowest fit. One of them is the order of an
// optimal packing's offsets.
int64_t BruteForceHeight(const PackingProblem& problem) {
  const std::vector<Buffer>& buffers = problem.buffers;
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> offsets(buffers.size(), 0);
    int64_t height = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const Buffer& buffer = buffers[order[i]];
      if (buffer.size == 0 || buffer.lower >= buffer.upper) continue;
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < i; ++j) {
          const Buffer& other = buffers[order[j]];
          const int64_t other_end = offsets[order[j]] + other.size;
          const bool at_once =
              buffer.lower < other.upper && other.lower < buffer.upper && other.lower < other.upper;
          if (!at_once || other.size == 0 || offset >= other_end ||
              offset + buffer.size <= offsets[order[j]]) {
            continue;
          }
          offset = other_end;
          moved = true;
        }
      }
      offsets[order[i]] = offset;
      height = std::max(height, offset + buffer.size);
    }
    best = std::min(best, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

double Ratio(const PackingProblem& problem, const Packing& packing) {
  return static_cast<double>(packing.height) / static_cast<double>(PackingLowerBound(problem));
}

void ExpectValid(const PackingProblem& problem, const Packing& packing) {
  const std::optional<std::string> error = ValidatePacking(problem, packing);
  EXPECT_FALSE(error) << *error;
  EXPECT_GE(packing.height, PackingLowerBound(problem));
}

TEST(Packing, EmptyProblemNeedsNothing) {
  const Packing packing = SolvePacking({});
  ExpectValid({}, packing);
  EXPECT_EQ(packing.height, 0);
}

TEST(Packing, SingleBufferIsPlacedAtZeroAndOwnsItsPadding) {
  const PackingProblem problem{{{3, 4, 100}}};
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_EQ(packing.offsets, std::vector<int64_t>{0});
  EXPECT_EQ(packing.height, 128);
  EXPECT_EQ(PackingLowerBound(problem), 128);
}

TEST(Packing, BuffersWithoutBytesOrLiveRangeNeedNothing) {
  const PackingProblem problem{{{0, 10, 0}, {5, 5, 1000}, {7, 2, 1000}, {0, 10, 64}}};
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_EQ(packing.height, 64);
}

TEST(Packing, LiveRangesAreHalfOpen) {
  const PackingProblem problem{{{0, 1, 64}, {1, 2, 64}}};
  EXPECT_EQ(SolvePacking(problem).height, 64);
}

TEST(Packing, TimesMayBeAnyNumbers) {
  const PackingProblem problem{{{INT64_MIN, INT64_MAX, 64}, {-5, 7, 64}, {INT64_MAX - 1, INT64_MAX, 64}}};
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_EQ(packing.height, 128);
}

TEST(Packing, HugeSizesThatFitArePacked) {
  PackingProblem problem;  // 40 x 2^60 bytes in all, at most 4 x 2^60 at once
  for (int64_t i = 0; i < 40; ++i) problem.buffers.push_back({i, i + 4, (int64_t{1} << 60) - i});
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_EQ(packing.height, int64_t{1} << 62);
}

TEST(Packing, HugeSizesThatDoNotFitSaturateAndAreRejected) {
  PackingProblem problem;
  for (int64_t i = 0; i < 9; ++i) problem.buffers.push_back({0, 1, int64_t{1} << 60});
  problem.buffers.push_back({0, 1, INT64_MAX});
  EXPECT_EQ(PackingLowerBound(problem), INT64_MAX);
  for (uint32_t i = 0; i < kPackingHeuristicCount; ++i) {
    const Packing packing = SolvePacking(problem, {.heuristics = 1u << i});
    EXPECT_EQ(packing.height, INT64_MAX);
    EXPECT_TRUE(ValidatePacking(problem, packing));
  }
}

TEST(Packing, IllFormedBuffersAreRejectedByTheValidator) {
  for (const Buffer& bad : {Buffer{0, 1, -1, 64}, Buffer{0, 1, 64, 0}, Buffer{0, 1, 64, -8}}) {
    const PackingProblem problem{{bad, {0, 1, 64}}};
    EXPECT_TRUE(ValidatePacking(problem, SolvePacking(problem)));
  }
}

TEST(Packing, HeuristicNamesAreDistinct) {
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < kPackingHeuristicCount; ++i) {
    names.push_back(PackingHeuristicName(static_cast<PackingHeuristic>(i)));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Packing, EverySubsetOfHeuristicsGivesValidPackings) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const PackingProblem problem = RandomProblem(seed, 60, 40, 5000, seed % 2 == 0);
    for (uint32_t heuristics = 0; heuristics < 1u << kPackingHeuristicCount; ++heuristics) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", heuristics " << heuristics);
      ExpectValid(problem, SolvePacking(problem, {.max_steps = 50'000, .heuristics = heuristics}));
    }
  }
}

TEST(Packing, RandomProblemsGiveValidPackings) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PackingProblem problem =
        RandomProblem(seed, 1 + static_cast<int>(seed), 1 + seed % 50, 1 + 40 * int64_t{seed}, seed % 3 != 0);
    ExpectValid(problem, SolvePacking(problem, {.max_steps = 200'000}));
  }
}

TEST(Packing, TinyProblemsAreOptimal) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const PackingProblem problem = RandomProblem(seed, 7, 8, 9, false);
    const Packing packing = SolvePacking(problem, {.max_steps = 200'000});
    ExpectValid(problem, packing);
    EXPECT_EQ(packing.height, BruteForceHeight(problem)) << "seed " << seed;
  }
}

TEST(Packing, TheSameProblemGivesTheSameOffsets) {
  const PackingProblem problem = ReadProblem("A.1048576.csv");
  EXPECT_EQ(SolvePacking(problem).offsets, SolvePacking(problem).offsets);
}

TEST(Packing, MoreStepsAreNeverWorse) {
  const PackingProblem problem = ReadProblem("C.1048576.csv");
  int64_t height = INT64_MAX;
  for (int64_t steps : {0, 100'000, 1'000'000, 5'000'000}) {
    const Packing packing = SolvePacking(problem, {.max_steps = steps});
    ExpectValid(problem, packing);
    EXPECT_LE(packing.height, height) << steps;
    height = packing.height;
  }
}

TEST(Packing, ThePackingThatIsEnoughEndsTheSearch) {
  const PackingProblem problem = ReadProblem("A.1048576.csv");
  const Packing first = SolvePacking(problem, {.max_steps = 0}), lowest = SolvePacking(problem);
  ASSERT_LT(lowest.height, first.height);
  EXPECT_EQ(SolvePacking(problem, {.enough = first.height}).offsets, first.offsets);
  EXPECT_LE(SolvePacking(problem, {.enough = first.height - 1}).height, first.height - 1);
  EXPECT_EQ(SolvePacking(problem, {.enough = PackingLowerBound(problem) - 1}).offsets, lowest.offsets);
}

TEST(Packing, TrainingStepsArePackedWithinOnePercent) {
  for (int layers : {1, 2, 10, 75, 150, 300}) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      const PackingProblem problem = TrainingStep(seed, layers);
      const Packing packing = SolvePacking(problem);
      ExpectValid(problem, packing);
      EXPECT_LE(Ratio(problem, packing), 1.01) << layers << " layers, seed " << seed;
    }
  }
}

TEST(Packing, ResNet50StepIsPackedWithinOnePercentByGreedyAlone) {
  const PackingProblem problem = ReadProblem("somas_resnet50.csv");
  EXPECT_EQ(PackingLowerBound(problem), 1'515'472'556);
  const Packing packing = SolvePacking(problem, {.max_steps = 0});
  ExpectValid(problem, packing);
  EXPECT_LE(Ratio(problem, packing), 1.01);
}

// Short-lived gradients of slightly different sizes, between codes whose live ranges do not nest.
// The bound is what the search reaches, not what is possible, and it is a lucky one: with other
// random numbers the searches of the core and by swaps end between 1.011 and 1.016, and without
// that of the core between 1.0146 and 1.0166.
TEST(Packing, DenseNet121StepIsPackedWithinOneAndAFifthPercent) {
  const PackingProblem problem = ReadProblem("densenet121.csv");
  EXPECT_EQ(PackingLowerBound(problem), 244'898'112);
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_LE(Ratio(problem, packing), 1.012);
}

class EjectionFile : public testing::TestWithParam<const char*> {};

// Few ops are near the peak, but large short-lived buffers need whole gaps between many codes there. The other ways end
// at 1.0185 and 1.073. Luck has no part in it: other random numbers do as well.
TEST_P(EjectionFile, IsPackedWithinAThirdPercentFromAnySeed) {
  const PackingProblem problem = ReadProblem(GetParam());
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const Packing packing = SolvePacking(problem, {.seed = seed});
    ExpectValid(problem, packing);
    EXPECT_LE(Ratio(problem, packing), 1.003) << "seed " << seed;
  }
  const PackingOptions without = PackingOptions().Without(PackingHeuristic::kEjectionSearch);
  EXPECT_GT(Ratio(problem, SolvePacking(problem, without)), 1.015)
      << "the problem no longer needs the search";
}

INSTANTIATE_TEST_SUITE_P(TrainingSteps, EjectionFile, testing::Values("resnet50.csv", "wide_resnet50_2.csv"));

// Tries from the lowest packings, which are those by size, end at up to 1.018: skylines are the better starts.
TEST(Packing, ResNet164StepIsPackedWithinHalfAPercentFromAnySeed) {
  const PackingProblem problem = ReadProblem("resnet164_cifar.csv");
  EXPECT_EQ(PackingLowerBound(problem), 516'577'024);
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const Packing packing = SolvePacking(problem, {.seed = 1000 * seed + 1});
    ExpectValid(problem, packing);
    EXPECT_LE(Ratio(problem, packing), 1.005) << "seed " << seed;
  }
}

// What is pushed must stay aligned: the search packs in multiples of 48 bytes.
TEST(Packing, EjectionLowersPackingsOfDifferentAlignments) {
  PackingProblem problem = ReadProblem("F.1048576.csv");
  for (size_t i = 0; i < problem.buffers.size(); ++i) problem.buffers[i].alignment = i % 2 == 0 ? 16 : 24;
  const PackingOptions without = PackingOptions().Without(PackingHeuristic::kEjectionSearch);
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_LT(packing.height, SolvePacking(problem, without).height);
}

class PackingFile : public testing::TestWithParam<const char*> {};

TEST_P(PackingFile, IsPackedWithinFifteenPercent) {
  const PackingProblem problem = ReadProblem(GetParam());
  const Packing packing = SolvePacking(problem);
  ExpectValid(problem, packing);
  EXPECT_LE(Ratio(problem, packing), 1.15);
}

INSTANTIATE_TEST_SUITE_P(Minimalloc, PackingFile,
                         testing::Values("A.1048576.csv", "B.1048576.csv", "C.1048576.csv", "D.1048576.csv",
                                         "E.1048576.csv", "F.1048576.csv", "G.1048576.csv", "H.1048576.csv",
                                         "I.1048576.csv", "J.1048576.csv", "K.1048576.csv"));

TEST(ValidatePacking, NamesTheBuffersThatOverlapAndWhere) {
  const PackingProblem problem{{{0, 4, 64}, {2, 6, 128}}};
  const std::optional<std::string> error = ValidatePacking(problem, {{64, 0}, 128});
  ASSERT_TRUE(error);
  EXPECT_EQ(
      *error,
      "buffer 1 (ops [2, 6), 128 bytes at offset 0) overlaps buffer 0 (ops [0, 4), 64 bytes at offset 64) at "
      "op 2 in bytes [64, 128)");
}

TEST(ValidatePacking, RejectsWhatIsNotAPacking) {
  const PackingProblem problem{{{0, 4, 65}, {2, 6, 64}}};
  EXPECT_FALSE(ValidatePacking(problem, {{0, 128}, 192}));
  EXPECT_TRUE(ValidatePacking(problem, {{0}, 128})) << "an offset is missing";
  EXPECT_TRUE(ValidatePacking(problem, {{0, 64}, 128})) << "inside the padding of buffer 0";
  EXPECT_TRUE(ValidatePacking(problem, {{0, 130}, 194})) << "not aligned";
  EXPECT_TRUE(ValidatePacking(problem, {{-64, 128}, 192})) << "below the arena";
  EXPECT_TRUE(ValidatePacking(problem, {{0, 128}, 191})) << "above the arena";
  EXPECT_TRUE(ValidatePacking(problem, {{0, 128}, 193})) << "arena larger than needed";
}

// Moving any buffer of a valid packing onto another one that is live with it must be detected.
TEST(ValidatePacking, FindsEveryOverlapOfTwo) {
  const PackingProblem problem = RandomProblem(5, 40, 30, 1000, false);
  const Packing valid = SolvePacking(problem, {.max_steps = 0});
  ExpectValid(problem, valid);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    for (size_t j = 0; j < problem.buffers.size(); ++j) {
      const Buffer& a = problem.buffers[i];
      const Buffer& b = problem.buffers[j];
      if (i == j || a.size == 0 || b.size == 0 || std::max(a.lower, b.lower) >= std::min(a.upper, b.upper))
        continue;
      Packing wrong = valid;
      wrong.offsets[i] = wrong.offsets[j];
      wrong.height = std::max(wrong.height, wrong.offsets[i] + a.size);
      EXPECT_TRUE(ValidatePacking(problem, wrong)) << i << " onto " << j;
    }
  }
}

}  // namespace
}  // namespace act
