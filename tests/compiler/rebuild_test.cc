// rebuild-saved: a value that the backward pass recomputes from stored values is the value that it
// would have read.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/onnx_model.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using small_networks::Network;
using testing_step::FullSizeForms;
using testing_step::Take;

Attributes Window(int64_t kernel) {
  Attributes attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{kernel, kernel});
  attrs.Set("strides", std::vector<int64_t>{1, 1});
  attrs.Set("dilations", std::vector<int64_t>{1, 1});
  attrs.Set("pads", std::vector<int64_t>(4, 0));
  return attrs;
}

// 1x1 convolutions, batch normalizations and ReLUs, with 64 elements per sample and channel.
struct Chain {
  Chain() : b(graph) { x = b.Input("image", {DType::kFloat32, {Dim::Batch(), 8, 8, 4}}, ValueKind::kInput); }
  ValueId Vector(const std::string& name, float value, ValueKind kind) {
    return b.Input(name, {DType::kFloat32, {4}}, kind,
                   testing_step::HostFloats(std::vector<float>(4, value)));
  }
  void Conv(const std::string& name) {
    const ValueId w = b.Input(name + ".w", {DType::kFloat32, {4, 4, 1, 1}}, ValueKind::kParameter,
                              testing_step::HostFloats(std::vector<float>(16, .5f)));
    x = Take(b.Add1("Conv", {x, w}, Window(1), name + ".conv"));
  }
  void ConvBatchNorm(const std::string& name) {
    Conv(name);
    x = Take(
        b.Add1("BatchNorm",
               {x, Vector(name + ".gamma", 1, ValueKind::kParameter),
                Vector(name + ".beta", .1f, ValueKind::kParameter),
                Vector(name + ".mean", 0, ValueKind::kBuffer), Vector(name + ".var", 1, ValueKind::kBuffer)},
               {}, name + ".bn"));
  }
  void Apply(const std::string& op, const std::string& name) { x = Take(b.Add1(op, {x}, {}, name)); }
  void Relu(const std::string& name) { Apply("Relu", name); }
  // bits: 0 means that the level distributes them.
  Plan Compile(const std::string& level, double bits = 0) {
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
    all.Set("keepdims", int64_t{0});
    graph.outputs = {Take(b.Add1("ReduceMean", {x}, all, "loss"))};
    CompileOptions options = testing_step::Checked(level, "sgd");
    options.group_size = 64;
    options.bits = bits;
    return Take(act::Compile(testing_step::ModelOf(graph), options));
  }

  Graph graph;
  GraphBuilder b;
  ValueId x;
};

TEST(RebuildSaved, OneCodeServesBatchNormReluAndConvolution) {
  Chain chain;
  chain.ConvBatchNorm("a");
  chain.Relu("relu");
  chain.ConvBatchNorm("b");
  const std::vector<std::string> expected{"a.bn (SignedDistance): sign6+2,g64,dither,log8",
                                          "b.bn.grad (Normalize): uniform2,g64,dither"};
  EXPECT_EQ(FullSizeForms(chain.Compile("L3", 3)), expected);
  EXPECT_EQ(FullSizeForms(chain.Compile("L2")).size(), 4u) << "L2 stores the ReLU's result too";
}

// A smooth function and its derivative are computed from the function's operand, or from the
// values that made the operand. They need one code of 4 bits, at which the bias is small, where L2
// has two or three codes.
TEST(RebuildSaved, OneCodeServesAnActivationAndItsDerivative) {
  Chain plain;
  plain.Conv("a");
  plain.Apply("Gelu", "gelu");
  plain.Conv("b");
  EXPECT_EQ(FullSizeForms(plain.Compile("L2")).size(), 2u);
  EXPECT_EQ(FullSizeForms(plain.Compile("L3")),
            (std::vector<std::string>{"a.conv (Conv): uniform4,g64,dither"}));
  Chain reshaped;
  reshaped.Conv("a");
  reshaped.Apply("Gelu", "gelu");
  reshaped.x = Take(reshaped.b.Reshape(reshaped.x, {Dim::Batch(), 4, 16, 4}));
  reshaped.Conv("b");
  EXPECT_EQ(FullSizeForms(reshaped.Compile("L3")),
            (std::vector<std::string>{"a.conv (Conv): uniform4,g64,dither"}));
  Chain normalized;
  normalized.ConvBatchNorm("a");
  normalized.Apply("Silu", "silu");
  normalized.Conv("b");
  EXPECT_EQ(FullSizeForms(normalized.Compile("L2")).size(), 3u);
  EXPECT_EQ(FullSizeForms(normalized.Compile("L3")),
            (std::vector<std::string>{"a.bn.grad (Normalize): uniform4,g64,dither"}));
}

