// Integers of a model are exact from the file to the loss, even those that float32 cannot hold.
#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using testing_step::Take;

constexpr int64_t kGap = (int64_t{1} << 24) + 1;  // float32 rounds it to 2^24

// The inputs are a and b, i64[1]. `build` makes "y" from them. The loss is w float(y) with w = 1.
OnnxModel Model(const std::function<void(OnnxModel&)>& build) {
  OnnxModel m(18);
  m.Input("a", {1}, onnx::TensorProto::INT64).Input("b", {1}, onnx::TensorProto::INT64).Weight("w", {1}, 1);
  build(m);
  m.Node("Cast", {"y"}, {"f"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
  m.Node("Mul", {"w", "f"}, {"z"});
  m.Node("ReduceSum", {"z"}, {"loss"}, {Attr("keepdims", int64_t{0})}).Output("loss");
  return m;
}

ImportResult Import(const OnnxModel& m) {
  const TemporaryFolder folder;
  return Take(ImportOnnx(m.Write(folder), {}));
}

float ResultOf(const std::function<void(OnnxModel&)>& build, int64_t a, int64_t b) {
  const Plan plan = Take(Compile(Import(Model(build)), testing_step::Checked("L0", "sgd")));
  const auto bytes = [](int64_t x) { return testing_step::BytesOf(std::vector<int64_t>{x}); };
  return Take(
      testing_step::RunStep(plan, testing_step::CpuKernels(), {{"a", bytes(a)}, {"b", bytes(b)}}, {}))[0][0];
}

float ResultOf(const std::string& op, int64_t a, int64_t b, std::vector<onnx::AttributeProto> attrs = {}) {
  return ResultOf([&](OnnxModel& m) { m.Node(op, {"a", "b"}, {"y"}, attrs); }, a, b);
}

TEST(ImportIntegers, AreExactWhereFloatsAreNot) {
  EXPECT_EQ(ResultOf("Sub", kGap, kGap - 1), 1);
  EXPECT_EQ(ResultOf("Add", kGap, -kGap + 1), 1);
  EXPECT_EQ(ResultOf("Equal", kGap, kGap - 1), 0);
  EXPECT_EQ(ResultOf("Greater", kGap, kGap - 1), 1);
  EXPECT_EQ(ResultOf("Less", kGap, kGap - 1), 0);
  EXPECT_EQ(ResultOf("LessOrEqual", kGap, kGap - 1), 0);
  EXPECT_EQ(ResultOf("GreaterOrEqual", kGap - 1, kGap), 0);
  EXPECT_EQ(ResultOf("Mod", (int64_t{1} << 60) + 7, 10), 3);
  EXPECT_EQ(ResultOf("Mod", -7, 3), 2);
  EXPECT_EQ(ResultOf("Mod", -7, 3, {Attr("fmod", int64_t{1})}), -1);
  EXPECT_EQ(ResultOf("Div", -7, 2), -3);
  EXPECT_EQ(ResultOf("BitwiseXor", kGap, kGap - 1), 1);
  EXPECT_EQ(ResultOf("Max", kGap, -1), static_cast<float>(kGap));
  // A hash, in which products wrap.
  const auto hash = [](OnnxModel& m) {
    m.Integers("prime", {0x100000001b3}).Integers("buckets", {1000});
    m.Node("BitwiseXor", {"a", "b"}, {"mixed"}).Node("Mul", {"mixed", "prime"}, {"product"});
    m.Node("Mod", {"product", "buckets"}, {"y"});
  };
  const auto product = static_cast<int64_t>((uint64_t{0xcbf29ce484222325u} ^ 77) * uint64_t{0x100000001b3});
  EXPECT_EQ(ResultOf(hash, static_cast<int64_t>(0xcbf29ce484222325u), 77),
            static_cast<float>(((product % 1000) + 1000) % 1000));
}

TEST(ImportIntegers, KeepTheirWidth) {
  const auto narrowed = [](int type) {
    return [type](OnnxModel& m) {
      for (const char* x : {"a", "b"})
        m.Node("Cast", {x}, {std::string(x) + "n"}, {Attr("to", int64_t{type})});
      m.Node("Add", {"an", "bn"}, {"y"});
    };
  };
  EXPECT_EQ(ResultOf(narrowed(onnx::TensorProto::INT8), 100, 100), -56);
  EXPECT_EQ(ResultOf(narrowed(onnx::TensorProto::UINT8), 200, 100), 44);
  EXPECT_EQ(ResultOf(narrowed(onnx::TensorProto::INT32), kGap, 1 - kGap), 1);
  EXPECT_EQ(ResultOf(narrowed(onnx::TensorProto::UINT32), 0, -1), 4294967296.f);
}

TEST(ImportIntegers, SelectsThem) {
  const auto select = [](OnnxModel& m) {
    m.Node("Greater", {"a", "b"}, {"above"}).Node("Where", {"above", "a", "b"}, {"largest"});
    m.Node("Sub", {"largest", "b"}, {"y"});
  };
  EXPECT_EQ(ResultOf(select, kGap, kGap - 1), 1);
  EXPECT_EQ(ResultOf(select, kGap - 1, kGap), 0);
}

// What is exact in float32 stays in fused loops, so a mask takes no pass over memory of its own.
TEST(ImportIntegers, ComparisonsWithSmallConstantsStayInLoops) {
  const auto count = [](const std::vector<int64_t>& constant) {
    const ImportResult model = Import(Model([&](OnnxModel& m) {
      m.Integers("c", constant).Node("Greater", {"a", "c"}, {"y"});
    }));
    return std::count_if(model.graph.nodes.begin(), model.graph.nodes.end(),
                         [](const Node& n) { return n.op == "Integer"; });
  };
  EXPECT_EQ(count({-100}), 0);
  EXPECT_EQ(count({kGap - 2}), 0);
  EXPECT_EQ(count({kGap}), 1);
}

TEST(ImportIntegers, DividingByZeroIsAnErrorOfTheStep) {
  const Plan plan = Take(Compile(Import(Model([](OnnxModel& m) {
                                   m.Node("Div", {"a", "b"}, {"y"});
                                 })),
                                 testing_step::Checked("L0", "sgd")));
  auto result = testing_step::RunStep(plan, testing_step::CpuKernels(), {}, {});
  ASSERT_FALSE(static_cast<bool>(result));
  EXPECT_NE(llvm::toString(result.takeError()).find("'y' (Integer): divides by zero"), std::string::npos);
}

}  // namespace
}  // namespace act
