// Recurrent layers from ONNX to a step: which form each becomes, that the forms compute the same,
// and that the codes of what the cells save leave the gradient right on average.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"
#include "tests/compiler/random_weight.h"

namespace act {
namespace {

using onnx::TensorProto;
using testing::Attr;
using testing::OnnxModel;
using testing::RandomWeight;
using testing::TemporaryFolder;
using testing_step::Take;
using Attributes = std::vector<onnx::AttributeProto>;

struct Layer {
  std::string op;
  std::string direction = "forward";
  int64_t steps = 8, units = 8, features = 3;
  Attributes attrs = {};
  bool states = false, lengths = false, peepholes = false;
  int64_t Gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  int64_t Directions() const { return direction == "bidirectional" ? 2 : 1; }
};

// The input is x [N,T,I], transposed as PyTorch's batch_first does. The loss is the sum of the mean
// squares of all outputs.
OnnxModel Model(const Layer& layer) {
  OnnxModel model(14);
  const int64_t d = layer.Directions(), rows = layer.Gates() * layer.units;
  model.Input("x", {"N", layer.steps, layer.features});
  model.Node("Transpose", {"x"}, {"time_major"}, {Attr("perm", std::vector<int64_t>{1, 0, 2})});
  RandomWeight(model, "W", {d, rows, layer.features}, 1);
  RandomWeight(model, "R", {d, rows, layer.units}, 2);
  RandomWeight(model, "B", {d, 2 * rows}, 3);
  std::vector<std::string> inputs{"time_major", "W", "R", "B", layer.lengths ? "lengths" : ""};
  if (layer.lengths) model.Input("lengths", {"N"}, TensorProto::INT32);
  if (layer.states)
    for (const char* state : {"h0", "c0"}) {
      if (layer.op != "LSTM" && state == std::string("c0")) continue;
      const std::string one = std::string(state) + ".parameter", name = state;
      RandomWeight(model, one, {d, 1, layer.units}, 4);
      model.Node("Shape", {"x"}, {name + ".shape"}, {Attr("end", int64_t{1})});
      model.Integers(name + ".d", {d}).Integers(name + ".h", {layer.units});
      model.Node("Concat", {name + ".d", name + ".shape", name + ".h"}, {name + ".dims"},
                 {Attr("axis", int64_t{0})});
      model.Node("Expand", {one, name + ".dims"}, {name});
      inputs.push_back(name);
    }
  if (layer.peepholes) {
    inputs.resize(7);
    RandomWeight(model, "P", {d, 3 * layer.units}, 5);
    inputs.push_back("P");
  }
  std::vector<std::string> outputs{"Y", "Y_h"};
  if (layer.op == "LSTM") outputs.push_back("Y_c");
  Attributes attrs = layer.attrs;
  attrs.push_back(Attr("direction", layer.direction));
  model.Node(layer.op, inputs, outputs, attrs);
  std::vector<std::string> means;
  for (const std::string& y : outputs) {
    model.Node("Mul", {y, y}, {y + ".squared"});
    model.Node("ReduceMean", {y + ".squared"}, {y + ".mean"}, {Attr("keepdims", int64_t{0})});
    means.push_back(y + ".mean");
  }
  model.Node("Sum", means, {"loss"});
  return model.Output("loss");
}

ImportResult Import(const OnnxModel& model) {
  const TemporaryFolder folder;
  return Take(ImportOnnx(model.Write(folder), {}));
}
std::string ErrorOf(const OnnxModel& model) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(model.Write(folder), {});
  return result ? "no error" : llvm::toString(result.takeError());
}
int64_t CountOf(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&op](const Node& n) { return n.op == op; });
}
std::string CellOf(const std::string& op) { return op == "LSTM" ? "Lstm" : op == "GRU" ? "Gru" : "Rnn"; }

testing_step::StepInputs InputsOf(const Layer& layer, int64_t batch) {
  std::vector<float> x(static_cast<size_t>(batch * layer.steps * layer.features));
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(engine);
  return {{"x", testing_step::BytesOf(x)},
          {"lengths", testing_step::BytesOf(std::vector<int32_t>(static_cast<size_t>(batch),
                                                                 static_cast<int32_t>(layer.steps)))}};
}

// The loss and all gradients, by name.
std::map<std::string, std::vector<float>> Outputs(const Layer& layer, int64_t batch = 3) {
  const Plan plan = Take(Compile(Import(Model(layer)), testing_step::Checked("L0", "none")));
  const auto got = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), InputsOf(layer, batch),
                                              {.batch = batch, .check_memory = true}));
  std::map<std::string, std::vector<float>> outputs;
  for (size_t i = 0; i < got.size(); ++i)
    outputs[plan.train.graph.value(plan.train.graph.outputs[i]).name] = got[i];
  return outputs;
}

