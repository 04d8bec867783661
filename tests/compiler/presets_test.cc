// Presets of other systems: each layer stores its own input, once for each layer that reads it.
#include "compiler/policy/presets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::FullSizeForms;
using testing_step::Take;

CompileOptions SmallGroups(const std::string& level) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.group_size = 64;
  return options;
}

// A ReLU after a batch normalization, whose result two convolutions read; then max pooling
// and cross entropy.
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

// The image is one block of 8 x 8 pixels, so there is one average for each channel.
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

TEST(Presets, AcgcTakesMoreBitsForConvolutionsThanForBatchNorm) {
  // A channel has 64 elements. 2 ln 64 = 8.3 is the squared range of normal numbers, twice that of
  // a ReLU's. log2(2 * 64 * 16.6) / 2 = 5.5 and log2(8.3^3 / 4) / 2 = 3.6.
  EXPECT_EQ(
      FullSizeForms(Fork().Compile("acgc")),
      (std::vector<std::string>{"bn.grad (Normalize): uniform3,g64,nearest",
                                "loss (SoftmaxCrossEntropy): keep", "pool (MaxPool): keep",
                                "relu (Relu): uniform5,g64,nearest", "relu.grad (ReluDerivative): mask1"}));
}

// The program's own log of ResNet-50 on 32 x 32 images at batch 128: 9.9 bits for what convolutions
// read and 5.9 for what batch normalizations read, over layers of 32 x 32 to 4 x 4 pixels.
TEST(Presets, AcgcsBitsAreNearThoseOfItsPublishedRun) {
  Policy policy = Take(MakePolicy("acgc", 0, kDefaultGroupSize));
  policy.batch = 128;
  double convolution = 0, normalization = 0, elements = 0;
  // The elements that the blocks of a stage store, given its side and width.
  for (const auto& [side, channels, blocks] :
       {std::tuple{32, 256, 3}, std::tuple{16, 512, 4}, std::tuple{8, 1024, 6}}) {
    EdgeFacts facts;
    facts.type = {DType::kFloat32, {Dim::Batch(), side, side, channels}};
    const double weight = static_cast<double>(side) * side * channels * blocks;
    facts.normalized = true;
    normalization += weight * policy.BitsOf(facts);
    facts.normalized = false;
    facts.often_zero = true;
    convolution += weight * policy.BitsOf(facts);
    EXPECT_EQ(policy.CodecOf(facts), policy.BitsOf(facts) > 8
                                         ? Codec::Cast(kFloat16)
                                         : Codec::Uniform(policy.BitsOf(facts), 256, Rounding::kNearest));
    elements += weight;
  }
  EXPECT_NEAR(convolution / elements, 9.9, 1.2);
  EXPECT_NEAR(normalization / elements, 5.9, 1.2);
}

TEST(Presets, BlpaStoresOneCodeForThreeReaders) {
  EXPECT_EQ(FullSizeForms(Fork().Compile("blpa")),
            (std::vector<std::string>{"bn (Cast): fixed4", "loss (SoftmaxCrossEntropy): keep",
                                      "pool (MaxPool): keep"}));
}

