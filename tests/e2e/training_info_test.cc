// ONNX's own training information through the command lines (tests/data/training_info/make.py):
// losses, gradients, parameters and states of five steps, and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "onnx/onnx-ml.pb.h"
#include "tests/e2e/process.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act::e2e {
namespace {

using Args = std::vector<std::string>;

// Five steps in float32 of numbers of about 1: the largest error seen is 6e-7. A wrong formula, a
// count that is off by one or a forgotten attribute is off by 1e-3 and more. The bound is absolute,
// since the gradient of a bias before a BatchNormalization is 0 but for rounding.
constexpr double kLimit = 2e-6;

std::string Data(const std::string& file) { return TestDataFolder() + "/training_info/" + file; }

Args Joined(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

onnx::ModelProto Read(const std::string& name) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(ReadFile(Data(name + ".onnx")))) << name;
  return model;
}

class TrainingInfo : public testing::Test {
 protected:
  Args Compile(const std::string& model, const Args& more = {}) const {
    return Joined({ToolPath("actc"), model, "-o", scratch_ / "plan", "--report=none"}, more);
  }
  Args Train(const Args& more) const {
    return Joined({ToolPath("actrun"), scratch_ / "plan", "--batch=6", "--threads=1",
                   "--inputs=" + Data("inputs.safetensors"), "--report-json=" + (scratch_ / "run")},
                  more);
  }
  llvm::json::Object Report() const { return Take(ReadJson(scratch_ / "run")); }
  // actc refuses model `name` after this change.
  void ExpectRefusal(const std::string& name, const std::function<void(onnx::ModelProto&)>& change,
                     const std::vector<std::string>& words) const {
    onnx::ModelProto model = Read(name);
    change(model);
    WriteFile(scratch_ / "m.onnx", model.SerializeAsString());
    ExpectRefused(Compile(scratch_ / "m.onnx"), words);
  }

  ScratchFolder scratch_;
};

onnx::GraphProto& Algorithm(onnx::ModelProto& model) {
  return *model.mutable_training_info(0)->mutable_algorithm();
}
onnx::NodeProto& NodeOf(onnx::GraphProto& graph, const std::string& op) {
  for (auto& node : *graph.mutable_node())
    if (node.op_type() == op) return node;
  ADD_FAILURE() << op << " is missing";
  return *graph.add_node();
}
onnx::TensorProto& TensorOf(onnx::GraphProto& graph, const std::string& name) {
  for (auto& tensor : *graph.mutable_initializer())
    if (tensor.name() == name) return tensor;
  ADD_FAILURE() << name << " is missing";
  return *graph.add_initializer();
}
void SetBinding(onnx::ModelProto& model, const std::string& key, const std::string& value) {
  for (auto& binding : *model.mutable_training_info(0)->mutable_update_binding())
    if (binding.key() == key) binding.set_value(value);
}

TEST_F(TrainingInfo, StepsAreThoseOfTheAlgorithm) {
  const Tensors expected = Take(ReadTensors(Data("expected.safetensors")));
  for (const std::string name : {"adam", "adam_from_one", "momentum", "nesterov", "adagrad", "plain"}) {
    ExpectDone(Compile(Data(name + ".onnx"), {"--verify-each"}));
    const Args rate = name == "adam_from_one" ? Args{"--lr=.05"} : Args{};  // R is an input there
    ExpectDone(Joined(Train({"--steps=5", "--check-memory", "--save=" + (scratch_ / "end"),
                             "--dump-step=" + (scratch_ / "step")}),
                      rate));
    const Tensors step = Take(ReadTensors(scratch_ / "step")), end = Take(ReadTensors(scratch_ / "end"));
    const llvm::json::Object report = Report();
    int compared = 0;
    for (const auto& [key, tensor] : expected) {
      if (key.rfind(name + "/", 0) != 0) continue;
      const std::string what = key.substr(name.size() + 1);
      std::vector<double> found;
      if (what == "losses") {
        for (const auto& loss : *report.getArray("losses")) found.push_back(loss.getAsNumber().value_or(NAN));
      } else {
        const Tensors& from = what.rfind("grad.", 0) == 0 ? step : end;
        ASSERT_TRUE(from.count(what)) << key;
        found = from.at(what).data;
      }
      ASSERT_EQ(found.size(), tensor.data.size()) << key;
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], tensor.data[i], kLimit) << key << "[" << i << "]";
      ++compared;
    }
    EXPECT_GE(compared, name == "plain" ? 13 : 10) << name;
    if (name == "plain") {
      EXPECT_EQ(report.getObject("optimizer")->getString("name"), "plain-sgd");
    }
    EXPECT_EQ(report.getInteger("peak_bytes"), report.getInteger("planned_peak_bytes")) << name;
  }
}

