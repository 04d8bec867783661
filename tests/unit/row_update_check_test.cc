// CheckPlan on updates by rows: plans made to do harm are refused before a kernel sees them.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/plan/plan_check.h"
#include "runtime/plan/row_update.h"
#include "tests/unit/small_plan.h"

namespace act {
namespace {

enum ValueAt { kIds, kLive, kTable, kVelocity, kLr, kRows, kOther };
enum NodeAt { kLookup, kUpdate };

// Rows are looked up and added to their table.
StepGraph ByProgram() {
  const Dim n = Dim::Batch();
  testing::StepBuilder b;
  b.Add("ids", ValueKind::kInput, DType::kInt64, {n, 1});
  b.Add("live", ValueKind::kInput, DType::kBool, {n});
  b.Add("table", ValueKind::kParameter, DType::kFloat32, {6, 4});
  b.Add("table.velocity", ValueKind::kOptimizer, DType::kFloat32, {6, 4});
  b.Add("lr", ValueKind::kConstant, DType::kFloat32, {});
  b.Activation("rows", {n, 4});
  b.Add("other", ValueKind::kBuffer, DType::kFloat32, {6, 4});
  b.AddNode("Gather", "lookup", Phase::kForward, {kTable, kIds}, {kRows}).attrs.Set("axis", int64_t{0});
  Node& update = b.AddNode("Fused", "table/update", Phase::kUpdate, {kTable, kVelocity, kLr, kRows}, {});
  update.mutates = {0, 1};
  testing::MakeLoopOfUpdate(update, {6, 4});
  update.op = "UpdateRows";
  update.inputs.insert(update.inputs.end(), {kIds, kLive});
  update.attrs.Set("row_gradient", std::vector<int64_t>{0, 3, 4});
  b.step.graph.outputs = {kRows};
  return b.step;
}

// rows, 8 numbers, table, codes and maxima of two moments, ids, live
StepGraph OfEightBits() {
  StepGraph step = ByProgram();
  Node& update = step.graph.nodes[kUpdate];
  const auto add = [&step](const std::string& name, DType dtype, Dims dims) {
    Value value;
    value.name = name;
    value.kind = ValueKind::kOptimizer;
    value.type = {dtype, std::move(dims)};
    step.graph.values.push_back(value);
    step.storage_of.push_back(step.storages++);
    return static_cast<ValueId>(step.graph.values.size() - 1);
  };
  update.op = "QuantizedAdamRows";
  update.program = {};
  update.inputs = {kRows};
  update.inputs.insert(update.inputs.end(), 8, kLr);
  update.inputs.push_back(kTable);
  for (const std::string moment : {"exp_avg", "exp_avg_sq"}) {
    update.inputs.push_back(add("table." + moment + ".codes", DType::kUint8, {6, 4}));
    update.inputs.push_back(add("table." + moment + ".maxima", DType::kFloat32, {1}));
  }
  update.inputs.insert(update.inputs.end(), {kIds, kLive});
  update.mutates = {9, 10, 11, 12, 13};
  update.attrs.Set("row_gradient", std::vector<int64_t>{9, 0, 14});
  return step;
}

// rows, 8 numbers, table, two moments, ids, live
StepGraph OfBFloat16() {
  StepGraph step = OfEightBits();
  Node& update = step.graph.nodes[kUpdate];
  for (const size_t i : {10, 12}) step.graph.value(update.inputs[i]).type.dtype = DType::kBFloat16;
  update.inputs.erase(update.inputs.begin() + 13);
  update.inputs.erase(update.inputs.begin() + 11);
  update.mutates = {9, 10, 11};
  update.attrs.Set("row_gradient", std::vector<int64_t>{9, 0, 12});
  return step;
}

// rows, 6 numbers, table, codes and maxima of the velocity, ids, live
StepGraph OfMomentum() {
  StepGraph step = OfEightBits();
  Node& update = step.graph.nodes[kUpdate];
  update.op = "QuantizedMomentumRows";
  update.inputs.erase(update.inputs.begin() + 12, update.inputs.begin() + 14);
  update.inputs.erase(update.inputs.begin() + 1, update.inputs.begin() + 3);
  update.mutates = {7, 8, 9};
  update.attrs.Set("row_gradient", std::vector<int64_t>{7, 0, 10});
  return step;
}

TEST(CheckRowUpdates, TakesThePlans) {
  for (StepGraph step : {ByProgram(), OfEightBits(), OfBFloat16(), OfMomentum()}) {
    EXPECT_EQ(llvm::toString(CheckStepGraph(step)), "");
    EXPECT_EQ(RowUpdatesOf(step.graph).size(), 1u);
    Node& update = step.graph.nodes[kUpdate];
    update.inputs.pop_back();  // without flags
    EXPECT_EQ(llvm::toString(CheckStepGraph(step)), "");
  }
}

struct Damage {
  const char* what;
  std::function<void(StepGraph&, Node& update, std::vector<int64_t>& positions)> damage;
  const char* message;
};

void ExpectFound(const std::vector<Damage>& all, const std::function<StepGraph()>& make) {
  for (const Damage& c : all) {
    StepGraph step = make();
    Node& update = step.graph.nodes[kUpdate];
    std::vector<int64_t> positions = update.attrs.Ints("row_gradient");
    c.damage(step, update, positions);
    update.attrs.Set("row_gradient", positions);
    const std::string text = llvm::toString(CheckStepGraph(step));
    EXPECT_TRUE(!text.empty() && text.find(c.message) != std::string::npos) << c.what << ": " << text;
    // What bounds scratch space reads nodes that nothing has checked.
    RowUpdateWorkspace(step.graph, update, CpuTarget()).At(3);
  }
}

using Positions = std::vector<int64_t>;

Dims& DimsOf(StepGraph& step, ValueAt value) { return step.graph.value(value).type.dims; }

TEST(CheckRowUpdates, FindsWhatIsWrongWithRows) {
  const std::vector<Damage> damages = {
      {"no positions", [](StepGraph&, Node&, Positions& p) { p.clear(); }, ""},
      {"one position", [](StepGraph&, Node&, Positions& p) { p.pop_back(); }, ""},
      {"a negative position", [](StepGraph&, Node&, Positions& p) { p[0] = -1; }, ""},
      {"a position without operand", [](StepGraph&, Node&, Positions& p) { p[2] = 16; }, ""},
      {"a huge position", [](StepGraph&, Node&, Positions& p) { p[1] = int64_t{1} << 59; }, ""},
      {"rows after the index", [](StepGraph&, Node&, Positions& p) { p[1] = p[2] + 1; }, ""},
      {"a table after the index", [](StepGraph&, Node&, Positions& p) { p[0] = p[2] + 1; }, ""},
      {"a table that is no operand to be written", [](StepGraph&, Node&, Positions& p) { p[0] = p[1]; },
       "updates no table"},
      {"rows of another length", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kRows)[1] = 5; },
       "are no rows of"},
      {"rows of another rank", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kRows).emplace_back(1); },
       "are no rows of"},
      {"rows of integers",
       [](StepGraph& s, Node&, Positions&) { s.graph.value(kRows).type.dtype = DType::kInt32; },
       "are no rows of"},
      {"an index of floats",
       [](StepGraph& s, Node&, Positions&) { s.graph.value(kIds).type.dtype = DType::kFloat32; },
       "is no index"},
      {"an index for each element", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kIds)[1] = 4; },
       "is no index"},
      {"fewer indices than rows", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kIds)[0] = 3; },
       "is no index"},
      {"an index of another rank", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kIds).pop_back(); },
       "is no index"},
      {"flags of another number", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kLive)[0] = 3; },
       "are no flags"},
      {"flags that are integers",
       [](StepGraph& s, Node&, Positions&) { s.graph.value(kLive).type.dtype = DType::kInt64; },
       "are no flags"},
      {"a table without axes",
       [](StepGraph& s, Node&, Positions&) { DimsOf(s, kTable) = DimsOf(s, kRows) = DimsOf(s, kIds) = {}; },
       "updates no table"},
      {"a result", [](StepGraph&, Node& n, Positions&) { n.outputs = {kOther}; }, "not 0"},
      {"no index", [](StepGraph&, Node& n, Positions&) { n.inputs[n.inputs.size() - 2] = kNoValue; }, ""},
  };
  for (const auto& make : {ByProgram, OfEightBits}) ExpectFound(damages, make);
}

