// --frozen-weights: a step with coded weights is the step whose weights have the codes' values.
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "kernels/math/rounding.h"
#include "kernels/reference/codec.h"
#include "runtime/codec/encode_numbers.h"
#include "runtime/plan/plan_check.h"
#include "tests/compiler/small_model.h"

namespace act {
namespace {

using small_model::Attrs;
using testing_step::HostFloats;

constexpr int64_t kBatch = 3;
const Codec k8Bit = Codec::Uniform(8, 256, Rounding::kNearest),
            k4Bit = Codec::Uniform(4, 64, Rounding::kNearest), kBf16 = Codec::Cast(kBFloat16);

std::vector<float> Numbers(int64_t count, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x)
    v = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-24f * .3f - .15f;
  return x;
}

// What the code makes of the numbers. Nothing: the numbers.
std::vector<float> Stored(std::vector<float> x, const std::optional<Codec>& codec) {
  if (!codec) return x;
  const auto count = static_cast<int64_t>(x.size());
  std::vector<uint8_t> code(static_cast<size_t>(LayoutOf(*codec, count).sample_bytes));
  EncodeNumbers(*codec, reinterpret_cast<const std::byte*>(x.data()), count,
                std::as_writable_bytes(std::span(code)));
  DecodeSampleReference(*codec, {}, 0, count, code.data(), x.data());
  return x;
}

// tokens -> rows of a frozen table -> a trained product -> frozen products, one of whose weights is the shape of a
// vector -> a trained product. The frozen weights have the values that `weights` stores, and the table those of 8
// bits at least. With norms, not only a product reads a weight: the norms of its columns scale the product's result.
struct Network {
  explicit Network(const std::optional<Codec>& weights = std::nullopt, bool with_norms = false) : b(graph) {
    const ValueId tokens = b.Input("tokens", {DType::kInt64, {Dim(0, 5), 1}}, ValueKind::kInput);
    const ValueId table = Parameter("table", {70, 64}, 1, weights == k4Bit ? k8Bit : weights);
    ValueId x = Take(b.AddTyped("Gather", {table, tokens}, {DType::kFloat32, {Dim(0, 5), 64}},
                                Attrs({{"axis", int64_t{0}}})));
    x = Product(x, trained.emplace_back(Parameter("first", {64, 64}, 2, std::nullopt)));
    x = Take(b.Add1("Relu", {x}));
    const ValueId wide = Parameter("wide", {64, 128}, 3, weights);
    x = Product(x, wide);
    if (with_norms) {
      const ValueId squares = Take(b.Add1("Mul", {wide, wide}));
      const ValueId norms = Take(b.Add1(
          "ReduceMean", {squares}, Attrs({{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}})));
      x = Take(b.Add1("Mul", {x, norms}));
    }
    const ValueId flat = Parameter("flat", {128 * 64}, 4, weights);
    x = Take(b.Add1("Relu", {x}));
    x = Product(x, Take(b.AddTyped("Reshape", {flat}, {DType::kFloat32, {128, 64}})));
    x = Product(x, Parameter("small", {64, 8}, 5, std::nullopt));
    x = Product(x, trained.emplace_back(Parameter("last", {8, 16}, 6, std::nullopt)));
    const ValueId square = Take(b.Add1("Mul", {x, x}));
    graph.outputs = {
        Take(b.Add1("ReduceMean", {square},
                    Attrs({{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}}), "loss"))};
  }
  ValueId Parameter(const std::string& name, const Dims& dims, uint32_t seed,
                    const std::optional<Codec>& stored) {
    const TensorType type{DType::kFloat32, dims};
    return b.Input(name, type, ValueKind::kParameter,
                   HostFloats(Stored(Numbers(type.Elements().fixed, seed), stored)));
  }
  ValueId Product(ValueId x, ValueId w) { return Take(b.Add1("MatMul", {x, w})); }

  Plan Compiled(CompileOptions options, const std::optional<Codec>& weights) {
    ImportResult model = testing_step::ModelOf(std::move(graph));
    model.trainable = trained;
    options.frozen_weights = weights;
    return Take(Compile(std::move(model), options));
  }

  Graph graph;
  GraphBuilder b;
  std::vector<ValueId> trained;
};

std::vector<std::vector<float>> StepOf(const Plan& plan) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 5 * kBatch; ++i) tokens.push_back(i * 13 % 70);
  return Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                    {{"tokens", testing_step::BytesOf(tokens)}},
                                    {.batch = kBatch, .check_memory = true}));
}

CompileOptions Options(const std::string& level, Compute compute) {
  CompileOptions options = testing_step::Checked(level, "none");
  options.compute = compute;
  options.round_products = false;
  return options;
}

