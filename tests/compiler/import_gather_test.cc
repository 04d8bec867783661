// How the importer translates lookup and scatter by data.
#include <gtest/gtest.h>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;

// The operators of the imported graph ("Gather Reshape .."), or the error.
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

// Exporters expand one index to all elements of a row. The plan contains neither the expanded index
// nor the zeros.
TEST(ImportGather, AnExpandedIndexIsReadUnexpanded) {
  OnnxModel m;
  m.Input("edge", {40}, onnx::TensorProto::INT64)
      .Weight("x", {40, 8})
      .Integers("column", {-1, 1})
      .Integers("shape", {40, 8})
      .Integers("nodes", {12, 8})
      .Node("Reshape", {"edge", "column"}, {"index"})
      .Node("Expand", {"index", "shape"}, {"expanded"})
      .Node("ConstantOfShape", {"nodes"}, {"zeros"})
      .Node("ScatterElements", {"zeros", "expanded", "x"}, {"y"}, {Attr("reduction", std::string("add"))})
      .MeanLoss("y");
  EXPECT_EQ(Ops(m), "Reshape Scatter ReduceMean");
}

TEST(ImportGather, TuplesOfOneIndexNeedNoArithmetic) {
  for (const int64_t length : {1, 2}) {
    OnnxModel m;
    m.Input("i", {6, length}, onnx::TensorProto::INT64)
        .Weight("x", {5, 4, 3})
        .Node("GatherND", {"x", "i"}, {"y"})
        .MeanLoss("y");
    EXPECT_EQ(Ops(m), length == 1 ? "Reshape Reshape Gather Reshape ReduceMean"
                                  : "FlatIndex Reshape Reshape Gather Reshape ReduceMean");
  }
}

// Rotary positions are computed in float64. What data looks up in them is of float32, as all that is not
// known.
TEST(ImportGather, OfKnownNumbersOfFloat64IsOfFloat32) {
  onnx::AttributeProto value;
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::DOUBLE);
  for (const int64_t extent : {3, 2}) value.mutable_t()->add_dims(extent);
  for (const double number : {1., 2., 3., 5., 7., 11.}) value.mutable_t()->add_double_data(number);
  onnx::AttributeProto values = value;
  values.mutable_t()->clear_dims();
  values.mutable_t()->add_dims(2);
  values.mutable_t()->mutable_double_data()->Truncate(2);
  const auto ops = [&](const std::string& op, const std::vector<std::string>& inputs) {
    OnnxModel m;
    m.Input("i", {4, 2}, onnx::TensorProto::INT64)
        .Input("row", {4, 1}, onnx::TensorProto::INT64)
        .Weight("w", {4, 2})
        .Integers("depth", {3}, true)
        .Integers("k", {1})
        .Integers("numbers", {0, 1})
        .Integers("column", {-1, 1})
        .Weight("w2", {2, 2})
        .Node("Constant", {}, {"x"}, {value})
        .Node("Constant", {}, {"values"}, {values})
        .Node("Cast", {"w"}, {"cast"}, {Attr("to", static_cast<int64_t>(onnx::TensorProto::DOUBLE))})
        .Node("Cast", {"w2"}, {"cast2"}, {Attr("to", static_cast<int64_t>(onnx::TensorProto::DOUBLE))})
        .Node("Reshape", {"numbers", "column"}, {"rows"})
        .Node(op, inputs, {"n"})
        .MeanLoss("n");
    return Ops(m);
  };
  EXPECT_EQ(ops("GatherElements", {"x", "i"}), "Gather ReduceMean");
  EXPECT_EQ(ops("GatherND", {"x", "row"}), "Reshape Reshape Gather Reshape ReduceMean");
  EXPECT_EQ(ops("ScatterElements", {"x", "i", "cast"}), "Scatter ReduceMean");
  EXPECT_EQ(ops("ScatterND", {"x", "row", "cast"}), "Reshape Reshape Reshape Scatter Reshape ReduceMean");
  EXPECT_EQ(ops("ScatterND", {"x", "rows", "cast2"}), "Slice Concat ReduceMean");
  EXPECT_EQ(ops("TopK", {"x", "k"}), "TopK Gather ReduceMean");
  EXPECT_EQ(ops("OneHot", {"row", "depth", "values"}),
            "Reshape Slice Slice Equal Equal Where Where ReduceMean");
}

