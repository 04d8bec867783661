// Models that bring their own backward pass. Their gradients are those of our own autodiff for the
// forward part. What cannot be imported is one clear error.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compiler/import/import_onnx.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using testing_step::Checked;
using testing_step::Take;

constexpr char kMs[] = "com.microsoft";

void Scalar(OnnxModel& m, const std::string& name, float value) { m.Weight(name, {}, value); }

// image [N,8] w1 -> tanh -> sigmoid -> dropout -> GELU -> w2 -> mean
void Forward(OnnxModel& m) {
  m.Node("MatMul", {"image", "w1"}, {"h"}).Node("Tanh", {"h"}, {"t"}).Node("Sigmoid", {"t"}, {"s"});
  m.Node("Dropout", {"s", "/ratio", "mode"}, {"d", "mask"}).Node("Gelu", {"d"}, {"g"}, {}, kMs);
  m.Node("MatMul", {"g", "w2"}, {"y"}).MeanLoss("y");
  Scalar(m, "/ratio", .4f);
  onnx::TensorProto& mode = *m.graph().add_initializer();
  mode.set_name("mode");
  mode.set_data_type(onnx::TensorProto::BOOL);
  mode.add_int32_data(1);
}

OnnxModel ForwardModel() {
  OnnxModel m;
  m.Input("image", {"N", 8}).Weight("w1", {8, 6}).Weight("w2", {6, 3});
  Forward(m);
  return m;
}

OnnxModel& Accumulate(OnnxModel& m, const std::string& parameter, std::vector<testing::Extent> dims,
                      const std::string& gradient) {
  const std::string buffer = parameter + "_grad.accumulation.buffer";
  m.Input(parameter, dims).Input(buffer, dims);
  return m.Node("InPlaceAccumulatorV2", {buffer, gradient, "reset"}, {parameter + "_done"}, {}, kMs);
}

// The same with the backward pass that ONNX Runtime would write.
OnnxModel TrainingModel() {
  OnnxModel m;
  m.Input("image", {"N", 8});
  Forward(m);
  Scalar(m, "loss_grad", 1);
  m.Node("Size", {"y"}, {"count"}).Node("Shape", {"y"}, {"shape"});
  m.Node("Scale", {"loss_grad", "count"}, {"share"}, {Attr("scale_down", int64_t{1})}, kMs);
  m.Node("Expand", {"share", "shape"}, {"y_grad"});
  m.Node("Gemm", {"g", "y_grad"}, {"w2_grad"}, {Attr("transA", int64_t{1})});
  m.Node("FusedMatMul", {"y_grad", "w2"}, {"g_grad"}, {Attr("transB", int64_t{1})}, kMs);
  m.Node("GeluGrad", {"g_grad", "d"}, {"d_grad"}, {}, kMs);
  m.Node("DropoutGrad", {"d_grad", "mask", "/ratio", "mode"}, {"s_grad"}, {}, kMs);
  m.Node("SigmoidGrad", {"s_grad", "s"}, {"t_grad"}, {}, kMs);
  m.Node("TanhGrad", {"t_grad", "t"}, {"h_grad"}, {}, kMs);
  m.Node("Gemm", {"image", "h_grad"}, {"w1_grad"}, {Attr("transA", int64_t{1})});
  Accumulate(m, "w1", {8, 6}, "w1_grad");
  Accumulate(m, "w2", {6, 3}, "w2_grad");
  m.Input("reset", {1}, onnx::TensorProto::BOOL);
  return m;
}

std::vector<float> Wave(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(.6 * std::sin(1.7 * static_cast<double>(i) + 1));
  return values;
}

std::map<std::string, std::vector<float>> Results(const OnnxModel& m, const std::string& level) {
  const TemporaryFolder folder;
  ImportOptions options;
  options.report_only = true;  // there is no checkpoint: the parameters are set here
  ImportResult model = Take(ImportOnnx(m.Write(folder), options));
  for (Value& value : model.graph.values)
    if (value.kind == ValueKind::kParameter)
      value.data = testing_step::HostFloats(Wave(static_cast<size_t>(value.type.Elements().fixed)));
  const Plan plan = Take(Compile(std::move(model), Checked(level, "none")));
  constexpr int64_t kBatch = 5;
  const auto outputs = Take(testing_step::RunStep(plan, testing_step::CpuKernels(),
                                                  {{"image", testing_step::BytesOf(Wave(8 * kBatch))}},
                                                  {.batch = kBatch, .check_memory = true}));
  std::map<std::string, std::vector<float>> results;
  for (size_t i = 0; i < outputs.size(); ++i)
    results[i == 0 ? "loss" : plan.train.graph.value(plan.train.graph.outputs[i]).name] = outputs[i];
  return results;
}