// Rounded codes and recomputation do not change what is read of the algorithm.
TEST_F(TrainingInfo, TrainsAtEveryLevel) {
  for (const char* level : {"L1", "L2", "L3"}) {
    ExpectDone(Compile(Data("plain.onnx"), {"-O", level, "--verify-each"}));
    ExpectDone(Train({"--steps=5", "--check-memory"}));
    const llvm::json::Array losses = *Report().getArray("losses");
    EXPECT_LT(losses[4].getAsNumber().value_or(NAN), losses[0].getAsNumber().value_or(0)) << level;
  }
}

TEST_F(TrainingInfo, InitializationDrawsTheFirstValues) {
  const auto first = [&](const char* seed) {
    ExpectDone(Compile(Data("initialized.onnx"), {std::string("--seed=") + seed}));
    ExpectDone(Train({"--steps=1", "--lr=0", "--save=" + (scratch_ / "end")}));
    return Take(ReadTensors(scratch_ / "end"));
  };
  const Tensors start = first("0"), again = first("0"), other = first("1");
  // N(1, .5^2): 35 numbers, the mean within 5 deviations of it.
  const auto& w1 = start.at("param.w1").data;
  double mean = 0, largest = 0;
  for (const double e : w1) mean += e / static_cast<double>(w1.size());
  EXPECT_NEAR(mean, 1, 5 * .5 / std::sqrt(35));
  EXPECT_NE(w1[0], w1[1]);
  for (const double e : start.at("param.w2").data) largest = std::max(largest, std::fabs(e));
  EXPECT_LE(largest, .5);
  EXPECT_GT(largest, .25);
  EXPECT_EQ(start.at("param.b1").data, std::vector<double>(7, .25));
  EXPECT_EQ(again.at("param.w1").data, w1);
  EXPECT_NE(other.at("param.w1").data, w1);
}

TEST_F(TrainingInfo, FlagsTakeTheAlgorithmsPlace) {
  const auto optimizer = [&](const Args& compile, const Args& run) {
    ExpectDone(Compile(Data("adam.onnx"), compile));
    ExpectDone(Train(Joined({"--steps=1"}, run)));
    return *Report().getObject("optimizer");
  };
  EXPECT_EQ(optimizer({}, {}).getString("name"), "onnx-adam");
  EXPECT_EQ(optimizer({}, {}).getNumber("lr"), .05);
  EXPECT_EQ(optimizer({}, {"--lr=.5", "--post-decay=0"}).getNumber("lr"), .5);
  EXPECT_EQ(optimizer({"--optimizer=lamb"}, {}).getString("name"), "lamb");
  // With another loss, the model is one without training information.
  ExpectDone(Compile(Data("adam.onnx"), {"--loss=cross-entropy"}));
  ExpectDone({ToolPath("actrun"), scratch_ / "plan", "--batch=2", "--steps=1",
              "--report-json=" + (scratch_ / "run")});
  EXPECT_EQ(Report().getObject("optimizer")->getString("name"), "sgd");
  ExpectDone(Compile(Data("adam.onnx"), {"--freeze=w1", "--verify-each"}));
}

TEST_F(TrainingInfo, ExportsTheModelForInference) {
  ExpectDone(Compile(Data("adam.onnx")));
  ExpectDone(
      Train({"--steps=2", "--export-onnx=" + (scratch_ / "out.onnx"), "--save=" + (scratch_ / "end")}));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(ReadFile(scratch_ / "out.onnx")));
  EXPECT_EQ(model.training_info_size(), 0);
  EXPECT_EQ(model.graph().node_size(), Read("adam").graph().node_size());
  EXPECT_EQ(model.graph().initializer_size(), 3);
  EXPECT_EQ(model.graph().input_size(), 1);
  float first = 0;
  std::memcpy(&first, TensorOf(*model.mutable_graph(), "w1").raw_data().data(), sizeof first);
  EXPECT_EQ(static_cast<double>(first), Take(ReadTensors(scratch_ / "end")).at("param.w1").data[0]);
}

