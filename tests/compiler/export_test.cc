// Graphs and trained weights, exported to ONNX. (ONNX Runtime is no dependency, so it was checked
// by hand that it loads the exports.)
#include "compiler/emit/export_trained.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "compiler/emit/emit_onnx.h"
#include "compiler/import/file/onnx_versions.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/op_table.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/base/error.h"
#include "tests/compiler/exported_model.h"
#include "tests/paths.h"

namespace act {
namespace {

using namespace exported_model;

const std::string kGolden = GoldenFolder() + "/";

TEST(ExportTrained, ReplacesEveryWeightAndKeepsTheRest) {
  for (const char* file : {"resnet_basic/model.onnx", "resnet_basic/model_dynamo.onnx"}) {
    const TemporaryFolder folder;
    const ImportResult model = Import(kGolden + file);
    const auto values = Trained(model.graph);
    ASSERT_FALSE(ExportTrainedOnnx(PlanOf(model), From(values), folder / "out.onnx"));
    const onnx::ModelProto before = Parse(kGolden + file), after = Parse(folder / "out.onnx");
    ASSERT_EQ(after.graph().initializer_size(), before.graph().initializer_size());
    for (const auto& tensor : after.graph().initializer()) {
      const HostTensor& value = values.at(tensor.name());
      ASSERT_EQ(static_cast<int64_t>(tensor.raw_data().size()), value.bytes) << tensor.name();
      EXPECT_EQ(std::memcmp(tensor.raw_data().data(), value.data, tensor.raw_data().size()), 0)
          << tensor.name();
    }
    EXPECT_EQ(after.graph().node_size(), before.graph().node_size());
    EXPECT_EQ(folder.Files(), 1u);
    // The export is a model again, with the same graph.
    const ImportResult again = Import(folder / "out.onnx");
    EXPECT_EQ(again.graph.nodes.size(), model.graph.nodes.size());
  }
}

TEST(ExportTrained, IsInTheFormOfInference) {
  const TemporaryFolder folder;
  const ImportResult model = Import(kGolden + "fcn/model.onnx");
  ASSERT_FALSE(ExportTrainedOnnx(PlanOf(model), From(Trained(model.graph)), folder / "out.onnx"));
  int norms = 0, dropouts = 0;
  const onnx::ModelProto exported = Parse(folder / "out.onnx");
  for (const auto& node : exported.graph().node()) {
    if (node.op_type() == "BatchNormalization") {
      ++norms;
      EXPECT_EQ(node.output_size(), 1);
      for (const auto& a : node.attribute()) EXPECT_NE(a.name(), "training_mode");
    }
    if (node.op_type() == "Dropout") {
      ++dropouts;
      EXPECT_EQ(node.input_size(), 2) << "without training_mode it is off";
    }
  }
  EXPECT_EQ(norms, 5);
  EXPECT_EQ(dropouts, 1);
}

TEST(ExportTrained, ABatchNormalizationByConstantsKeepsTheFormOfTraining) {
  const TemporaryFolder folder;
  testing::OnnxModel m;
  m.Input("x", {"N", 3, 4, 4}).Weight("w", {3}).Weight("b", {3});
  for (const char* name : {"mean", "var"}) {
    m.Node("Constant", {}, {name});
    onnx::AttributeProto& value = *m.graph().mutable_node(m.graph().node_size() - 1)->add_attribute();
    value.set_name("value_floats");
    value.set_type(onnx::AttributeProto::FLOATS);
    for (int i = 0; i < 3; ++i) value.add_floats(1);
  }
  m.Node("BatchNormalization", {"x", "w", "b", "mean", "var"}, {"y", "new_mean", "new_var"},
         {testing::Attr("training_mode", int64_t{1})});
  const ImportResult model = Import(m.MeanLoss("y").Write(folder));
  ASSERT_FALSE(ExportTrainedOnnx(PlanOf(model), From(Trained(model.graph)), folder / "out.onnx"));
  const onnx::ModelProto exported = Parse(folder / "out.onnx");
  EXPECT_EQ(exported.graph().node(2).output_size(), 3) << "by its constants it would compute something else";
}

TEST(ExportTrained, LargeWeightsGoBesideTheModel) {
  const TemporaryFolder folder;
  const ImportResult model = Import(kGolden + "lenet/model.onnx");
  const auto values = Trained(model.graph);
  ASSERT_FALSE(ExportTrainedOnnx(PlanOf(model), From(values), folder / "out.onnx", /*inline_limit=*/100));
  EXPECT_EQ(folder.Files(), 2u);
  EXPECT_LT(testing::Contents(folder / "out.onnx").size(), 4000u);
  const ImportResult again = Import(folder / "out.onnx");
  for (const Value& v : again.graph.values) {
    if (v.kind != ValueKind::kParameter) continue;
    EXPECT_EQ(std::memcmp(v.data.data, values.at(v.name).data, static_cast<size_t>(v.data.bytes)), 0)
        << v.name;
  }
}

TEST(ExportTrained, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  const ImportResult model = Import(kGolden + "mlp/model.onnx");
  auto values = Trained(model.graph);
  EXPECT_NE(llvm::toString(ExportTrainedOnnx(Plan{}, From(values), folder / "out.onnx"))
                .find("does not contain its ONNX model"),
            std::string::npos);
  values["net.1.bias"].bytes -= 4;
  EXPECT_NE(llvm::toString(ExportTrainedOnnx(PlanOf(model), From(values), folder / "out.onnx"))
                .find("'net.1.bias' has 124 bytes, the model's has 128"),
            std::string::npos);
  values.erase("net.1.bias");
  EXPECT_NE(llvm::toString(ExportTrainedOnnx(PlanOf(model), From(values), folder / "out.onnx"))
                .find("no value for the initializer 'net.1.bias'"),
            std::string::npos);
  EXPECT_EQ(folder.Files(), 0u) << "no partial file";
}

TEST(Skeleton, HoldsNoWeights) {
  const ImportResult model = Import(kGolden + "resnet_basic/model.onnx");
  EXPECT_LT(model.skeleton.bytes, 20000);
}

TEST(EmitOnnx, EveryStageIsAWellFormedModel) {
  const TemporaryFolder folder;
  ImportResult model = Import(kGolden + "resnet_basic/model.onnx");
  std::set<std::string> seen;  // operators of domain act, over all stages
  CompileOptions options;
  options.level = "L2";
  options.after_pass = [&](const std::string& pass, const Graph& graph) {
    ASSERT_FALSE(EmitOnnx(graph, folder / "stage.onnx"));
    const onnx::ModelProto emitted = Parse(folder / "stage.onnx");
    ASSERT_EQ(static_cast<size_t>(emitted.graph().node_size()), graph.nodes.size()) << pass;
    std::set<std::string> made, names;
    for (const auto& input : emitted.graph().input()) made.insert(input.name());
    for (const auto& tensor : emitted.graph().initializer()) made.insert(tensor.name());
    for (const auto& node : emitted.graph().node()) {
      for (const std::string& name : node.input())
        EXPECT_TRUE(name.empty() || made.count(name)) << pass << ": " << name;
      for (const std::string& name : node.output())
        EXPECT_TRUE(made.insert(name).second) << pass << ": " << name;
      EXPECT_TRUE(names.insert(node.name()).second) << pass << ": " << node.name();
      if (node.domain() == "act") seen.insert(node.op_type());
    }
    for (const auto& output : emitted.graph().output()) EXPECT_TRUE(made.count(output.name())) << pass;
  };
  auto plan = Compile(std::move(model), options);
  ASSERT_TRUE(static_cast<bool>(plan)) << llvm::toString(plan.takeError());
  for (const char* op : {"Compress", "Decompress", "Conv", "ConvGradWeight", "Fused", "SgdUpdate"})
    EXPECT_TRUE(seen.count(op)) << op;
}

TEST(EmitOnnx, BatchAxesAreSymbolsAndStandardOperatorsStandard) {
  const TemporaryFolder folder;
  ASSERT_FALSE(EmitOnnx(Import(kGolden + "mlp/model.onnx").graph, folder / "out.onnx"));
  const onnx::ModelProto m = Parse(folder / "out.onnx");
  EXPECT_EQ(m.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  std::map<std::string, std::string> domains;
  for (const auto& node : m.graph().node()) domains[node.op_type()] = node.domain();
  EXPECT_EQ(domains.at("Relu"), "");
  EXPECT_EQ(domains.at("MatMul"), "act") << "trans_b is ours";
}

// SameInOnnx writes the operator under its own name.
TEST(EmitOnnx, WhatIsTheSameInOnnxIsAnOperatorOfOnnx) {
  int count = 0;
  for (const OpDef& op : AllOps()) {
    if (op.onnx != SameInOnnx) continue;
    EXPECT_FALSE(onnx_import::OnnxVersions(op.name).empty()) << op.name;
    ++count;
  }
  EXPECT_GE(count, 30);
}

// Each operator of one operand that the op table says ONNX has: written and read again it is
// itself.
TEST(EmitOnnx, WhatOnnxHasTooComesBackAsItself) {
  const TemporaryFolder folder;
  int count = 0;
  for (const OpDef& op : AllOps()) {
    if (!op.onnx || !op.expr || op.operands.most != 1 || op.arithmetic == Arithmetic::kCopy) continue;
    Graph graph;
    GraphBuilder builder(graph);
    const ValueId x = builder.Input("x", {DType::kFloat32, {Dim(2), Dim(3)}}, ValueKind::kInput);
    auto y = builder.Add1(op.name, {x});
    ASSERT_TRUE(static_cast<bool>(y)) << llvm::toString(y.takeError());
    graph.outputs = {*y};
    ASSERT_FALSE(EmitOnnx(graph, folder / "out.onnx"));
    ImportOptions options;
    options.keep_outputs = true;
    auto read = ImportOnnx(folder / "out.onnx", options);
    ASSERT_TRUE(static_cast<bool>(read)) << op.name << ": " << llvm::toString(read.takeError());
    const Graph& again = read->graph;
    ASSERT_EQ(again.nodes.size(), 1u) << op.name;
    EXPECT_EQ(again.nodes[0].op, op.name);
    ++count;
  }
  EXPECT_GE(count, 30);
}

}  // namespace
}  // namespace act
