#include "runtime/measure/gradient_pass.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/host_view.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/evaluate.h"

namespace act {
namespace {

constexpr char kReference[] = "--variance-reference";

llvm::Error Differs(const std::string& what) {
  return MakeError(kReference, what, "compile both plans from the same model");
}

using Kept = std::map<std::string, const PersistentTensor*>;  // by CheckpointName

Kept ParametersAndBuffersOf(const Executor& executor) {
  Kept kept;
  for (const PersistentTensor& tensor : executor.persistents())
    if (tensor.kind == ValueKind::kParameter || tensor.kind == ValueKind::kBuffer)
      kept[CheckpointName(tensor)] = &tensor;
  return kept;
}

// The tensor as files have it: of a coded one, its numbers.
llvm::Expected<HostTensor> NumbersOf(const Executor& executor, const PersistentTensor& tensor) {
  if (tensor.coded) return tensor.numbers;
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(tensor.view.bytes));
  ACT_CHECK_OK(executor.device().Download(*bytes, tensor.view.data));
  return HostTensor{bytes, bytes->data(), tensor.view.bytes};
}

llvm::Error CheckInputs(const Graph& plan, const Graph& exact) {
  const std::vector<InputSlot> slots = InputSlots(plan), others = InputSlots(exact);
  if (slots.size() != others.size())
    return Differs("takes " + std::to_string(others.size()) + " inputs, and the measured plan " +
                   std::to_string(slots.size()));
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].name != others[i].name || slots[i].type != others[i].type)
      return Differs("takes the input '" + others[i].name + "', " + ToString(others[i].type) +
                     ", and the measured plan '" + slots[i].name + "', " + ToString(slots[i].type));
  return llvm::Error::success();
}

llvm::Error CopyParameters(const Executor& from, Executor& to) {
  const Kept sources = ParametersAndBuffersOf(from), targets = ParametersAndBuffersOf(to);
  for (const auto& [name, tensor] : targets)
    if (!sources.count(name)) return Differs("has '" + name + "', which the measured plan has not");
  for (const auto& [name, source] : sources) {
    const auto target = targets.find(name);
    if (target == targets.end()) return Differs("has no '" + name + "', which the measured plan has");
    const HostView of = InFiles(*source), into = InFiles(*target->second);
    if (of.dtype != into.dtype || of.dims != into.dims)
      return Differs("has '" + name + "' as " + ToString(into) + ", and the measured plan as " +
                     ToString(of));
    ACT_TRY(HostTensor numbers, NumbersOf(from, *source));
    ACT_CHECK_OK(to.Load(*target->second, std::move(numbers)));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<GradientPass> GradientPass::Create(Executor& executor) {
  ACT_TRY(BoundGraph * graph, executor.Train(executor.layout().batch));
  GradientPass pass(executor, *graph);
  for (const auto& gradient : pass.capture_.gradients()) {
    if (gradient.dtype != DType::kFloat32)
      return MakeError("gradient of '" + gradient.name + "'", "is not float32");
    pass.begin_.push_back(pass.elements_);
    pass.elements_ += gradient.bytes.size() / sizeof(float);
  }
  if (pass.elements_ == 0) return MakeError("plan", "trains no parameter: there is no gradient");
  return pass;
}

llvm::Error GradientPass::ShareWith(GradientPass& exact) const {
  ACT_CHECK_OK(CheckInputs(graph_->step().graph, exact.graph_->step().graph));
  ACT_CHECK_OK(CopyParameters(*executor_, *exact.executor_));
  std::map<std::string, size_t> begin_of;  // the shapes are those of the parameters
  for (size_t i = 0; i < begin_.size(); ++i) begin_of[capture_.gradients()[i].name] = begin_[i];
  for (size_t i = 0; i < exact.begin_.size(); ++i) {
    const std::string& name = exact.capture_.gradients()[i].name;
    const auto begin = begin_of.find(name);
    if (begin == begin_of.end()) return Differs("trains '" + name + "', which the measured plan does not");
    exact.begin_[i] = begin->second;
  }
  if (exact.begin_.size() != begin_.size())
    return Differs("trains " + std::to_string(exact.begin_.size()) + " parameters, and the measured plan " +
                   std::to_string(begin_.size()));
  return llvm::Error::success();
}

llvm::Expected<double> GradientPass::Run(BatchSource& data, const StepState& state,
                                         std::vector<float>& gradient) {
  ACT_CHECK_OK(executor_->BeginStep());
  ACT_CHECK_OK(FillInputs(*graph_, data));
  NodeObserver* observer = &capture_;
  ACT_CHECK_OK(executor_->Run(*graph_, state, {&observer, 1}));
  for (size_t i = 0; i < begin_.size(); ++i) {
    const std::vector<std::byte>& bytes = capture_.gradients()[i].bytes;
    std::memcpy(gradient.data() + begin_[i], bytes.data(), bytes.size());
  }
  return LossOf(*graph_);
}

}  // namespace act
