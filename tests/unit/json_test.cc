// Reports in JSON, which has no NaN and no infinity: such numbers are null.
#include "runtime/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/levels/calibrate.h"
#include "runtime/train/run_report.h"
#include "tests/take.h"
#include "tests/unit/small_plan.h"
#include "tests/unit/test_device.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

using llvm::json::Object;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Fails if the text is no JSON.
Object Parse(const std::string& text) {
  llvm::json::Value value = Take(ParseJson(text));
  EXPECT_TRUE(value.getAsObject()) << text;
  return value.getAsObject() ? std::move(*value.getAsObject()) : Object{};
}

// The names of all members of `object` that are null, those of arrays' objects included.
void AddNulls(const Object& object, std::vector<std::string>& names) {
  for (const auto& [key, value] : object) {
    if (value.getAsNull()) names.push_back(key.str());
    if (const Object* inner = value.getAsObject()) AddNulls(*inner, names);
    const llvm::json::Array* array = value.getAsArray();
    for (size_t i = 0; array && i < array->size(); ++i)
      if (const Object* element = (*array)[i].getAsObject()) AddNulls(*element, names);
  }
}

std::vector<std::string> NullsOf(const std::string& text) {
  std::vector<std::string> names;
  AddNulls(Parse(text), names);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Json, ANumberIsItselfOrNull) {
  EXPECT_EQ(NumberOrNull(.5), llvm::json::Value(.5));
  for (const std::optional<double> none : {std::optional<double>(), {kNaN}, {kInfinity}, {-kInfinity}})
    EXPECT_EQ(NumberOrNull(none), llvm::json::Value(nullptr));
}

TEST(Json, TheReportOfARun) {
  KernelRegistry registry;
  toy::RegisterToyKernels(registry);
  const Plan plan = toy::ToyPlan();
  const auto executor = Take(Executor::Create(plan, Take(LayOut(plan, 3)), TestDevice(), registry, {}));
  TrainResult result;
  result.evaluations = {{.epoch = 1, .loss = kNaN, .accuracy = kNaN},
                        {.epoch = 2, .loss = kInfinity, .accuracy = {}}};
  RunReport report;
  report.executor = executor.get();
  report.result = &result;
  Adaptation adaptation;
  adaptation.variance_before = kInfinity;
  adaptation.variance_after = kNaN;
  report.adaptations = {adaptation};
  EXPECT_EQ(NullsOf(RunReportJson(report)),
            (std::vector<std::string>{"accuracy", "accuracy", "kernels", "loss", "loss", "predicted",
                                      "profile", "sum_of_edges"}));
}

TEST(Json, VariancesAndCalibrations) {
  const Plan plan = testing::SmallPlan();
  GradientVariance variance;
  variance.batch = 2;
  variance.saved_edges = 1;
  variance.gradient_norm = kInfinity;
  variance.edges = {
      {.edge = 0, .estimate = {.variance = kNaN, .variance_error = 0, .bias = 0, .bias_error = 0}}};
  const std::vector<std::string> nulls = NullsOf(GradientVarianceJson(plan, variance, 7));
  for (const char* name : {"gradient_norm", "sum_of_edges", "variance"})
    EXPECT_EQ(std::count(nulls.begin(), nulls.end(), name), 1) << name;

  Calibration calibration;
  calibration.plan = plan;
  calibration.batch = 2;
  calibration.measured = {kNaN};
  calibration.variance_before = kNaN;
  calibration.variance_after = kInfinity;
  calibration.checked_before =
      calibration.checked_after = {.variance = kNaN, .variance_error = kNaN, .bias = 0, .bias_error = 0};
  EXPECT_EQ(NullsOf(CalibrationJson(plan, calibration)),
            (std::vector<std::string>{"predicted", "sum_of_edges", "variance", "variance", "variance_before",
                                      "variance_before_error", "variance_error"}));
}

}  // namespace
}  // namespace act
