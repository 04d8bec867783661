#include "runtime/train/schedule.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/error.h"

namespace act {
namespace {

double At(const std::string& text, uint64_t step, uint64_t end, const std::string& warmup = "") {
  auto schedule = LearningRateSchedule::Parse(text, warmup);
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

// The numbers of PyTorch 2.15, with o = SGD([p], lr=0.1) and cycle_momentum=False:
//   for _ in range(n): rates.append(o.param_groups[0]["lr"]); o.step(); schedule.step()
struct OfPyTorch {
  const char *schedule, *warmup;
  uint64_t end;
  std::vector<double> rates;
};
const OfPyTorch kOfPyTorch[] = {
    // OneCycleLR(o, max_lr=0.1, total_steps=10)
    {"onecycle",
     "",
     10,
     {0.0040000000000000036, 0.052000000000000005, 0.1, 0.09504846320134738, 0.0811745653949763,
      0.06112620219362893, 0.03887419780637107, 0.0188258346050237, 0.004951936798652629, 4e-07}},
    // OneCycleLR(o, max_lr=0.2, total_steps=8, pct_start=0.5, div_factor=10, final_div_factor=100)
    {"onecycle,2,8,0.5,10,100",
     "",
     1000,
     {0.01999999999999999, 0.065, 0.15499999999999997, 0.2, 0.1707399674405361, 0.10010000000000001,
      0.02946003255946391, 0.0002}},
    // SequentialLR(o, [LinearLR(o, 0.25, 1, 4), ConstantLR(o, 1, 1)], [4])
    {"constant",
     "4,0.25",
     6,
     {0.025, 0.043750000000000004, 0.06250000000000001, 0.08125000000000002, 0.1, 0.1}},
    // SequentialLR(o, [LinearLR(o, 0.25, 1, 4), StepLR(o, 2, 0.5)], [4])
    {"step,2,0.5",
     "4,0.25",
     10,
     {0.025, 0.043750000000000004, 0.06250000000000001, 0.08125000000000002, 0.1, 0.1, 0.05, 0.05, 0.025,
      0.025}},
    // SequentialLR(o, [LinearLR(o, 0.25, 1, 4), CosineAnnealingLR(o, 6, 0.01)], [4])
    {"cosine,0.01",
     "4,0.25",
     10,
     {0.025, 0.043750000000000004, 0.06250000000000001, 0.08125000000000002, 0.1, 0.09397114317029975,
      0.07750000000000001, 0.055000000000000014, 0.032500000000000015, 0.01602885682970026, 0.01}},
    // LambdaLR(o, lambda t: min(1, t / 4))
    {"constant", "4", 6, {0, 0.025, 0.05, 0.07500000000000001, 0.1, 0.1}},
};

TEST(Schedule, RatesAreThoseOfPyTorch) {
  for (const OfPyTorch& expected : kOfPyTorch) {
    for (size_t step = 0; step < expected.rates.size(); ++step) {
      // PyTorch takes some of these rates from the one before, and each rounds. 1e-15 are five such roundings
      // of rates near 0.2.
      EXPECT_NEAR(At(expected.schedule, step, expected.end, expected.warmup), expected.rates[step], 1e-15)
          << expected.schedule << " " << expected.warmup << ": step " << step;
    }
  }
}

TEST(Schedule, TheLastRateOfOneCycleStays) {
  EXPECT_EQ(At("onecycle,1,10", 5000, 8), At("onecycle,1,10", 9, 8));
  EXPECT_NEAR(At("onecycle", 0, 1), 4e-7, 1e-15) << "as PyTorch with total_steps=1";
  EXPECT_DOUBLE_EQ(At("onecycle", 3, 0), 0.1) << "a run of unknown length";
  EXPECT_DOUBLE_EQ(At("onecycle,1,10,1", 9, 0), 0.1) << "no fall";
  EXPECT_DOUBLE_EQ(At("onecycle,1,10,0.1", 0, 0), 0.1) << "no rise";
}

TEST(Schedule, WarmupMovesTheStartOfACosineAndNotItsEnd) {
  EXPECT_DOUBLE_EQ(At("cosine,0,400", 200, 1000, "100"), At("cosine", 100, 300));
  EXPECT_DOUBLE_EQ(At("cosine,0,400", 400, 1000, "100"), 0);
}

TEST(Schedule, WhatIsNoWarmupIsRefused) {
  for (const char* text :
       {",", "x", "0", "-1", "1.5", "10,", "10,2", "10,-0.1", "10,x", "10,0.1,3", "1e30"}) {
    auto schedule = LearningRateSchedule::Parse("constant", text);
    EXPECT_FALSE(static_cast<bool>(schedule)) << text;
    const std::string message = llvm::toString(schedule.takeError());
    EXPECT_NE(message.find("--warmup=" + std::string(text) + ": "), std::string::npos) << message;
  }
  const auto message_of = [](const char* text) {
    return llvm::toString(LearningRateSchedule::Parse("constant", text).takeError());
  };
  const std::string hint =
      "\nhint: STEPS or STEPS,START, as 1000 or 1000,0.1; without the flag there is no warm-up";
  EXPECT_EQ(message_of("0"), "--warmup=0: expected a number of steps, at least 1" + hint);
  EXPECT_EQ(message_of("10,2"), "--warmup=10,2: START is a factor of --lr, from 0 to 1" + hint);
  EXPECT_EQ(message_of("10,0,3"), "--warmup=10,0,3: expected no more than STEPS and START" + hint);
  for (const char* text : {"cosine,0,10", "onecycle"}) {
    auto schedule = LearningRateSchedule::Parse(text, "10");
    EXPECT_FALSE(static_cast<bool>(schedule)) << text;
    const std::string message = llvm::toString(schedule.takeError());
    EXPECT_NE(message.find("--warmup"), std::string::npos) << message;
  }
}

TEST(Schedule, WhatIsNoScheduleIsRefused) {
  for (const char* text : {"",
                           "linear",
                           "constant,1",
                           "step",
                           "step,30",
                           "step,0,0.1",
                           "step,1.5,0.1",
                           "step,30,x",
                           "step,30,0.1,2",
                           "step,30,-1",
                           "cosine,x",
                           "cosine,0,0",
                           "cosine,0,10,3",
                           "cosine,nan",
                           "step,1e30,0.1",
                           "onecycle,x",
                           "onecycle,1,0",
                           "onecycle,1,10,1.5",
                           "onecycle,1,10,0.3,0",
                           "onecycle,1,10,0.3,25,0",
                           "onecycle,1,10,0.3,25,1e4,7"}) {
    auto schedule = LearningRateSchedule::Parse(text);
    EXPECT_FALSE(static_cast<bool>(schedule)) << text;
    const std::string message = llvm::toString(schedule.takeError());
    EXPECT_NE(message.find("--lr-schedule=" + std::string(text) + ": "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace act
