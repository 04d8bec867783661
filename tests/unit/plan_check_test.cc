#include "runtime/plan/plan_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "runtime/plan/attribute_types.h"
#include "tests/paths.h"
#include "tests/unit/small_plan.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::SmallPlan;

// Positions in SmallPlan().
enum ValueAt { kX, kLabel, kW, kVelocity, kOne, kY, kCode, kLoss, kProb, kDy, kDecoded, kDw };
enum NodeAt { kFc, kEncode, kCrossEntropy, kCrossEntropyGrad, kDecode, kGradW, kUpdate };

TEST(CheckPlan, TakesTheSmallPlan) { EXPECT_EQ(llvm::toString(CheckPlan(SmallPlan())), ""); }

TEST(CheckPlan, FindsWhatIsWrong) {
  const struct {
    const char* what;
    std::function<void(Plan&)> damage;
    const char* message;
  } cases[] = {
      // Values.
      {"a negative extent", [](Plan& p) { p.train.graph.value(kY).type.dims[1] = -4; },
       "an impossible extent"},
      {"an extent that shrinks", [](Plan& p) { p.train.graph.value(kY).type.dims[0] = Dim(9, -1); },
       "an impossible extent"},
      {"too many bytes",
       [](Plan& p) {
         p.train.graph.value(kY).type.dims = {int64_t{1} << 40, int64_t{1} << 40};
       },
       "too large"},
      {"more than N^2", [](Plan& p) { p.train.graph.value(kY).type.dims = Dims(3, Dim::Batch()); },
       "too large"},
      {"too many axes", [](Plan& p) { p.train.graph.value(kY).type.dims = Dims(17, 1); },
       "more than 16 axes"},
      {"a parameter that grows", [](Plan& p) { p.train.graph.value(kVelocity).type.dims[0] = Dim::Batch(); },
       "varies with the batch"},
      {"data of another size", [](Plan& p) { p.train.graph.value(kW).data.bytes -= 4; },
       "1020 bytes of data"},
      {"data of an activation", [](Plan& p) { p.train.graph.value(kY).data = testing::Ramp(1); },
       "where it has none"},
      {"a name twice", [](Plan& p) { p.train.graph.value(kVelocity).name = "w"; },
       "two values have this name"},
      {"another type in evaluation", [](Plan& p) { p.eval.graph.value(0).type.dims[1] = 65; },
       "differs between training and evaluation"},
      {"other weights in evaluation", [](Plan& p) { p.eval.graph.value(3).data = testing::Ramp(255); },
       "1020 bytes of data"},
      {"a constant that is another in evaluation",
       [](Plan& p) {
         p.eval.graph.value(2).name = "one";
         p.eval.graph.value(2).type.dims = {};
         p.eval.graph.value(2).data = testing::Ramp(1);
       },
       "value 'one': has other data"},
      {"a parameter without a name", [](Plan& p) { p.train.graph.value(kW).name.clear(); }, "has no name"},
      // Storages.
      {"no such storage", [](Plan& p) { p.train.storage_of[kY] = 99; }, "no such storage"},
      {"no storage", [](Plan& p) { p.train.storage_of[kY] = -1; }, "has no storage"},
      {"storages of other values", [](Plan& p) { p.train.storage_of.pop_back(); }, "not given for all"},
      {"an impossible number", [](Plan& p) { p.train.storages = 1 << 30; },
       "an impossible number of storages"},
      {"written before it is read", [](Plan& p) { p.train.storage_of[kY] = p.train.storage_of[kX]; },
       "value 'y': overwrites value 'x'"},
      {"two of one node", [](Plan& p) { p.train.storage_of[kProb] = p.train.storage_of[kLoss]; },
       "overwrites"},
      {"on a parameter", [](Plan& p) { p.train.storage_of[kDw] = p.train.storage_of[kW]; },
       "value 'dw': overwrites"},
      {"on an output", [](Plan& p) { p.train.storage_of[kDw] = p.train.storage_of[kLoss]; },
       "overwrites value 'loss'"},
      // Nodes.
      {"reads nothing", [](Plan& p) { p.train.graph.nodes[kFc].inputs[0] = -2; }, "an input is no value"},
      {"writes nothing", [](Plan& p) { p.train.graph.nodes[kFc].outputs[0] = kNoValue; },
       "an output is no value"},
      {"reads too early", [](Plan& p) { p.train.graph.nodes[kFc].inputs[0] = kDw; },
       "reads value 'dw' before"},
      {"writes twice", [](Plan& p) { p.train.graph.nodes[kDecode].outputs[0] = kDy; }, "exists already"},
      {"writes an input", [](Plan& p) { p.train.graph.nodes[kFc].outputs[0] = kX; }, "exists already"},
      {"mutates what it has not", [](Plan& p) { p.train.graph.nodes[kUpdate].mutates = {3}; },
       "does not have"},
      {"mutates left-out inputs", [](Plan& p) { p.train.graph.nodes[kCrossEntropy].mutates = {2}; },
       "does not have"},
      {"mutates a gradient", [](Plan& p) { p.train.graph.nodes[kUpdate].mutates = {2}; }, "is no parameter"},
      {"mutates a constant", [](Plan& p) { p.train.graph.nodes[kCrossEntropyGrad].mutates = {0}; },
       "is no parameter"},
      {"a gradient that it has not",
       [](Plan& p) {
         p.train.graph.nodes[kUpdate].attrs.Set("gradients", std::vector<int64_t>{0, 3});
       },
       "names a gradient"},
      {"half a pair of gradients",
       [](Plan& p) { p.train.graph.nodes[kUpdate].attrs.Set("gradients", std::vector<int64_t>{0}); },
       "names a gradient"},
      {"a negative gradient",
       [](Plan& p) {
         p.train.graph.nodes[kUpdate].attrs.Set("gradients", std::vector<int64_t>{-1, 0});
       },
       "names a gradient"},
      {"negative workspace", [](Plan& p) { p.train.graph.nodes[kFc].workspace_bytes[TargetKind::kCpu] = -1; },
       "impossible workspace for cpu"},
      {"shrinking workspace",
       [](Plan& p) { p.train.graph.nodes[kFc].workspace_bytes[TargetKind::kCuda] = Dim(4096, -1); },
       "impossible workspace for cuda"},
      {"negative limit of a workspace",
       [](Plan& p) { p.train.graph.nodes[kFc].workspace_bytes[TargetKind::kCuda].most = -1; },
       "impossible workspace for cuda"},
      {"a workspace without end",
       [](Plan& p) { p.train.graph.nodes[kFc].workspace_bytes[TargetKind::kCuda].most = INT64_MAX; },
       "impossible workspace for cuda"},
      {"an input's storage reshaped apart",
       [](Plan& p) {
         Node& node = p.train.graph.nodes[kFc];
         node.op = "Reshape", node.inputs = {kX};
       },
       "does not share its input's storage"},
      {"an operand too many", [](Plan& p) { p.train.graph.nodes[kFc].inputs.assign(4, kX); },
       "node 'fc' (MatMul): has 4 operands, not 2 to 3"},
      {"an operand too few", [](Plan& p) { p.train.graph.nodes[kCrossEntropyGrad].inputs.resize(2); },
       "node 'loss/grad' (SoftmaxCrossEntropyGrad): has 2 operands, not 3 to 5"},
      {"an operand that must be there",
       [](Plan& p) { p.train.graph.nodes[kCrossEntropyGrad].inputs[1] = kNoValue; }, "lacks operand 1"},
      {"a result too few", [](Plan& p) { p.train.graph.nodes[kCrossEntropy].outputs.resize(1); },
       "node 'loss' (SoftmaxCrossEntropy): has 1 result, not 2"},
      {"a result too many",
       [](Plan& p) {
         p.train.graph.nodes[kGradW].outputs = {kDw, kDw};
       },
       "node 'fc/grad_w' (MatMul): has 2 results, not 1"},
      {"no operand of a reshape",
       [](Plan& p) {
         Node& node = p.train.graph.nodes[kFc];
         node.op = "Reshape", node.inputs = {};
       },
       "has 0 operands, not 1"},
      {"an operator of no plan", [](Plan& p) { p.train.graph.nodes[kFc].op = "Matmul"; },
       "node 'fc' (Matmul): not an operator of plans"},
      {"an operator of training in evaluation", [](Plan& p) { p.eval.graph.nodes[0].op = "SgdUpdate"; },
       "evaluation: node 'fc' (SgdUpdate): not an operator of plans"},
      {"an attribute of another type",
       [](Plan& p) { p.train.graph.nodes[kGradW].attrs.Set("trans_a", std::string("1")); },
       "node 'fc/grad_w' (MatMul): attribute 'trans_a' is not an integer"},
      {"one number for a list of them",
       [](Plan& p) { p.train.graph.nodes[kUpdate].attrs.Set("gradients", int64_t{0}); },
       "node 'w/update' (Fused): attribute 'gradients' is not a list of integers"},
      {"an integer at which sums overflow",
       [](Plan& p) { p.train.graph.nodes[kGradW].attrs.Set("trans_a", INT64_MAX); },
       "attribute 'trans_a' is too large"},
      {"a list of such integers",
       [](Plan& p) {
         p.train.graph.nodes[kUpdate].attrs.Set("gradients", std::vector<int64_t>{0, INT64_MIN});
       },
       "attribute 'gradients' is too large"},
      {"an integer for a number", [](Plan& p) { p.train.graph.nodes[kFc].attrs.Set("scale", int64_t{1}); },
       "attribute 'scale' is not a number"},
      // Programs.
      {"a loop that writes an operand without a store",
       [](Plan& p) { p.train.graph.nodes[kUpdate].program.outputs.pop_back(); }, "another number of outputs"},
      {"a loop that sums into an operand",
       [](Plan& p) { p.train.graph.nodes[kUpdate].program.outputs[0].kind = OutputKind::kSum; },
       "does not write all of its operand 0"},
      {"a loop that writes a part of an operand",
       [](Plan& p) {
         p.train.graph.value(kW).type.dims = {4};
         p.train.graph.value(kW).data = testing::Ramp(4);
       },
       "does not write all of its operand 0"},
      {"a program where none runs",
       [](Plan& p) { p.train.graph.nodes[kFc].program = p.train.graph.nodes[kEncode].program; }, "runs none"},
      {"no program", [](Plan& p) { p.train.graph.nodes[kEncode].program = {}; }, "no program"},
      {"another space", [](Plan& p) { p.train.graph.nodes[kDecode].program.space[1] = 65; }, "does not fit"},
      {"another codec",
       [](Plan& p) { p.train.graph.nodes[kDecode].program.inputs[0].codec = Codec::Uniform(5); },
       "does not fit"},
      {"an impossible codec",
       [](Plan& p) { p.train.graph.nodes[kDecode].program.inputs[0].codec.group_size = 7; }, "its program: "},
      {"a plain input for a code", [](Plan& p) { p.train.graph.nodes[kDecode].program.inputs[0].codec = {}; },
       "does not fit"},
      {"more inputs", [](Plan& p) { p.train.graph.nodes[kDecode].inputs.push_back(kOne); },
       "number of inputs"},
      {"more outputs", [](Plan& p) { p.train.graph.nodes[kDecode].outputs.clear(); }, "number of outputs"},
      {"an optional input", [](Plan& p) { p.train.graph.nodes[kDecode].inputs = {kNoValue}; },
       "optional inputs"},
      // Graph and plan.
      {"an output that is never made", [](Plan& p) { p.train.graph.outputs = {1000}; }, "never made"},
      {"an input of another kind", [](Plan& p) { p.train.graph.inputs.push_back(kY); }, "no input value"},
      {"an input twice", [](Plan& p) { p.train.graph.inputs.push_back(kX); }, "is an input twice"},
      {"an input that is not listed", [](Plan& p) { p.train.graph.inputs.clear(); }, "before it is made"},
      {"an optimizer of no name", [](Plan& p) { p.optimizer = ""; }, "an optimizer that is not known"},
      {"a norm of NaN", [](Plan& p) { p.clip_norm = std::nan(""); }, "an impossible gradient norm"},
      {"a norm below 0", [](Plan& p) { p.clip_norm = -1; }, "an impossible gradient norm"},
      {"no micro-batches", [](Plan& p) { p.accumulate = 0; }, "an impossible number of micro-batches"},
      {"no end of micro-batches", [](Plan& p) { p.accumulate = INT64_MAX; },
       "an impossible number of micro-batches"},
      {"no batch", [](Plan& p) { p.default_batch = 0; }, "impossible batch size"},
      {"an edge of no value", [](Plan& p) { p.edges[0].stored = 12; }, "no such value"},
      {"an edge of NaN bits", [](Plan& p) { p.edges[0].bits = std::nan(""); }, "impossible number of bits"},
      {"an edge that lies about its size", [](Plan& p) { p.edges[0].bytes = Dim(0, 35); }, "what is stored"},
      {"an edge of negative size", [](Plan& p) { p.edges[0].bytes = -1; }, "an impossible size"},
  };
  for (const auto& c : cases) {
    Plan plan = SmallPlan();
    c.damage(plan);
    const std::string message = llvm::toString(CheckPlan(plan));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.what << ": '" << message << "'";
  }
}

