// A parameter is overwritten after everything that reads it, in whatever shape it is read.
// ConvNeXt's layer scale [C,1,1] was once read through a reshape in the backward pass, in a loop
// that had moved after the update.
#include <gtest/gtest.h>

#include "runtime/plan/alias.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;

// The mean over positions of (x + scale * (x w + b)), then a linear head: a residual block with a
// scale for each channel.
ImportResult ScaledBranch() {
  Graph graph;
  GraphBuilder b(graph);
  const auto parameter = [&b](const char* name, Dims dims) {
    const TensorType type{DType::kFloat32, dims};
    return b.Input(
        name, type, ValueKind::kParameter,
        testing_step::HostFloats(std::vector<float>(static_cast<size_t>(type.Elements().fixed), .5f)));
  };
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

}  // namespace
}  // namespace act
