// Models of many equal nodes. Each pass makes a number of nodes that grows with the model and not with its square, and
// none fails, takes a time that grows exponentially, or calls itself as often as a chain is long.
#include <algorithm>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::OnnxModel;
using testing::TemporaryFolder;
using testing_step::Take;

// Enough elements that a code, or making a value again, is worth it.
constexpr int64_t kWidth = 256;

struct LongModel {
  const char* name;
  int nodes;
  // Adds a node, or some, that reads x. Returns the result.
  std::string (*add)(OnnxModel& model, const std::string& x, const std::string& name);
};

std::string Relu(OnnxModel& model, const std::string& x, const std::string& name) {
  model.Node("Relu", {x}, {name});
  return name;
}
std::string Scale(OnnxModel& model, const std::string& x, const std::string& name) {
  model.Weight(name + ".w", {kWidth}).Node("Mul", {x, name + ".w"}, {name});
  return name;
}
std::string Shift(OnnxModel& model, const std::string& x, const std::string& name) {
  model.Weight(name + ".w", {kWidth}).Node("Add", {x, name + ".w"}, {name});
  return name;
}
std::string Branch(OnnxModel& model, const std::string& x, const std::string& name) {
  model.Weight(name + ".w", {kWidth, kWidth}).Node("MatMul", {"first", name + ".w"}, {name + ".y"});
  model.Node("Add", {x, name + ".y"}, {name});
  return name;
}

// The names say what went wrong with each.
const LongModel kModels[] = {
    {"MasksOfAChain", 400, Relu},
    {"RebuiltFromTheStart", 400, Scale},
    {"DeepAsTheStack", 10'000, Shift},
    {"SumOfBranches", 60, Branch},
};

class LongModels : public ::testing::TestWithParam<std::tuple<LongModel, const char*>> {};

TEST_P(LongModels, GrowNoFasterThanTheirNodes) {
  const auto& [model, level] = GetParam();
  OnnxModel onnx;
  onnx.Input("image", {"N", kWidth});
  std::string x = Shift(onnx, "image", "first");
  for (int i = 0; i < model.nodes; ++i) x = model.add(onnx, x, "n" + std::to_string(i));
  onnx.Weight("head", {kWidth, 4}).Node("MatMul", {x, "head"}, {"logits"}).MeanLoss("logits");
  const TemporaryFolder folder;
  std::vector<PassTime> passes;
  CompileOptions options;
  options.level = level;
  options.batch = 16;
  const Plan plan = Take(Compile(Take(ImportOnnx(onnx.Write(folder), {})), options, &passes));
  const auto most = std::max_element(passes.begin(), passes.end(),
                                     [](const auto& a, const auto& b) { return a.nodes < b.nodes; });
  // A chain of up to 32 nodes is made again for one reader.
  constexpr size_t kPerNode = 60;
  EXPECT_LE(most->nodes, kPerNode * static_cast<size_t>(model.nodes)) << most->pass;
}

INSTANTIATE_TEST_SUITE_P(All, LongModels,
                         ::testing::Combine(::testing::ValuesIn(kModels), ::testing::Values("L3", "L5")),
                         [](const auto& test_info) {
                           return std::string(std::get<0>(test_info.param).name) +
                                  std::get<1>(test_info.param);
                         });

}  // namespace
}  // namespace act
