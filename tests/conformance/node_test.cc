#include "tests/conformance/node_test.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>

#include "compiler/import/core/importer.h"
#include "compiler/import/file/model_file.h"
#include "compiler/import/import_onnx.h"
#include "compiler/ops/graph_builder.h"
#include "kernels/cpu/registry.h"
#include "kernels/site/dereference.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/executor/executor.h"
#include "tests/conformance/bind_inputs.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"

namespace act::conformance {
namespace {

namespace fs = std::filesystem;

// The tolerances with which ONNX's own runner of these tests (onnx/backend/test/runner) compares
// floats. Integers and bool must be equal.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

const KernelRegistry& CpuKernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    RegisterCpuKernels(r);
    return r;
  }();
  return registry;
}

template <class Message>
std::optional<Message> Parse(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Message message;
  if (!file || !message.ParseFromIstream(&file)) return std::nullopt;
  return message;
}

// input_0.pb, input_1.pb, ... of a data set.
std::vector<onnx::TensorProto> Tensors(const fs::path& folder, const std::string& prefix) {
  std::vector<onnx::TensorProto> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / (prefix + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return tensors;
    tensors.push_back(Parse<onnx::TensorProto>(path).value_or(onnx::TensorProto()));
  }
}

struct Array {
  TensorType type;
  HostTensor data;
};

llvm::Expected<Array> ToArray(onnx::TensorProto tensor) {
  ACT_TRY(TensorType type, onnx_import::TypeOf(tensor));
  onnx_import::ExternalData none("");
  ACT_TRY(HostTensor data, onnx_import::TakeData(tensor, type, none, false));
  return Array{std::move(type), std::move(data)};
}

// As NarrowInputs.
Array Narrowed(Array array) {
  if (array.type.dtype != DType::kFloat64) return array;
  const auto* numbers = reinterpret_cast<const double*>(array.data.data);
  const std::vector<float> narrow(numbers, numbers + array.type.Elements().fixed);
  array.data = HostTensor::Copy(narrow.data(), static_cast<int64_t>(narrow.size() * sizeof(float)));
  array.type.dtype = DType::kFloat32;
  return array;
}

template <class T>
std::vector<double> Doubles(const void* data, int64_t n) {
  const auto* p = static_cast<const T*>(data);
  return {p, p + n};
}

// int64 goes through double: no test has larger integers than 2^53.
std::vector<double> Numbers(DType dtype, const void* data, int64_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return Doubles<float>(data, n);
    case DType::kFloat64:
      return Doubles<double>(data, n);
    case DType::kInt64:
      return Doubles<int64_t>(data, n);
    case DType::kInt32:
      return Doubles<int32_t>(data, n);
    case DType::kInt16:
      return Doubles<int16_t>(data, n);
    case DType::kInt8:
      return Doubles<int8_t>(data, n);
    case DType::kUint16:
      return Doubles<uint16_t>(data, n);
    case DType::kUint32:
      return Doubles<uint32_t>(data, n);
    case DType::kUint64:
      return Doubles<uint64_t>(data, n);
    case DType::kUint8:
    case DType::kBool:
      return Doubles<uint8_t>(data, n);
    case DType::kFloat16:
    case DType::kBFloat16:
      return {};
  }
  return {};
}

bool IsClose(double got, double want, bool exact) {
  if (std::isnan(want)) return std::isnan(got);
  if (got == want) return true;
  return !exact && std::fabs(got - want) <= kAbsolute + kRelative * std::fabs(want);
}

// Where the tensors differ; empty if they agree. Floats of any width are compared as f32, because
// the compiler computes in f32 alone.
std::string Difference(const TensorView& got, const Array& want) {
  const bool is_float = IsFloat(want.type.dtype);
  const std::vector<int64_t> dims = DimsAt(want.type.dims, 1);
  if (got.dims != dims || (is_float ? got.dtype != DType::kFloat32 : got.dtype != want.type.dtype)) {
    Dims got_dims(got.dims.begin(), got.dims.end());
    return "is " + ToString(TensorType{got.dtype, got_dims}) + ", not " + ToString(want.type);
  }
  const int64_t n = ElementCount(dims);
  const std::vector<double> a = Numbers(got.dtype, got.as<void>(), n),
                            b = Numbers(want.type.dtype, want.data.data, n);
  if (a.size() != b.size()) return "cannot be compared with " + ToString(want.type);
  for (size_t i = 0; i < a.size(); ++i)
    if (!IsClose(a[i], b[i], !is_float))
      return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", not " + std::to_string(b[i]);
  return "";
}