TEST(RebuildSaved, AResidualChainIsCutBeforeItGetsLong) {
  Chain chain;
  for (int block = 0; block < 12; ++block) {
    const std::string name = "block" + std::to_string(block);
    const ValueId skip = chain.x;
    chain.ConvBatchNorm(name);
    chain.x = Take(chain.b.Add1("Add", {chain.x, skip}, {}, name + ".sum"));
    chain.Relu(name + ".relu");
  }
  const Plan plan = chain.Compile("L3");
  int64_t relus = 0;
  for (const std::string& form : FullSizeForms(plan)) relus += form.find(".relu (Relu)") != std::string::npos;
  EXPECT_GE(relus, 2) << "no block's input is stored: the last one is computed from eleven codes";
  EXPECT_LE(relus, 5) << "too many are stored";
  for (const Node& node : plan.train.graph.nodes) {
    const auto codes =
        std::count_if(node.program.inputs.begin(), node.program.inputs.end(),
                      [](const ProgramInput& in) { return in.codec.kind == CodecKind::kUniform; });
    EXPECT_LE(codes, 6) << node.name;  // four to rebuild, and the codes that the loop reads besides
  }
}

// The gradient of a maximum finds the elements that equal it. A decoded number equals nothing, so
// the comparison runs in the forward pass, with the reshape that keepdims = 0 brings.
TEST(PlaceDerived, AMaximumIsFoundAmongTheNumbersAsTheyWere) {
  for (const int64_t keepdims : {0, 1}) {
    std::vector<std::vector<float>> gradients[2];
    for (const bool lossy : {false, true}) {
      Chain chain;
      chain.ConvBatchNorm("a");
      Attributes spatial;
      spatial.Set("axes", std::vector<int64_t>{1, 2});
      spatial.Set("keepdims", keepdims);
      chain.x = Take(chain.b.Add1("ReduceMax", {chain.x}, spatial, "max"));
      chain.x = Take(chain.b.Add1("Square", {chain.x}, {}, "square"));
      Attributes all;
      all.Set("axes", keepdims ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 1});
      all.Set("keepdims", int64_t{0});
      chain.graph.outputs = {Take(chain.b.Add1("ReduceMean", {chain.x}, all, "loss"))};
      CompileOptions options = testing_step::Checked(lossy ? "L2" : "L0", "none");
      options.group_size = 64;
      if (lossy) options.bits = 8;
      const Plan plan = Take(Compile(testing_step::ModelOf(chain.graph), options));
      std::vector<float> image(static_cast<size_t>(3 * 8 * 8 * 4));
      for (size_t i = 0; i < image.size(); ++i) image[i] = std::sin(static_cast<float>(i * i));
      gradients[lossy] = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                    {{"image", testing_step::BytesOf(image)}}, {.batch = 3}));
    }
    for (size_t i = 0; i < gradients[0].size(); ++i)
      for (size_t k = 0; k < gradients[0][i].size(); ++k)
        // Codes of 8 bits over a range of about 6 are off by 1e-2 of the largest gradients,
        // which are about 1.
        EXPECT_NEAR(gradients[1][i][k], gradients[0][i][k], .05)
            << "keepdims " << keepdims << ", output " << i;
  }
}

int64_t CountConvolutions(const Plan& plan, Phase phase) {
  const std::vector<Node>& nodes = plan.train.graph.nodes;
  return std::count_if(nodes.begin(), nodes.end(),
                       [phase](const Node& n) { return n.op == "Conv" && n.phase == phase; });
}