TEST(CheckRowUpdates, FindsWhatIsWrongWithThePrograms) {
  ExpectFound(
      {
          {"no program", [](StepGraph&, Node& n, Positions&) { n.program = {}; }, "no program"},
          {"another space",
           [](StepGraph&, Node& n, Positions&) {
             n.program.space = {5, 4};
           },
           "not of the table's elements"},
          {"rows of a loop", [](StepGraph&, Node& n, Positions&) { n.program.row_axes = 1; },
           "not of the table's elements"},
          {"an input too few", [](StepGraph&, Node& n, Positions&) { n.program.inputs.pop_back(); }, ""},
          {"an input too many", [](StepGraph&, Node& n, Positions&) { n.program.inputs.emplace_back(); }, ""},
          {"an operand of a row", [](StepGraph& s, Node&, Positions&) { DimsOf(s, kLr) = {4}; },
           "is neither a number nor of the table's"},
          {"an operand of other extents",
           [](StepGraph& s, Node&, Positions&) {
             DimsOf(s, kVelocity) = {4, 6};
           },
           "is neither a number nor of the table's"},
          {"an operand that is left out", [](StepGraph&, Node& n, Positions&) { n.inputs[2] = kNoValue; },
           ""},
          {"an operand too many", [](StepGraph&, Node& n, Positions&) { n.inputs.push_back(kLr); },
           "after the flags"},
          {"a store into the index",
           [](StepGraph& s, Node& n, Positions&) {
             n.inputs[4] = kOther;
             DimsOf(s, kOther) = {6, 1};
             n.mutates = {0, 4};
           },
           "is no index"},
          {"a store into a number",
           [](StepGraph& s, Node& n, Positions&) {
             s.graph.value(kLr).kind = ValueKind::kBuffer;
             n.mutates = {0, 2};
           },
           "does not write all of its operand 2"},
          {"a store into the rows",
           [](StepGraph& s, Node& n, Positions&) {
             n.inputs[3] = kOther;
             n.mutates = {0, 3};
             DimsOf(s, kIds) = {6, 1};
             DimsOf(s, kLive) = {6};
           },
           "does not write all of its operand 3"},
          {"a store too few", [](StepGraph&, Node& n, Positions&) { n.mutates = {0}; },
           "another number of outputs"},
          {"a sum", [](StepGraph&, Node& n, Positions&) { n.program.outputs[1].kind = OutputKind::kSum; },
           "does not write all of its operand 1"},
          {"random numbers",
           [](StepGraph&, Node& n, Positions&) { n.program.instrs[0].op = Opcode::kDropout; }, ""},
      },
      ByProgram);
}