llvm::Expected<ImportResult> Import(const onnx::ModelProto& model) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "model.onnx";
  testing::Overwrite(path, model.SerializeAsString());
  ImportOptions options;
  options.keep_outputs = true;
  return ImportOnnx(path, options);
}

// Runs a graph with these inputs, by name. The result owns the memory of the outputs.
llvm::Expected<std::unique_ptr<Executor>> Run(const Plan& plan, const std::map<std::string, Array>& inputs) {
  constexpr int kThreads = 1;  // a test is small; whole tests run side by side
  omp_set_num_threads(kThreads);
  ACT_TRY(MemoryLayout layout, LayOut(plan, 1));
  ACT_TRY(auto executor,
          Executor::Create(plan, std::move(layout), TestDevice(), CpuKernels(), {.threads = kThreads}));
  ACT_TRY(BoundGraph* const bound, executor->Eval(1));
  const Graph& graph = plan.eval.graph;
  ACT_CHECK_OK(executor->BeginStep());
  for (ValueId v : graph.inputs) {
    const TensorView& view = bound->view(v);
    if (!view.data || view.bytes == 0) continue;
    const HostTensor& data = inputs.at(graph.value(v).name).data;
    if (data.bytes != view.bytes) return MakeError(graph.value(v).name, "the input has another size");
    std::memcpy(view.as<void>(), data.data, static_cast<size_t>(view.bytes));
  }
  ACT_CHECK_OK(executor->Run(*bound, StepState{}));
  return executor;
}

Result Refused(llvm::Error error) {
  std::string what = llvm::toString(std::move(error));
  constexpr std::string_view kFile = "model.onnx: ";  // without the temporary folder
  if (const size_t at = what.find(kFile); at != std::string::npos) what.erase(0, at + kFile.size());
  Result result;
  result.outcome = Outcome::kRefused;
  result.detail = std::move(what);
  return result;
}
Result Differs(const std::string& what) {
  Result result;
  result.detail = what;
  return result;
}
Result NotClaimed(const std::string& what) {
  Result result;
  result.outcome = Outcome::kNotClaimed;
  result.detail = what;
  return result;
}

