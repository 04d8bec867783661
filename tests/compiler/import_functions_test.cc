// Model-local functions that are called in graphs inside nodes, or have such graphs: a model computes what it
// does with the functions written out.
#include <gtest/gtest.h>

#include "tests/compiler/loop_testing.h"

namespace act {
namespace {

using namespace loop_testing;

constexpr char kDomain[] = "local";

// A function with the nodes of `body`.
onnx::FunctionProto& Function(OnnxModel& m, const std::string& name, const Names& inputs,
                              const Names& outputs, const OnnxModel& body) {
  onnx::FunctionProto& f = *m.proto.add_functions();
  f.set_name(name);
  f.set_domain(kDomain);
  for (const std::string& input : inputs) f.add_input(input);
  for (const std::string& output : outputs) f.add_output(output);
  *f.mutable_node() = body.proto.graph().node();
  return f;
}

onnx::AttributeProto Reference(const std::string& name, const std::string& to,
                               onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  a.set_ref_attr_name(to);
  return a;
}

OnnxModel& Call(OnnxModel& m, const std::string& function, const Names& inputs, const Names& outputs,
                const std::vector<onnx::AttributeProto>& attrs = {}) {
  return m.Node(function, inputs, outputs, attrs, kDomain);
}

// tanh(x W + h R + b) as a function that calls another one.
void CellFunction(OnnxModel& m) {
  OnnxModel product, cell;
  product.Node("MatMul", {"x", "w"}, {"y"});
  Function(m, "Product", {"x", "w"}, {"y"}, product);
  Call(cell, "Product", {"x", "w"}, {"a"});
  Call(cell, "Product", {"h", "r"}, {"y"})  // the name of the inner function's result
      .Node("Add", {"a", "y"}, {"sum"})
      .Node("Add", {"sum", "bias"}, {"all"})
      .Node("Tanh", {"all"}, {"next"});
  Function(m, "Cell", {"x", "h", "w", "r", "bias"}, {"next"}, cell);
}

TEST(ImportFunctions, ALoopsBodyMayCallThem) {
  OnnxModel body, m = Data();
  body.Input("i", {}, TensorProto::INT64).Input("go_on", {}, TensorProto::BOOL).Input("h", {"N", kUnits});
  body.Node("Gather", {"x", "i"}, {"x_i"}, {Attr("axis", int64_t{1})});
  Call(body, "Cell", {"x_i", "h", "W", "R", "b"}, {"next"});
  Outputs(body, "go_on");
  CellFunction(m);
  CellWeights(m);
  m.Integers("M", {kSteps}, true).Node("Loop", {"M", "", "h0"}, {"last", "ys"}, {Inner(body)});
  Weighted(m, "ys", 0, kSteps);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2, 3, 4}));
}

// The loop is in the function, and what it calls is in the body of an If in the loop.
TEST(ImportFunctions, AFunctionsLoopMayCallThem) {
  OnnxModel taken, left, body, loop, m = Data();
  Call(taken, "Cell", {"x_i", "h", "w", "r", "bias"}, {"made"}).Output("made");
  left.Node("Identity", {"h"}, {"made"}).Output("made");
  body.Input("i", {}, TensorProto::INT64).Input("go_on", {}, TensorProto::BOOL).Input("h", {"N", kUnits});
  body.Node("Gather", {"seq", "i"}, {"x_i"}, {Attr("axis", int64_t{1})})
      .Node("Less", {"i", "bound"}, {"early"})
      .Node("If", {"early"}, {"next"}, {Inner(taken, "then_branch"), Inner(left, "else_branch")});
  Outputs(body, "go_on");
  loop.Node("Loop", {"trips", "", "h"}, {"last", "ys"}, {Inner(body)});
  CellFunction(m);
  Function(m, "Layer", {"seq", "h", "w", "r", "bias", "trips", "bound"}, {"last", "ys"}, loop);
  CellWeights(m);
  m.Integers("M", {kSteps}, true).Integers("three", {3}, true);
  Call(m, "Layer", {"x", "h0", "W", "R", "b", "M", "three"}, {"last", "ys"});
  OnnxModel three = Looped(3);
  ExpectSame(Loss(m, {"last"}), Loss(three, {"last"}));
}

// y = s * x where the branch is taken; s is the call's.
TEST(ImportFunctions, AttributesAreResolvedInBranches) {
  const auto model = [](bool called) {
    OnnxModel taken, left, outer, m = Data();
    const auto leaky = [&](OnnxModel& branch, const std::string& x) {
      branch.Node("LeakyRelu", {x}, {"r"},
                  {called ? Reference("alpha", "slope", onnx::AttributeProto::FLOAT) : Attr("alpha", .5)});
    };
    leaky(taken, called ? "v" : "h0");
    taken.Output("r");
    left.Node("Tanh", {called ? "v" : "h0"}, {"r"}).Output("r");
    OnnxModel& where = called ? outer : m;
    where.Node("If", {"flag"}, {"y"}, {Inner(taken, "then_branch"), Inner(left, "else_branch")});
    Flag(m, "flag", true);
    RandomWeight(m, "b", {kUnits}, 3);
    if (called) {
      Function(m, "Leak", {"v", "flag"}, {"y"}, outer).add_attribute("slope");
      Call(m, "Leak", {"h0", "flag"}, {"y"}, {Attr("slope", .5)});
    }
    m.Node("Add", {"y", "b"}, {"z"});
    return Loss(m, {"z"});
  };
  ExpectSame(model(true), model(false));
}

