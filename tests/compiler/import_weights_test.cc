// Parameters, buffers and their data: stored, computed, initialized, or in files of their own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "compiler/ir/dump.h"
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using import_testing::Attr;
using import_testing::ErrorOf;
using import_testing::FindValue;
using import_testing::Import;
using import_testing::kGolden;
using import_testing::Linear;
using import_testing::OnnxModel;
using import_testing::TemporaryFolder;

TEST(Import, ParametersBuffersAndTheirData) {
  const ImportResult r = Import(kGolden + "resnet_basic/model.onnx");
  EXPECT_EQ(r.trainable.size(), 26u);  // 8 convolutions, 8 x 2 of norms, 2 of the classifier
  EXPECT_EQ(std::count_if(r.graph.values.begin(), r.graph.values.end(),
                          [](const Value& v) { return v.kind == ValueKind::kBuffer; }),
            16);
  for (const Value& v : r.graph.values) {
    if (v.kind != ValueKind::kParameter && v.kind != ValueKind::kBuffer) continue;
    EXPECT_EQ(v.data.bytes, v.type.Bytes().fixed) << v.name;
  }
  EXPECT_EQ(r.model_name, "model.onnx");
  EXPECT_EQ(r.onnx_nodes, 31);
  ASSERT_NE(r.logits, kNoValue);
  EXPECT_EQ(ToString(r.graph.value(r.logits).type), "f32[N,10]");
  EXPECT_EQ(r.graph.value(r.label).name, "label");
}

// ConstantOfShape in place of a stored weight is trained. Where nothing reads it as a weight,
// it is a constant.
TEST(Import, WeightsThatTheModelComputes) {
  onnx::AttributeProto fill;
  fill.set_name("value");
  fill.set_type(onnx::AttributeProto::TENSOR);
  fill.mutable_t()->add_dims(1);
  fill.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  fill.mutable_t()->add_float_data(.25f);
  OnnxModel m(9);
  m.Input("x", {"N", 3, 4, 4}).Integers("kernel", {2, 3, 1, 1}).Integers("channels", {2});
  for (const char* name : {"scale", "bias", "mean", "var", "shift"})
    m.Node("ConstantOfShape", {"channels"}, {name}, {fill});
  m.Node("ConstantOfShape", {"kernel"}, {"w"}, {fill});
  m.Node("Conv", {"x", "w"}, {"c"});
  m.Node("BatchNormalization", {"c", "scale", "bias", "mean", "var"}, {"y"});
  m.Node("Unsqueeze", {"shift"}, {"s"}, {Attr("axes", std::vector<int64_t>{1, 2})});
  m.Node("Add", {"y", "s"}, {"z"}).MeanLoss("z");
  const ImportResult r = Import(m);
  EXPECT_EQ(r.trainable.size(), 3u);  // w, scale, bias
  for (const auto& [name, kind] : std::map<std::string, ValueKind>{{"w", ValueKind::kParameter},
                                                                   {"scale", ValueKind::kParameter},
                                                                   {"mean", ValueKind::kBuffer},
                                                                   {"var", ValueKind::kBuffer}}) {
    const Value* value = FindValue(r.graph, name);
    ASSERT_TRUE(value) << name;
    EXPECT_EQ(value->kind, kind) << name;
    ASSERT_EQ(value->data.bytes, value->type.Bytes().fixed) << name;
    EXPECT_EQ(*reinterpret_cast<const float*>(value->data.data), .25f) << name;
  }
  EXPECT_EQ(FindValue(r.graph, "shift"), nullptr);

  ImportOptions he, report;
  he.init_he = true;
  report.report_only = true;
  const ImportResult seeded = Import(m, he), planned = Import(m, report);
  EXPECT_NE(*reinterpret_cast<const float*>(FindValue(seeded.graph, "w")->data.data), .25f);
  EXPECT_EQ(FindValue(planned.graph, "w")->data.data, nullptr);

  OnnxModel huge(9);
  huge.Input("x", {"N", 3, 4, 4}).Integers("kernel", {1 << 20, 1 << 20, 1, 1});
  huge.Node("ConstantOfShape", {"kernel"}, {"w"}, {fill});
  huge.Node("Conv", {"x", "w"}, {"c"}).MeanLoss("c");
  EXPECT_NE(ErrorOf(huge).find(
                "node 'w' (ConstantOfShape): the weights that the model computes have more than 2 GiB"),
            std::string::npos)
      << ErrorOf(huge);
}