// Does the sum of the first float output have a gradient with respect to the float inputs?
Gradient GradientOf(ImportResult model) {
  Graph& graph = model.graph;
  std::vector<ValueId> fed;
  for (ValueId v : graph.inputs) {
    Value& value = graph.value(v);
    if (value.type.dtype == DType::kFloat32) {
      value.kind = ValueKind::kParameter;
      model.trainable.push_back(v);
    } else {
      fed.push_back(v);
    }
  }
  graph.inputs = fed;
  ValueId y = kNoValue;
  for (ValueId v : graph.outputs)
    if (y == kNoValue && graph.value(v).type.dtype == DType::kFloat32) y = v;
  if (y == kNoValue || model.trainable.empty()) return Gradient::kNoData;
  Attributes all;
  std::vector<int64_t> axes(graph.value(y).type.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  all.Set("axes", axes);
  all.Set("keepdims", int64_t{0});
  llvm::Expected<ValueId> loss = GraphBuilder(graph).Add1("ReduceSum", {y}, all);
  if (!loss) return llvm::consumeError(loss.takeError()), Gradient::kRefused;
  graph.outputs = {*loss};
  model.loss = *loss;
  CompileOptions options;
  options.optimizer = "none";
  options.verify_each = true;
  llvm::Expected<Plan> plan = Compile(std::move(model), options);
  if (!plan) {
    const std::string why = llvm::toString(plan.takeError());
    return why.find("has a path to the loss") != std::string::npos ? Gradient::kZero : Gradient::kRefused;
  }
  return Gradient::kExists;
}

Result RunDataSet(onnx::ModelProto model, const fs::path& folder) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::vector<onnx::TensorProto> given = Tensors(folder, "input_"), wanted = Tensors(folder, "output_");
  const std::set<std::string> constant = ConstantInputs(graph);
  std::vector<std::string> names;
  for (const auto& input : graph.input()) names.push_back(input.name());
  for (size_t i = 0; i < names.size() && i < given.size(); ++i)
    if (constant.count(names[i])) BindInput(graph, names[i], given[i]);

  NarrowInputs(graph);
  llvm::Expected<ImportResult> imported = Import(model);
  if (!imported) return Refused(imported.takeError());
  std::map<std::string, Array> inputs;
  for (size_t i = 0; i < names.size() && i < given.size(); ++i) {
    if (constant.count(names[i])) continue;
    llvm::Expected<Array> array = ToArray(given[i]);
    if (!array) return Differs("imports, but input " + names[i] + ": " + llvm::toString(array.takeError()));
    inputs.emplace(names[i], Narrowed(std::move(*array)));
  }
  CompileOptions options;
  options.verify_each = true;
  llvm::Expected<StepGraph> step = CompileEvaluation(imported->graph, options);
  if (!step) return Differs(llvm::toString(step.takeError()));
  Plan plan;
  plan.fixed_batch = true;
  plan.train = *step;
  plan.eval = std::move(*step);
  auto executor = Run(plan, inputs);
  if (!executor) return Differs(llvm::toString(executor.takeError()));
  const BoundGraph& bound = **(*executor)->Eval(1);
  const std::vector<ValueId>& outputs = plan.eval.graph.outputs;
  if (outputs.size() != wanted.size())
    return Differs(std::to_string(outputs.size()) + " outputs, not " + std::to_string(wanted.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    llvm::Expected<Array> want = ToArray(wanted[i]);
    const std::string difference =
        want ? Difference(bound.view(outputs[i]), *want) : llvm::toString(want.takeError());
    if (!difference.empty()) return Differs("output " + std::to_string(i) + " " + difference);
  }
  Result passed;
  passed.outcome = Outcome::kPassed;
  for (const BoundNode& node : bound.nodes()) {
    passed.runtime_ops.insert(node.node->op);
    if (node.kernel_name.starts_with("reference.")) passed.reference_ops.insert(node.node->op);
  }
  passed.gradient = GradientOf(std::move(*imported));
  return passed;
}

}  // namespace

std::vector<std::string> NodeTests(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (fs::exists(entry.path() / "model.onnx")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result RunNodeTest(const std::string& folder, const std::string& name) {
  const fs::path test = fs::path(folder) / name;
  const auto model = Parse<onnx::ModelProto>(test / "model.onnx");
  if (!model) return Differs("model.onnx cannot be read");
  Result result;
  std::set<std::string> ops;
  std::string unknown, only_folded;
  for (const onnx::NodeProto& node : model->graph().node()) {
    ops.insert(node.op_type());
    if (!onnx_import::IsSupported(node)) unknown = node.op_type();
    if (!onnx_import::FindImport(node)) only_folded = node.op_type();
  }
  if (!unknown.empty()) {
    result = NotClaimed(unknown + " is not supported");
  } else {
    int data_sets = 0;
    for (const auto& entry : fs::directory_iterator(test)) {
      if (!entry.is_directory()) continue;
      ++data_sets;
      result = RunDataSet(*model, entry.path());
      if (result.outcome != Outcome::kPassed) break;
    }
    if (data_sets == 0) result = Differs("has no data");
    if (result.outcome == Outcome::kRefused && !only_folded.empty())
      result = NotClaimed(only_folded + " is supported on constants alone");
  }
  result.ops = std::move(ops);
  for (const auto& import : model->opset_import())
    if (import.domain().empty()) result.opset = import.version();
  return result;
}

}  // namespace act::conformance