// Legal cases in which values share a storage: a reshape of a value that is still read, and a
// result in place of an operand.
TEST(CheckPlan, ChecksFrozenParametersThatAreCoded) {
  const auto message = [](const std::function<void(Plan&, Value&)>& damage) {
    Plan plan = SmallPlan();
    const ValueId frozen = testing::AddFrozen(plan);
    damage(plan, plan.train.graph.value(frozen));
    return llvm::toString(CheckPlan(plan));
  };
  const auto with = [](const Codec& codec, const Dims& dims) {
    return std::make_shared<CodedParameter>(CodedParameter{codec, {DType::kFloat32, dims}});
  };
  const Codec codec = Codec::Uniform(4, 64, Rounding::kNearest);
  const struct {
    const char* what;
    std::function<void(Plan&, Value&)> damage;
    const char* message;
  } cases[] = {
      {"another kind", [](Plan&, Value& v) { v.kind = ValueKind::kConstant; }, "coded, and neither"},
      {"a code of other numbers",
       [&](Plan&, Value& v) {
         v.coded = with(codec, {2, 65});
       },
       "u8[80] is not the code uniform4,g64,nearest of f32[2,65]"},
      {"a code that the loader cannot make",
       [&](Plan&, Value& v) {
         v.coded = with(Codec::Uniform(4, 64, Rounding::kDither), {2, 64});
       },
       "is not the code"},
      {"numbers that grow",
       [&](Plan&, Value& v) {
         v.coded = with(codec, {Dim::Batch(), 64});
       },
       "an impossible shape"},
      {"negative extents",
       [&](Plan&, Value& v) {
         v.coded = with(codec, {-2, -64});
       },
       "an impossible shape"},
      {"data of the code's size", [](Plan&, Value& v) { v.data.bytes = 80; },
       "80 bytes of data for f32[2,64]"},
      {"plain numbers in evaluation",
       [](Plan& p, Value&) {
         p.eval.graph.values.back().coded = nullptr;
         p.eval.graph.values.back().data.bytes = 80;
       },
       "differs between training and evaluation"},
      {"written",
       [](Plan& p, Value&) {
         Node& update = p.train.graph.nodes[kUpdate];
         update.mutates.push_back(static_cast<int32_t>(update.inputs.size()));
         update.inputs.push_back(static_cast<ValueId>(p.train.graph.values.size()) - 1);
       },
       "mutates value 'frozen', of which the arena has a code"},
  };
  EXPECT_EQ(message([](Plan&, Value&) {}), "");
  for (const auto& c : cases)
    EXPECT_NE(message(c.damage).find(c.message), std::string::npos) << c.what << ": " << message(c.damage);
}