TEST_F(TrainingInfo, RefusesWhatNoPlanCanDo) {
  using Model = onnx::ModelProto;
  ExpectRefusal("adam", [](Model& m) { NodeOf(Algorithm(m), "Gradient").set_input(0, "b1"); },
                {"'gradient' (Gradient)", "must read the tensors that xs and zs name"});
  ExpectRefusal("adam", [](Model& m) { NodeOf(Algorithm(m), "Gradient").clear_attribute(); },
                {"'gradient' (Gradient)", "needs the attributes y and xs"});
  ExpectRefusal("adam", [](Model& m) { NodeOf(Algorithm(m), "Gradient").set_op_type("Gradients"); },
                {"training_info", "has no Gradient node"});
  ExpectRefusal("momentum",
                [](Model& m) {
                  auto& nodes = *Algorithm(m).mutable_node();
                  nodes.Mutable(nodes.size() - 1)->mutable_attribute(0)->set_f(.25);
                },
                {"'update_w2' (Momentum)", "in another way than the node before"});
  ExpectRefusal("momentum",
                [](Model& m) { NodeOf(Algorithm(m), "Momentum").mutable_attribute()->RemoveLast(); },
                {"(Momentum)", "lacks the attribute"});
  ExpectRefusal("adam", [](Model& m) { NodeOf(Algorithm(m), "Adam").mutable_input()->RemoveLast(); },
                {"(Adam)", "13 inputs and 9 outputs"});
  ExpectRefusal("adam", [](Model& m) { SetBinding(m, "w1", "b1_new"); },
                {"(Adam)", "update_binding does not assign its result to 'w1'"});
  ExpectRefusal("adam", [](Model& m) { SetBinding(m, "V_w1", "w1_new"); },
                {"(Adam)", "does not assign its result to the state 'V_w1'"});
  ExpectRefusal("adam", [](Model& m) { SetBinding(m, "T", "T"); },
                {"(Adam)", "the count 'T' does not grow by one"});
  ExpectRefusal("adam", [](Model& m) { NodeOf(Algorithm(m), "Adam").set_input(0, "loss"); },
                {"(Adam)", "the learning rate 'loss' is computed"});
  ExpectRefusal("adam",
                [](Model& m) {
                  std::swap(*NodeOf(Algorithm(m), "Adam").mutable_input(5),
                            *NodeOf(Algorithm(m), "Adam").mutable_input(6));
                },
                {"(Adam)", "'d_b1' is not what a Gradient node makes for 'w1'"});
  ExpectRefusal("adam", [](Model& m) { TensorOf(Algorithm(m), "H_b1").mutable_raw_data()->at(2) = 1; },
                {"(Adam)", "the state 'H_b1' does not start at 0"});
  ExpectRefusal("adagrad",
                [](Model& m) { TensorOf(Algorithm(m), "H_b1").mutable_raw_data()->assign(28, '\0'); },
                {"(Adagrad)", "the state 'H_b1' does not start at 0, nor all"});
  ExpectRefusal("plain", [](Model& m) { NodeOf(Algorithm(m), "Sub").set_op_type("Add"); },
                {"update of 'w1'", "'w1_new' is not what an optimizer makes for it"});
  ExpectRefusal("plain", [](Model& m) { m.mutable_training_info(0)->clear_update_binding(); },
                {"training_info", "updates no parameter"});
  ExpectRefusal("plain",
                [](Model& m) { m.mutable_training_info(0)->mutable_update_binding(0)->set_key("absent"); },
                {"update of 'absent'", "has no such initializer"});
  ExpectRefusal("plain",
                [](Model& m) {
                  auto& info = *m.mutable_training_info(0);
                  *info.add_update_binding() = info.update_binding(0);
                },
                {"update of 'mean'", "there are two"});
  ExpectRefusal("plain", [](Model& m) { *m.add_training_info() = m.training_info(0); },
                {"training_info", "several training algorithms"});
  ExpectRefusal("plain", [](Model& m) { Algorithm(m).mutable_initializer(0)->set_name("w1"); },
                {"value 'w1'", "by the model and by its training algorithm"});
}

TEST_F(TrainingInfo, RefusesInitializationsItCannotDraw) {
  using Model = onnx::ModelProto;
  const auto node = [](Model& m, int i) {
    return m.mutable_training_info(0)->mutable_initialization()->mutable_node(i);
  };
  ExpectRefusal("initialized", [&](Model& m) { node(m, 0)->set_op_type("Multinomial"); },
                {"'r1' (Multinomial)", "not supported in an initialization"});
  ExpectRefusal("initialized", [&](Model& m) { node(m, 0)->clear_attribute(); },
                {"'r1' (RandomNormal)", "has another shape than 'w1'"});
  ExpectRefusal("initialized", [&](Model& m) { node(m, 2)->set_input(0, "eight"); },
                {"'r3' (ConstantOfShape)", "in this form"});
  ExpectRefusal(
      "initialized",
      [&](Model& m) { m.mutable_training_info(0)->mutable_initialization_binding(0)->set_key("x"); },
      {"initialization of 'x'", "no such initializer"});
  ExpectRefusal(
      "initialized",
      [&](Model& m) { m.mutable_training_info(0)->mutable_initialization_binding(0)->set_value("x"); },
      {"initialization of 'w1'", "nothing makes 'x'"});
  // A file of few bytes does not cause a large allocation.
  ExpectRefusal("initialized",
                [&](Model& m) {
                  onnx::TensorProto& w = TensorOf(*m.mutable_graph(), "w1");
                  w.set_dims(0, int64_t{1} << 40);
                },
                {"'r1' (RandomNormal)", "more than 2 GiB"});
}

}  // namespace
}  // namespace act::e2e
