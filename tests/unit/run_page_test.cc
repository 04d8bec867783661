// The page of a run, and the series that it shows.
#include "runtime/train/run_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/train/chart_html.h"
#include "tests/take.h"
#include "tests/unit/test_device.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

TEST(Series, KeepsEveryStepWhileThereIsRoom) {
  Series series(8);
  for (uint64_t step = 0; step < 8; ++step) series.Add(step + 100, static_cast<double>(step));
  ASSERT_EQ(series.buckets().size(), 8u);
  EXPECT_EQ(series.buckets()[3].first, 103u);
  EXPECT_EQ(series.buckets()[3].Mean(), 3);
}

TEST(Series, ASpikeOfOneStepStaysInARunOfAnyLength) {
  Series series(8);
  constexpr uint64_t kSteps = 100'000, kHigh = 31'415, kLow = 77'777;
  double sum = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const double value = step == kHigh ? 50 : step == kLow ? -50 : std::sin(static_cast<double>(step));
    sum += value;
    series.Add(step, value);
  }
  const auto& buckets = series.buckets();
  EXPECT_LE(buckets.size(), 8u);
  EXPECT_GE(buckets.size(), 4u) << "half of the room is used";
  EXPECT_EQ(buckets.front().first, 0u);
  EXPECT_EQ(buckets.back().last, kSteps - 1);
  int64_t count = 0;
  double total = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const Series::Bucket& b = buckets[i];
    EXPECT_EQ(b.first, i == 0 ? 0 : buckets[i - 1].last + 1);
    EXPECT_EQ(b.count, static_cast<int64_t>(b.last - b.first + 1));
    EXPECT_EQ(b.max == 50, b.first <= kHigh && kHigh <= b.last);
    EXPECT_EQ(b.min == -50, b.first <= kLow && kLow <= b.last);
    count += b.count;
    total += b.sum;
  }
  EXPECT_EQ(count, static_cast<int64_t>(kSteps));
  EXPECT_NEAR(total, sum, 1e-6) << "1e5 roundings of sums below 100";
}

TEST(Series, NumbersThatAreNotFiniteAreLeftOut) {
  Series series(8);
  for (const double value : {1.0, std::nan(""), HUGE_VAL, 2.0}) series.Add(series.buckets().size(), value);
  EXPECT_EQ(series.buckets().size(), 2u);
}

TEST(Chart, NumbersOfAxesAreShort) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.25), "0.25");
  EXPECT_EQ(ShortNumber(2000), "2000");
  EXPECT_EQ(ShortNumber(20000), "20k");
  EXPECT_EQ(ShortNumber(2.5e6), "2.5M");
  EXPECT_EQ(ShortNumber(-3e9), "-3G");
}

class RunPageTest : public ::testing::Test {
 protected:
  RunPageTest() {
    toy::RegisterToyKernels(registry_);
    executor_ = Take(Executor::Create(plan_, Take(LayOut(plan_, 3)), TestDevice(), registry_, {}));
  }
  void Step(uint64_t step, double loss) {
    EXPECT_EQ(Text(curves_.AfterStep({.step = step,
                                      .samples = 64,
                                      .loss = loss,
                                      .learning_rate = 0.1,
                                      .seconds = 0.5 + 1e-6 * static_cast<double>(step % 7),
                                      .gradient_norm = 3 * loss})),
              "");
  }
  void Evaluation(uint64_t step, double loss) {
    EXPECT_EQ(Text(curves_.AfterEvaluation(*executor_, {.step = step},
                                           {.epoch = 1, .loss = loss, .accuracy = std::nullopt})),
              "");
  }
  std::string Html() {
    return RunPageHtml({.title = "Training of <b>&\"",
                        .rows = {{"data", "a<b"}},
                        .end = "done after step <1>",
                        .executor = executor_.get(),
                        .curves = &curves_});
  }
  static bool Contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  Plan plan_ = toy::ToyPlan();
  KernelRegistry registry_;
  std::unique_ptr<Executor> executor_;
  RunCurves curves_;
};

TEST_F(RunPageTest, NeedsNothingElseAndEscapesNames) {
  Step(0, 1);
  ASSERT_EQ(Text(curves_.AfterNotFinite(0, {.name = "x", .text = "value '<x>'"})), "");
  const std::string html = Html();
  EXPECT_FALSE(Contains(html, "http"));
  EXPECT_FALSE(Contains(html, "<script"));
  EXPECT_FALSE(Contains(html, "<b>&\""));
  for (const char* text : {"&lt;b&gt;&amp;", "a&lt;b", "done after step &lt;1&gt;", "&lt;x&gt;", "</html>"})
    EXPECT_TRUE(Contains(html, text)) << text;
}

TEST_F(RunPageTest, ShowsARunOfOneStepAndOneOfNone) {
  EXPECT_TRUE(Contains(Html(), "</html>"));
  Step(12, 1.5);
  const std::string html = Html();
  EXPECT_TRUE(Contains(html, "<circle"));
  EXPECT_TRUE(Contains(html, "Gradient norm"));
  for (const char* wrong : {"nan", "inf"}) EXPECT_FALSE(Contains(html, wrong)) << wrong;
}

TEST_F(RunPageTest, TellsPlannedAndMeasuredPeak) {
  const std::string html = Html();
  EXPECT_TRUE(Contains(html, "planned <b>"));
  EXPECT_TRUE(Contains(html, "(" + std::to_string(executor_->promised_peak_bytes()) + " bytes)"));
  EXPECT_TRUE(Contains(html, "(" + std::to_string(executor_->arena().high_water_bytes()) + " bytes)"));
}

TEST_F(RunPageTest, OfManyStepsAndEvaluationsStaysSmall) {
  for (uint64_t step = 0; step < 100'000; ++step) {
    Step(step, 5 / (1 + 1e-3 * static_cast<double>(step)) + 0.01 * std::sin(static_cast<double>(step)));
    if (step % 50 == 0) Evaluation(step, 1);
  }
  const std::string html = Html();
  EXPECT_LT(html.size(), 1'000'000u);
  EXPECT_TRUE(Contains(html, "1950 left out"));
  EXPECT_TRUE(Contains(html, "The band goes from"));
  EXPECT_TRUE(Contains(html, "The axis is logarithmic"));
  for (const char* wrong : {"nan", "inf"}) EXPECT_FALSE(Contains(html, wrong)) << wrong;
}

}  // namespace
}  // namespace act
