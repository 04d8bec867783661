// What the importer makes of lookup and scatter by data.
#include <gtest/gtest.h>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;

// "Gather Reshape ..", or the error.
std::string Ops(const OnnxModel& model) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(model.Write(folder), {});
  if (!result) return llvm::toString(result.takeError());
  if (llvm::Error error = Verify(result->graph, Stage::kImported)) return llvm::toString(std::move(error));
  std::string text;
  for (const Node& node : result->graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

TEST(ImportGather, AnEmbeddingHasTheIndicesAxes) {
  OnnxModel m;
  m.Input("token", {"N", 7}, onnx::TensorProto::INT64)
      .Weight("table", {20, 4})
      .Node("Gather", {"table", "token"}, {"y"})
      .Node("ReduceMean", {"y"}, {"mean"},
            {Attr("axes", std::vector<int64_t>{1}), Attr("keepdims", int64_t{0})})
      .MeanLoss("mean");
  EXPECT_EQ(Ops(m), "Reshape Gather Reshape ReduceMean ReduceMean");
}

TEST(ImportGather, KnownIndicesAreASliceWhereEvenlySpaced) {
  for (const bool even : {true, false}) {
    OnnxModel m;
    m.Weight("table", {20, 4})
        .Integers("i", even ? std::vector<int64_t>{7, 5, 3} : std::vector<int64_t>{7, -1, 3})
        .Node("Gather", {"table", "i"}, {"y"})
        .MeanLoss("y");
    EXPECT_EQ(Ops(m), even ? "Slice ReduceMean" : "Reshape Gather ReduceMean");
  }
}

}  // namespace
}  // namespace act
