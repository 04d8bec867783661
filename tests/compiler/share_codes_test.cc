// share-codes: a mask that is read from a number's code is exact, whatever the number's error.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "compiler/ir/verify.h"
#include "passes/pass_table.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::FullSizeForms;
using testing_step::Take;

constexpr int64_t kBatch = 3, kChannels = 8;
const Dims kSpace{Dim::Batch(), 8, 8, kChannels};

struct BatchNormRelu {
  BatchNormRelu(const std::vector<float>& gamma, const std::vector<float>& beta) : b(graph) {
    const ValueId image = b.Input("image", {DType::kFloat32, kSpace}, ValueKind::kInput);
    scaled =
        Take(b.Add1("Mul", {image, Channels("scale", std::vector<float>(kChannels, .5f))}, {}, "scaled"));
    const ValueId normalized =
        Take(b.Add1("BatchNorm",
                    {scaled, Channels("gamma", gamma), Channels("beta", beta),
                     Channels("mean", std::vector<float>(kChannels, 0), ValueKind::kBuffer),
                     Channels("var", std::vector<float>(kChannels, 1), ValueKind::kBuffer)},
                    {}, "bn"));
    result = Take(b.Add1("Relu", {normalized}, {}, "relu"));
  }
  ValueId Channels(const std::string& name, const std::vector<float>& values,
                   ValueKind kind = ValueKind::kParameter) {
    return b.Input(name, {DType::kFloat32, {kChannels}}, kind, testing_step::HostFloats(values));
  }
  Plan Compile(const std::string& level, ValueId loss_of, const std::string& optimizer = "none",
               std::function<void(const std::string&, const Graph&)> after_pass = nullptr) {
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
    all.Set("keepdims", int64_t{0});
    graph.outputs = {Take(b.Add1("ReduceMean", {loss_of}, all, "loss"))};
    CompileOptions options = testing_step::Checked(level, optimizer);
    options.group_size = 64;
    options.after_pass = std::move(after_pass);
    return Take(act::Compile(testing_step::ModelOf(graph), options));
  }

  Graph graph;
  GraphBuilder b;
  ValueId scaled, result;
};

std::vector<float> Gradient(const Plan& plan, const std::string& of) {
  std::vector<float> image(static_cast<size_t>(kBatch * 64 * kChannels));
  for (size_t i = 0; i < image.size(); ++i) {
    const double wave = std::sin(.37 * static_cast<double>(i * i % 1009));
    image[i] = static_cast<float>(wave * wave * wave);  // far values are rare, as in networks
  }
  const auto outputs = Take(testing_step::RunStep(
      plan, testing_step::CpuKernels(), {{"image", testing_step::BytesOf(image)}}, {.batch = kBatch}));
  const Graph& graph = plan.train.graph;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (graph.value(graph.outputs[i]).name == "grad." + of) return outputs[i];
  ADD_FAILURE() << "no gradient of " << of;
  return {};
}

TEST(ShareCodes, BatchNormAndReluAreOneCode) {
  BatchNormRelu model(std::vector<float>(kChannels, 1), std::vector<float>(kChannels, .1f));
  EXPECT_EQ(FullSizeForms(model.Compile("L3", model.result)),
            std::vector<std::string>{"bn (SignedDistance): sign6+2,g64,dither,log8,fitted"});
}

bool Updates(const Graph& graph, const Node& node, const std::string& parameter) {
  return std::any_of(node.mutates.begin(), node.mutates.end(), [&](int32_t m) {
    return graph.value(node.inputs[static_cast<size_t>(m)]).name == parameter;
  });
}

void ExpectThresholdInFrontOfUpdates(const Graph& graph) {
  int made = 0;
  bool updated = false;
  for (const Node& node : graph.nodes) {
    updated |= Updates(graph, node, "gamma") || Updates(graph, node, "beta");
    if (node.op != "ReluThreshold" || node.phase == Phase::kForward) continue;
    ++made;
    EXPECT_FALSE(updated) << "gamma or beta";
  }
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(updated);
}