TEST(CheckPlan, TakesViewsAndResultsInPlace) {
  testing::StepBuilder b;
  const Dim n = Dim::Batch();
  const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {n, 6});
  const ValueId flat = b.Activation("flat", {n * Dim(6)}, b.storage(x));
  const ValueId y = b.Activation("y", {n, 6});
  const ValueId z = b.Activation("z", {n, 6}, b.storage(y));
  const ValueId sum = b.Activation("sum", {});
  b.AddNode("Reshape", "flat", Phase::kForward, {x}, {flat});
  b.AddNode("Transpose", "y", Phase::kForward, {x}, {y});
  b.AddNode("Fused", "z", Phase::kForward, {y}, {z}).program = testing::CopyProgram({n, 6}, {}, {});
  b.AddNode("Concat", "sum", Phase::kForward, {flat, z}, {sum});
  b.step.graph.outputs = {sum};
  EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)), "");
  // It is no longer legal if the view is read after its storage is written again.
  b.step.storage_of[static_cast<size_t>(z)] = b.storage(x);
  EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)),
            "value 'z': overwrites value 'x' in their storage before it is read");
}

// Kernels of these read an operand again after they have written. An index that is no longer what it was when
// it was checked leads anywhere.
TEST(CheckPlan, RefusesResultsOverOperandsThatAreStillRead) {
  const Dim n = Dim::Batch();
  for (const char* op : {"Gather", "Scatter", "Transpose", "MatMul"}) {
    for (const int operand : {0, 1}) {
      testing::StepBuilder b;
      const ValueId input = b.Add("x", ValueKind::kInput, DType::kInt64, {n, 6});
      const ValueId x = b.Activation("copy", {n, 6}), index = b.Activation("index", {n, 6});
      const ValueId y = b.Activation("y", {n, 6}, b.storage(operand == 0 ? x : index));
      b.AddNode("Pad", "copy", Phase::kForward, {input}, {x});
      b.AddNode("Pad", "index", Phase::kForward, {input}, {index});
      b.AddNode(op, "y", Phase::kForward, {x, index}, {y});
      b.step.graph.outputs = {y};
      if (std::string(op) == "Transpose") b.step.graph.nodes.back().inputs = {operand == 0 ? x : index};
      const int of_node = std::string(op) == "Transpose" ? 0 : operand;
      EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)), "node 'y' (" + std::string(op) +
                                                            "): cannot write its result 0 over its operand " +
                                                            std::to_string(of_node));
    }
  }
}

