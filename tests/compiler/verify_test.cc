// Each promise of compiler/ir/verify.h, broken once.
#include "compiler/ir/verify.h"

#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;
using testing_step::Text;

// y = Relu(x p), updated from its gradient.
struct Broken {
  Broken() {
    GraphBuilder b(graph);
    const TensorType type{DType::kFloat32, {3, 4}};
    x = b.Input("x", type, ValueKind::kInput);
    p = b.Input("p", type, ValueKind::kParameter, testing_step::HostFloats(std::vector<float>(12)));
    velocity = b.Input("p.velocity", type, ValueKind::kOptimizer);
    product = Take(b.Add1("Mul", {x, p}, {}, "product"));
    y = Take(b.Add1("Relu", {product}, {}, "relu"));
    b.SetPhase(Phase::kBackward);
    gradient = Take(b.Add1("Mul", {x, y}, {}, "gradient"));
    b.SetPhase(Phase::kUpdate);
    const ValueId number = b.Scalar(0.5f);
    Take(
        b.Add("SgdUpdate", {p, gradient, velocity, number, number, number, number, number}, {}, "update", 0));
    graph.outputs = {y};
  }
  Node& node(size_t i) { return graph.nodes[i]; }
  // What Verify says. Unless given, the stage is the one after the backward pass.
  std::string Message(Stage stage = Stage::kTraining) { return Text(Verify(graph, stage)); }

  Graph graph;
  ValueId x, p, velocity, product, y, gradient;
};

void ExpectRefusal(const std::string& message, const std::string& node, const std::string& why) {
  EXPECT_NE(message.find(node), std::string::npos) << "'" << message << "' does not name " << node;
  EXPECT_NE(message.find(why), std::string::npos) << "'" << message << "' does not say: " << why;
}

TEST(Verify, AcceptsAWholeGraph) { EXPECT_EQ(Broken().Message(), ""); }

TEST(Verify, RefusesAnOperandThatDoesNotExist) {
  for (const ValueId id : {ValueId{-7}, ValueId{1000}}) {
    Broken b;
    b.node(1).inputs[0] = id;
    ExpectRefusal(b.Message(), "'relu' (Relu)", "does not exist");
  }
}

TEST(Verify, RefusesAResultThatDoesNotExist) {
  Broken b;
  b.node(1).outputs[0] = 1000;
  ExpectRefusal(b.Message(), "'relu' (Relu)", "which does not exist");
}

TEST(Verify, RefusesAReadBeforeTheValueIsMade) {
  Broken b;
  std::swap(b.node(0), b.node(1));
  ExpectRefusal(b.Message(), "'relu' (Relu)", "before it is made");
}

TEST(Verify, RefusesAValueMadeTwice) {
  Broken b;
  b.node(1).outputs[0] = b.product;
  ExpectRefusal(b.Message(), "'relu' (Relu)", "a second time");
}

TEST(Verify, RefusesAResultThatIsAnInput) {
  Broken b;
  b.node(1).outputs[0] = b.x;
  ExpectRefusal(b.Message(), "'relu' (Relu)", "a second time");
}

TEST(Verify, RefusesAnUnknownOperator) {
  Broken b;
  b.node(1).op = "Frobnicate";
  ExpectRefusal(b.Message(), "'relu' (Frobnicate)", "unknown operator");
}

TEST(Verify, RefusesATypeThatInferenceDoesNotGive) {
  Broken b;
  b.graph.value(b.y).type.dims = {4, 3};
  ExpectRefusal(b.Message(), "'relu' (Relu)", "should be f32[3,4]");
}

TEST(Verify, RefusesOperandsThatInferenceRefuses) {
  Broken b;
  b.graph.value(b.p).type.dims = {5, 4};
  ExpectRefusal(b.Message(), "'product' (Mul)", "do not broadcast");
}

TEST(Verify, RefusesAMissingOperand) {
  Broken b;
  b.node(0).inputs.pop_back();
  b.node(0).inputs.pop_back();
  ExpectRefusal(b.Message(), "'product' (Mul)", "inputs");
  Broken left_out;
  left_out.node(1).inputs[0] = kNoValue;
  ExpectRefusal(left_out.Message(), "'relu' (Relu)", "");
}

TEST(Verify, RefusesAMissingResult) {
  Broken b;
  b.node(1).outputs.clear();
  b.graph.outputs = {b.product};
  b.node(2).inputs[1] = b.product;
  ExpectRefusal(b.Message(), "'relu' (Relu)", "result");
}

TEST(Verify, RefusesAReadAfterTheUpdate) {
  Broken b;
  GraphBuilder builder(b.graph);
  builder.SetPhase(Phase::kBackward);
  Take(builder.Add1("Neg", {b.p}, {}, "late"));
  ExpectRefusal(b.Message(), "'late' (Neg)", "reads 'p' after it was updated");
}

TEST(Verify, RefusesAnUpdateOfWhatIsNotKept) {
  Broken b;
  b.node(3).inputs[0] = b.x;
  ExpectRefusal(b.Message(), "'update' (SgdUpdate)", "not a parameter, buffer or optimizer state");
  Broken outside;
  outside.node(3).mutates = {50};
  ExpectRefusal(outside.Message(), "'update' (SgdUpdate)", "not a parameter, buffer or optimizer state");
  Broken missing;
  missing.node(3).inputs[1] = kNoValue;
  ExpectRefusal(missing.Message(), "'update' (SgdUpdate)", "");
}

TEST(Verify, RefusesAForwardNodeThatReadsTheBackwardPass) {
  Broken b;
  GraphBuilder builder(b.graph);
  Take(builder.Add1("Neg", {b.gradient}, {}, "confused"));
  ExpectRefusal(b.Message(), "'confused' (Neg)", "of the backward pass");
}

TEST(Verify, RefusesAnOutputThatNothingMakes) {
  for (const ValueId id : {ValueId{-1}, ValueId{1000}}) {
    Broken b;
    b.graph.outputs.push_back(id);
    EXPECT_NE(b.Message().find("is not made"), std::string::npos) << id;
  }
  Broken b;
  b.graph.nodes.erase(b.graph.nodes.begin() + 1, b.graph.nodes.end());
  EXPECT_NE(b.Message().find("is not made"), std::string::npos);
}

TEST(Verify, RefusesAnInputListThatIsWrong) {
  Broken b;
  b.graph.inputs.push_back(1000);
  EXPECT_NE(b.Message().find("input"), std::string::npos);
}

TEST(Verify, RefusesBehindFusionWhatAPlanMayNotRun) {
  Broken b;
  ExpectRefusal(b.Message(Stage::kFused), "'product' (Mul)", "not an operator that a plan may run");
}

TEST(Verify, RefusesAFusedLoopWhoseProgramIsWrong) {
  Broken b;
  Node& loop = b.node(1);
  loop.op = "Fused";
  loop.program.space = {3, 4};
  loop.program.inputs.resize(1);
  loop.program.outputs.push_back({OutputKind::kStore, 17, {}, 0});
  ExpectRefusal(b.Message(), "(Fused)", "");
}

}  // namespace
}  // namespace act