// For each channel, 1 / sigma and the largest |xhat| are stored. The threshold of the ReLU follows
// from gamma and beta. The backward pass computes it from them before they are updated.
TEST(ShareCodes, ThresholdsAreMadeOfParametersThatAreNotYetUpdated) {
  BatchNormRelu model(std::vector<float>(kChannels, 1), std::vector<float>(kChannels, .1f));
  const auto look = [&](const std::string& pass, const Graph& graph) {
    if (pass == "share-codes") ExpectThresholdInFrontOfUpdates(graph);
  };
  const Plan plan = model.Compile("L3", model.result, "sgd", look);
  int64_t statistics = 0;
  for (const SavedEdge& edge : plan.edges)
    if (edge.bytes.per_batch == 0) statistics += edge.bytes.fixed;
  EXPECT_EQ(statistics, 2 * 4 * kChannels);
}

// Our backward pass reads the threshold for the gradient of gamma, before both updates. In another
// order, beta may be updated before anything reads the threshold.
TEST(ShareCodes, AThresholdIsMadeInFrontOfAnUpdateThatNoReaderPrecedes) {
  BatchNormRelu model(std::vector<float>(kChannels, 1), std::vector<float>(kChannels, .1f));
  Graph graph;
  model.Compile("L3", model.result, "sgd", [&](const std::string& pass, const Graph& after) {
    if (pass == "rebuild-saved") graph = after;
  });
  const auto update = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const Node& n) { return Updates(graph, n, "beta"); });
  ASSERT_NE(update, graph.nodes.end());
  // Moves the nodes of the backward pass that the update does not need to after the update.
  std::set<ValueId> needed(update->inputs.begin(), update->inputs.end());
  std::vector<Node> before, behind;
  for (auto node = std::make_reverse_iterator(update); node != graph.nodes.rend(); ++node) {
    const bool needs =
        node->phase == Phase::kForward || std::any_of(node->outputs.begin(), node->outputs.end(),
                                                      [&](ValueId v) { return needed.count(v) != 0; });
    if (needs) needed.insert(node->inputs.begin(), node->inputs.end());
    (needs ? before : behind).push_back(*node);
  }
  std::reverse(before.begin(), before.end());
  std::reverse(behind.begin(), behind.end());
  ASSERT_GE(behind.size(), 4u) << "the products and sums of xhat";
  before.push_back(*update);
  before.insert(before.end(), behind.begin(), behind.end());
  std::move(before.begin(), before.end(), graph.nodes.begin());
  ASSERT_EQ(testing_step::Text(Verify(graph, Stage::kTraining)), "");

  PassContext context;
  context.policy = Take(MakePolicy("L3", 0, 64));
  ASSERT_EQ(testing_step::Text(ShareCodes(graph, context)), "");
  EXPECT_EQ(testing_step::Text(Verify(graph, Stage::kTraining)), "");
  ExpectThresholdInFrontOfUpdates(graph);
}

// The loss is a mean, so its gradient is the same for every element. The gradient of beta then
// counts the elements that pass the ReLU, and a single wrong mask shows. gamma has both signs, and
// is near 0 in each way.
TEST(ShareCodes, MasksAreExactForEveryGamma) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<std::pair<std::vector<float>, std::vector<float>>> cases = {
      {{1, -1, .5f, -.5f, 2, -2, 1, -1}, {0, 0, .1f, .1f, -.3f, -.3f, 1.5f, -1.5f}},
      {{0, 0, 0, -0.f, -0.f, -0.f, 1, 1}, {1, 0, -1, 1, 0, -1, 0, .2f}},
      {{1e-3f, -1e-3f, 1e-20f, -1e-20f, tiny, -tiny, 1e-3f, 1}, {.1f, .1f, .1f, -.1f, .1f, -.1f, -5, 5}},
      {{1e-3f, -1e-3f, 1e-3f, -1e-3f, 3, 3, 3, 3}, {1e-3f, 1e-3f, -1e-3f, -1e-3f, 6, -6, 9, -9}}};
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<float> beta[2];
    for (const bool lossy : {false, true}) {
      BatchNormRelu model(cases[i].first, cases[i].second);
      beta[lossy] = Gradient(model.Compile(lossy ? "L3" : "L0", model.result), "beta");
    }
    EXPECT_EQ(beta[1], beta[0]) << "case " << i;
  }
}