// The codes of the program that its authors published, recomputed in double. The gradients of a
// convolution after BatchNorm and ReLU, and of gamma and beta, are those of the decoded numbers.
TEST(Presets, BlpasGradientsAreThoseOfItsFormula) {
  constexpr int64_t kBatch = 4, kPixels = 64, kChannels = 6, kOut = 3;
  const std::vector<float> gamma{1, .5f, 2, .01f, -1, -.3f}, beta{0, .4f, -1, .005f, .3f, -.2f};
  for (const int bits : {4, 8}) {
    Graph graph;
    GraphBuilder b(graph);
    const auto channels = [&](const std::string& name, const std::vector<float>& values,
                              ValueKind kind = ValueKind::kParameter) {
      return b.Input(name, {DType::kFloat32, {kChannels}}, kind, testing_step::HostFloats(values));
    };
    const ValueId image =
        b.Input("image", {DType::kFloat32, {Dim::Batch(), 8, 8, kChannels}}, ValueKind::kInput);
    const ValueId bn = Take(b.Add1("BatchNorm",
                                   {image, channels("gamma", gamma), channels("beta", beta),
                                    channels("mean", std::vector<float>(kChannels, 0), ValueKind::kBuffer),
                                    channels("var", std::vector<float>(kChannels, 1), ValueKind::kBuffer)},
                                   {}, "bn"));
    const ValueId relu = Take(b.Add1("Relu", {bn}, {}, "relu"));
    std::vector<float> weights(kOut * kChannels);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<float>(i));
    const ValueId w = b.Input("w", {DType::kFloat32, {kOut, kChannels, 1, 1}}, ValueKind::kParameter,
                              testing_step::HostFloats(weights));
    const ValueId conv = Take(b.Add1("Conv", {relu, w}, Fork::Window(1, 1), "conv"));
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
    all.Set("keepdims", int64_t{0});
    graph.outputs = {Take(b.Add1("ReduceMean", {conv}, all, "loss"))};
    CompileOptions options = SmallGroups("blpa");
    options.bits = bits;
    const Plan plan = Take(Compile(testing_step::ModelOf(graph), options));
    std::vector<float> x(kBatch * kPixels * kChannels);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 977)) * 3;
    const auto outputs =
        Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {{"image", testing_step::BytesOf(x)}},
                                   {.batch = kBatch, .check_memory = true}));

    const double bins = 1 << bits, n = kBatch * kPixels;
    std::map<std::string, std::vector<double>> expected{{"gamma", std::vector<double>(kChannels)},
                                                        {"beta", std::vector<double>(kChannels)},
                                                        {"w", std::vector<double>(kOut * kChannels)}};
    for (size_t c = 0; c < kChannels; ++c) {
      double mean = 0, var = 0, dr = 0;
      for (size_t i = c; i < x.size(); i += kChannels) mean += static_cast<double>(x[i]) / n;
      for (size_t i = c; i < x.size(); i += kChannels)
        var += std::pow(static_cast<double>(x[i]) - mean, 2) / n;
      for (size_t o = 0; o < kOut; ++o) dr += static_cast<double>(weights[o * kChannels + c]) / (n * kOut);
      const double g = std::fabs(static_cast<double>(gamma[c])), bias = static_cast<double>(beta[c]) / g,
                   sign = gamma[c] < 0 ? -1 : 1;
      const double shift = std::max(1., std::floor(bins / 2) - std::floor(bias * bins / 6));
      for (size_t i = c; i < x.size(); i += kChannels) {
        const double xhat = (static_cast<double>(x[i]) - mean) / std::sqrt(var + 1e-5);
        const double act = sign * xhat + bias;
        const double code = std::clamp(std::floor((act - 1e-6) * bins / 6) + shift, 0., bins - 1);
        const double decoded = (code + .5 - shift) * 6 / bins;
        const bool passes = code >= shift;
        expected["beta"][c] += passes * dr;
        expected["gamma"][c] += passes * dr * sign * (decoded - bias);
        for (size_t o = 0; o < kOut; ++o)
          expected["w"][o * kChannels + c] += std::max(decoded * g, 0.) / (n * kOut);
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string output = plan.train.graph.value(plan.train.graph.outputs[i]).name;
      const auto it = expected.find(output.starts_with("grad.") ? output.substr(5) : "");
      if (it == expected.end()) continue;
      // Another rounding of xhat may move an element next to a boundary by one level. Each such
      // element adds a 256th of the sum.
      for (size_t k = 0; k < it->second.size(); ++k)
        EXPECT_NEAR(outputs[i][k], it->second[k], 2e-3 * (std::fabs(it->second[k]) + .01))
            << bits << " bits, " << output << "[" << k << "]";
      it->second.clear();
    }
    for (const auto& [name, left] : expected) EXPECT_TRUE(left.empty()) << "no gradient of " << name;
  }
}

TEST(Presets, RefuseBitsThatTheyDoNotHave) {
  for (const auto& [preset, bits] : {std::pair{"acgc", 4.}, std::pair{"blpa", 3.5}, std::pair{"blpa", 9.}}) {
    auto policy = MakePolicy(preset, bits, kDefaultGroupSize);
    ASSERT_FALSE(static_cast<bool>(policy)) << preset;
    EXPECT_NE(testing_step::Text(policy.takeError()).find("--bits"), std::string::npos);
  }
}

TEST(Presets, RunInTheirPlannedMemory) {
  constexpr int64_t kBatch = 5;
  for (const Preset& preset : AllPresets()) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(std::string(preset.name) + ", seed " + std::to_string(seed));
      Network network(seed);
      const Plan plan = Take(Compile(network.Build(), SmallGroups(preset.name)));
      const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                      network.Inputs(plan.train.graph, kBatch),
                                                      {.batch = kBatch, .check_memory = true}));
      for (const auto& output : outputs)
        for (const float v : output) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST(Presets, AllHavePoliciesAndTheirNamesAreTold) {
  for (const Preset& preset : AllPresets()) Take(MakePolicy(preset.name, 0, kDefaultGroupSize));
  auto policy = MakePolicy("actnn-L6", 0, kDefaultGroupSize);
  ASSERT_FALSE(static_cast<bool>(policy));
  const std::string error = testing_step::Text(policy.takeError());
  for (const Preset& preset : AllPresets()) EXPECT_NE(error.find(preset.name), std::string::npos) << error;
}

}  // namespace
}  // namespace act
