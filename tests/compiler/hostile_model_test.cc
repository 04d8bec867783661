// Models that are wrong or hostile: one clear error each, and never a crash.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "runtime/base/error.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Linear;
using testing::OnnxModel;
using testing::TemporaryFolder;

std::string ErrorOfBytes(const std::string& bytes) {
  const TemporaryFolder folder;
  testing::Overwrite(folder / "m.onnx", bytes);
  auto result = ImportOnnx(folder / "m.onnx", {});
  return result ? "no error" : llvm::toString(result.takeError());
}

TEST(HostileFile, IsNamedForWhatItIs) {
  EXPECT_NE(ErrorOfBytes("").find("m.onnx: is empty, not an ONNX model"), std::string::npos);
  EXPECT_NE(ErrorOfBytes("\x1c\0\0\0ACTP????"
                         "????")
                .find("not an ONNX model"),
            std::string::npos);
  EXPECT_NE(ErrorOfBytes(std::string("\x1c\0\0\0ACTP", 8) + std::string(64, '\0'))
                .find("a plan, not an ONNX model\nhint: run it with actrun"),
            std::string::npos);
  EXPECT_NE(ErrorOfBytes("PK\x03\x04 and more").find("a zip archive"), std::string::npos);
  EXPECT_NE(ErrorOfBytes("hello, world").find("not an ONNX model"), std::string::npos);
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "absent.onnx", folder.path().string()}) {
    auto result = ImportOnnx(path, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(llvm::toString(result.takeError()).rfind(path + ": ", 0), 0u) << "the file comes first";
  }
}

struct Hostile {
  const char* name;
  std::function<OnnxModel()> make;
  const char* expected;  // part of the error
};

OnnxModel WithWeight(const std::function<void(onnx::TensorProto&)>& change) {
  OnnxModel m = Linear();
  m.MeanLoss("logits");
  change(*m.graph().mutable_initializer(0));
  return m;
}