std::vector<std::string> CodedNames(const StepGraph& step) {
  std::vector<std::string> names;
  for (const Value& value : step.graph.values)
    if (value.coded) names.push_back(value.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(CodeFrozen, AStepWithCodesIsTheStepOfTheirValues) {
  for (const Compute compute : {Compute::kFloat32, Compute::kBFloat16})
    for (const char* level : {"L0", "L3", "L4"})
      for (const Codec& codec : {k8Bit, k4Bit, kBf16})
        for (const bool with_norms : {false, true}) {
          const CompileOptions options = Options(level, compute);
          const auto expected = StepOf(Network(codec, with_norms).Compiled(options, std::nullopt));
          const Plan plan = Network(std::nullopt, with_norms).Compiled(options, codec);
          EXPECT_EQ(CodedNames(plan.train).size(), 3U);
          EXPECT_EQ(StepOf(plan), expected)
              << level << " " << ToString(compute) << " " << ToString(codec) << " " << with_norms;
        }
}

// The same for convolutions, whose kernels take weights in float32 alone.
TEST(CodeFrozen, ConvolutionsMultiplyTheValuesOfCodes) {
  const auto outputs = [](const CompileOptions& options, const std::optional<Codec>& stored,
                          const std::optional<Codec>& codec) {
    small_model::Model m(Dims{Dim(0, 1), 3, 3, 16});
    const ValueId w = m.b.Input("w", {DType::kFloat32, {256, 16, 1, 1}}, ValueKind::kParameter,
                                HostFloats(Stored(Numbers(4096, 9), stored)));
    const std::vector<int64_t> ones = {1, 1}, zeros = {0, 0, 0, 0};
    const ValueId y = Take(
        m.b.Add1("Conv", {m.x, w}, Attrs({{"strides", ones}, {"dilations", ones}, {"pads", zeros}}), "conv"));
    ImportResult model = m.Finish(Take(m.b.Add1("Mul", {y, y})));
    std::erase(model.trainable, w);
    CompileOptions with = options;
    with.frozen_weights = codec;
    const Plan plan = Take(Compile(std::move(model), with));
    EXPECT_EQ(CodedNames(plan.train).size(), codec ? 1U : 0U);
    std::vector<float> image(kBatch * 9 * 16);
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 23) / 8 - 1;
    return Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                      {{"image", testing_step::BytesOf(image)}},
                                      {.batch = kBatch, .check_memory = true}));
  };
  for (const Compute compute : {Compute::kFloat32, Compute::kBFloat16})
    for (const char* level : {"L0", "L3"})
      for (const Codec& codec : {k8Bit, k4Bit, kBf16}) {
        const CompileOptions options = Options(level, compute);
        EXPECT_EQ(outputs(options, std::nullopt, codec), outputs(options, codec, std::nullopt))
            << level << " " << ToString(compute) << " " << ToString(codec);
      }
}

// How often each parameter is decoded in each phase.
std::map<std::string, int> Decodes(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const Node& node : plan.train.graph.nodes)
    if (node.name.ends_with(".decode"))
      counts[node.name + (node.phase == Phase::kForward ? ", forward" : "")] += 1;
  return counts;
}

