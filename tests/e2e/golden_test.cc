// Every golden case by both exporters. At L0 each number is PyTorch's. At the levels that compress,
// the loss falls. At every level the peak that actc printed is the peak that actrun used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "tests/e2e/golden_case.h"

namespace act::e2e {
namespace {

constexpr int kSteps = 5;  // as many as expected.safetensors has losses

Tensor Losses(const llvm::json::Object& report) {
  Tensor losses;
  if (const llvm::json::Array* array = report.getArray("losses")) {
    for (const auto& value : *array) losses.data.push_back(value.getAsNumber().value_or(NAN));
  }
  losses.shape = {static_cast<int64_t>(losses.data.size())};
  return losses;
}

void ExpectPyTorchsNumbers(const GoldenCase& golden, const RunResult& run) {
  const Tensors losses = {{"losses", Losses(run.report)}};
  for (const auto& [name, expected] : golden.expected) {
    const Tensors& place = name == "losses" ? losses : name.starts_with("param.") ? run.end : run.step;
    const Tensor* found = golden.Find(place, name);
    if (!found) {
      ADD_FAILURE() << name << " is missing";
      continue;
    }
    EXPECT_EQ(found->data.size(), expected.data.size()) << name;
    EXPECT_LE(Distance(*found, expected), golden.Tolerance(name))
        << name << ", |" << name << "| is " << Norm(expected);
  }
}

void ExpectLossFalls(const RunResult& run, int steps) {
  const std::vector<double> losses = Losses(run.report).data;
  ASSERT_EQ(losses.size(), static_cast<size_t>(steps));
  for (const double loss : losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
  EXPECT_LT(losses.back(), losses.front());
}

// Where a case runs: on the processor, or on a card: one that the processor plays, or a real one
// (tests/unit/test_card.h).
struct Place {
  const char* name;
  std::vector<std::string> compile, train;  // flags
  int steps = kSteps;                       // at levels with codes
};
void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }
const Place kProcessor = {"cpu", {}, {}};
const bool kIsRealCard = std::getenv("ACT_TEST_CARD") != nullptr;
const Place kCard = {
    "card", {"--target=cuda"}, {kIsRealCard ? "--device=cuda" : "--device=fake"}, kIsRealCard ? kSteps : 2};

using Parameters = std::tuple<GoldenModel, std::string, Place>;  // model, level, place

class Golden : public testing::TestWithParam<Parameters> {};

TEST_P(Golden, AgreesWithPyTorchAndKeepsItsPeak) {
  const auto& [model, level, place] = GetParam();
  llvm::Expected<GoldenCase> golden = LoadGoldenCase(model.name);
  ASSERT_TRUE(static_cast<bool>(golden)) << llvm::toString(golden.takeError());
  const ScratchFolder scratch;
  const std::string plan = scratch / "plan.bin";
  auto compiled = Compile(*golden, model.file, level, plan, scratch, place.compile);
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  const int steps = level == "L0" ? kSteps : place.steps;
  auto run = Train(*golden, plan, steps, /*seed=*/1, scratch, place.train);
  ASSERT_TRUE(static_cast<bool>(run)) << llvm::toString(run.takeError());

  const auto planned = compiled->getInteger("peak_bytes"), used = run->report.getInteger("peak_bytes");
  ASSERT_TRUE(planned && used);
  EXPECT_GT(*planned, 0);
  EXPECT_EQ(*planned, *used);
  EXPECT_GE(*planned, compiled->getInteger("lower_bound_bytes").value_or(INT64_MAX));

  // At the other levels, compressed_gradient_test.cc judges the gradient.
  if (level == "L0") {
    ExpectPyTorchsNumbers(*golden, *run);
  } else {
    ExpectLossFalls(*run, steps);
  }
}

std::string Name(const testing::TestParamInfo<Parameters>& info) {
  std::string name = TestName(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(, Golden,
                         testing::Combine(testing::ValuesIn(GoldenModels()),
                                          testing::Values("L0", "L1", "L2", "L3", "L4", "L5"),
                                          testing::Values(kProcessor)),
                         Name);

// The fake card is slow, so it gets one file of each case at three levels. `make check-long` runs every case there, and
// `make cuda-test` on a real card.
INSTANTIATE_TEST_SUITE_P(OnACard, Golden,
                         testing::Combine(testing::ValuesIn(FirstExports()),
                                          testing::Values("L0", "L3", "L5"), testing::Values(kCard)),
                         Name);
INSTANTIATE_TEST_SUITE_P(Long, Golden,
                         testing::Combine(testing::ValuesIn(GoldenModels()),
                                          testing::Values("L0", "L3", "L4", "L5"), testing::Values(kCard)),
                         Name);

// The cases that have a batch axis, and gpt2.
const GoldenModel kTransformers[] = {
    {"bert", "model.onnx"}, {"vit", "model.onnx"}, {"gpt2", "model_dynamo.onnx"}};

INSTANTIATE_TEST_SUITE_P(Transformers, Golden,
                         testing::Combine(testing::ValuesIn(kTransformers), testing::Values("gact-L1"),
                                          testing::Values(kProcessor)),
                         Name);

// gact-L1 stores what each layer saves in 4 bits. L4 stores the normalizations' results in 5.
TEST(TransformersAtL4, StoreAFifthOfWhatGactStores) {
  for (const auto& [name, file] : kTransformers) {
    llvm::Expected<GoldenCase> golden = LoadGoldenCase(name);
    ASSERT_TRUE(static_cast<bool>(golden)) << llvm::toString(golden.takeError());
    const ScratchFolder scratch;
    int64_t saved[2] = {};
    for (const bool gact : {false, true}) {
      auto compiled = Compile(*golden, file, gact ? "gact-L1" : "L4", scratch / "plan.bin", scratch);
      ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
      saved[gact] = compiled->getInteger("saved_bytes").value_or(0);
    }
    EXPECT_GT(saved[0], 0) << name;
    EXPECT_LE(5 * saved[0], saved[1]) << name;
  }
}

}  // namespace
}  // namespace act::e2e