TEST(CheckRowUpdates, FindsWhatIsWrongWithEightBits) {
  ExpectFound(
      {
          {"a program",
           [](StepGraph&, Node& n, Positions&) { n.program = ByProgram().graph.nodes[kUpdate].program; },
           "a program on an operator that runs none"},
          {"too few operands", [](StepGraph&, Node& n, Positions&) { n.inputs.resize(12); },
           "has 12 operands"},
          {"no index", [](StepGraph&, Node& n, Positions&) { n.inputs.resize(14); },
           "does not say which of its operands are a table, rows and their index"},
          {"maxima of the second moment left out",
           [](StepGraph&, Node& n, Positions& p) {
             n.inputs.erase(n.inputs.begin() + 13);
             n.mutates.pop_back();
             p[2] = 13;
           },
           "elsewhere"},
          {"an operand too many", [](StepGraph&, Node& n, Positions&) { n.inputs.push_back(kLr); },
           "has 17 operands"},
          {"a moment that it does not mutate", [](StepGraph&, Node& n, Positions&) { n.mutates.pop_back(); },
           "writes operand 13 without mutating it"},
          {"flags that it mutates", [](StepGraph&, Node& n, Positions&) { n.mutates.push_back(15); }, ""},
          {"rows elsewhere",
           [](StepGraph& s, Node& n, Positions& p) {
             n.inputs[1] = kRows;
             p[1] = 1;
             (void)s;
           },
           "elsewhere"},
          {"a table elsewhere",
           [](StepGraph& s, Node& n, Positions& p) {
             s.graph.value(n.inputs[10]).type.dtype = DType::kFloat32;
             p[0] = 10;
           },
           "elsewhere"},
      },
      OfEightBits);
}

}  // namespace
}  // namespace act