TEST(CheckPlan, HoldsLoopsToOperandsThatTheyReadBeforeTheyWrite) {
  const Dim n = Dim::Batch();
  const Codec codec = Codec::Uniform(4);
  for (const bool coded : {false, true}) {
    testing::StepBuilder b;
    const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {n, 6});
    const TensorType code = *CodeType(codec, {n, 6});
    const ValueId read =
        coded ? b.Add("code", ValueKind::kActivation, code.dtype, code.dims) : b.Activation("row", {n, 6});
    const ValueId y = b.Activation("y", {n, 6}, b.storage(read));
    b.AddNode("Fused", "first", Phase::kForward, {x}, {read}).program =
        testing::CopyProgram({n, 6}, {}, coded ? codec : Codec{});
    b.AddNode("Fused", "y", Phase::kForward, {read}, {y}).program =
        testing::CopyProgram({n, 6}, coded ? codec : Codec{}, {});
    b.step.graph.outputs = {y};
    EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)),
              coded ? "node 'y' (Fused): cannot write its result 0 over its operand 0" : "");
  }
}

// A sum over an axis that no tensor has takes any time, whatever the size of the plan's tensors.
TEST(CheckPlan, BoundsWhatNoTensorBounds) {
  for (const int64_t extent : {int64_t{1} << 30, (int64_t{1} << 30) + 1}) {
    testing::StepBuilder b;
    const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {4, 1});
    const ValueId sum = b.Activation("sum", {});
    Program program = testing::CopyProgram({4, extent}, {}, {});
    program.outputs[0].kind = OutputKind::kSum;
    b.AddNode("Fused", "sum", Phase::kForward, {x}, {sum}).program = program;
    b.step.graph.outputs = {sum};
    const std::string message = llvm::toString(CheckStepGraph(b.step));
    EXPECT_EQ(message.find("has elements that no operand") != std::string::npos, extent > 1 << 30) << message;
  }
}

