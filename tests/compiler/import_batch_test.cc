// Tensors that depend on the batch size and are used as data: constants where that is exact, and
// nodes that compute them where it is not. All numbers are compared with plain loops, at several
// batch sizes.
#include <gtest/gtest.h>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/batch_cases_numbers.h"
#include "tests/compiler/batch_cases_order.h"
#include "tests/compiler/batch_cases_scatter.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using namespace batch_cases;
using testing::TemporaryFolder;
using testing_step::Take;

std::vector<Case> Cases() {
  std::vector<Case> all = ScatterCases();
  for (const std::vector<Case>& more : {NumberCases(), OrderCases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

ImportResult Import(const OnnxModel& m, bool keep_outputs) {
  const TemporaryFolder folder;
  ImportOptions options;
  options.keep_outputs = keep_outputs;
  return Take(ImportOnnx(m.Write(folder), options));
}

testing_step::StepInputs InputsAt(int64_t n) {
  std::vector<float> x;
  std::vector<int64_t> id;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < kColumns; ++k) {
      x.push_back(static_cast<float>(X(i, k)));
      id.push_back(Id(i, k));
    }
  return {{"x", testing_step::BytesOf(x)},
          {"id", testing_step::BytesOf(id)},
          {"row", testing_step::BytesOf(Ints{Row(0), Row(1), Row(2)})}};
}

// The only output at batch size n.
std::vector<float> Evaluate(const Plan& plan, int64_t n) {
  auto executor = Take(Executor::Create(plan, Take(LayOut(plan, n)), TestDevice(), testing_step::CpuKernels(),
                                        {.threads = 2, .check_memory = true}));
  BoundGraph* const bound = Take(executor->Eval(n));
  const testing_step::StepInputs inputs = InputsAt(n);
  llvm::cantFail(executor->BeginStep());
  for (const ValueId v : plan.eval.graph.inputs) {
    const TensorView& view = bound->view(v);
    const auto& given = inputs.at(plan.eval.graph.value(v).name);
    if (view.data) std::memcpy(view.as<void>(), given.data(), given.size());
  }
  if (llvm::Error error = executor->Run(*bound, StepState{}))
    ADD_FAILURE() << llvm::toString(std::move(error));
  const TensorView& y = bound->view(plan.eval.graph.outputs[0]);
  return {y.as<float>(), y.as<float>() + y.elements};
}

TEST(ImportBatch, NumbersAreThoseOfPlainLoops) {
  for (const Case& c : Cases()) {
    OnnxModel m = Prelude();
    c.build(m);
    m.Output("y");
    ImportResult model = Import(m, true);
    for (const Node& node : model.graph.nodes)
      EXPECT_EQ((" " + std::string(c.absent) + " ").find(" " + node.op + " "), std::string::npos)
          << c.name << ": " << node.op;
    Plan plan;
    plan.eval = Take(CompileEvaluation(model.graph, testing_step::Checked("L0", "none")));
    plan.train = plan.eval;
    for (const int64_t n : {1, 3, 6}) {
      const std::vector<float> got = Evaluate(plan, n);
      const std::vector<double> expected = c.expected(n);
      ASSERT_EQ(got.size(), expected.size()) << c.name << " at " << n;
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_FLOAT_EQ(got[i], static_cast<float>(expected[i]))
            << c.name << " at " << n << ", element " << i;
    }
  }
}

// loss = sum over y^2, y = x w scattered into zeros. The gradient goes through the Pad, and through
// the Scatter.
TEST(ImportBatch, GradientsGoThroughABox) {
  for (const Ints& columns : {Ints{1, 2}, Ints{0, 3}}) {
    OnnxModel m = Prelude();
    Tuples(m, columns);
    Filled(m, 5, 0);
    m.Node("Slice", {"x", "v0", "v2", "v1"}, {"part"})
        .Node("Mul", {"part", "w"}, {"update"})
        .Node("ScatterND", {"filled", "tuples", "update"}, {"y"})
        .Node("Mul", {"y", "y"}, {"squares"})
        .Node("ReduceSum", {"squares"}, {"loss"}, {Attr("keepdims", int64_t{0})})
        .Output("loss");
    const Plan plan = Take(Compile(Import(m, false), testing_step::Checked("L0", "none")));
    for (const int64_t n : {1, 3}) {
      auto inputs = InputsAt(n);
      const auto got =
          Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {{"x", inputs["x"]}}, {.batch = n}));
      for (int64_t k = 0; k < 2; ++k) {
        double gradient = 0;  // 2 w x^2
        for (int64_t i = 0; i < n; ++i) gradient += X(i, k) * X(i, k);
        EXPECT_FLOAT_EQ(got[1][static_cast<size_t>(k)], static_cast<float>(gradient)) << n << ", " << k;
      }
    }
  }
}