// A group holds all channels. A channel whose threshold is far outside of its values must not take
// the levels of the others.
TEST(ShareCodes, AChannelWithATinyGammaLeavesTheOthersTheirLevels) {
  double errors[2] = {};
  for (const bool hostile : {false, true}) {
    std::vector<float> gamma(kChannels, 1), exact;
    if (hostile) gamma[0] = 1e-4f;
    for (const bool lossy : {false, true}) {
      BatchNormRelu model(gamma, std::vector<float>(kChannels, .1f));
      const std::vector<float> got = Gradient(model.Compile(lossy ? "L3" : "L0", model.result), "gamma");
      for (size_t c = 1; lossy && c < got.size(); ++c)
        errors[hostile] += (got[c] - exact[c]) * (got[c] - exact[c]);
      if (!lossy) exact = got;
    }
  }
  // The range is at most twice as large, so the variance is at most four times as large. Without
  // the clamp, tau = -1000 makes it 1e5 times as large.
  EXPECT_LT(errors[1], 16 * errors[0]);
}

// At the end of a residual block, the mask is that of the sum.
TEST(ShareCodes, ASummandIsStoredWithTheMaskOfTheSum) {
  std::vector<float> beta[2], gamma[2];
  for (const bool lossy : {false, true}) {
    BatchNormRelu model({1, -1, .5f, 0, -0.f, 2, -2, 1e-20f}, {0, .1f, -.1f, 1, -1, .3f, -.3f, .2f});
    const ValueId normalized = model.graph.nodes.back().inputs[0];
    model.graph.nodes.pop_back();  // the ReLU
    const ValueId sum = Take(model.b.Add1("Add", {normalized, model.scaled}, {}, "sum"));
    const ValueId relu = Take(model.b.Add1("Relu", {sum}, {}, "end"));
    const Plan plan = model.Compile(lossy ? "L3" : "L0", relu);
    if (lossy) {
      const std::vector<std::string> forms = FullSizeForms(plan);
      EXPECT_EQ(forms, std::vector<std::string>{"bn (SidedDistance): sign6+2,g64,dither,sides"});
    }
    beta[lossy] = Gradient(plan, "beta");
    gamma[lossy] = Gradient(plan, "gamma");
  }
  EXPECT_EQ(beta[1], beta[0]);
  // gamma's gradient is the mean of xhat over a channel's 192 elements, divided by the number of
  // channels. The codes have steps of at most 1, so the mean is off by far less than .2.
  for (size_t c = 0; c < gamma[0].size(); ++c) EXPECT_NEAR(gamma[1][c], gamma[0][c], .2 / kChannels) << c;
}

TEST(ShareCodes, AStoredReluHoldsItsMask) {
  BatchNormRelu model(std::vector<float>(kChannels, 1), std::vector<float>(kChannels, .1f));
  const auto convolve = [&model](ValueId x, const std::string& name) {
    Attributes attrs;
    for (const char* ones : {"kernel_shape", "strides", "dilations"})
      attrs.Set(ones, std::vector<int64_t>{1, 1});
    attrs.Set("pads", std::vector<int64_t>(4, 0));
    const ValueId weight =
        model.b.Input(name, {DType::kFloat32, {kChannels, kChannels, 1, 1}}, ValueKind::kParameter,
                      testing_step::HostFloats(std::vector<float>(kChannels * kChannels, .2f)));
    return Take(model.b.Add1("Conv", {x, weight}, attrs, name));
  };
  const ValueId positive = Take(model.b.Add1("Relu", {convolve(model.result, "first")}, {}, "second_relu"));
  const ValueId scaled = convolve(positive, "last");
  const std::vector<std::string> forms = FullSizeForms(model.Compile("L3", scaled));
  EXPECT_EQ(std::count(forms.begin(), forms.end(), "second_relu (Relu): zero+7,g64,dither,one"), 1)
      << ::testing::PrintToString(forms);
  for (const std::string& form : forms) EXPECT_EQ(form.find("mask1"), std::string::npos) << form;
}

}  // namespace
}  // namespace act
