// Engines of cuDNN that are written for a plan and loaded from it, on cards that are only described.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "tests/paths.h"
#include "tests/take.h"
#include "tests/unit/card_compiler.h"
#include "tests/unit/temporary_folder.h"

namespace act::cuda {
namespace {

constexpr int64_t kLimit = 64 << 20;
constexpr ConvolutionDirection kDirections[] = {ConvolutionDirection::kForward,
                                                ConvolutionDirection::kInputGradient,
                                                ConvolutionDirection::kWeightGradient};
constexpr FloatMath kMaths[] = {FloatMath::kStrict, FloatMath::kTf32};

// `kernel` by `kernel` windows that keep the size.
ConvolutionProblem Problem(int64_t kernel, int64_t channels, ConvolutionDirection direction, FloatMath math) {
  ConvolutionProblem p;
  p.direction = direction;
  p.x = p.y = {32, 28, 28, channels};
  p.w = {channels, kernel, kernel, channels};
  p.strides = p.dilations = {1, 1};
  p.pads_begin = p.pads_end = {kernel / 2, kernel / 2};
  p.math = math;
  return p;
}

// "34 k24=17 k6=2".
std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::unique_ptr<LibraryCall> LoadText(Toolkit& toolkit, const ConvolutionProblem& problem, int64_t limit,
                                      const std::string& text, std::string* why) {
  return toolkit.convolutions().Load(problem, limit, std::as_bytes(std::span(text)), why);
}

class NvidiaEngines : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HasNvidia()) GTEST_SKIP() << "libact_cuda.so was not built: no CUDA toolkit";
  }
  static std::unique_ptr<Toolkit> Card(const std::string& name) { return Take(LoadCard(name)); }
};

TEST_F(NvidiaEngines, WhatIsLoadedIsWhatWasChosen) {
  for (const char* card : {"h200", "a100", "b200", "l4"}) {
    const auto chooses = Card(card), loads = Card(card);
    for (const FloatMath math : kMaths)
      for (const ConvolutionDirection direction : kDirections)
        for (const int64_t kernel : {1, 3, 5}) {
          const ConvolutionProblem problem = Problem(kernel, 48, direction, math);
          std::string why;
          const auto chosen = chooses->convolutions().Choose(problem, kLimit, &why);
          ASSERT_TRUE(chosen) << why;
          const std::vector<std::byte> bytes = chosen->Serialize();
          ASSERT_FALSE(bytes.empty());
          const auto loaded = loads->convolutions().Load(problem, kLimit, bytes, &why);
          ASSERT_TRUE(loaded) << card << ": " << why;
          EXPECT_EQ(loaded->engine(), chosen->engine());
          EXPECT_EQ(loaded->workspace_bytes(), chosen->workspace_bytes());
          EXPECT_EQ(TextOf(loaded->Serialize()), TextOf(bytes));
        }
  }
}

TEST_F(NvidiaEngines, TheKeyIsTheVersionAndTheKindOfCard) {
  const std::string h200 = Card("h200")->convolutions().Key();
  EXPECT_TRUE(std::regex_match(
      h200, std::regex(R"(cuDNN 9\.\d+\.\d+ on compute capability 9\.0 with 132 multiprocessors)")))
      << h200;
  EXPECT_EQ(Card("h100")->convolutions().Key(), h200);
  EXPECT_NE(Card("a100")->convolutions().Key(), h200);
}

// A card's clocks, memory and driver are not those of the description by which its plans were made.
TEST_F(NvidiaEngines, ACardOfTheSameKindLoadsThem) {
  const testing::TemporaryFolder folder;
  std::ifstream file(SourceFolder() + "/kernels/nvidia/cards/h200.json");
  std::string json((std::istreambuf_iterator<char>(file)), {});
  for (const auto& [name, value] :
       {std::pair("smClockRateKHz", "1500000"), std::pair("driverVer", "13010"),
        std::pair("totalGlobalMem", "150000000000"), std::pair("deviceName", "\"NVIDIA H200 NVL\"")})
    json = std::regex_replace(json, std::regex(std::string("(\"") + name + "\": )[^,\n]*"),
                              std::string("$01") + value);
  std::ofstream(folder / "card.json") << json;
  const auto h200 = Card("h200"), other = Card(folder / "card.json");
  ASSERT_EQ(other->driver().card().name, "NVIDIA H200 NVL");
  ASSERT_EQ(other->driver().card().driver_version, 13010);
  EXPECT_EQ(other->convolutions().Key(), h200->convolutions().Key());
  for (const ConvolutionDirection direction : kDirections) {
    const ConvolutionProblem problem = Problem(3, 48, direction, FloatMath::kTf32);
    std::string why;
    const auto chosen = h200->convolutions().Choose(problem, kLimit, &why);
    ASSERT_TRUE(chosen) << why;
    const auto loaded = other->convolutions().Load(problem, kLimit, chosen->Serialize(), &why);
    ASSERT_TRUE(loaded) << why;
    EXPECT_EQ(loaded->engine(), chosen->engine());
    EXPECT_EQ(loaded->workspace_bytes(), chosen->workspace_bytes());
  }
}

TEST_F(NvidiaEngines, RefusesWhatItWouldNotChoose) {
  std::string why;
  const ConvolutionProblem tf32 = Problem(3, 256, ConvolutionDirection::kForward, FloatMath::kTf32);
  const auto with_tensor_cores = Card("h200")->convolutions().Choose(tf32, kLimit, &why);
  ASSERT_TRUE(with_tensor_cores) << why;
  ASSERT_NE(with_tensor_cores->engine().find("tensor cores"), std::string::npos);
  const std::string text = TextOf(with_tensor_cores->Serialize());
  ConvolutionProblem strict = tf32;
  strict.math = FloatMath::kStrict;
  const auto toolkit = Card("h200");
  EXPECT_FALSE(LoadText(*toolkit, strict, kLimit, text, &why));
  EXPECT_EQ(why, "it computes otherwise");
  // A tighter bound than that under which it was chosen.
  EXPECT_FALSE(LoadText(*toolkit, tf32, with_tensor_cores->workspace_bytes() - 1, text, &why));
  EXPECT_EQ(why, "it needs " + std::to_string(with_tensor_cores->workspace_bytes()) + " bytes of workspace");
}

TEST_F(NvidiaEngines, DamagedTextIsRefusedWithAReason) {
  const ConvolutionProblem problem = Problem(3, 48, ConvolutionDirection::kForward, FloatMath::kTf32);
  std::string why;
  const auto chosen = Card("h200")->convolutions().Choose(problem, kLimit, &why);
  ASSERT_TRUE(chosen) << why;
  const std::string good = TextOf(chosen->Serialize());
  ASSERT_GT(good.size(), 8u) << good;
  std::vector<std::string> bad = {"",
                                  "damaged",
                                  "-1",
                                  "9999999",
                                  "99999999999999999999",
                                  good + " ",
                                  good + "x",
                                  good + " k1",
                                  good + " k-1=1",
                                  good + " k9999=1",
                                  good + " k2=999999"};
  for (size_t size = good.find(' ') + 1; size < good.size(); ++size)
    if (good[size - 1] == '=' || good[size] == '=') bad.push_back(good.substr(0, size));
  for (const std::string& text : bad) {
    const auto toolkit = Card("h200");
    EXPECT_FALSE(LoadText(*toolkit, problem, kLimit, text, &why)) << text.substr(0, 200);
    EXPECT_NE(why, "");
  }
}

}  // namespace
}  // namespace act::cuda
