// Files that are not models, damaged models, and tensors whose data contradicts their description.
// Each gives one clear error and never a crash.
#include <random>

#include "compiler/ir/verify.h"
#include "runtime/plan/plan_file.h"
#include "tests/compiler/hostile_model.h"
#include "tests/paths.h"

namespace act {
namespace {

using testing::Hostile;
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
  EXPECT_NE(ErrorOfBytes(std::string("\x1c\0\0\0ACTP", 8) + "12345678").find("not an ONNX model"),
            std::string::npos);
  EXPECT_NE(ErrorOfBytes(std::string(plan_file::kMagic, sizeof plan_file::kMagic) + std::string(64, '\0'))
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

const Hostile kHostile[] = {
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
    // The model file serves as a data file that exists.
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
    {"weight_beyond_signed",
     [] {
       OnnxModel m = Linear();
       onnx::TensorProto& t = *m.graph().add_initializer();
       t.set_name("u");
       t.set_data_type(onnx::TensorProto::UINT64);
       t.add_uint64_data(uint64_t{1} << 63);
       m.Node("Cast", {"u"}, {"f"}, {testing::Attr("to", int64_t{1})}).Node("Mul", {"logits", "f"}, {"y"});
       return m.MeanLoss("y");
     },
     "tensor 'u': constants of type u64 above 2^63 - 1"},
};

class HostileTensor : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileTensor, IsOneClearError) { testing::ExpectOneClearError(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, HostileTensor, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

// A truncated or damaged file gives an error or a graph that verifies, never a crash. The sanitizer
// build finds more.
TEST(HostileFile, DamagedFilesDoNotCrash) {
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
    const std::string good = testing::Contents(GoldenFolder() + "/" + file);
    ASSERT_FALSE(good.empty()) << file;
    for (size_t i = 0; i < 64; ++i) import(good.substr(0, good.size() * i / 64));
    for (int i = 0; i < 400; ++i) {
      std::string bytes = good;
      // Most bytes are weights, and the others are the structure. One to four bytes at random
      // places in the whole file change.
      const size_t flips = 1 + random() % 4;
      for (size_t k = 0; k < flips; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
      import(bytes);
    }
  }
  // Both outcomes must occur, or the test tests nothing.
  EXPECT_GT(errors, 300);
  EXPECT_GT(graphs, 50);
}

}  // namespace
}  // namespace act