TEST(CheckPlan, KnowsWhichOperandsAreWritten) {
  const Dim n = Dim::Batch();
  testing::StepBuilder b;
  const ValueId x = b.Add("x", ValueKind::kInput, DType::kFloat32, {n, 6});
  const ValueId mean = b.Add("mean", ValueKind::kBuffer, DType::kFloat32, {6});
  const ValueId variance = b.Add("variance", ValueKind::kBuffer, DType::kFloat32, {6});
  const ValueId of_batch = b.Activation("mean of the batch", {6}), rstd = b.Activation("rstd", {6});
  Node& node = b.AddNode("BatchNormStats", "stats", Phase::kForward, {x, mean, variance}, {of_batch, rstd});
  b.step.graph.outputs = {of_batch, rstd};
  const std::string place = "node 'stats' (BatchNormStats): ";
  node.mutates = {1, 2};
  EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)), "");
  node.mutates = {1};
  EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)), place + "writes operand 2 without mutating it");
  b.step.graph.value(mean).kind = ValueKind::kConstant;
  node.mutates = {1, 2};
  EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)),
            place + "mutates value 'mean', which is no parameter, buffer or optimizer state");
  b.step.graph.value(mean).kind = ValueKind::kBuffer;
  node.op = "Concat", node.mutates = {1}, node.outputs = {of_batch};
  b.step.graph.outputs = {of_batch};
  EXPECT_EQ(llvm::toString(CheckStepGraph(b.step)),
            "node 'stats' (Concat): does not write operand 1, which it mutates");
}