TEST(Import, HeInitialization) {
  OnnxModel m;
  m.Input("x", {"N", 64}).Weight("w.weight", {512, 64}).Weight("w.bias", {512});
  m.Node("Gemm", {"x", "w.weight", "w.bias"}, {"y"}, {Attr("transB", int64_t{1})}).MeanLoss("y");
  for (auto& t : *m.graph().mutable_initializer()) {
    t.clear_raw_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& location = *t.add_external_data();
    location.set_key("location");
    location.set_value("absent.data");
  }
  EXPECT_NE(ErrorOf(m).find("--init=he"), std::string::npos);
  ImportOptions report;
  report.report_only = true;
  EXPECT_EQ(FindValue(Import(m, report).graph, "w.weight")->data.data, nullptr);

  ImportOptions options;
  options.init_he = true;
  const ImportResult a = Import(m, options), b = Import(m, options);
  const Value *wa = FindValue(a.graph, "w.weight"), *wb = FindValue(b.graph, "w.weight");
  ASSERT_EQ(wa->data.bytes, 512 * 64 * 4);
  EXPECT_EQ(std::memcmp(wa->data.data, wb->data.data, static_cast<size_t>(wa->data.bytes)), 0)
      << "deterministic";
  const auto* w = reinterpret_cast<const float*>(wa->data.data);
  double sum = 0, squares = 0;
  for (int i = 0; i < 512 * 64; ++i) {
    sum += w[i];
    squares += w[i] * w[i];
  }
  // 32,768 draws of N(0, 2 / 64): five standard errors of the mean and of the variance.
  const double n = 512 * 64, variance = 2. / 64;
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2 / n));
  EXPECT_EQ(reinterpret_cast<const float*>(FindValue(a.graph, "w.bias")->data.data)[7], 0);
  options.seed = 1;
  const ImportResult c = Import(m, options);
  EXPECT_NE(std::memcmp(wa->data.data, FindValue(c.graph, "w.weight")->data.data, 64), 0) << "another seed";
}

TEST(Import, ExternalDataIsMapped) {
  const TemporaryFolder folder;
  OnnxModel m = Linear();
  m.MeanLoss("logits");
  std::string bytes(3, 'x');  // an odd offset: the data is copied to an aligned place
  auto& w = *m.graph().mutable_initializer(0);
  bytes += w.raw_data();
  w.clear_raw_data();
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair("location", "weights/w.bin"), std::pair("offset", "3"), std::pair("length", "128")}) {
    auto& entry = *w.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  std::filesystem::create_directory(folder.path() / "weights");
  testing::Overwrite(folder / "weights/w.bin", bytes);
  const ImportResult r = Import(m.Write(folder));
  const Value* value = FindValue(r.graph, "w");
  ASSERT_EQ(value->data.bytes, 128);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(value->data.data) % 4, 0u);
  EXPECT_EQ(reinterpret_cast<const float*>(value->data.data)[31], 0.5f);
}

// Weights can be made, constants cannot, also where a weight has missed the same file before.
TEST(Import, AConstantInAMissingFileIsAnError) {
  OnnxModel m = Linear();
  m.Integers("shape", {-1, 2}).Node("Reshape", {"logits", "shape"}, {"y"}).MeanLoss("y");
  for (onnx::TensorProto& tensor : *m.graph().mutable_initializer()) {
    if (tensor.name() != "w" && tensor.name() != "shape") continue;
    tensor.clear_raw_data();
    tensor.clear_int64_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& entry = *tensor.add_external_data();
    entry.set_key("location");
    entry.set_value("absent.bin");
  }
  ImportOptions options;
  options.init_he = true;
  const std::string error = import_testing::ErrorOf(m, options);
  EXPECT_NE(error.find("tensor 'shape'"), std::string::npos) << error;
  EXPECT_NE(error.find("absent.bin"), std::string::npos) << error;
}

TEST(Import, TypedDataOfEveryType) {
  // f(x) = x + (float)constant for a constant of each type, stored in its typed field.
  struct Case {
    int type;
    void (*fill)(onnx::TensorProto&);
  };
  const Case cases[] = {
      {onnx::TensorProto::FLOAT, [](onnx::TensorProto& t) { t.add_float_data(3); }},
      {onnx::TensorProto::DOUBLE, [](onnx::TensorProto& t) { t.add_double_data(3); }},
      {onnx::TensorProto::INT64, [](onnx::TensorProto& t) { t.add_int64_data(3); }},
      {onnx::TensorProto::INT32, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::INT16, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::INT8, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::UINT8, [](onnx::TensorProto& t) { t.add_int32_data(3); }},
      {onnx::TensorProto::INT64,
       [](onnx::TensorProto& t) { t.set_raw_data(std::string("\3\0\0\0\0\0\0\0", 8)); }},
      {onnx::TensorProto::INT16, [](onnx::TensorProto& t) { t.set_raw_data(std::string("\3\0", 2)); }},
      {onnx::TensorProto::BFLOAT16, [](onnx::TensorProto& t) { t.add_int32_data(0x4040); }},
      {onnx::TensorProto::FLOAT16, [](onnx::TensorProto& t) { t.set_raw_data(std::string("\0\x42", 2)); }},
  };
  for (const Case& c : cases) {
    OnnxModel m = Linear();
    onnx::AttributeProto value;
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(c.type);
    c.fill(*value.mutable_t());
    m.Node("Constant", {}, {"k"}, {value}).Node("Cast", {"k"}, {"f"}, {Attr("to", int64_t{1})});
    m.Node("Add", {"logits", "f"}, {"y"}).MeanLoss("y");
    const ImportResult r = Import(m);
    const std::string dump = Dump(r.graph);
    EXPECT_NE(dump.find(", 3)"), std::string::npos) << "type " << c.type << "\n" << dump;
  }
}

