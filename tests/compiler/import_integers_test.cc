// Integers of a model are exact from the file to the loss, even those that float32 cannot hold.
#include <limits>

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

// An input "x" and what `build` makes of it, "y" of the shape `to`: y as floats. y is the gradient
// of a weight, and the inputs' symbol N has the extent `batch`.
struct Table {
  std::vector<testing::Extent> dims;  // of x
  std::vector<int64_t> to;            // of y
  int type = onnx::TensorProto::INT64;
  int64_t opset = 18;
};

OnnxModel Model(const Table& t, const std::function<void(OnnxModel&)>& build) {
  OnnxModel m(t.opset);
  m.Input("x", t.dims, t.type).Weight("w", t.to, 1);
  build(m);
  m.Node("Cast", {"y"}, {"f"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
  m.Node("Mul", {"w", "f"}, {"z"});
  m.Node("ReduceSum", {"z"}, {"loss"}, {Attr("keepdims", int64_t{0})}).Output("loss");
  return m;
}

using Floats = std::vector<float>;

Floats Rounded(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

template <class T>
Floats ValuesOf(const Table& t, const std::function<void(OnnxModel&)>& build, const std::vector<T>& x,
                int64_t batch = 1) {
  const Plan plan = Take(Compile(Import(Model(t, build)), testing_step::Checked("L0", "none")));
  testing_step::StepOptions options;
  const int64_t* fixed = std::get_if<int64_t>(&t.dims[0]);
  options.batch = fixed ? *fixed : batch;
  options.check_memory = true;
  return Take(
      testing_step::RunStep(plan, testing_step::CpuKernels(), {{"x", testing_step::BytesOf(x)}}, options))[1];
}

std::string Refusal(const Table& t, const std::function<void(OnnxModel&)>& build) {
  const TemporaryFolder folder;
  auto model = ImportOnnx(Model(t, build).Write(folder), {});
  return model ? "" : llvm::toString(model.takeError());
}

std::function<void(OnnxModel&)> Reduced(const std::string& op, const std::vector<int64_t>& axes, bool keep) {
  return [=](OnnxModel& m) {
    m.Integers("axes", axes);
    m.Node(op, {"x", "axes"}, {"y"}, {Attr("keepdims", int64_t{keep})});
  };
}

std::function<void(OnnxModel&)> One(const std::string& op, std::vector<onnx::AttributeProto> attrs) {
  return [=](OnnxModel& m) { m.Node(op, {"x"}, {"y"}, attrs); };
}

TEST(ImportIntegers, Reductions) {
  const std::vector<int64_t> x = {kGap, 3, -kGap, -2, 7, 7};
  const auto rows = [&](const std::string& op) {
    return ValuesOf({{2, 3}, {2}}, Reduced(op, {-1}, false), x);
  };
  EXPECT_EQ(rows("ReduceSum"), Rounded({3, 12}));
  EXPECT_EQ(rows("ReduceMean"), Rounded({1, 4}));
  EXPECT_EQ(rows("ReduceMax"), Rounded({kGap, 7}));
  EXPECT_EQ(rows("ReduceMin"), Rounded({-kGap, -2}));
  EXPECT_EQ(rows("ReduceProd"), Rounded({-3 * kGap * kGap, -98}));
  EXPECT_EQ(rows("ReduceL1"), Rounded({2 * kGap + 3, 16}));
  EXPECT_EQ(rows("ReduceSumSquare"), Rounded({2 * kGap * kGap + 9, 102}));
  EXPECT_EQ(ValuesOf({{2, 3}, {1, 3}}, Reduced("ReduceSum", {0}, true), x),
            Rounded({kGap - 2, 10, 7 - kGap}));
  EXPECT_EQ(ValuesOf({{2, 3}, {1, 1}}, Reduced("ReduceSum", {}, true), x), Rounded({15}));
}

TEST(ImportIntegers, ReductionsOverTheBatch) {
  const std::vector<int64_t> x = {5, -4, kGap, 1, -kGap, -6};
  EXPECT_EQ(ValuesOf({{"N", 2}, {2}}, Reduced("ReduceSum", {0}, false), x, 3), Rounded({5, -9}));
  EXPECT_EQ(ValuesOf({{"N", 2}, {2}}, Reduced("ReduceMean", {0}, false), x, 3), Rounded({1, -3}));
  EXPECT_EQ(ValuesOf({{"N", 2}, {2}}, Reduced("ReduceMin", {0}, false), x, 3), Rounded({-kGap, -6}));
  EXPECT_EQ(ValuesOf<int64_t>({{"N", 2}, {2}}, Reduced("ReduceMax", {0}, false), {5, -4}, 1),
            Rounded({5, -4}));
}

TEST(ImportIntegers, ReductionsWrapInTheirType) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const Table ints{{2}, {1}, onnx::TensorProto::INT32};
  EXPECT_EQ(ValuesOf<int32_t>(ints, Reduced("ReduceSum", {0}, true), {kMost, 1}), Rounded({-2147483648}));
  EXPECT_EQ(ValuesOf<int32_t>(ints, Reduced("ReduceProd", {0}, true), {65536, 65537}), Rounded({65536}));
  EXPECT_EQ(ValuesOf<int32_t>(ints, Reduced("ReduceMin", {0}, true), {-kMost - 1, 3}),
            Rounded({-2147483648}));
  const Table bytes{{2}, {1}, onnx::TensorProto::UINT8};
  EXPECT_EQ(ValuesOf<uint8_t>(bytes, Reduced("ReduceMax", {0}, true), {200, 3}), Rounded({200}));
  EXPECT_EQ(ValuesOf<uint8_t>(bytes, Reduced("ReduceMin", {0}, true), {200, 3}), Rounded({3}));
}

TEST(ImportIntegers, AnyAndAllOfFlags) {
  const Table flags{{2, 2}, {2}, onnx::TensorProto::BOOL, 20};
  EXPECT_EQ(ValuesOf<uint8_t>(flags, Reduced("ReduceMax", {1}, false), {0, 1, 0, 0}), Rounded({1, 0}));
  EXPECT_EQ(ValuesOf<uint8_t>(flags, Reduced("ReduceMin", {1}, false), {0, 1, 1, 1}), Rounded({0, 1}));
}

// Positions of words from a mask, as RoBERTa and OPT count them.
TEST(ImportIntegers, RunningSums) {
  const auto sums = [](bool exclusive, bool reverse, int64_t axis) {
    return ValuesOf<int64_t>(
        {{2, 3}, {2, 3}},
        [=](OnnxModel& m) {
          m.Integers("axis", {axis}, true);
          m.Node("CumSum", {"x", "axis"}, {"y"},
                 {Attr("exclusive", int64_t{exclusive}), Attr("reverse", int64_t{reverse})});
        },
        {1, kGap, 1 - kGap, 4, 5, 6});
  };
  EXPECT_EQ(sums(false, false, -1), Rounded({1, kGap + 1, 2, 4, 9, 15}));
  EXPECT_EQ(sums(true, false, 1), Rounded({0, 1, kGap + 1, 0, 4, 9}));
  EXPECT_EQ(sums(false, true, 1), Rounded({2, 1, 1 - kGap, 15, 11, 6}));
  EXPECT_EQ(sums(true, true, 0), Rounded({4, 5, 6, 0, 0, 0}));
}

TEST(ImportIntegers, LargestAndSmallest) {
  const std::vector<int64_t> x = {kGap - 1, kGap, kGap, -1, -5, -5};
  const auto arg = [&](const char* op, int64_t last) {
    return ValuesOf({{2, 3}, {2, 1}}, One(op, {Attr("axis", int64_t{-1}), Attr("select_last_index", last)}),
                    x);
  };
  EXPECT_EQ(arg("ArgMax", 0), Rounded({1, 0}));
  EXPECT_EQ(arg("ArgMax", 1), Rounded({2, 0}));
  EXPECT_EQ(arg("ArgMin", 0), Rounded({0, 1}));
  EXPECT_EQ(arg("ArgMin", 1), Rounded({0, 2}));
  const auto top = [](int64_t largest) {
    return [largest](OnnxModel& m) {
      m.Integers("k", {2}).Node("TopK", {"x", "k"}, {"y", "index"}, {Attr("largest", largest)});
    };
  };
  EXPECT_EQ(ValuesOf({{2, 3}, {2, 2}}, top(1), x), Rounded({kGap, kGap, -1, -5}));
  EXPECT_EQ(ValuesOf({{2, 3}, {2, 2}}, top(0), x), Rounded({kGap - 1, kGap, -5, -5}));
}

TEST(ImportIntegers, AreScattered) {
  const auto scatter = [](const std::string& reduction) {
    return [reduction](OnnxModel& m) {
      m.Integers("index", {0, 0, 2}).Integers("into", {kGap, 2, -3});
      m.Node("ScatterElements", {"into", "index", "x"}, {"y"}, {Attr("reduction", reduction)});
    };
  };
  const Table t{{3}, {3}};
  EXPECT_EQ(ValuesOf<int64_t>(t, scatter("add"), {1, -kGap, 4}), Rounded({1, 2, 1}));
  EXPECT_EQ(ValuesOf<int64_t>(t, scatter("mul"), {2, 0, 4}), Rounded({0, 2, -12}));
  EXPECT_EQ(ValuesOf<int64_t>(t, scatter("min"), {2, 5, 4}), Rounded({2, 2, -3}));
  EXPECT_EQ(ValuesOf<int64_t>(t, scatter("max"), {2, 5, 4}), Rounded({kGap, 2, 4}));
}

TEST(ImportIntegers, AreRepeatedAndPadded) {
  // Less 2^24, so that a rounding shows.
  const auto less = [](OnnxModel& m) { m.Integers("base", {kGap - 1}).Node("Sub", {"wide", "base"}, {"y"}); };
  const Table t{{2, 1}, {2, 3}};
  EXPECT_EQ(ValuesOf<int64_t>(t,
                              [&](OnnxModel& m) {
                                m.Integers("shape", {2, 3}).Node("Expand", {"x", "shape"}, {"wide"});
                                less(m);
                              },
                              {kGap, kGap + 2}),
            Rounded({1, 1, 1, 3, 3, 3}));
  EXPECT_EQ(ValuesOf<int64_t>(t,
                              [&](OnnxModel& m) {
                                m.Integers("repeats", {1, 3}).Node("Tile", {"x", "repeats"}, {"wide"});
                                less(m);
                              },
                              {kGap, kGap + 2}),
            Rounded({1, 1, 1, 3, 3, 3}));
  const auto pad = [&](const std::string& value) {
    return ValuesOf<int64_t>({{2, 1}, {2, 2}},
                             [&](OnnxModel& m) {
                               m.Integers("pads", {0, 0, 0, 1}).Integers("constant", {kGap}, true);
                               m.Integers("first", {0, 0}).Node("GatherND", {"x", "first"}, {"data"});
                               m.Node("Pad", {"x", "pads", value}, {"wide"});
                               less(m);
                             },
                             {kGap, kGap + 2});
  };
  EXPECT_EQ(pad("constant"), Rounded({1, 1, 3, 1}));
  EXPECT_EQ(pad("data"), Rounded({1, 1, 3, 1}));
}

TEST(ImportIntegers, OneHotHasItsValues) {
  const auto hot = [](OnnxModel& m) {
    m.Integers("depth", {3}, true).Integers("values", {kGap, kGap + 2});
    m.Node("OneHot", {"x", "depth", "values"}, {"hot"});
    m.Integers("base", {kGap}).Node("Sub", {"hot", "base"}, {"y"});
  };
  EXPECT_EQ(ValuesOf<int64_t>({{3}, {3, 3}}, hot, {1, -1, 5}), Rounded({0, 2, 0, 0, 0, 2, 0, 0, 0}));
  const auto of_floats = [](OnnxModel& m) {
    m.Integers("depth", {3}, true).Integers("values", {0, 2});
    m.Node("Constant", {}, {"factor"}, {Attr("value_float", .6)});
    m.Node("Cast", {"x"}, {"real"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
    m.Node("Mul", {"real", "factor"}, {"index"}).Node("OneHot", {"index", "depth", "values"}, {"y"});
  };
  EXPECT_EQ(ValuesOf<int64_t>({{3}, {3, 3}}, of_floats, {1, 3, -2}), Rounded({2, 0, 0, 0, 2, 0, 0, 0, 2}))
      << "as its cast to integers, 0, 1 and -1";
}

TEST(ImportIntegers, Products) {
  const auto product = [](OnnxModel& m) {
    m.Integers("flat", {1, -1, kGap, 0, 2, 1}).Integers("shape", {3, 2});
    m.Node("Reshape", {"flat", "shape"}, {"b"}).Node("MatMul", {"x", "b"}, {"y"});
  };
  EXPECT_EQ(ValuesOf<int64_t>({{2, 3}, {2, 2}}, product, {1, 1, 0, kGap, -1, 3}),
            Rounded({kGap + 1, -1, 6, 3 - kGap}));
  const auto einsum = [](const std::string& equation) {
    return [equation](OnnxModel& m) { m.Node("Einsum", {"x", "x"}, {"y"}, {Attr("equation", equation)}); };
  };
  EXPECT_EQ(ValuesOf<int64_t>({{2, 2}, {2, 2}}, einsum("ij,kj->ik"), {1, 2, 3, 4}), Rounded({5, 11, 11, 25}));
  EXPECT_EQ(ValuesOf<int64_t>({{2, 2}, {2}}, einsum("ij,ij->i"), {kGap, 2, 3, 4}),
            Rounded({kGap * kGap + 4, 25}));
}

// Sums, largest and smallest of the elements that a NonZero found.
TEST(ImportIntegers, ReductionsOfSelectedElements) {
  const auto reduced = [](const std::string& op) {
    return [op](OnnxModel& m) {
      m.Integers("limit", {-3}).Integers("first", {0}, true).Node("Less", {"x", "limit"}, {"found"});
      m.Node("NonZero", {"found"}, {"places"}).Node("Gather", {"places", "first"}, {"index"});
      m.Node("Gather", {"x", "index"}, {"some"}).Node(op, {"some"}, {"y"});
    };
  };
  const std::vector<int64_t> x = {7, -kGap, 0, -4};
  EXPECT_EQ(ValuesOf({{4}, {1}}, reduced("ReduceSum"), x), Rounded({-kGap - 4}));
  EXPECT_EQ(ValuesOf({{4}, {1}}, reduced("ReduceMax"), x), Rounded({-4}));
  EXPECT_EQ(ValuesOf({{4}, {1}}, reduced("ReduceMin"), x), Rounded({-kGap}));
}

TEST(ImportIntegers, EmptyTensors) {
  EXPECT_EQ(ValuesOf<int64_t>({{2, 0}, {2}}, Reduced("ReduceSum", {1}, false), {}), Rounded({0, 0}));
  EXPECT_EQ(ValuesOf<int64_t>({{2, 0}, {2}}, Reduced("ReduceProd", {1}, false), {}), Rounded({1, 1}));
}

TEST(ImportIntegers, WhatHasNoExactResultIsRefused) {
  const Table flags{{2}, {1}, onnx::TensorProto::BOOL};
  EXPECT_NE(Refusal(flags, Reduced("ReduceSum", {0}, true)).find("adds up or multiplies bool"),
            std::string::npos);
  EXPECT_NE(Refusal({{2}, {1}}, Reduced("ReduceL2", {0}, true)).find("has no exact result in i64"),
            std::string::npos);
  EXPECT_NE(Refusal({{2}, {1}}, Reduced("ReduceLogSumExp", {0}, true)).find("has no exact result in i64"),
            std::string::npos);
  const auto sums = [](OnnxModel& m) { m.Integers("axis", {0}, true).Node("CumSum", {"x", "axis"}, {"y"}); };
  EXPECT_NE(Refusal({{2}, {2}, onnx::TensorProto::BOOL}, sums).find("adds up bool"), std::string::npos);
}

}  // namespace
}  // namespace act