TEST(ImportGather, WhatDoesNotFitIsRefused) {
  const auto error = [](const std::string& op, const std::vector<std::string>& inputs,
                        std::vector<onnx::AttributeProto> attrs = {}) {
    OnnxModel m;
    m.Input("i", {6, 2}, onnx::TensorProto::INT64)
        .Input("long", {6, 4}, onnx::TensorProto::INT64)
        .Input("flag", {5}, onnx::TensorProto::BOOL)
        .Weight("x", {5, 4, 3})
        .Weight("w", {6, 2})
        .Node(op, inputs, {"n"}, std::move(attrs))
        .MeanLoss("n");
    return Ops(m);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error("GatherND", {"x", "long"}), "node 'n' (GatherND): tuples of 4 indices after 0 axes do not fit");
  has(error("GatherND", {"x", "i"}, {Attr("batch_dims", int64_t{1})}),
      "the first axes of data and indices differ");
  has(error("GatherND", {"x", "i"}, {Attr("batch_dims", int64_t{-1})}), "after -1 axes");
  has(error("GatherElements", {"x", "i"}), "different ranks");
  has(error("GatherElements", {"w", "long"}), "more is asked for than there is on axis 1");
  has(error("GatherElements", {"w", "i"}, {Attr("axis", int64_t{2})}), "axis 2 is outside");
  has(error("ScatterElements", {"w", "long", "w"}), "indices and updates have different shapes");
  has(error("ScatterElements", {"w", "i", "w"}, {Attr("reduction", std::string("mean"))}),
      "there is no reduction 'mean'");
  has(error("ScatterND", {"x", "i", "w"}), "do not fit the slices [6,3] that are named");
  has(error("Compress", {"x", "flag"}), "the condition depends on data");
  has(error("Tile", {"x", "i"}), "must be known when compiling");
}

TEST(ImportGather, ARollIsTwoSlices) {
  OnnxModel m;
  m.Weight("x", {5, 3}).Integers("i", {3, 4, 0, 1, 2}).Node("Gather", {"x", "i"}, {"y"}).MeanLoss("y");
  EXPECT_EQ(Ops(m), "Slice Slice Concat ReduceMean");
}

// The dynamo exporter writes as_strided as a lookup at places in the flat tensor, which it computes
// from the extents.
TEST(ImportGather, PlacesThatAreALineInTheSampleAreAView) {
  OnnxModel m;
  m.Input("x", {"N", 6})
      .Weight("w", {6})
      .Integers("zero", {0}, true)
      .Integers("one", {1}, true)
      .Integers("two", {2}, true)
      .Integers("three", {3}, true)
      .Integers("six", {6}, true)
      .Integers("flat", {-1})
      .Integers("behind", {1, 2})
      .Integers("second", {1})
      .Integers("last", {1})
      .Node("Mul", {"x", "w"}, {"xw"})
      .Node("Reshape", {"xw", "flat"}, {"values"})
      .Node("Shape", {"x"}, {"shape"}, {Attr("end", int64_t{1})})
      .Node("Squeeze", {"shape"}, {"n"})
      .Node("Range", {"zero", "n", "one"}, {"samples"})
      .Node("Mul", {"samples", "six"}, {"rows"})
      .Node("Unsqueeze", {"rows", "behind"}, {"rows3"})
      .Node("Range", {"zero", "three", "one"}, {"r3"})
      .Node("Range", {"zero", "two", "one"}, {"r2"})
      .Node("Mul", {"r2", "three"}, {"halves"})
      .Node("Unsqueeze", {"r3", "last"}, {"r31"})
      .Node("Add", {"r31", "halves"}, {"columns"})
      .Node("Add", {"rows3", "columns"}, {"places"})  // [N,3,2]: 6n + i + 3k
      .Node("Gather", {"values", "places"}, {"y"})
      .MeanLoss("y");
  EXPECT_EQ(Ops(m), "Mul Reshape Reshape Reshape Transpose ReduceMean");
}