// The tolerance is relative to the largest magnitude. Float32 sums in another order differ by some
// 1e-7.
void ExpectSame(const std::map<std::string, std::vector<float>>& a,
                const std::map<std::string, std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, want] : b) {
    if (name.rfind("grad.", 0) != 0) continue;
    ASSERT_TRUE(a.count(name)) << name;
    const std::vector<float>& got = a.at(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    float largest = 1e-6f;
    for (float v : want) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-5f * largest) << name << ", element " << i;
  }
}

std::vector<Layer> StandardLayers() {
  std::vector<Layer> layers;
  for (const char* direction : {"forward", "reverse", "bidirectional"})
    for (const bool states : {false, true}) {
      layers.push_back({"LSTM", direction, 4, 5, 3, {}, states});
      layers.push_back({"GRU", direction, 4, 5, 3, {Attr("linear_before_reset", int64_t{1})}, states});
      layers.push_back({"RNN", direction, 4, 5, 3, {}, states});
    }
  return layers;
}

TEST(ImportRecurrent, StandardCellsAreOneOperatorAndKeepNoTranspose) {
  for (const Layer& layer : StandardLayers()) {
    ImportResult model = Import(Model(layer));
    EXPECT_EQ(CountOf(model.graph, CellOf(layer.op)), layer.Directions())
        << layer.op << " " << layer.direction;
    const Plan plan = Take(Compile(std::move(model), testing_step::Checked("L0", "none")));
    // Y is squared in ONNX's order of axes, but its mean is over all axes.
    EXPECT_EQ(CountOf(plan.train.graph, "Transpose"), 0) << layer.op << " " << layer.direction;
  }
}

TEST(ImportRecurrent, WrittenOutStepByStepTheyComputeTheSame) {
  for (const Layer& layer : StandardLayers()) {
    SCOPED_TRACE(layer.op + " " + layer.direction + (layer.states ? " with states" : ""));
    Layer written_out = layer;
    written_out.attrs.push_back(Attr("clip", 1e6));
    EXPECT_EQ(CountOf(Import(Model(written_out)).graph, CellOf(layer.op)), 0);
    ExpectSame(Outputs(layer), Outputs(written_out));
  }
}

TEST(ImportRecurrent, LengthsOfAllStepsChangeNothing) {
  for (Layer layer :
       {Layer{"LSTM", "bidirectional", 3, 4}, Layer{"GRU", "reverse", 3, 4}, Layer{"RNN", "forward", 3, 4}}) {
    if (layer.op == "GRU") layer.attrs.push_back(Attr("linear_before_reset", int64_t{1}));
    Layer by_sample = layer;
    by_sample.lengths = true;
    EXPECT_EQ(CountOf(Import(Model(by_sample)).graph, CellOf(layer.op)), 0);
    ExpectSame(Outputs(layer), Outputs(by_sample));
  }
}

TEST(ImportRecurrent, VariantsAreWrittenOut) {
  onnx::AttributeProto softsign;
  softsign.set_name("activations");
  softsign.set_type(onnx::AttributeProto::STRINGS);
  for (const char* name : {"HardSigmoid", "Softsign", "Tanh"}) softsign.add_strings(name);
  const Layer variants[] = {
      {"GRU", "forward", 3, 4},  // linear_before_reset = 0
      {"LSTM", "forward", 3, 4, 3, {softsign}},
      {"LSTM", "forward", 3, 4, 3, {Attr("input_forget", int64_t{1})}},
      {"LSTM", "forward", 3, 4, 3, {}, true, false, true},
  };
  for (const Layer& layer : variants) {
    EXPECT_EQ(CountOf(Import(Model(layer)).graph, CellOf(layer.op)), 0);
    for (const auto& [name, values] : Outputs(layer))
      for (float v : values) ASSERT_TRUE(std::isfinite(v)) << name;
  }
}