TEST(TrainingGraph, GivesTheGradientsOfOurAutodiff) {
  const auto own = Results(ForwardModel(), "L0"), brought = Results(TrainingModel(), "L0");
  ASSERT_EQ(own.size(), 3u);
  ASSERT_EQ(brought.size(), 3u);
  for (const auto& [name, expected] : own) {
    ASSERT_TRUE(brought.count(name)) << name;
    const std::vector<float>& values = brought.at(name);
    ASSERT_EQ(values.size(), expected.size()) << name;
    float largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      // A few roundings of numbers below .1.
      EXPECT_NEAR(values[i], expected[i], 1e-7) << name << " " << i;
      largest = std::max(largest, std::fabs(expected[i]));
    }
    EXPECT_GT(largest, 1e-3f) << name << ": the test compares zeros";
  }
}

TEST(TrainingGraph, AFrozenParameterKeepsNoGradient) {
  const TemporaryFolder folder;
  ImportOptions options;
  options.report_only = true;
  options.freeze = {"w1"};
  const ImportResult model = Take(ImportOnnx(TrainingModel().Write(folder), options));
  EXPECT_TRUE(model.own_backward);
  ASSERT_EQ(model.trainable.size(), 1u);
  EXPECT_EQ(model.graph.value(model.trainable[0]).name, "w2");
  EXPECT_EQ(model.graph.outputs.size(), 2u);
  for (const Node& node : model.graph.nodes)
    EXPECT_NE(node.op, "TanhDerivative") << "only w1's gradient needs it";
}

struct Hostile {
  const char* name;
  std::function<void(OnnxModel&)> change;
  std::vector<const char*> expected;  // parts of the error
};

onnx::NodeProto& NodeThatMakes(OnnxModel& m, const std::string& output) {
  for (onnx::NodeProto& node : *m.graph().mutable_node())
    if (node.output(0) == output) return node;
  ADD_FAILURE() << output;
  std::abort();
}

const Hostile kHostile[] = {
    {"unknown_operators",
     [](OnnxModel& m) {
       NodeThatMakes(m, "t_grad").set_op_type("FrobnicateGrad");
       NodeThatMakes(m, "d_grad").set_op_type("WobbleGrad");
     },
     {"2 nodes cannot be imported", "FrobnicateGrad", "WobbleGrad", "com.microsoft"}},
    {"buffer_of_nothing",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").set_input(0, "image"); },
     {"node 'w1_done' (InPlaceAccumulatorV2): accumulates into 'image', which belongs to no parameter"}},
    {"buffer_without_a_name",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").set_input(0, ""); },
     {"belongs to no parameter"}},
    {"accumulated_twice",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").set_input(0, "w2_grad.accumulation.buffer"); },
     {"is the second one of 'w2'"}},
    {"accumulator_of_two",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").mutable_input()->RemoveLast(); },
     {"must have 3 inputs"}},
    {"gradient_of_another_shape",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").set_input(1, "w2_grad"); },
     {"gradient 'w2_grad'", "is f32[6,3], its parameter is f32[8,6]"}},
    {"gradient_of_nothing",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").set_input(1, "image"); },
     {"gradient 'image': does not depend on that of the loss, 'loss_grad'"}},
    {"gradient_that_nothing_makes",
     [](OnnxModel& m) { NodeThatMakes(m, "w1_done").set_input(1, "nowhere"); },
     {"gradient 'nowhere': does not depend on that of the loss"}},
    {"operand_that_nothing_makes",
     [](OnnxModel& m) { NodeThatMakes(m, "t_grad").set_input(1, "nowhere"); },
     {"node 't_grad' (SigmoidGrad): reads 'nowhere', which nothing makes"}},
    {"operand_of_another_shape",
     [](OnnxModel& m) { NodeThatMakes(m, "t_grad").set_input(1, "image"); },
     {"node 't_grad' (SigmoidGrad): the gradient is f32[N,6], what it belongs to is f32[N,8]"}},
    {"mask_of_another_operator",
     [](OnnxModel& m) { NodeThatMakes(m, "s_grad").set_input(1, "t"); },
     {"node 's_grad' (DropoutGrad): input 1 does not come from a Dropout"}},
    {"mask_as_data",
     [](OnnxModel& m) { NodeThatMakes(m, "t_grad").set_input(1, "mask"); },
     {"only the gradient of the operator that makes this tensor may read it"}},
    {"parameter_of_integers",
     [](OnnxModel& m) {
       for (auto& input : *m.graph().mutable_input())
         if (input.name() == "w1")
           input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
     },
     {"parameter 'w1'", "training computes in f32"}},
    {"parameter_of_batch_size",
     [](OnnxModel& m) {
       for (auto& input : *m.graph().mutable_input())
         if (input.name() == "w1")
           input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("N");
     },
     {"input 'w1'", "has no extent"}},
    {"no_output", [](OnnxModel& m) { m.graph().clear_output(); }, {"the model has no output"}},
};

class HostileTrainingGraph : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileTrainingGraph, IsOneClearError) {
  const TemporaryFolder folder;
  OnnxModel model = TrainingModel();
  GetParam().change(model);
  ImportOptions options;
  options.report_only = true;
  auto result = ImportOnnx(model.Write(folder), options);
  ASSERT_FALSE(result) << "it was imported";
  const std::string error = llvm::toString(result.takeError());
  for (const char* part : GetParam().expected) EXPECT_NE(error.find(part), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(All, HostileTrainingGraph, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

}  // namespace
}  // namespace act