void External(onnx::TensorProto& t, const char* location, const char* offset = nullptr,
              const char* length = nullptr) {
  t.clear_raw_data();
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair("location", location), std::pair("offset", offset), std::pair("length", length)}) {
    if (!value) continue;
    auto& entry = *t.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

// Linear, then one node "n" on its result, then the loss.
OnnxModel WithNode(const char* op, std::vector<std::string> extra_inputs,
                   std::vector<onnx::AttributeProto> attrs = {}) {
  OnnxModel m = Linear();
  std::vector<std::string> inputs{"logits"};
  inputs.insert(inputs.end(), extra_inputs.begin(), extra_inputs.end());
  m.Integers("huge", {int64_t{1} << 40, int64_t{1} << 40}).Integers("one", {1}).Integers("minus", {-5});
  m.Integers("zero_step", {0}).Integers("axis9", {9});
  m.Node(op, inputs, {"n"}, attrs).MeanLoss("n");
  return m;
}

const Hostile kHostile[] = {
    {"opset_too_old",
     [] {
       OnnxModel m = Linear(6);
       m.MeanLoss("logits");
       return m;
     },
     "node 'logits' (Gemm): has at opset 6 a form that changed until opset 7"},
    {"opset_too_new",
     [] {
       OnnxModel m = Linear(99);
       m.MeanLoss("logits");
       return m;
     },
     "is opset 99"},
    {"no_opset",
     [] {
       OnnxModel m = Linear();
       m.proto.clear_opset_import();
       m.MeanLoss("logits");
       return m;
     },
     "opset_import"},
    {"ir_version",
     [] {
       OnnxModel m = Linear();
       m.proto.set_ir_version(1000);
       m.MeanLoss("logits");
       return m;
     },
     "IR version 1000"},
    {"no_output", [] { return Linear(); }, "the model has no output"},
    {"output_of_nothing",
     [] {
       OnnxModel m = Linear();
       m.Output("absent");
       return m;
     },
     "output 'absent': nothing makes it"},
    {"cycle",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}).Node("Add", {"x", "b"}, {"a"}).Node("Relu", {"a"}, {"b"}).MeanLoss("a");
       return m;
     },
     "node 'a' (Add): reads 'b', which node 'b' (Relu) makes later: a cycle"},
    {"self_cycle",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}).Node("Add", {"x", "a"}, {"a"}).MeanLoss("a");
       return m;
     },
     "makes later: a cycle"},
    {"missing_input",
     [] {
       OnnxModel m;
       m.Node("Relu", {"nowhere"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Relu): reads 'nowhere', which nothing makes"},
    {"duplicate_value",
     [] {
       OnnxModel m = Linear();
       m.Node("Relu", {"logits"}, {"logits"}).MeanLoss("logits");
       return m;
     },
     "made twice"},
    {"duplicate_input",
     [] {
       OnnxModel m = Linear();
       m.Input("image", {"N", 8}).MeanLoss("logits");
       return m;
     },
     "'image': is made twice"},
    {"duplicate_initializer",
     [] {
       OnnxModel m = Linear();
       m.Weight("w", {4, 8}).MeanLoss("logits");
       return m;
     },
     "'w': is made twice"},
    {"too_few_inputs",
     [] {
       OnnxModel m = Linear();
       m.Node("Conv", {"logits"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Conv): has 1 inputs"},
    {"left_out_input",
     [] {
       OnnxModel m = Linear();
       m.Node("Add", {"logits", ""}, {"y"}).MeanLoss("y");
       return m;
     },
     "input 1 is left out"},
    {"left_out_operand_of_many",
     [] {
       OnnxModel m = Linear();
       m.Node("Max", {"logits", ""}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Max): input 1 is left out"},
    {"no_outputs_of_a_node",
     [] {
       OnnxModel m = Linear();
       m.graph().mutable_node(0)->clear_output();
       m.Output("logits");
       return m;
     },
     "nothing makes it"},
    {"shapes_do_not_fit",
     [] {
       OnnxModel m = Linear();
       m.Weight("v", {3}).Node("Add", {"logits", "v"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Add): shapes do not broadcast: [N,4] and [3]"},
    {"integer_arithmetic",
     [] {
       OnnxModel m = Linear();
       m.Input("k", {"N", 4}, onnx::TensorProto::INT64).Node("Add", {"logits", "k"}, {"y"}).MeanLoss("y");
       return m;
     },
     "node 'y' (Add)"},
    {"double_input",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}, onnx::TensorProto::DOUBLE).MeanLoss("x");
       return m;
     },
     "input 'x': is f64; training computes in f32"},
    {"string_input",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2}, onnx::TensorProto::STRING).MeanLoss("x");
       return m;
     },
     "element type 8 is not supported"},
    {"negative_extent",
     [] {
       OnnxModel m;
       m.Input("x", {"N", -3}).MeanLoss("x");
       return m;
     },
     "axis 1 has the extent -3"},
    {"huge_input",
     [] {
       OnnxModel m;
       m.Input("x", {"N", int64_t{1} << 40, int64_t{1} << 40}).MeanLoss("x");
       return m;
     },
     "input 'x': is too large"},
    {"unnamed_axis",
     [] {
       OnnxModel m;
       m.Input("x", {"N", ""}).MeanLoss("x");
       return m;
     },
     "axis 1 has neither an extent nor a name"},
    {"weight_too_short", [] { return WithWeight([](auto& t) { t.mutable_raw_data()->pop_back(); }); },
     "tensor 'w': holds 127 bytes, f32[4,8] needs 128"},
    {"weight_without_data", [] { return WithWeight([](auto& t) { t.clear_raw_data(); }); },
     "tensor 'w': holds 0 elements, its dims say 32"},
    {"weight_huge", [] { return WithWeight([](auto& t) { t.set_dims(0, int64_t{1} << 59); }); },
     "tensor 'w': is too large"},
    {"weight_overflow",
     [] {
       return WithWeight([](auto& t) {
         t.set_dims(0, int64_t{1} << 33);
         t.set_dims(1, int64_t{1} << 33);
       });
     },
     "tensor 'w': is too large"},
    {"weight_negative", [] { return WithWeight([](auto& t) { t.set_dims(0, -4); }); },
     "tensor 'w': has the extent -4"},
    {"weight_half",
     [] {
       return WithWeight([](auto& t) {
         t.set_data_type(onnx::TensorProto::FLOAT16);
         t.mutable_raw_data()->resize(64);
       });
     },
     "is f16; training computes in f32"},
    {"weight_of_no_type", [] { return WithWeight([](auto& t) { t.set_data_type(77); }); },
     "element type 77 is not supported"},
    {"external_parent", [] { return WithWeight([](auto& t) { External(t, "../secret"); }); },
     "external data '../secret' is not a file inside the model's folder"},
    {"external_inner_parent", [] { return WithWeight([](auto& t) { External(t, "a/../../secret"); }); },
     "is not a file inside the model's folder"},
    {"external_absolute", [] { return WithWeight([](auto& t) { External(t, "/etc/passwd"); }); },
     "is not a file inside the model's folder"},
    {"external_nowhere", [] { return WithWeight([](auto& t) { External(t, ""); }); },
     "is not a file inside the model's folder"},
    {"external_missing", [] { return WithWeight([](auto& t) { External(t, "absent.bin"); }); },
     "hint: put the file there, or start from seeded weights with --init=he"},
    // The model itself serves as a data file that exists.
    {"external_offset", [] { return WithWeight([](auto& t) { External(t, "model.onnx", "999999999"); }); },
     "are not all there"},
    {"external_offset_overflow",
     [] { return WithWeight([](auto& t) { External(t, "model.onnx", "9223372036854775807"); }); },
     "are not all there"},
    {"external_offset_negative", [] { return WithWeight([](auto& t) { External(t, "model.onnx", "-1"); }); },
     "are not all there"},
    {"external_offset_garbage", [] { return WithWeight([](auto& t) { External(t, "model.onnx", "12x"); }); },
     "has offset '12x'"},
    {"external_length", [] { return WithWeight([](auto& t) { External(t, "model.onnx", "0", "7"); }); },
     "has 7 bytes, its type needs 128"},
    {"expand_huge", [] { return WithNode("Expand", {"huge"}); }, "node 'n' (Expand)"},
    {"reshape_wrong", [] { return WithNode("Reshape", {"minus"}); },
     "node 'n' (Reshape): cannot reshape f32[N,4] to [-5]"},
    {"reshape_by_data",
     [] {
       OnnxModel m = Linear();
       m.Input("s", {2}, onnx::TensorProto::INT64).Node("Reshape", {"logits", "s"}, {"n"}).MeanLoss("n");
       return m;
     },
     "node 'n' (Reshape): the shape in input 1 depends on data"},
    {"axis_outside", [] { return WithNode("Concat", {"logits"}, {Attr("axis", int64_t{5})}); },
     "axis 5 is outside a tensor of rank 2"},
    {"axes_outside", [] { return WithNode("Unsqueeze", {"axis9"}); }, "axis 9 is outside"},
    {"squeeze_wide_axis", [] { return WithNode("Squeeze", {"one"}); }, "squeezes axis 1 of f32[N,4]"},
    {"slice_step_zero",
     [] {
       return WithNode("Slice", {"one", "one", "one", "zero_step"});
     },
     "node 'n' (Slice)"},
    {"slice_of_the_batch",
     [] {
       return WithNode("Slice", {"one", "axis9", "zero_step"});
     },
     "depends on the batch size"},
    {"transpose_perm",
     [] {
       return WithNode("Transpose", {}, {Attr("perm", std::vector<int64_t>{0, 7})});
     },
     "perm is not a permutation"},
    {"table_lookup_by_floats",
     [] {
       OnnxModel m;
       m.Input("k", {"N"}).Weight("w", {5, 2}).Node("Gather", {"w", "k"}, {"n"}).MeanLoss("n");
       return m;
     },
     "node 'n' (Gather): an index is i64 or i32"},
    {"table_lookup_too_large",
     [] {
       OnnxModel m;
       m.Input("k", {int64_t{1} << 40}, onnx::TensorProto::INT64)
           .Input("x", {2, int64_t{1} << 30})
           .Node("Gather", {"x", "k"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "is too large"},
    {"cast_to_nothing", [] { return WithNode("Cast", {}, {Attr("to", int64_t{99})}); },
     "casts to element type 99"},
    {"attribute_of_wrong_type",
     [] { return WithNode("LeakyRelu", {}, {Attr("alpha", std::string("much"))}); },
     "attribute 'alpha' has the wrong type"},
    {"pool_without_kernel", [] { return WithNode("MaxPool", {}); }, "node 'n' (MaxPool)"},
    {"pool_stride_zero",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 1, 4, 4})
           .Node("MaxPool", {"x"}, {"n"},
                 {Attr("kernel_shape", std::vector<int64_t>{2, 2}),
                  Attr("strides", std::vector<int64_t>{0, 1})})
           .MeanLoss("n");
       return m;
     },
     "must be positive"},
    {"pool_kernel_too_large",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 1, 4, 4})
           .Node("MaxPool", {"x"}, {"n"}, {Attr("kernel_shape", std::vector<int64_t>{9, 9})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (MaxPool)"},
    {"conv_group_zero",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4})
           .Weight("w", {2, 3, 1, 1})
           .Node("Conv", {"x", "w"}, {"n"}, {Attr("group", int64_t{0})})
           .MeanLoss("n");
       return m;
     },
     "node 'n' (Conv)"},
    {"resize_by_data",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 3, 4, 4}).Input("s", {4}).Node("Resize", {"x", "", "s"}, {"n"}).MeanLoss("n");
       return m;
     },
     "scales or sizes must be known"},
    {"dropout_of_all",
     [] {
       OnnxModel m = Linear(10);
       m.Node("Dropout", {"logits"}, {"n"}, {Attr("ratio", 1.)}).MeanLoss("n");
       return m;
     },
     "the ratio must be in [0, 1)"},
    {"loss_without_labels_shape",
     [] {
       OnnxModel m = Linear();
       m.Input("y", {"N", 2}, onnx::TensorProto::INT64)
           .Node("SoftmaxCrossEntropyLoss", {"logits", "y"}, {"loss"})
           .Output("loss");
       return m;
     },
     "node 'loss' (SoftmaxCrossEntropyLoss): labels are i64[N,2]"},
    {"batch_size_as_data",
     [] {
       OnnxModel m = Linear();
       m.Node("Shape", {"logits"}, {"s"})
           .Node("Cast", {"s"}, {"f"}, {Attr("to", int64_t{1})})
           .Node("ReduceMax", {"f"}, {"top"})
           .Node("Mul", {"logits", "top"}, {"n"})
           .MeanLoss("n");
       return m;
     },
     "computed from the batch size is used as data"},
};

