// Updates of embedding tables by rows, against the same steps with whole gradients: parameters and optimizer state
// are the same bytes. And what reads the gradient otherwise keeps it whole, in one piece.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/plan/plan_check.h"
#include "runtime/plan/row_update.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/gradient_capture.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Take;
using testing_step::Text;
using Tensors = std::map<std::string, std::vector<std::byte>>;

constexpr int64_t kBatch = 3;

struct Table {
  Dims dims;
  int64_t indices = 7;  // of a sample
  DType index = DType::kInt64;
  int64_t padding = -1;  // a row that does not train; -1: none
};

std::vector<float> Normal(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& v : values) v = normal(engine);
  return values;
}

size_t Count(const Dims& dims) {
  return static_cast<size_t>(TensorType{DType::kFloat32, dims}.Elements().fixed);
}

// The sum of table[ids] weights: the weights are the gradients of the rows.
ImportResult Lookup(const Table& t, bool tied = false, bool is_output = false) {
  Graph graph;
  GraphBuilder b(graph);
  Dims rows = t.dims, ones(t.dims.size(), Dim(1));
  rows[0] = ones[0] = Dim(0, t.indices);
  const ValueId ids = b.Input("ids", {t.index, ones}, ValueKind::kInput);
  const ValueId weights = b.Input("weights", {DType::kFloat32, rows}, ValueKind::kInput);
  const ValueId table = b.Input("table", {DType::kFloat32, t.dims}, ValueKind::kParameter,
                                testing_step::HostFloats(Normal(Count(t.dims), 1)));
  Attributes attrs;
  attrs.Set("axis", int64_t{0});
  if (t.padding >= 0) attrs.Set("padding_index", t.padding);
  const ValueId looked_up =
      Take(b.AddTyped("Gather", {table, ids}, {DType::kFloat32, rows}, attrs, "lookup"));
  const auto sum = [&b](ValueId x) {
    Attributes all;
    std::vector<int64_t> axes(b.type(x).dims.size());
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
    all.Set("axes", axes);
    all.Set("keepdims", int64_t{0});
    return Take(b.Add1("ReduceSum", {x}, all, "sum"));
  };
  ValueId loss = sum(Take(b.Add1("Mul", {looked_up, weights}, {}, "product")));
  if (tied)
    loss = Take(b.Add1("Add", {loss, sum(Take(b.Add1("Mul", {table, table}, {}, "square")))}, {}, "loss"));
  graph.outputs = {loss};
  if (is_output) graph.outputs.push_back(looked_up);
  return testing_step::ModelOf(std::move(graph));
}

// What a table has with --optimizer-state=f32, 8bit and 8bit-all.
constexpr StateFormat kTableStates[] = {StateFormat::kFloat32, StateFormat::kBFloat16, StateFormat::k8Bit};
DType TypeOf(StateFormat state) {
  return state == StateFormat::kFloat32    ? DType::kFloat32
         : state == StateFormat::kBFloat16 ? DType::kBFloat16
                                           : DType::kUint8;
}

CompileOptions Options(const std::string& optimizer, bool by_rows,
                       StateFormat state = StateFormat::kFloat32) {
  CompileOptions options = testing_step::Checked("L0", optimizer);
  options.batch = kBatch;
  if (state != StateFormat::kFloat32) options.state = StateFormat::k8Bit;
  options.quantize_tables = state == StateFormat::k8Bit;
  options.update_by_rows = by_rows;
  return options;
}

struct TableRun {
  TableRun(ImportResult model, const CompileOptions& options, const KernelRegistry& kernels, int threads)
      : plan(Take(Compile(std::move(model), options))) {
    executor = Take(Executor::Create(plan, Take(LayOut(plan, kBatch)), TestDevice(), kernels,
                                     {.threads = threads, .check_memory = true}));
  }

  // `spread`: indices are -spread .. spread - 1, and two of them are the ends of the table.
  std::string Step(const Table& t, int64_t batch, uint64_t step, int64_t spread,
                   std::span<NodeObserver* const> observers = {}) {
    BoundGraph* const graph = Take(executor->Train(batch));
    llvm::cantFail(executor->BeginStep());
    std::mt19937 engine(static_cast<unsigned>(step));
    std::uniform_int_distribution<int64_t> index(-spread, spread - 1);
    const int64_t table_rows = t.dims[0].fixed;
    for (const ValueId id : plan.train.graph.inputs) {
      const TensorView& view = graph->view(id);
      if (view.dtype == DType::kFloat32) {
        const auto values = Normal(static_cast<size_t>(view.elements), static_cast<unsigned>(step) + 100);
        std::copy(values.begin(), values.end(), view.as<float>());
        continue;
      }
      for (int64_t i = 0; i < view.elements; ++i) {
        const int64_t at = i == 1 ? table_rows - 1 : i == 2 ? -table_rows : index(engine);
        if (t.index == DType::kInt64)
          view.as<int64_t>()[i] = at;
        else
          view.as<int32_t>()[i] = static_cast<int32_t>(at);
      }
    }
    const StepState state{.seed = 5,
                          .step = step,
                          .update = {.hyper = {.lr = .1,
                                               .momentum = .9,
                                               .weight_decay = weight_decay,
                                               .beta1 = .9,
                                               .beta2 = .99,
                                               .eps = 1e-6,
                                               .gradient_weight = .5},
                                     .updates = step}};
    return Text(executor->Run(*graph, state, observers));
  }

