// A parameter is overwritten after everything that reads it, in whatever shape it is read.
// ConvNeXt's layer scale [C,1,1] was once read through a reshape in the backward pass, in a loop
// that had moved after the update.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/plan/alias.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/small_networks.h"

namespace act {
namespace {

using testing_step::Take;

// Filled with .5.
ValueId Parameter(GraphBuilder& b, const char* name, Dims dims) {
  const TensorType type{DType::kFloat32, std::move(dims)};
  const auto elements = static_cast<size_t>(type.Elements().fixed);
  return b.Input(name, type, ValueKind::kParameter,
                 testing_step::HostFloats(std::vector<float>(elements, .5f)));
}

// The mean over positions of (x + scale * (x w + b)), then a linear head: a residual block with a
// scale for each channel.
ImportResult ScaledBranch() {
  Graph graph;
  GraphBuilder b(graph);
  const auto parameter = [&b](const char* name, Dims dims) { return Parameter(b, name, std::move(dims)); };
  const ValueId image = b.Input("image", {DType::kFloat32, {Dim::Batch(), 5, 4}}, ValueKind::kInput);
  const ValueId stem = Take(b.Add1("MatMul", {image, parameter("stem", {4, 4})}, {}, "stem"));
  const ValueId branch = Take(b.Add1("MatMul", {stem, parameter("w", {4, 4})}, {}, "branch"));
  const ValueId biased = Take(b.Add1("Add", {branch, parameter("b", {4})}, {}, "bias"));
  const ValueId scale = Take(b.Reshape(parameter("scale", {4, 1}), {1, 1, 4}, "scale.reshape"));
  const ValueId scaled = Take(b.Add1("Mul", {biased, scale}, {}, "scaled"));
  const ValueId sum = Take(b.Add1("Add", {scaled, stem}, {}, "residual"));
  Attributes all;
  all.Set("axes", std::vector<int64_t>{0, 1, 2});
  all.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceMean", {sum}, all, "mean"))};
  return testing_step::ModelOf(std::move(graph));
}

// A sample that two linear layers read. Its gradient is a sum of one row, and a product can add a row as its bias.
ImportResult TwoHeadsOfOneRow() {
  Graph graph;
  GraphBuilder b(graph);
  const auto parameter = [&b](const char* name, Dims dims) { return Parameter(b, name, std::move(dims)); };
  const ValueId row = b.Input("row", {DType::kFloat32, {1, 5}}, ValueKind::kInput);
  const ValueId stem = Take(b.Add1("MatMul", {row, parameter("stem", {5, 4})}, {}, "stem"));
  const ValueId hidden = Take(b.Add1("Tanh", {stem}, {}, "hidden"));
  Attributes all;
  all.Set("axes", std::vector<int64_t>{0, 1});
  all.Set("keepdims", int64_t{0});
  const auto head = [&](const char* name, int64_t columns) {
    const ValueId scores = Take(b.Add1("MatMul", {hidden, parameter(name, {4, columns})}, {}, name));
    return Take(b.Add1("ReduceMean", {Take(b.Add1("Square", {scores}))}, all, "mean"));
  };
  graph.outputs = {Take(b.Add1("Add", {head("first", 3), head("second", 2)}, {}, "loss"))};
  return testing_step::ModelOf(std::move(graph));
}

TEST(UpdateOrder, AProductThatAddsAnotherGradientReadsItsWeightBeforeTheUpdate) {
  for (const char* level : {"L0", "L3"}) {
    llvm::Expected<Plan> plan = Compile(TwoHeadsOfOneRow(), testing_step::Checked(level, "sgd"));
    ASSERT_EQ(plan ? "" : testing_step::Text(plan.takeError()), "") << level;
  }
}

TEST(UpdateOrder, NothingReadsAnUpdatedParameterUnderAnyShape) {
  for (const char* level : {"L0", "L3"}) {
    const Plan plan = Take(Compile(ScaledBranch(), testing_step::Checked(level, "sgd")));
    const Graph& graph = plan.train.graph;
    const std::vector<ValueId> root = AliasRoots(graph);
    std::vector<bool> updated(graph.values.size(), false);
    int updates = 0;
    for (const Node& node : graph.nodes) {
      for (ValueId v : node.inputs) {
        if (v == kNoValue) continue;
        const ValueId memory = root[static_cast<size_t>(v)];
        EXPECT_FALSE(updated[static_cast<size_t>(memory)])
            << level << ": node '" << node.name << "' reads '" << graph.value(memory).name
            << "' after its update";
      }
      if (node.phase != Phase::kUpdate || node.mutates.empty()) continue;
      ++updates;
      for (int32_t m : node.mutates)
        updated[static_cast<size_t>(root[static_cast<size_t>(node.inputs[static_cast<size_t>(m)])])] = true;
    }
    EXPECT_EQ(updates, 4);
  }
}

// Two images through one convolution and one BatchNorm, as siamese networks do, or with statistics of their own.
ImportResult TwoImages(bool one_layer) {
  Graph graph;
  GraphBuilder b(graph);
  const auto vector = [&](const std::string& name, ValueKind kind, float value) {
    return b.Input(name, {DType::kFloat32, {8}}, kind,
                   testing_step::HostFloats(std::vector<float>(8, value)));
  };
  std::vector<float> numbers(8 * 3 * 9);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
  const ValueId weight = b.Input("weight", {DType::kFloat32, {8, 3, 3, 3}}, ValueKind::kParameter,
                                 testing_step::HostFloats(numbers));
  const ValueId scale = vector("scale", ValueKind::kParameter, 1.5F),
                shift = vector("shift", ValueKind::kParameter, .5F);
  ValueId mean = vector("mean", ValueKind::kBuffer, 0), variance = vector("variance", ValueKind::kBuffer, 1);
  std::vector<ValueId> sides;
  for (const char* image : {"a", "b"}) {
    const ValueId x = b.Input(image, {DType::kFloat32, {Dim::Batch(), 8, 8, 3}}, ValueKind::kInput);
    const ValueId y = Take(b.Add1("Conv", {x, weight}, small_networks::Window(3, 1, 1), image));
    sides.push_back(
        Take(b.Add1("Relu", {Take(b.Add1("BatchNorm", {y, scale, shift, mean, variance}, {}, image))})));
    if (!one_layer)
      mean = vector("mean2", ValueKind::kBuffer, 0), variance = vector("variance2", ValueKind::kBuffer, 1);
  }
  Attributes all;
  all.Set("axes", std::vector<int64_t>{0, 1, 2, 3});
  all.Set("keepdims", int64_t{0});
  const ValueId product = Take(b.Add1("Mul", sides));
  graph.outputs = {Take(b.Add1("ReduceMean", {product}, all, "mean"))};
  return testing_step::ModelOf(std::move(graph));
}

TEST(UpdateOrder, OneLayersStatisticsGoOnFromImageToImage) {
  constexpr int64_t kBatch = 3;
  std::vector<float> a(kBatch * 8 * 8 * 3), b(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = std::cos(static_cast<float>(i)), b[i] = std::sin(2 * static_cast<float>(i));
  const testing_step::StepInputs inputs{{"a", testing_step::BytesOf(a)}, {"b", testing_step::BytesOf(b)}};
  for (const char* level : {"L0", "L3", "L4", "L5"}) {
    SCOPED_TRACE(level);
    const auto run = [&](bool one_layer) {
      CompileOptions options = testing_step::Checked(level, "none");
      options.group_size = 64;
      options.batch = 16;
      const Plan plan = Take(Compile(TwoImages(one_layer), options));
      std::vector<std::string> order;
      for (const Node& node : plan.train.graph.nodes)
        if (!node.mutates.empty()) order.push_back(node.name.substr(0, 1));
      EXPECT_EQ(order, (std::vector<std::string>{"a", "b"}));
      return Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs,
                                        {.batch = kBatch, .check_memory = true}));
    };
    // A step does not read running statistics.
    EXPECT_EQ(run(true), run(false));
  }
}

}  // namespace
}  // namespace act