TEST(ImportRecurrent, WhatDoesNotFitIsRefused) {
  const auto with = [](Layer layer, Attributes attrs) {
    layer.attrs = std::move(attrs);
    return ErrorOf(Model(layer));
  };
  const Layer lstm{"LSTM"};
  EXPECT_NE(with(lstm, {Attr("hidden_size", int64_t{9})}).find("hidden_size is 9"), std::string::npos);
  EXPECT_NE(with(lstm, {Attr("clip", -1.0)}).find("clip must be positive"), std::string::npos);
  EXPECT_NE(with(lstm, {Attr("clip", int64_t{1})}).find("attribute 'clip': expected a float, found an int"),
            std::string::npos);
  onnx::AttributeProto activations;
  activations.set_name("activations");
  activations.set_type(onnx::AttributeProto::STRINGS);
  activations.add_strings("Sigmoid");
  EXPECT_NE(with(lstm, {activations}).find("names 1 activations, needs 3"), std::string::npos);
  activations.add_strings("Swish");
  activations.add_strings("Tanh");
  EXPECT_NE(with(lstm, {activations}).find("activation 'Swish' is not supported"), std::string::npos);
  Layer sideways = lstm;
  sideways.direction = "sideways";
  EXPECT_NE(ErrorOf(Model(sideways)).find("has no direction 'sideways'"), std::string::npos);
  Layer long_one{"GRU"};
  long_one.steps = 100000;
  EXPECT_NE(ErrorOf(Model(long_one)).find("has 100000 steps"), std::string::npos);

  // Each tensor with a last extent that is too large by one.
  for (int i = 0; i < 3; ++i) {
    OnnxModel model = Model(lstm);
    TensorProto& tensor = *model.graph().mutable_initializer(i);
    const int last = tensor.dims_size() - 1;
    const int64_t size = static_cast<int64_t>(tensor.raw_data().size());
    tensor.set_dims(last, tensor.dims(last) + 1);
    int64_t bytes = 4;
    for (int64_t dim : tensor.dims()) bytes *= dim;
    tensor.mutable_raw_data()->append(static_cast<size_t>(bytes - size), '\0');
    EXPECT_NE(ErrorOf(model).find("must be"), std::string::npos) << tensor.name() << ": " << ErrorOf(model);
  }
  OnnxModel unknown_steps = Model(lstm);
  auto& dims =
      *unknown_steps.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims.mutable_dim(1)->clear_dim_value();
  dims.mutable_dim(1)->set_dim_param("T");
  EXPECT_NE(ErrorOf(unknown_steps).find("--dim="), std::string::npos);
}

// Compares the squared bias of the mean gradient over seeds with what noise alone would leave.
// tests/e2e/unbiased_test.cc explains the statistic and its limit.
TEST(ImportRecurrent, CodesOfSlopesLeaveTheGradientUnbiased) {
  constexpr int kSeeds = 100;
  for (Layer layer : {Layer{"LSTM", "bidirectional"}, Layer{"GRU", "forward"}, Layer{"RNN", "reverse"}}) {
    if (layer.op == "GRU") layer.attrs.push_back(Attr("linear_before_reset", int64_t{1}));
    layer.units = 16;
    const auto inputs = InputsOf(layer, 2);
    const Plan exact = Take(Compile(Import(Model(layer)), testing_step::Checked("L0", "none")));
    const auto truth = Take(testing_step::RunStep(exact, testing_step::CpuKernels(), inputs, {.batch = 2}));
    CompileOptions options = testing_step::Checked("L3", "none");
    options.group_size = 64;
    options.bits = 2;  // more noise, and so more bias if there were any
    const Plan plan = Take(Compile(Import(Model(layer)), options));
    int coded = 0;
    for (const SavedEdge& edge : plan.edges) coded += edge.form.starts_with("uniform");
    EXPECT_GE(coded, 1) << layer.op;
    std::vector<std::vector<double>> errors;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const auto got = Take(testing_step::RunStep(plan, testing_step::CpuKernels(), inputs,
                                                  {.batch = 2, .state = {seed, 0, 0, 0, 0}}));
      std::vector<double> error;
      for (size_t o = 1; o < got.size(); ++o)
        for (size_t i = 0; i < got[o].size(); ++i) error.push_back(double{got[o][i]} - truth[o][i]);
      errors.push_back(std::move(error));
    }
    const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
      double sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      return sum;
    };
    double sum = 0, squares = 0, pairs = 0, noise = 0;
    for (size_t i = 0; i < errors.size(); ++i) {
      noise += dot(errors[i], errors[i]) / kSeeds;
      for (size_t j = 0; j < i; ++j) {
        const double product = dot(errors[i], errors[j]);
        sum += product;
        squares += product * product;
        ++pairs;
      }
    }
    EXPECT_GT(noise, 0) << layer.op;
    EXPECT_LE(sum / pairs, 10 * std::sqrt(squares / pairs / pairs)) << layer.op << ", noise " << noise;
    RecordProperty(layer.op + "_ratio", std::to_string(sum / std::sqrt(squares)));
  }
}

}  // namespace
}  // namespace act