  Tensors Kept() const {
    Tensors tensors;
    for (const PersistentTensor& tensor : executor->persistents()) {
      const auto* begin = tensor.view.as<const std::byte>();
      tensors[tensor.name] = {begin, begin + tensor.view.bytes};
    }
    return tensors;
  }

  size_t ByRows() const { return RowUpdatesOf(plan.train.graph).size(); }

  // Of the table's moments or velocity: their numbers or codes.
  DType StateType() const {
    const auto& tensors = executor->persistents();
    const auto table = std::ranges::find(tensors, "table", &PersistentTensor::name);
    const auto state = std::ranges::find_if(tensors, [&table](const PersistentTensor& tensor) {
      return tensor.name.starts_with("table.") && tensor.view.elements == table->view.elements;
    });
    return state->view.dtype;
  }

  Plan plan;
  std::unique_ptr<Executor> executor;
  double weight_decay = .1;
};

void ExpectSameBytes(const Tensors& a, const Tensors& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size()) << where;
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    ASSERT_TRUE(other != b.end()) << name << ", " << where;
    EXPECT_TRUE(bytes == other->second) << name << ", " << where;
  }
}

// Chunks end with the table, within a row's length of it, and after one row; rows of one element, of a block of
// moments and of odd lengths; an axis between.
const std::vector<Table> kTables = {
    {{4000, 70}},       {{1025, 256}},
    {{600, 769}, 50},   {{300000}, 11, DType::kInt32},
    {{513, 16, 33}, 1}, {{2731, 96}, 9, DType::kInt64, 5},
    {{2049, 64}, 300},
};

// Indices of the whole table, then some rows again and again; the last batch is smaller.
void ExpectSameSteps(const Table& t, TableRun& whole, TableRun& rows, const std::string& where) {
  const Tensors start = rows.Kept();
  for (const auto& [batch, spread] :
       {std::pair<int64_t, int64_t>{kBatch, t.dims[0].fixed}, {kBatch, 2}, {1, 3}}) {
    const uint64_t step = static_cast<uint64_t>(batch + spread) % 97;
    ASSERT_EQ(whole.Step(t, batch, step, spread), "") << where;
    ASSERT_EQ(rows.Step(t, batch, step, spread), "") << where;
    ExpectSameBytes(whole.Kept(), rows.Kept(), where);
  }
  EXPECT_NE(start.at("table"), rows.Kept().at("table")) << where;
}

TEST(UpdateRows, GiveTheBytesOfAWholeGradient) {
  for (const char* optimizer : {"sgd", "onnx-momentum", "adam", "adamw", "ort-adamw", "onnx-adam", "adagrad"})
    for (const StateFormat state : kTableStates)
      for (const Table& t : kTables) {
        const bool first = &t == kTables.data();
        if ((state != StateFormat::kFloat32 && FindUpdateRule(optimizer)->quantized.empty()) ||
            (!first && optimizer != std::string("sgd") && optimizer != std::string("adamw")))
          continue;
        const std::string where =
            std::string(optimizer) + ", " + std::string(ToString(TypeOf(state))) + ", " + ToString(t.dims);
        for (const int threads : first ? std::vector<int>{1, 2} : std::vector<int>{2}) {
          TableRun whole(Lookup(t), Options(optimizer, false, state), testing_step::CpuKernels(), threads);
          TableRun rows(Lookup(t), Options(optimizer, true, state), testing_step::CpuKernels(), threads);
          EXPECT_EQ(whole.ByRows(), 0u) << where;
          ASSERT_EQ(rows.ByRows(), 1u) << where;
          EXPECT_EQ(rows.StateType(), TypeOf(state)) << where;
          ExpectSameSteps(t, whole, rows, where);
        }
      }
}