// The sources of whoever reads a plan's attributes. The table of types has each with the type that
// they ask for.
TEST(AttributeTypes, AreThoseThatTheRuntimeReads) {
  const std::map<std::string, Attribute> examples = {{"Int", int64_t{1}},
                                                     {"Float", 1.0},
                                                     {"String", std::string("x")},
                                                     {"Ints", std::vector<int64_t>{1}},
                                                     {"Floats", std::vector<double>{1}}};
  const std::regex read("attrs\\.(Int|Float|String|Ints|Floats)\\(\"([a-z_]+)\"");
  std::set<std::string> names;
  for (const char* folder : {"/kernels", "/runtime/plan", "/runtime/memory", "/runtime/executor"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(SourceFolder() + std::string(folder))) {
      // The attributes of codecs have their own check.
      if (!entry.is_regular_file() || entry.path().filename() == "plan_read.cc") continue;
      const std::string text = testing::Contents(entry.path().string());
      for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at) {
        const std::string type = (*at)[1], name = (*at)[2];
        names.insert(name);
        for (const auto& [other, value] : examples) {
          Attributes attrs;
          attrs.Set(name, value);
          EXPECT_EQ(WrongType(attrs).has_value(), other != type)
              << name << " as " << other << ", read in " << entry.path();
        }
      }
    }
  }
  EXPECT_GT(names.size(), 30u);  // otherwise the pattern no longer finds them
}

}  // namespace
}  // namespace act