TEST(ImportGather, AWholeTensorIsReadForItsShapeAlone) {
  OnnxModel m;
  m.Input("x", {"N", 3})
      .Weight("w", {3})
      .Integers("zero", {0}, true)
      .Integers("one", {1}, true)
      .Integers("columns", {0, 1, 2})
      .Integers("axis", {1})
      .Node("Shape", {"x"}, {"shape"}, {Attr("end", int64_t{1})})
      .Node("Squeeze", {"shape"}, {"n"})
      .Node("Range", {"zero", "n", "one"}, {"samples"})
      .Node("Unsqueeze", {"samples", "axis"}, {"rows"})
      .Node("Max", {"rows", "columns"}, {"larger"})  // no polynomial
      .Node("Shape", {"larger"}, {"joint"})
      .Node("Expand", {"w", "joint"}, {"wide"})
      .Node("Mul", {"x", "wide"}, {"y"});
  OnnxModel read = m;
  m.MeanLoss("y");
  EXPECT_EQ(Ops(m), "Expand Mul ReduceMean");
  read.Node("Gather", {"y", "larger"}, {"z"}, {Attr("axis", int64_t{1})}).MeanLoss("z");
  EXPECT_EQ(Ops(read), "Range Reshape Integer Expand Mul Reshape Gather Reshape ReduceMean");
}

// In TorchScript's exports that row is all zeros. The dynamo exporter notes its number.
TEST(ImportGather, ARowForPaddingDoesNotTrain) {
  const auto padding = [](int zero_rows, const char* note, const char* producer = "pytorch") {
    OnnxModel m;
    m.proto.set_producer_name(producer);
    m.Input("token", {"N"}, onnx::TensorProto::INT64).Weight("table", {20, 4});
    std::string& data = *m.graph().mutable_initializer(0)->mutable_raw_data();
    std::fill_n(data.begin() + 5 * 16, zero_rows * 16, '\0');
    m.Node("Gather", {"table", "token"}, {"y"}).MeanLoss("y");
    if (note) {
      auto& entry = *m.graph().mutable_node(0)->add_metadata_props();
      entry.set_key("pkg.torch.onnx.fx_node");
      entry.set_value("%e : call_function[target=torch.ops.aten.embedding.default](args = (" +
                      std::string(note) + "), kwargs = {})");
    }
    const TemporaryFolder folder;
    auto result = ImportOnnx(m.Write(folder), {});
    if (!result) return llvm::toString(result.takeError());
    for (const Node& node : result->graph.nodes)
      if (node.op == "Gather") return std::to_string(node.attrs.Int("padding_index", -1));
    return std::string("no Gather");
  };
  EXPECT_EQ(padding(1, nullptr), "5");
  EXPECT_EQ(padding(0, nullptr), "-1");
  EXPECT_EQ(padding(2, nullptr), "-1") << "rows of zeros are no sign where there are several";
  EXPECT_EQ(padding(0, "%table, %token, 3"), "3");
  EXPECT_EQ(padding(1, "%table, %token"), "-1") << "the note knows better";
  EXPECT_EQ(padding(1, nullptr, "another"), "-1") << "zeros mean nothing in files of others";
}

// A lookup with known indices is a slice, whose gradient would reach that row.
TEST(ImportGather, AKnownLookupOfTheRowForPaddingIsNoSlice) {
  const auto ops = [](const std::vector<int64_t>& token) {
    OnnxModel m;
    m.proto.set_producer_name("pytorch");
    m.Integers("token", token).Weight("table", {20, 4});
    std::string& data = *m.graph().mutable_initializer(1)->mutable_raw_data();
    std::fill_n(data.begin() + 5 * 16, 16, '\0');
    m.Node("Gather", {"table", "token"}, {"y"}).MeanLoss("y");
    return Ops(m);
  };
  EXPECT_EQ(ops({6, 7, 8}).find("Gather"), std::string::npos) << ops({6, 7, 8});
  EXPECT_NE(ops({4, 5, 6}).find("Gather"), std::string::npos) << ops({4, 5, 6});
  EXPECT_NE(ops({5, 5, 5}).find("Gather"), std::string::npos) << ops({5, 5, 5});
  EXPECT_NE(ops({-16, -15, -14}).find("Gather"), std::string::npos) << ops({-16, -15, -14});
}

}  // namespace
}  // namespace act