class HostileModel : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileModel, IsOneClearError) {
  const TemporaryFolder folder;
  const std::string path = GetParam().make().Write(folder);
  auto result = ImportOnnx(path, {});
  ASSERT_FALSE(result) << "it was imported";
  const std::string error = llvm::toString(result.takeError());
  EXPECT_NE(error.find(GetParam().expected), std::string::npos) << error;
  EXPECT_EQ(error.rfind(path + ": ", 0), 0u) << error;
}

INSTANTIATE_TEST_SUITE_P(All, HostileModel, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

TEST(HostileModel, ZeroExtentsAreTensorsLikeOthers) {
  OnnxModel m;
  m.Input("x", {"N", 0}).Weight("w", {0, 3}).Node("MatMul", {"x", "w"}, {"y"}).MeanLoss("y");
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  ASSERT_TRUE(static_cast<bool>(result)) << llvm::toString(result.takeError());
}

TEST(HostileModel, ManySmallNodesCannotAskForMuchMemory) {
  OnnxModel m = Linear();
  m.Integers("shape", {1 << 16})
      .Integers("step", {1}, true)
      .Integers("zero", {0}, true)
      .Integers("limit", {1 << 16}, true);
  for (int i = 0; i < 1000; ++i) m.Node("Range", {"zero", "limit", "step"}, {"r" + std::to_string(i)});
  std::vector<std::string> all;
  for (int i = 0; i < 1000; ++i) all.push_back("r" + std::to_string(i));
  m.Node("Concat", all, {"c"}, {Attr("axis", int64_t{0})})
      .Node("Cast", {"c"}, {"f"}, {Attr("to", int64_t{1})});
  m.Node("ReduceMax", {"f"}, {"top"}).Node("Mul", {"logits", "top"}, {"n"}).MeanLoss("n");
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  ASSERT_FALSE(result);
  EXPECT_NE(llvm::toString(result.takeError()).find("too large to fold"), std::string::npos);
}

// Truncated and damaged files: an error or a graph that verifies, never a crash (the sanitizer build finds
// more).
TEST(HostileModel, DamagedFilesDoNotCrash) {
  std::mt19937 random(1);
  int errors = 0, graphs = 0;
  const auto import = [&](const std::string& bytes) {
    const TemporaryFolder folder;
    testing::Overwrite(folder / "m.onnx", bytes);
    ImportOptions options;
    options.report_only = true;
    auto result = ImportOnnx(folder / "m.onnx", options);
    if (!result) {
      ++errors;
      EXPECT_NE(llvm::toString(result.takeError()), "");
    } else {
      ++graphs;
      if (llvm::Error error = Verify(result->graph, Stage::kImported))
        ADD_FAILURE() << llvm::toString(std::move(error));
    }
  };
  for (const char* file :
       {"mlp/model.onnx", "mlp/model_dynamo.onnx", "lenet/model.onnx", "fcn/model_dynamo.onnx"}) {
    const std::string good = testing::Contents(std::string(ACT_SOURCE_DIR) + "/tests/golden/" + file);
    ASSERT_FALSE(good.empty()) << file;
    for (size_t i = 0; i < 64; ++i) import(good.substr(0, good.size() * i / 64));
    for (int i = 0; i < 400; ++i) {
      std::string bytes = good;
      // Most bytes are weights; damage the structure: the last quarter holds nodes too, so mix whole-file and
      // tail flips.
      const size_t flips = 1 + random() % 4;
      for (size_t k = 0; k < flips; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
      import(bytes);
    }
  }
  // Both happen, or the test tests nothing.
  EXPECT_GT(errors, 300);
  EXPECT_GT(graphs, 50);
}

}  // namespace
}  // namespace act