// loss = sum of i z_i over both halves of z = [x w, -x w], joined along the batch.
TEST(ImportBatch, GradientsOfBatchesThatAreJoined) {
  OnnxModel m = Prelude();
  m.Node("Slice", {"x", "v0", "v2", "v1"}, {"part"})
      .Node("Mul", {"part", "w"}, {"first"})
      .Node("Neg", {"first"}, {"second"})
      .Node("Concat", {"first", "second"}, {"z"}, {Attr("axis", int64_t{0})})
      .Node("Add", {"n", "n"}, {"n2"})
      .Node("Range", {"zero", "n2", "one"}, {"place"})
      .Node("Unsqueeze", {"place", "v1"}, {"column"})
      .Node("Cast", {"column"}, {"factor"}, {ToFloat()})
      .Node("Mul", {"z", "factor"}, {"y"})
      .Node("ReduceSum", {"y"}, {"loss"}, {Attr("keepdims", int64_t{0})})
      .Output("loss");
  const Plan plan = Take(Compile(Import(m, false), testing_step::Checked("L0", "none")));
  for (const int64_t n : {1, 3}) {
    auto inputs = InputsAt(n);
    const auto got =
        Take(testing_step::RunStep(plan, testing_step::CpuKernels(), {{"x", inputs["x"]}}, {.batch = n}));
    for (int64_t k = 0; k < 2; ++k) {
      double gradient = 0;
      for (int64_t i = 0; i < n; ++i) gradient += X(i, k) * static_cast<double>(i - (i + n));
      EXPECT_FLOAT_EQ(got[1][static_cast<size_t>(k)], static_cast<float>(gradient)) << n << ", " << k;
    }
  }
}

std::string ErrorOf(const OnnxModel& m) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  return result ? "no error" : llvm::toString(result.takeError());
}

TEST(ImportBatch, AShapeThatIsNoPolynomialIsRefused) {
  OnnxModel m = Prelude();
  m.Node("Div", {"n1", "v2"}, {"half"}).Node("Slice", {"x", "v0", "half"}, {"y"}).MeanLoss("y");
  const std::string error = ErrorOf(m);
  EXPECT_NE(
      error.find("node 'y' (Slice): input 2 must be known when compiling; it depends on the batch size"),
      std::string::npos)
      << error;
  EXPECT_NE(error.find("hint: --dim="), std::string::npos) << error;
}

// Each node that is a cause, none that follows from another, and one line of hints.
TEST(ImportBatch, AllCausesAreNamedAtOnce) {
  OnnxModel m = Prelude();
  m.Node("Unknown", {"x"}, {"a"})
      .Node("Relu", {"a"}, {"b"})
      .Node("Transpose", {"x"}, {"c"}, {Attr("perm", Ints{0, 0})})
      .Node("Add", {"b", "c"}, {"d"})
      .Node("Unique", {"d"}, {"e"})
      .Node("Reshape", {"x", "row"}, {"f"})
      .Node("Mul", {"e", "f"}, {"g"})
      .MeanLoss("g");
  const std::string error = ErrorOf(m);
  const size_t place = error.find("4 nodes cannot be imported:");
  ASSERT_NE(place, std::string::npos) << error;
  EXPECT_EQ(error.substr(place),
            "4 nodes cannot be imported:\n"
            "  node 'a' (Unknown): the operator is not supported (domain ai.onnx, opset 18)\n"
            "  node 'c' (Transpose): perm is not a permutation of the axes of f32[N,4]\n"
            "  node 'e' (Unique): the operator is not supported (domain ai.onnx, opset 18)\n"
            "  node 'f' (Reshape): the shape in input 1 depends on data\n"
            "hint: docs/operators.md lists those that are supported; shapes must follow from the shapes of "
            "the inputs");
}

TEST(ImportBatch, ALongListOfCausesIsCut) {
  OnnxModel m = Prelude();
  std::vector<std::string> parts;
  for (int i = 0; i < 23; ++i) {
    parts.push_back("p" + std::to_string(i));
    m.Node("Unknown", {"x"}, {parts.back()});
  }
  m.Node("Sum", parts, {"y"}).MeanLoss("y");
  const std::string error = ErrorOf(m);
  EXPECT_NE(error.find("23 nodes cannot be imported:"), std::string::npos) << error;
  EXPECT_NE(error.find("'p19'"), std::string::npos) << error;
  EXPECT_EQ(error.find("'p20'"), std::string::npos) << error;
  EXPECT_NE(error.find("\n  and 3 more"), std::string::npos) << error;
}

}  // namespace
}  // namespace act
