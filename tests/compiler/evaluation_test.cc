// The loss and the accuracy of a data set that is evaluated in batches are those of all of it at once.
#include "runtime/train/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using testing_step::Take;
using Ints = std::vector<int64_t>;

constexpr int64_t kSamples = 10, kTokens = 3, kClasses = 4, kIgnored = -100;

// As many labels count in no two batches of four samples, and in the first none of y.
struct Data {
  Data() {
    std::mt19937 engine(3);
    for (float& v : x) v = std::uniform_real_distribution<float>(-2, 2)(engine);
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = i < 4 * kTokens || i % 5 == 0 ? kIgnored : static_cast<int64_t>(engine() % kClasses);
      z[i] = i % 4 == 1 || i > 7 * kTokens ? kIgnored : static_cast<int64_t>(engine() % kClasses);
    }
  }
  testing_step::StepInputs Inputs() const {
    return {
        {"x", testing_step::BytesOf(x)}, {"y", testing_step::BytesOf(y)}, {"z", testing_step::BytesOf(z)}};
  }
  // The part of the labels that are the argmax of x, of tokens from `first` on.
  double Accuracy(const Ints& labels, int64_t first = 0) const {
    double right = 0, count = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (static_cast<int64_t>(i) % kTokens < first || labels[i] == kIgnored) continue;
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(i) * kClasses;
      right += std::max_element(row, row + kClasses) - row == labels[i] ? 1 : 0;
      ++count;
    }
    return right / count;
  }

  std::vector<float> x = std::vector<float>(kSamples * kTokens * kClasses);
  Ints y = Ints(kSamples * kTokens), z = y;
};

class InMemory : public BatchSource {
 public:
  InMemory(const Graph& graph, testing_step::StepInputs inputs) : inputs_(std::move(inputs)) {
    for (const ValueId v : graph.inputs) names_.push_back(graph.value(v).name);
  }
  int64_t Next(int64_t batch) override {
    first_ = next_;
    next_ = std::min(first_ + batch, kSamples);
    return next_ - first_;
  }
  void Fill(size_t slot, std::span<std::byte> to) override {
    const std::vector<std::byte>& from = inputs_.at(names_[slot]);
    const size_t sample = from.size() / kSamples;
    std::memcpy(to.data(), from.data() + static_cast<size_t>(first_) * sample, to.size());
  }
  int64_t SamplesPerEpoch() const override { return kSamples; }
  void StartEpoch(uint64_t /*epoch*/, int64_t position) override { first_ = next_ = position; }

 private:
  testing_step::StepInputs inputs_;
  std::vector<std::string> names_;
  int64_t first_ = 0, next_ = 0;
};

// scores = x w, in rows of kClasses, and the labels y and z of the rows.
OnnxModel Scores() {
  OnnxModel m;
  m.Input("x", {"N", kTokens, kClasses});
  for (const std::string name : {"y", "z"}) m.Input(name, {"N", kTokens}, onnx::TensorProto::INT64);
  m.Weight("w", {kClasses})
      .Node("Mul", {"x", "w"}, {"h"})
      .Integers("rows", {-1, kClasses})
      .Integers("all", {-1});
  m.Node("Reshape", {"h", "rows"}, {"scores"});
  for (const std::string name : {"y", "z"}) m.Node("Reshape", {name, "all"}, {name + "_rows"});
  return m;
}

OnnxModel& CrossEntropy(OnnxModel& m, const std::string& labels, const std::string& result) {
  return m.Node("SoftmaxCrossEntropyLoss", {"scores", labels + "_rows"}, {result},
                {Attr("ignore_index", kIgnored)});
}

OnnxModel& Number(OnnxModel& m, const std::string& name, float value) {
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_float_data(value);
  onnx::AttributeProto a;
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  *a.mutable_t() = t;
  return m.Node("Constant", {}, {name}, {a});
}