// RecurrentGemma keeps the factor of its embeddings in 16 bits, and CogVideoX its positions in 64. The models cast them
// before they multiply.
TEST(Import, ABufferOfAnotherFloatIsAConstantOfFloat32) {
  struct Case {
    int type;
    uint64_t bits;
    const char* number;
  };
  const Case cases[] = {{onnx::TensorProto::BFLOAT16, 0x4234, "45)"},
                        {onnx::TensorProto::BFLOAT16, 0xbf80, "-1)"},
                        {onnx::TensorProto::FLOAT16, 0x51a0, "45)"},
                        {onnx::TensorProto::FLOAT16, 0x0200, "3.05176e-05)"},  // 2^-15, a denormal
                        {onnx::TensorProto::DOUBLE, 0x4046800000000000, "45)"}};
  for (const Case& c : cases) {
    for (const bool raw : {false, true}) {
      OnnxModel m = Linear();
      onnx::TensorProto& t = *m.graph().add_initializer();
      t.set_name("factor");
      t.set_data_type(c.type);
      const bool is_double = c.type == onnx::TensorProto::DOUBLE;
      if (raw)
        t.set_raw_data(&c.bits, is_double ? 8 : 2);  // of a processor that stores the lowest byte first
      else if (is_double)
        t.add_double_data(std::bit_cast<double>(c.bits));
      else
        t.add_int32_data(static_cast<int32_t>(c.bits));
      auto& info = *m.graph().add_value_info();
      info.set_name("factor");
      auto& kind = *info.add_metadata_props();
      kind.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
      kind.set_value("BUFFER");
      m.Node("Cast", {"factor"}, {"f"}, {Attr("to", int64_t{1})});
      m.Node("Mul", {"logits", "f"}, {"y"}).MeanLoss("y");
      const std::string dump = Dump(Import(m).graph);
      EXPECT_NE(dump.find(", " + std::string(c.number)), std::string::npos) << c.bits << "\n" << dump;
    }
  }
}

// A table of positions is too large to be folded. What is folded stays in float64 until it is a value of
// the graph.
TEST(Import, ALargeTableOfFloat64IsOfFloat32) {
  onnx::TensorProto table;
  table.set_name("table");
  table.set_data_type(onnx::TensorProto::DOUBLE);
  table.add_dims(4);
  table.add_dims(1 << 20);
  const std::vector<double> numbers(4 << 20, 45);
  table.set_raw_data(numbers.data(), numbers.size() * sizeof(double));
  for (const bool stored : {false, true}) {
    OnnxModel m = Linear();
    if (stored) {
      *m.graph().add_initializer() = table;
      auto& info = *m.graph().add_value_info();
      info.set_name("table");
      auto& kind = *info.add_metadata_props();
      kind.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
      kind.set_value("BUFFER");
    } else {
      onnx::AttributeProto value;
      value.set_name("value");
      value.set_type(onnx::AttributeProto::TENSOR);
      *value.mutable_t() = table;
      m.Node("Constant", {}, {"table"}, {value});
    }
    m.Node("Cast", {"table"}, {"t"}, {Attr("to", int64_t{1})});
    m.Node("MatMul", {"logits", "t"}, {"y"}).MeanLoss("y");
    const ImportResult r = Import(m);
    const Value* found = FindValue(r.graph, "table");
    ASSERT_NE(found, nullptr);
    const Value& value = *found;
    EXPECT_EQ(ToString(value.type), "f32[4,1048576]");
    ASSERT_EQ(value.data.bytes, value.type.Bytes().fixed);
    float last = 0;
    std::memcpy(&last, value.data.data + value.data.bytes - sizeof last, sizeof last);
    EXPECT_EQ(last, 45);
  }
}

TEST(Import, TransformsOfTheSameLengthShareTheirMatrix) {
  OnnxModel m;
  m.Input("x", {"N", 8, 1}).Node("Neg", {"x"}, {"minus"});
  m.Node("DFT", {"x"}, {"a"}).Node("DFT", {"minus"}, {"b"}).Node("Mul", {"a", "b"}, {"y"}).MeanLoss("y");
  const ImportResult r = Import(m);
  EXPECT_EQ(std::count_if(r.graph.values.begin(), r.graph.values.end(),
                          [](const Value& v) { return v.data.bytes == 8 * 16 * 4; }),
            1)
      << Dump(r.graph);
}

}  // namespace
}  // namespace act
