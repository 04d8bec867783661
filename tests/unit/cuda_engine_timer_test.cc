// Engines of convolutions that are chosen by time, on the fake card, whose engines differ in how long they wait.
#include "kernels/cuda/engine_timer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/cuda/engine_cache.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_card.h"

namespace act::cuda {
namespace {

using act::testing::Contents;
using act::testing::TemporaryFolder;

class EngineTiming : public ::testing::Test {
 protected:
  void SetUp() override {
    if (IsRealCard()) GTEST_SKIP() << "only the fake card's engines wait";
    setenv("ACT_FAKE_ENGINES", "3", 1);
  }
  void TearDown() override {
    unsetenv("ACT_FAKE_ENGINES");
    unsetenv("ACT_FAKE_CARD_BYTES");
    unsetenv("ACT_FAKE_LIBRARY_VERSION");
  }

  static ConvolutionProblem Problem(int64_t samples = 2) {
    ConvolutionProblem p;
    p.x = {samples, 4, 4, 3}, p.w = {5, 3, 3, 3}, p.y = {samples, 4, 4, 5};
    p.strides = p.dilations = p.pads_begin = p.pads_end = {1, 1};
    return p;
  }
  EngineTimerOptions Options(bool force = false, double most_seconds = 60) {
    return {.machine = {.processor = "a card", .threads = 0, .software = "a library"},
            .path = folder_ / "engines.txt",
            .force = force,
            .most_seconds = most_seconds,
            .say = [this](const std::string& line) { lines_.push_back(line); }};
  }
  // The text of the engine that a run would take, and what its library did for it.
  std::string Choose(const EngineTimerOptions& options, fake::Controls::Work* work = nullptr) {
    const OpenedCard card = OpenTestCard();
    EngineTimer timer(card.toolkit->driver(), options);
    EngineCache engines(card.toolkit->convolutions(), nullptr, options.say, &timer);
    std::string why;
    const auto call = engines.Choose(Problem(), 1024, &why);
    EXPECT_TRUE(call) << why;
    timer.Keep();
    if (work) *work = card.controls->WorkSoFar();
    const std::vector<std::byte> bytes = call ? call->Serialize() : std::vector<std::byte>();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  const TemporaryFolder folder_;
  std::vector<std::string> lines_;
};

TEST_F(EngineTiming, TheFastestIsChosenOnceAndKept) {
  EXPECT_TRUE(Choose(Options()).ends_with("engine 2"));
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[0], "timing engines of convolutions, once on this card");
  EXPECT_NE(lines_[1].find("engines of 1 convolutions timed in "), std::string::npos) << lines_[1];
  EXPECT_NE(lines_[1].find(", 1 differ from the library's order; "), std::string::npos) << lines_[1];
  EXPECT_NE(Contents(folder_ / "engines.txt").find("machine: a card, a library\n"), std::string::npos);
  lines_.clear();
  fake::Controls::Work work;
  EXPECT_TRUE(Choose(Options(), &work).ends_with("engine 2"));
  EXPECT_TRUE(lines_.empty());
  EXPECT_EQ(work, (fake::Controls::Work{.searched = 0, .loaded = 1}));
}

TEST_F(EngineTiming, ForceTimesAgain) {
  (void)Choose(Options());
  lines_.clear();
  fake::Controls::Work work;
  EXPECT_TRUE(Choose(Options(/*force=*/true), &work).ends_with("engine 2"));
  EXPECT_EQ(work.searched, 1);
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(EngineTiming, WithoutATimerTheLibrarysFirstIsTaken) {
  const OpenedCard card = OpenTestCard();
  EngineCache engines(card.toolkit->convolutions());
  std::string why;
  const auto call = engines.Choose(Problem(), 1024, &why);
  ASSERT_TRUE(call) << why;
  EXPECT_EQ(engines.Seconds(Problem(), 1024), 0);
  const std::vector<std::byte> bytes = call->Serialize();
  EXPECT_TRUE(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()).ends_with("engine 0"));
}

TEST_F(EngineTiming, WithoutTimeOrMemoryTheLibrarysFirstIsTakenAndNotKept) {
  EXPECT_TRUE(Choose(Options(false, /*most_seconds=*/-1)).ends_with("engine 0"));
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("are not timed in this run"), std::string::npos) << lines_[0];
  lines_.clear();
  setenv("ACT_FAKE_CARD_BYTES", "1000", 1);
  EXPECT_TRUE(Choose(Options()).ends_with("engine 0"));
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_NE(lines_[1].find("cannot be timed"), std::string::npos) << lines_[1];
  EXPECT_FALSE(std::filesystem::exists(folder_ / "engines.txt"));
}

TEST_F(EngineTiming, AnEngineThatTheLibraryNoLongerTakesIsTimedAgain) {
  (void)Choose(Options());
  setenv("ACT_FAKE_LIBRARY_VERSION", "2", 1);
  fake::Controls::Work work;
  EXPECT_TRUE(Choose(Options(), &work).ends_with("engine 2"));
  EXPECT_EQ(work.searched, 1);
}

TEST_F(EngineTiming, ADamagedFileIsTold) {
  std::ofstream(folder_ / "engines.txt") << "machine: a card, a library\nnonsense\n";
  EXPECT_TRUE(Choose(Options()).ends_with("engine 2"));
  ASSERT_EQ(lines_.size(), 3u);
  EXPECT_NE(lines_[0].find("line 2 is not 'site -> kernel # times'"), std::string::npos) << lines_[0];
}

TEST_F(EngineTiming, AFolderThatCannotBeWrittenIsTold) {
  std::ofstream(folder_ / "file") << "no folder";
  EngineTimerOptions options = Options();
  options.path = folder_ / "file/engines.txt";
  EXPECT_TRUE(Choose(options).ends_with("engine 2"));
  ASSERT_EQ(lines_.size(), 3u);
  EXPECT_TRUE(lines_[2].starts_with("warning: the choice of engines is not kept")) << lines_[2];
}

}  // namespace
}  // namespace act::cuda