// Which labels count ("counts", "mask"), and minus the log-probabilities of their rows ("kept").
OnnxModel& Kept(OnnxModel& m) {
  m.Integers("ignored", {kIgnored}, true).Integers("classes", {1});
  m.Node("LogSoftmax", {"scores"}, {"log"});
  m.Node("ReduceSum", {"log", "classes"}, {"row_sums"}, {Attr("keepdims", int64_t{0})});
  m.Node("Equal", {"y_rows", "ignored"}, {"is_ignored"}).Node("Not", {"is_ignored"}, {"counts"});
  m.Node("Cast", {"counts"}, {"mask"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
  return m.Node("Neg", {"row_sums"}, {"costs"}).Node("Mul", {"costs", "mask"}, {"kept"});
}

OnnxModel& Reduced(OnnxModel& m, const std::string& op, const std::string& x, const std::string& result) {
  return m.Node(op, {x}, {result}, {Attr("keepdims", int64_t{0})});
}

struct Case {
  const char* name;
  std::function<void(OnnxModel&)> add;                         // makes "loss"
  std::function<std::optional<double>(const Data&)> accuracy;  // none: the model has no single labels
};

const Case kCases[] = {
    {"CrossEntropy", [](OnnxModel& m) { CrossEntropy(m, "y", "loss"); },
     [](const Data& d) { return d.Accuracy(d.y); }},
    // Labels that are no inputs, but computed from them.
    {"LabelsOfTheNextToken",
     [](OnnxModel& m) {
       m.Integers("from", {1}).Integers("to", {kTokens});
       m.Node("Slice", {"y", "from", "to", "from"}, {"next"}).Node("Reshape", {"next", "all"}, {"next_rows"});
       m.Node("Slice", {"h", "from", "to", "from"}, {"late"})
           .Node("Reshape", {"late", "rows"}, {"late_scores"});
       m.Node("SoftmaxCrossEntropyLoss", {"late_scores", "next_rows"}, {"loss"},
              {Attr("ignore_index", kIgnored)});
     },
     [](const Data& d) { return d.Accuracy(d.y, 1); }},
    {"LabelSmoothing",
     [](OnnxModel& m) {
       CrossEntropy(Number(Number(m, "most", .9f), "share", .025f), "y", "entropy");
       Reduced(Reduced(Kept(m), "ReduceSum", "kept", "sum"), "ReduceSum", "mask", "number");
       m.Node("Div", {"sum", "number"}, {"smoothing"});
       m.Node("Mul", {"entropy", "most"}, {"a"}).Node("Mul", {"share", "smoothing"}, {"b"});
       m.Node("Add", {"a", "b"}, {"loss"});
     },
     [](const Data& d) { return d.Accuracy(d.y); }},
    {"TwoCrossEntropies",
     [](OnnxModel& m) {
       CrossEntropy(CrossEntropy(Number(m, "part", 2.5f), "y", "first"), "z", "second");
       m.Node("Div", {"second", "part"}, {"b"}).Node("Sub", {"first", "b"}, {"loss"});
     },
     [](const Data&) { return std::nullopt; }},
    {"CrossEntropyAndAMeanOverSamples",
     [](OnnxModel& m) {
       CrossEntropy(m, "y", "entropy").Node("Mul", {"h", "h"}, {"squares"});
       m.Node("ReduceMean", {"squares"}, {"size"}, {Attr("keepdims", int64_t{0})});
       m.Node("Add", {"entropy", "size"}, {"loss"});
     },
     [](const Data& d) { return d.Accuracy(d.y); }},
    {"MaskedSumOverALeastNumber",
     [](OnnxModel& m) {
       Reduced(Reduced(Kept(Number(m, "one", 1)), "ReduceSum", "kept", "sum"), "ReduceSum", "mask", "number");
       m.Node("Clip", {"number", "one"}, {"least"}).Node("Div", {"sum", "least"}, {"loss"});
     },
     [](const Data&) { return std::nullopt; }},
    {"MaskedSumOverAnIntegerAndAnEpsilon",
     [](OnnxModel& m) {
       Reduced(Kept(Number(m, "epsilon", 1e-6f)), "ReduceSum", "kept", "sum");
       m.Node("Cast", {"counts"}, {"ones"}, {Attr("to", int64_t{onnx::TensorProto::INT64})});
       Reduced(m, "ReduceSum", "ones", "whole");
       m.Node("Cast", {"whole"}, {"number"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
       m.Node("Add", {"epsilon", "number"}, {"least"}).Node("Div", {"sum", "least"}, {"quotient"});
       m.Node("Neg", {"quotient"}, {"loss"});
     },
     [](const Data&) { return std::nullopt; }},
    {"MaskedSumOverALeastInteger",
     [](OnnxModel& m) {
       Reduced(Kept(m), "ReduceSum", "kept", "sum").Integers("one", {1}, true);
       m.Node("Cast", {"counts"}, {"ones"}, {Attr("to", int64_t{onnx::TensorProto::INT64})});
       Reduced(m, "ReduceSum", "ones", "whole").Node("Max", {"whole", "one"}, {"least"});
       m.Node("Cast", {"least"}, {"number"}, {Attr("to", int64_t{onnx::TensorProto::FLOAT})});
       m.Node("Div", {"sum", "number"}, {"loss"});
     },
     [](const Data&) { return std::nullopt; }},
    {"MaskedMeanOverAMean",
     [](OnnxModel& m) {
       Reduced(Reduced(Kept(m), "ReduceMean", "kept", "mean"), "ReduceMean", "mask", "part");
       m.Node("Div", {"mean", "part"}, {"loss"});
     },
     [](const Data&) { return std::nullopt; }},
    {"MeanOverSamples",
     [](OnnxModel& m) {
       m.Node("Mul", {"h", "h"}, {"squares"});
       m.Node("ReduceMean", {"squares"}, {"loss"}, {Attr("keepdims", int64_t{0})});
     },
     [](const Data&) { return std::nullopt; }},
};

void ExpectAsAllAtOnce(const Plan& plan, const Case& c) {
  const Data data;
  const KernelRegistry& kernels = testing_step::CpuKernels();
  const auto step = Take(testing_step::RunStep(plan, kernels, data.Inputs(), {.batch = kSamples}));
  for (const int64_t batch : {int64_t{1}, int64_t{4}, kSamples}) {
    const auto executor =
        Take(Executor::Create(plan, Take(LayOut(plan, batch)), TestDevice(), kernels, {.threads = 1}));
    InMemory source(plan.eval.graph, data.Inputs());
    const Evaluation got = Take(Evaluate(*executor, source, {.seed = 7}));
    EXPECT_NEAR(got.loss, step[0][0], 1e-5) << "batch " << batch;  // float32 sums
    const std::optional<double> accuracy = c.accuracy(data);
    ASSERT_EQ(got.accuracy.has_value(), accuracy.has_value());
    if (accuracy) {
      EXPECT_DOUBLE_EQ(*got.accuracy, *accuracy) << "batch " << batch;
    }
  }
}

class Evaluated : public ::testing::TestWithParam<Case> {};

TEST_P(Evaluated, InBatchesIsAsAllAtOnce) {
  OnnxModel m = Scores();
  GetParam().add(m);
  const TemporaryFolder folder;
  const std::string path = m.Output("loss").Write(folder);
  for (const std::string level : {"L0", "L5"}) {  // L5 evaluates some samples at a time
    SCOPED_TRACE(level);
    const Plan plan = Take(Compile(Take(ImportOnnx(path, {})), testing_step::Checked(level, "none")));
    if (level == "L5" && GetParam().name == std::string("CrossEntropy")) {
      EXPECT_FALSE(plan.eval.graph.loops.empty());
    }
    ExpectAsAllAtOnce(plan, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Evaluated, ::testing::ValuesIn(kCases),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

}  // namespace
}  // namespace act
