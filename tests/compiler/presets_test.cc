// Presets of other systems: each layer stores its own input, as often as it is some layer's input.
#include "compiler/policy/presets.h"

#include <algorithm>
#include <cmath>

#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::FullSizeForms;
using testing_step::Take;

std::vector<std::string> Available() {
  std::vector<std::string> names;
  for (const Preset& preset : AllPresets())
    if (!*preset.refusal) names.push_back(preset.name);
  return names;
}

CompileOptions SmallGroups(const std::string& level) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  return options;
}

// A ReLU whose result two convolutions read, behind a batch normalization; max pooling; cross entropy.
struct Fork {
  ValueId Weight(const std::string& name, const Dims& dims, ValueKind kind = ValueKind::kParameter) {
    const TensorType type{DType::kFloat32, dims};
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = .1f + std::sin(static_cast<float>(3 * i));
    return b.Input(name, type, kind, testing_step::HostFloats(values));
  }
  static Attributes Window(int64_t kernel, int64_t stride) {
    Attributes attrs;
    attrs.Set("kernel_shape", std::vector<int64_t>{kernel, kernel});
    attrs.Set("strides", std::vector<int64_t>{stride, stride});
    attrs.Set("dilations", std::vector<int64_t>{1, 1});
    attrs.Set("pads", std::vector<int64_t>(4, 0));
    return attrs;
  }
  ValueId Conv(const std::string& name, ValueId x) {
    return Take(b.Add1("Conv", {x, Weight(name + ".w", {4, 4, 1, 1})}, Window(1, 1), name));
  }
  Plan Compile(const std::string& level) {
    const ValueId image = b.Input("image", {DType::kFloat32, {Dim::Batch(), 8, 8, 4}}, ValueKind::kInput);
    const ValueId bn =
        Take(b.Add1("BatchNorm",
                    {Conv("first", image), Weight("gamma", {4}), Weight("beta", {4}),
                     Weight("mean", {4}, ValueKind::kBuffer), Weight("var", {4}, ValueKind::kBuffer)},
                    {}, "bn"));
    const ValueId relu = Take(b.Add1("Relu", {bn}, {}, "relu"));
    const ValueId sum = Take(b.Add1("Add", {Conv("left", relu), Conv("right", relu)}, {}, "sum"));
    const ValueId pool = Take(b.Add("MaxPool", {sum}, Window(2, 2), "pool", 2))[0];
    const ValueId flat =
        Take(b.AddTyped("Reshape", {pool}, {DType::kFloat32, {Dim::Batch(), 64}}, {}, "flat"));
    const ValueId label = b.Input("label", {DType::kInt64, {Dim::Batch()}}, ValueKind::kInput);
    Attributes mean;
    mean.Set("reduction", std::string("mean"));
    graph.outputs = {Take(b.Add("SoftmaxCrossEntropy", {flat, label}, mean, "loss", 2))[0]};
    return Take(act::Compile(testing_step::ModelOf(graph), SmallGroups(level)));
  }

  Graph graph;
  GraphBuilder b{graph};
};

TEST(Presets, EachLayerStoresItsOwnInput) {
  using Forms = std::vector<std::string>;
  EXPECT_EQ(FullSizeForms(Fork().Compile("actnn-L3")),
            (Forms{"bn.grad (Normalize): uniform2,g64", "loss (SoftmaxCrossEntropy): keep",
                   "pool (MaxPool): keep", "relu (Relu) for left.grad: uniform2,g64",
                   "relu (Relu): uniform2,g64", "relu.grad (ReluDerivative): mask1"}));
  EXPECT_EQ(FullSizeForms(Fork().Compile("actnn-L1")),
            (Forms{"first (Conv): keep", "loss (SoftmaxCrossEntropy): keep", "pool (MaxPool): keep",
                   "relu (Relu) for left.grad: uniform4,g64", "relu (Relu): uniform4,g64",
                   "relu.grad (ReluDerivative): mask1"}));
  EXPECT_EQ(FullSizeForms(Fork().Compile("gact-L1.2")),
            (Forms{"bn.grad (Normalize): uniform2,g64", "loss (SoftmaxCrossEntropy): uniform2,g64",
                   "pool (MaxPool): keep", "relu (Relu) for left.grad: uniform2,g64",
                   "relu (Relu): uniform2,g64", "relu.grad (ReluDerivative): mask1"}));
}