// Without weight decay, rows that a batch does not look up are left alone.
TEST(UpdateRows, SparseOnesGiveTheBytesOfAWholeGradient) {
  for (const Table& t : kTables)
    for (const double decay : {0.0, .1}) {
      const std::string where = ToString(t.dims) + ", decay " + std::to_string(decay);
      TableRun whole(Lookup(t), Options("plain-sgd", false), testing_step::CpuKernels(), 2);
      TableRun rows(Lookup(t), Options("plain-sgd", true), testing_step::CpuKernels(), 2);
      whole.weight_decay = rows.weight_decay = decay;
      ASSERT_EQ(rows.ByRows(), 1u) << where;
      const Graph& graph = rows.plan.train.graph;
      EXPECT_EQ(graph.nodes[RowUpdatesOf(graph)[0].node].attrs.Int("sparse"), 1) << where;
      for (const Value& value : graph.values) EXPECT_NE(value.kind, ValueKind::kOptimizer) << where;
      ExpectSameSteps(t, whole, rows, where);
    }
}

// The plain loops make the gradient whole, so their kernels agree with each other to the bit, too.
TEST(UpdateRows, ReferenceKernelsGiveTheBytesOfAWholeGradient) {
  const Table t = kTables[0];
  for (const StateFormat state : kTableStates) {
    TableRun whole(Lookup(t), Options("adamw", false, state), testing_step::ReferenceKernels(), 1);
    TableRun rows(Lookup(t), Options("adamw", true, state), testing_step::ReferenceKernels(), 1);
    ASSERT_EQ(rows.ByRows(), 1u);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(whole.Step(t, kBatch, step, 9), "");
      ASSERT_EQ(rows.Step(t, kBatch, step, 9), "");
    }
    ExpectSameBytes(whole.Kept(), rows.Kept(), std::string(ToString(TypeOf(state))));
  }
}

TEST(UpdateRows, TakeNoMemoryForTheGradient) {
  const Table t{{30000, 64}};
  const auto peak = [&t](bool by_rows) {
    const Plan plan = Take(Compile(Lookup(t), Options("adamw", by_rows)));
    return Take(LayOut(plan, kBatch)).train.peak_bytes;
  };
  const int64_t table = 30000 * 64 * 4, chunk = kRowChunkElements * 4;
  EXPECT_LE(peak(true), peak(false) - table + chunk + 64 * 1024);
}

// Whatever reads the gradient besides its update keeps it whole, and so does --workspace, a card, and an optimizer
// whose step needs all of it.
TEST(UpdateRows, LeaveGradientsThatAreReadOtherwise) {
  const Table t = kTables[0];
  const auto count = [](ImportResult model, const CompileOptions& options) {
    return RowUpdatesOf(Take(Compile(std::move(model), options)).train.graph).size();
  };
  const auto with = [](auto change) {
    CompileOptions options = Options("adamw", true);
    change(options);
    return options;
  };
  EXPECT_EQ(count(Lookup(t), Options("adamw", true)), 1u);
  EXPECT_EQ(count(Lookup(t, false, true), Options("adamw", true)), 1u) << "rows that are an output";
  EXPECT_EQ(count(Lookup(t, true), Options("adamw", true)), 0u) << "two gradients are added";
  EXPECT_EQ(count(Lookup(t), with([](CompileOptions& o) { o.clip_norm = 1; })), 0u);
  EXPECT_EQ(count(Lookup(t), with([](CompileOptions& o) { o.grad_norm = true; })), 0u);
  EXPECT_EQ(count(Lookup(t), with([](CompileOptions& o) { o.accumulate = 2; })), 0u);
  EXPECT_EQ(count(Lookup(t), with([](CompileOptions& o) { o.workspace_limit = 1 << 20; })), 0u);
  EXPECT_EQ(count(Lookup(t), with([](CompileOptions& o) { o.target = TargetKind::kCuda; })), 0u);
  EXPECT_EQ(count(Lookup(t), Options("lamb", true)), 0u);
  EXPECT_EQ(count(Lookup(t), Options("none", true)), 0u);
  EXPECT_EQ(count(Lookup({{1000, 64}}), Options("adamw", true)), 0u) << "a table of one chunk";
}

// An index outside the table changes nothing, and is told as for a whole gradient.
TEST(UpdateRows, RefuseAnIndexOutsideTheTable) {
  const Table t = kTables[0];
  for (const StateFormat state : kTableStates) {
    TableRun rows(Lookup(t), Options("adamw", true, state), testing_step::CpuKernels(), 2);
    ASSERT_EQ(rows.ByRows(), 1u);
    const std::vector<Node>& nodes = rows.plan.train.graph.nodes;
    BoundGraph* const graph = Take(rows.executor->Train(kBatch));
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].op == "Gather") graph->Enable(i, false);  // it would find the index first
    const Tensors before = rows.Kept();
    const std::string text = rows.Step(t, kBatch, 2, 100000);
    EXPECT_NE(text.find("is outside an axis of extent 4000"), std::string::npos) << text;
    EXPECT_NE(text.find(nodes[RowUpdatesOf(rows.plan.train.graph)[0].node].op), std::string::npos) << text;
    ExpectSameBytes(before, rows.Kept(), "after an error");
  }
}

