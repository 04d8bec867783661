#include "runtime/train/schedule.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace act {
namespace {

double At(const std::string& text, uint64_t step, uint64_t end) {
  auto schedule = LearningRateSchedule::Parse(text);
  if (schedule) return schedule->At(0.1, step, end);
  ADD_FAILURE() << llvm::toString(schedule.takeError());
  return -1;
}

TEST(Schedule, ConstantStays) {
  EXPECT_EQ(At("constant", 0, 10), 0.1);
  EXPECT_EQ(At("constant", 1000, 10), 0.1);
}

TEST(Schedule, StepFallsAfterEachInterval) {
  EXPECT_DOUBLE_EQ(At("step,30,0.1", 29, 0), 0.1);
  EXPECT_DOUBLE_EQ(At("step,30,0.1", 30, 0), 0.01);
  EXPECT_DOUBLE_EQ(At("step,30,0.1", 89, 0), 0.001);
}

TEST(Schedule, CosineGoesFromTheBaseToTheMinimum) {
  EXPECT_DOUBLE_EQ(At("cosine", 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(At("cosine", 50, 100), 0.05);
  EXPECT_DOUBLE_EQ(At("cosine", 100, 100), 0);
  EXPECT_DOUBLE_EQ(At("cosine,0.02", 50, 100), 0.06);
  EXPECT_DOUBLE_EQ(At("cosine,0.02", 400, 100), 0.02);
  EXPECT_DOUBLE_EQ(At("cosine,0.02,400", 200, 100), 0.06) << "its own length, not the run's";
  EXPECT_DOUBLE_EQ(At("cosine", 50, 0), 0.1) << "a run of unknown length";
}

TEST(Schedule, WhatIsNoScheduleIsRefused) {
  for (const char* text : {"", "linear", "constant,1", "step", "step,30", "step,0,0.1", "step,1.5,0.1",
                           "step,30,x", "step,30,0.1,2", "step,30,-1", "cosine,x", "cosine,0,0",
                           "cosine,0,10,3", "cosine,nan", "step,1e30,0.1"}) {
    auto schedule = LearningRateSchedule::Parse(text);
    EXPECT_FALSE(static_cast<bool>(schedule)) << text;
    const std::string message = llvm::toString(schedule.takeError());
    EXPECT_NE(message.find("--lr-schedule=" + std::string(text) + ": "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace act