// One block of 8 x 8 pixels: an average for each channel.
TEST(Presets, DivisionStoresImagesAsAveragesAndWhatIsLeft) {
  EXPECT_EQ(FullSizeForms(Fork().Compile("division")),
            (std::vector<std::string>{"bn.grad.high (Sub): uniform2,g64", "bn.grad.low (AveragePool): bf16",
                                      "loss (SoftmaxCrossEntropy): keep", "pool (MaxPool): keep",
                                      "relu.grad (ReluDerivative): mask1", "relu.high (Sub): uniform2,g64",
                                      "relu.low (AveragePool): bf16"}));
}

TEST(Presets, AttentionStoresItsProbabilitiesForTwoLayers) {
  Graph graph;
  GraphBuilder b(graph);
  const Dims heads{Dim::Batch(), 2, 16, 16};
  std::vector<float> square(256);
  for (size_t i = 0; i < square.size(); ++i) square[i] = std::sin(static_cast<float>(i));
  const auto project = [&](const std::string& name) {
    const ValueId w = b.Input(name + ".w", {DType::kFloat32, {16, 16}}, ValueKind::kParameter,
                              testing_step::HostFloats(square));
    return Take(b.Add1("MatMul", {graph.inputs.empty() ? kNoValue : graph.inputs[0], w}, {}, name));
  };
  b.Input("x", {DType::kFloat32, heads}, ValueKind::kInput);
  Attributes transposed, all;
  transposed.Set("trans_b", int64_t{1});
  all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
  all.Set("keepdims", int64_t{0});
  const ValueId score = Take(b.Add1("MatMul", {project("q"), project("k")}, transposed, "score"));
  const ValueId softmax = Take(b.Add1("Softmax", {score}, {}, "softmax"));
  const ValueId out = Take(b.Add1("MatMul", {softmax, project("v")}, {}, "out"));
  graph.outputs = {Take(b.Add1("ReduceMean", {out}, all, "loss"))};

  const std::vector<std::string> ours =
      FullSizeForms(Take(Compile(testing_step::ModelOf(graph), SmallGroups("L2"))));
  EXPECT_EQ(ours.size(), 3u) << "q, k and v";
  EXPECT_EQ(FullSizeForms(Take(Compile(testing_step::ModelOf(graph), SmallGroups("gact-L1")))),
            (std::vector<std::string>{"k (MatMul): uniform4,g64", "q (MatMul): uniform4,g64",
                                      "softmax (Softmax) for softmax.grad: uniform4,g64",
                                      "softmax (Softmax): uniform4,g64", "v (MatMul): uniform4,g64"}));
}

TEST(Presets, RunInTheirPlannedMemory) {
  constexpr int64_t kBatch = 5;
  for (const std::string& preset : Available()) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(preset + ", seed " + std::to_string(seed));
      Network network(seed);
      const Plan plan = Take(Compile(network.Build(), SmallGroups(preset)));
      const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                      network.Inputs(plan.train.graph, kBatch),
                                                      {.batch = kBatch, .check_memory = true}));
      for (const auto& output : outputs)
        for (const float v : output) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST(Presets, ThatThisVersionCannotExpressAreRefusedWithTheReason) {
  for (const Preset& preset : AllPresets()) {
    auto policy = MakePolicy(preset.name, 0, kDefaultGroupSize);
    EXPECT_EQ(static_cast<bool>(policy), !*preset.refusal) << preset.name;
    if (policy) continue;
    const std::string error = llvm::toString(policy.takeError());
    EXPECT_NE(error.find(preset.refusal), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace act