// A table that is read otherwise, too, has the sum of two gradients, in the memory of one.
TEST(TiedTable, AddsRowsToItsOtherGradientInPlace) {
  const Table t{{4000, 64}};
  std::vector<float> gradients[2];
  for (const bool tied : {false, true}) {
    TableRun run(Lookup(t, tied), Options("plain-sgd", false), testing_step::CpuKernels(), 2);
    const Graph& graph = run.plan.train.graph;
    for (const Node& node : graph.nodes) {
      if (node.op != "Scatter") continue;
      ASSERT_EQ(node.inputs.size() > 2 && node.inputs[2] != kNoValue, tied);
      const auto storage = [&](ValueId v) { return run.plan.train.storage_of[static_cast<size_t>(v)]; };
      EXPECT_TRUE(!tied || storage(node.inputs[2]) == storage(node.outputs[0]));
    }
    GradientCapture capture(*Take(run.executor->Train(kBatch)));
    NodeObserver* observers[] = {&capture};
    ASSERT_EQ(run.Step(t, kBatch, 3, 20, observers), "");
    ASSERT_EQ(capture.gradients().size(), 1u);
    gradients[tied].resize(Count(t.dims));
    ASSERT_EQ(capture.gradients()[0].bytes.size(), 4 * Count(t.dims));
    std::memcpy(gradients[tied].data(), capture.gradients()[0].bytes.data(), 4 * Count(t.dims));
  }
  const std::vector<float> table = Normal(Count(t.dims), 1);
  for (size_t i = 0; i < table.size(); ++i) {
    // A row is the sum of a few numbers near 1, each of which is rounded once.
    const float expected = gradients[false][i] + 2 * table[i];
    ASSERT_NEAR(gradients[true][i], expected, 1e-5f) << i;
  }
}

// Two sums take a parameter's gradient as it is, and an update, which has no result, comes between their rules.
TEST(TiedParameter, IsNoTableAfterAnUpdate) {
  Graph graph;
  GraphBuilder b(graph);
  const TensorType type{DType::kFloat32, {64}};
  const auto parameter = [&](const char* name, unsigned seed) {
    return b.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(Normal(64, seed)));
  };
  const ValueId x = b.Input("x", {DType::kFloat32, {Dim::Batch(), 64}}, ValueKind::kInput);
  const ValueId twice = parameter("twice", 1), factor = parameter("factor", 2), first = parameter("first", 3);
  const ValueId inner = Take(b.Add1("Add", {first, twice}));
  const ValueId outer = Take(b.Add1("Add", {Take(b.Add1("Mul", {inner, factor})), twice}));
  Attributes all;
  all.Set("axes", std::vector<int64_t>{0, 1});
  all.Set("keepdims", int64_t{0});
  graph.outputs = {Take(b.Add1("ReduceSum", {Take(b.Add1("Mul", {x, outer}))}, all, "sum"))};
  const Plan plan = Take(Compile(testing_step::ModelOf(std::move(graph)), Options("plain-sgd", false)));
  EXPECT_EQ(testing_step::Text(CheckPlan(plan)), "");
}

// What --dump-step and --variance see.
TEST(UpdateRows, ShowTheirGradientWhole) {
  for (const Table& t : kTables) {
    std::vector<std::byte> gradients[2];
    for (const bool by_rows : {false, true}) {
      TableRun run(Lookup(t), Options("adamw", by_rows), testing_step::CpuKernels(), 2);
      GradientCapture capture(*Take(run.executor->Train(kBatch)));
      NodeObserver* observers[] = {&capture};
      ASSERT_EQ(run.Step(t, kBatch, 3, 20, observers), "");
      ASSERT_EQ(capture.gradients().size(), 1u);
      EXPECT_EQ(capture.gradients()[0].name, "table");
      gradients[by_rows] = capture.gradients()[0].bytes;
      const auto* first = reinterpret_cast<const float*>(gradients[by_rows].data());
      EXPECT_TRUE(std::any_of(first, first + Count(t.dims), [](float v) { return v != 0; }));
    }
    EXPECT_TRUE(gradients[0] == gradients[1]) << ToString(t.dims);
  }
}

}  // namespace
}  // namespace act