// 45 layers are five segments of nine convolutions. Of the first four, only the anchors after them are stored as
// numbers, and each convolution is re-run once, although three nodes read its result: the gradient of its
// normalization, its ReLU and the next convolution. The backward pass begins with the fifth. Its codes are gone before
// the first tensors of a re-run are made, so it is not re-run. These codes have one bit more than the level's own.
TEST(Rerun, AnchorsReplaceTheCodesBetween) {
  Chain chain;
  for (int i = 0; i < 45; ++i) {
    chain.ConvBatchNorm("b" + std::to_string(i));
    chain.Relu("r" + std::to_string(i));
  }
  const Plan plan = chain.Compile("L4", 3);
  std::vector<std::string> anchors = FullSizeForms(plan);
  std::erase_if(anchors, [](const std::string& form) { return form.ends_with("mask1"); });
  const std::string zero = " (Relu): zero+31,g64,dither,one";
  std::vector<std::string> stored{"r17" + zero, "r26" + zero, "r8" + zero};
  for (int i = 44; i >= 36; --i)
    stored.insert(stored.begin(), "b" + std::to_string(i) + ".bn (SignedDistance): sign12+4,g64,dither,log8");
  EXPECT_EQ(anchors, stored);
  EXPECT_EQ(CountConvolutions(plan, Phase::kForward), 45);
  EXPECT_EQ(CountConvolutions(plan, Phase::kBackward), 36);
}

class RebuiltGradients : public ::testing::TestWithParam<std::tuple<unsigned, std::string>> {};

// The first segment of three products is re-run, the others are stored.
constexpr char kFirstSegment[] = "L4, first segment";

// With codes of 8 bits, the gradients of L3 and L4 are nearly those of L0. A rebuilt value that
// lacks a term (a bias, a mask, a summand) makes some gradient wrong by a large fraction of itself.
TEST_P(RebuiltGradients, AreNearlyExactWithFineCodes) {
  constexpr int64_t kBatch = 5;
  const auto& [seed, level] = GetParam();
  std::vector<std::vector<float>> gradients[2];
  for (const bool lossy : {false, true}) {
    Network network(seed);
    const ImportResult model = network.Build();
    CompileOptions options = testing_step::Checked(lossy ? level.substr(0, 2) : "L0", "none");
    options.group_size = 64;
    if (lossy) options.bits = 8;
    if (lossy && level == kFirstSegment)
      options.reruns = {{.spacing = 3, .elements = std::numeric_limits<int64_t>::max(), .segments = 1}};
    const Plan plan = Take(Compile(model, options));
    const auto inputs = network.Inputs(plan.train.graph, kBatch);
    gradients[lossy] =
        Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs, {.batch = kBatch}));
  }
  double squares = 0, errors = 0;
  for (size_t i = 1; i < gradients[0].size(); ++i)
    for (size_t k = 0; k < gradients[0][i].size(); ++k) {
      const double exact = gradients[0][i][k];
      squares += exact * exact;
      errors += (gradients[1][i][k] - exact) * (gradients[1][i][k] - exact);
    }
  // A step is 1/255 of a group's range. Rounding it has a variance of 1e-6 of the squared
  // range each time a value is coded. Normalizations over five samples multiply this by up
  // to some hundreds.
  EXPECT_LE(errors, 4e-3 * squares);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RebuiltGradients,
                         ::testing::Combine(::testing::Range(0u, 24u),
                                            ::testing::Values("L3", "L4", kFirstSegment)));

// A function of an expanded number is made again from that number: the loop has elements that none of its tensors has.
TEST(Rebuild, FunctionsOfAnExpandedNumber) {
  testing::OnnxModel m;
  m.Weight("s", {1}).Integers("shape", {2048, 2048}).Node("Expand", {"s", "shape"}, {"e"});
  m.Node("Sigmoid", {"e"}, {"y"}).MeanLoss("y");
  const testing::TemporaryFolder folder;
  for (const char* level : {"L3", "L4", "L5"}) {
    const Plan plan =
        Take(Compile(Take(ImportOnnx(m.Write(folder), {})), testing_step::Checked(level, "none")));
    const auto got = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {}, {}));
    const float y = 1 / (1 + std::exp(-.5f));
    // Means of 2^22 equal numbers, in partial sums: a few roundings each.
    EXPECT_NEAR(got[0][0], y, 1e-5) << level;
    EXPECT_NEAR(got[1][0], y * (1 - y), 1e-5) << level;
  }
}

}  // namespace
}  // namespace act
