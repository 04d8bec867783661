// Which axis of the inputs is the batch, and what fixes it.
#include <string>

#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::ErrorOf;
using import_testing::Find;
using import_testing::FindValue;
using import_testing::Import;
using import_testing::OnnxModel;

TEST(ImportBatchAxis, TheBatchIsTheSymbolOnMostFirstAxes) {
  OnnxModel m;
  m.Input("queue", {"Q", 4}).Input("a", {"B", 4}).Input("b", {"B", 4}).Node("Add", {"a", "b"}, {"c"});
  m.Node("Transpose", {"queue"}, {"t"}).Node("MatMul", {"c", "t"}, {"y"}).MeanLoss("y");
  const std::string error = ErrorOf(m);
  EXPECT_NE(error.find("input 'queue': axis 0, 'Q', is not the batch"), std::string::npos) << error;
  EXPECT_NE(error.find("hint: give it with --dim=Q=EXTENT"), std::string::npos) << error;
  ImportOptions options;
  options.dims = {{"Q", 32}};
  const ImportResult r = Import(m, options);
  EXPECT_EQ(ToString(r.graph.value(Find(r.graph, "MatMul")->outputs[0]).type), "f32[N,32]");
  options.dims = {{"Q", 32}, {"B", 5}};
  const ImportResult fixed = Import(m, options);
  EXPECT_TRUE(fixed.fixed_batch);
  options.dims = {{"Q", 32}, {"X", 5}};
  EXPECT_NE(ErrorOf(m, options).find("the symbolic axes are: B, Q"), std::string::npos);
}

TEST(ImportBatchAxis, TheBatchMayHaveSeveralNames) {
  OnnxModel m;
  m.Input("a", {"B", 4}).Input("b", {"rows", 4}).Node("Add", {"a", "b"}, {"y"}).MeanLoss("y");
  EXPECT_NE(ErrorOf(m).find("or --dim=rows=N if it is the batch"), std::string::npos);
  ImportOptions options;
  options.dims = {{"rows", Dim::Batch()}};
  EXPECT_EQ(ToString(FindValue(Import(m, options).graph, "b")->type), "f32[N,4]");
  OnnxModel second;  // the batch is the second axis, and the first has an extent
  second.Input("a", {3, "B"}).Node("Neg", {"a"}, {"y"}).MeanLoss("y");
  options.dims = {{"B", Dim::Batch()}};
  const ImportResult r = Import(second, options);
  EXPECT_FALSE(r.fixed_batch);
  EXPECT_EQ(ToString(FindValue(r.graph, "a")->type), "f32[3,N]");
}

TEST(ImportBatchAxis, AxesThatTf2onnxNumbersAreUnnamed) {
  OnnxModel m;
  m.Input("a", {"unk__12", 4}).Input("b", {"unk__13", 4}).Node("Add", {"a", "b"}, {"y"}).MeanLoss("y");
  EXPECT_EQ(ToString(FindValue(Import(m).graph, "b")->type), "f32[N,4]");
  OnnxModel named;
  named.Input("a", {"unk__x", 4}).Input("b", {"unk__", 4}).Node("Add", {"a", "b"}, {"y"}).MeanLoss("y");
  EXPECT_NE(ErrorOf(named).find("--dim=unk__=EXTENT"), std::string::npos);
}

TEST(ImportBatchAxis, AFixedBatchIsReported) {
  OnnxModel m;
  m.Input("x", {6, 8}).Weight("w", {8, 2}).Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_TRUE(r.fixed_batch);
  EXPECT_EQ(r.batch, 6);
}

TEST(ImportBatchAxis, AnotherBatchThanTheFixedOneIsRefused) {
  OnnxModel m;
  m.Input("x", {6, 8}).Weight("w", {8, 2}).Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  ImportOptions options;
  options.batch = 6;
  EXPECT_EQ(Import(m, options).batch, 6);
  options.batch = 4;
  EXPECT_NE(
      ErrorOf(m, options).find("--batch=4: the model's batch size is fixed at 6\nhint: export the model"),
      std::string::npos)
      << ErrorOf(m, options);

  OnnxModel open;
  open.Input("x", {"N", 8}).Weight("w", {8, 2}).Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  EXPECT_FALSE(Import(open, options).fixed_batch);
  options.dims = {{"N", 6}};
  EXPECT_NE(ErrorOf(open, options).find("hint: leave the first axis out of --dim"), std::string::npos)
      << ErrorOf(open, options);

  // The leading extent of a later input may be the batch.
  m.Input("rows", {4, 2}).Node("Add", {"rows", "rows"}, {"unused"});
  options.dims = {};
  EXPECT_EQ(Import(m, options).batch, 6);
}

}  // namespace
}  // namespace act