// In the function `t` is a name of the branch, and at the call one of the model: the operand.
TEST(ImportFunctions, AnOperandIsNotTakenForANameOfABranch) {
  OnnxModel taken, left, outer, m = Data(), direct = Data();
  taken.Node("Tanh", {"v"}, {"t"}).Node("Mul", {"t", "v"}, {"r"}).Output("r");
  left.Node("Identity", {"v"}, {"r"}).Output("r");
  outer.Node("If", {"flag"}, {"y"}, {Inner(taken, "then_branch"), Inner(left, "else_branch")});
  Function(m, "F", {"v", "flag"}, {"y"}, outer);
  for (OnnxModel* each : {&m, &direct}) {
    RandomWeight(*each, "R", {kUnits, kUnits}, 2);
    each->Node("MatMul", {"h0", "R"}, {"t"});
  }
  Flag(m, "flag", true);
  Call(m, "F", {"t", "flag"}, {"y"});
  direct.Node("Tanh", {"t"}, {"u"}).Node("Mul", {"u", "t"}, {"y"});
  ExpectSame(Loss(m, {"y"}), Loss(direct, {"y"}));
}

// Until opset 12 a Softmax is over all axes from `axis` on. The operator's meaning is that of the function's
// opset.
TEST(ImportFunctions, AFunctionHasItsOwnOpset) {
  const auto model = [](int64_t models, int64_t functions) {
    OnnxModel body, m = Data(models);
    body.Node("Softmax", {"v"}, {"y"}, {Attr("axis", int64_t{1})});
    onnx::FunctionProto& f = Function(m, "F", {"v"}, {"y"}, body);
    f.add_opset_import()->set_version(functions);
    RandomWeight(m, "P", {1, kSteps, kFeatures}, 4);
    m.Node("Mul", {"x", "P"}, {"xp"});
    Call(m, "F", {"xp"}, {"s"}).Node("Mul", {"s", "P"}, {"y"});
    return Loss(m, {"y"});
  };
  ExpectSame(model(17, 11), model(11, 11));
  ExpectSame(model(11, 17), model(17, 17));
  EXPECT_NE(ErrorOf(model(17, 99)).find("function 'F': is opset 99"), std::string::npos)
      << ErrorOf(model(17, 99));
}

TEST(ImportFunctions, ResultsMayBeOperandsAndMayBeLeftOut) {
  OnnxModel body, m = Data(), direct = Data();
  body.Node("Tanh", {"v"}, {"t"}).Node("Exp", {"t"}, {"e"});
  Function(m, "F", {"v"}, {"t", "v", "e", "t"}, body);
  for (OnnxModel* each : {&m, &direct}) RandomWeight(*each, "b", {kUnits}, 3);
  Call(m, "F", {"h0"}, {"", "same", "e1"});
  Call(m, "F", {"b"}, {"", "", "e2", "t2"});
  direct.Node("Tanh", {"h0"}, {"t1"})
      .Node("Tanh", {"b"}, {"t2"})
      .Node("Exp", {"t1"}, {"e1"})
      .Node("Exp", {"t2"}, {"e2"})
      .Node("Identity", {"h0"}, {"same"});
  for (OnnxModel* each : {&m, &direct}) {
    each->Node("Sum", {"same", "e1", "e2", "t2"}, {"y"});
    Loss(*each, {"y"});
  }
  ExpectSame(m, direct);
}

// The function's loop ends by a float that the model stores.
TEST(ImportFunctions, AStoredNumberMayEndAFunctionsLoop) {
  OnnxModel body, loop, m = Data();
  body.Input("i", {}, TensorProto::INT64).Input("go_on", {}, TensorProto::BOOL).Input("h", {"N", kUnits});
  body.Node("Cast", {"i"}, {"counted"}, {Attr("to", int64_t{TensorProto::FLOAT})})
      .Node("Less", {"counted", "length"}, {"unfinished"})
      .Node("Gather", {"seq", "i"}, {"x_i"}, {Attr("axis", int64_t{1})});
  Call(body, "Cell", {"x_i", "h", "w", "r", "bias"}, {"next"});
  Outputs(body, "unfinished");
  loop.Node("Loop", {"", "", "h"}, {"last", "ys"}, {Inner(body)});
  CellFunction(m);
  Function(m, "Layer", {"seq", "h", "w", "r", "bias", "length"}, {"last", "ys"}, loop);
  CellWeights(m);
  m.Weight("end", {}, 2);
  Call(m, "Layer", {"x", "h0", "W", "R", "b", "end"}, {"last", "ys"});
  Weighted(m, "ys", 0, 3);
  ExpectSame(Loss(m, {"last", "ys.weighted"}), WrittenOut({0, 1, 2}));
}

// Each call in a body doubles the nodes of the one inside it.
TEST(ImportFunctions, CallsInBranchesThatNestTooDeeplyAreRefused) {
  OnnxModel branch, body, m = Data();
  Call(branch, "F", {"v", "flag"}, {"a"});
  Call(branch, "F", {"a", "flag"}, {"b"}).Output("b");
  body.Node("If", {"flag"}, {"y"}, {Inner(branch, "then_branch"), Inner(branch, "else_branch")});
  Function(m, "F", {"v", "flag"}, {"y"}, body);
  Flag(m, "flag", true);
  Call(m, "F", {"h0", "flag"}, {"y"});
  EXPECT_NE(ErrorOf(Loss(m, {"y"})).find("the function calls itself"), std::string::npos);
}

// It would be read as 0, whatever the operator's own default is.
TEST(ImportFunctions, AReferenceOutsideOfFunctionsIsRefused) {
  OnnxModel m = testing::Linear();
  m.Node("Softmax", {"logits"}, {"y"}, {Reference("axis", "a", onnx::AttributeProto::INT)}).MeanLoss("y");
  EXPECT_NE(ErrorOf(m).find("node 'y' (Softmax): attribute 'axis' refers to 'a' of a function"),
            std::string::npos)
      << ErrorOf(m);
}

}  // namespace
}  // namespace act