// Products round float32 weights to bfloat16, so they may as well lie in memory so.
TEST(CodeFrozen, ABfloat16StepReadsWeightsInBfloat16AsTheyAre) {
  const CompileOptions options = Options("L3", Compute::kBFloat16);
  std::vector<std::vector<float>> outputs[2];
  for (const bool coded : {false, true}) {
    Network network;  // its table is exact in bfloat16
    const std::vector<float> exact = Stored(Numbers(70 * 64, 1), kBf16);
    network.graph.value(1).data = HostFloats(exact);
    const Plan plan = network.Compiled(options, coded ? std::optional(kBf16) : std::nullopt);
    EXPECT_EQ(CodedNames(plan.train).size(), coded ? 3U : 0U);
    EXPECT_EQ(Decodes(plan).count("wide.decode, forward"), 0U);
    outputs[coded] = StepOf(plan);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

TEST(CodeFrozen, CodesLargeWeightsOfProductsAndTables) {
  const Plan plan = Network().Compiled(Options("L0", Compute::kFloat32), k4Bit);
  const std::vector<std::string> coded = {"flat", "table", "wide"};
  EXPECT_EQ(CodedNames(plan.train), coded);
  EXPECT_EQ(CodedNames(plan.eval), coded);
  EXPECT_EQ(llvm::toString(CheckPlan(plan)), "");
  for (const Value& value : plan.train.graph.values) {
    if (value.name == "table") {
      EXPECT_EQ(value.type, CodeType(k8Bit, {70, 64}));
    }
    if (value.name != "wide") continue;
    EXPECT_EQ(value.type, CodeType(k4Bit, {64, 128}));
    EXPECT_EQ(value.data.bytes, 64 * 128 * 4) << "the plan has the numbers";
  }
}

// So no decoded weight waits for the backward pass.
TEST(CodeFrozen, ProductsFarFromEachOtherHaveCopiesOfTheirOwn) {
  for (const char* level : {"L0", "L3"}) {
    std::map<std::string, int> counts = Decodes(Network().Compiled(Options(level, Compute::kFloat32), k8Bit));
    std::erase_if(counts, [](const auto& entry) {
      return !entry.first.starts_with("flat") && !entry.first.starts_with("wide");
    });
    EXPECT_EQ(counts, (std::map<std::string, int>{{"flat.decode, forward", 1},
                                                  {"flat.decode", 1},
                                                  {"wide.decode, forward", 1},
                                                  {"wide.decode", 1}}))
        << level;
  }
}

// A loop over samples may hold the last layer's product, the loss and the gradient's product.
TEST(CodeFrozen, ProductsOfTheLastLayerShareACopyWhereSamplesRunInTiles) {
  for (const auto& [level, backward] : std::map<std::string, int>{{"L0", 1}, {"L3", 0}}) {
    small_model::Model m(Dims{Dim(0, 1), 16});
    const ValueId head = m.Parameter("head", {16, 512});
    ImportResult model = m.Finish(Take(m.b.Add1("MatMul", {m.x, head})));
    std::erase(model.trainable, head);
    CompileOptions options = Options(level, Compute::kFloat32);
    options.frozen_weights = k8Bit;
    const std::map<std::string, int> counts = Decodes(Take(Compile(std::move(model), options)));
    EXPECT_EQ(counts.at("head.decode, forward"), 1) << level;
    EXPECT_EQ(counts.count("head.decode"), static_cast<size_t>(backward)) << level;
  }
}

// Large weights have no decoded copy, where the kernel can decode.
TEST(CodeFrozen, ProductsOfLargeWeightsDecodeThemselves) {
  const auto decodes = [](const Dims& image, const Dims& weight, bool has_bias, int64_t group) {
    small_model::Model m(image);
    std::vector<ValueId> operands = {m.x, m.Parameter("large", weight)};
    const bool convolution = weight.size() > 2;
    if (has_bias) operands.push_back(m.Parameter("bias", {weight[convolution ? 0 : 1]}));
    const int64_t pad = convolution ? weight[2].fixed / 2 : 0;
    const Attributes window = Attrs({{"strides", std::vector<int64_t>{1, 1}},
                                     {"dilations", std::vector<int64_t>{1, 1}},
                                     {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                                     {"group", group}});
    ImportResult model = m.Finish(
        Take(m.b.Add1(convolution ? "Conv" : "MatMul", operands, convolution ? window : Attributes())));
    std::erase(model.trainable, operands[1]);
    CompileOptions options = Options("L3", Compute::kBFloat16);
    options.frozen_weights = k4Bit;
    const Plan plan = Take(Compile(std::move(model), options));
    EXPECT_EQ(CodedNames(plan.train), std::vector<std::string>{"large"});
    EXPECT_EQ(llvm::toString(CheckPlan(plan)), "");
    return !Decodes(plan).empty();
  };
  const Dims rows = {Dim(0, 1), 16}, image = {Dim(0, 1), 3, 3, 16};
  EXPECT_FALSE(decodes(rows, {16, 1 << 19}, false, 1));
  EXPECT_TRUE(decodes(rows, {16, 1 << 18}, false, 1)) << "its copy is no larger than the pieces";
  EXPECT_TRUE(decodes(rows, {16, 1 << 19}, true, 1)) << "a bias is added before the result is rounded";
  EXPECT_FALSE(decodes(image, {16384, 16, 3, 3}, false, 1));
  EXPECT_FALSE(decodes(image, {16384, 16, 3, 3}, true, 1));
  EXPECT_TRUE(decodes(image, {4096, 16, 3, 3}, false, 1)) << "small";
  EXPECT_TRUE(decodes(image, {32768, 8, 3, 3}, false, 2)) << "grouped";
  EXPECT_TRUE(decodes(image, {131072, 16, 1, 1}, false, 1)) << "one tap: a product of pixels";
}

TEST(CodeFrozen, SaysIfThereIsNothingToCode) {
  Network network;
  ImportResult model = testing_step::ModelOf(std::move(network.graph));
  CompileOptions options = Options("L0", Compute::kFloat32);
  options.frozen_weights = k8Bit;
  EXPECT_EQ(llvm::toString(Compile(std::move(model), options).takeError()),
            "--frozen-weights: there are none: no large weight of a product, and no table, is frozen\n"
            "hint: --freeze=GLOB names those that do not train");
}

}  // namespace
}  // namespace act
