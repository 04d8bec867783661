#include "runtime/measure/code_sensitivity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/plan/row_update.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/gradient_capture.h"

namespace act {
namespace {

// Compares the gradients of a run with those of another run, element by element, as they are made.
class Comparison : public GradientWatch {
 public:
  // `keep`: this run's gradients become the reference for later runs.
  Comparison(const BoundGraph& graph, std::vector<float>& reference) : GradientWatch(graph), to_(reference) {
    size_t elements = 0;
    for (const Source& source : sources()) {
      begin_.push_back(elements);
      elements += static_cast<size_t>(source.bytes) / sizeof(float);
    }
    to_.resize(elements);
  }
  void Begin(bool keep) {
    keep_ = keep;
    square_ = 0;
  }
  bool IsFloat() const {
    for (const Source& source : sources())
      if (source.dtype != DType::kFloat32) return false;
    return true;
  }
  // Sum of squares of the difference. If the run was kept: of its gradient.
  double square() const { return square_; }

 private:
  llvm::Error See(size_t i) override {
    ACT_TRY(const std::span<const std::byte> bytes, Read(i));
    const auto* from = reinterpret_cast<const float*>(bytes.data());
    float* to = to_.data() + begin_[i];
    for (size_t k = 0; k < bytes.size() / sizeof(float); ++k) {
      const double d = static_cast<double>(from[k]) - (keep_ ? 0 : static_cast<double>(to[k]));
      square_ += d * d;
      if (keep_) to[k] = from[k];
    }
    return llvm::Error::success();
  }

  std::vector<float>& to_;
  std::vector<size_t> begin_;
  bool keep_ = true;
  double square_ = 0;
};

}  // namespace

int64_t CodeSensitivityMeter::BytesOf(const Plan& plan, int64_t batch) {
  const Graph& graph = plan.train.graph;
  // Gradients of rows are made whole, one at a time, to be compared: the largest counts twice.
  int64_t largest = 0;
  for (const RowUpdateNode& update : RowUpdatesOf(graph)) {
    const ValueId table = graph.nodes[update.node].inputs[update.at.table];
    largest = std::max(largest, graph.value(table).type.Bytes().At(batch));
  }
  int64_t bytes = GradientBytesOf(plan, batch) + largest;
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::kBuffer) bytes += value.type.Bytes().At(batch);
  return bytes;
}

CodeSensitivityMeter::CodeSensitivityMeter(const Executor& executor) {
  gradient_.reserve(static_cast<size_t>(BytesOf(executor.plan(), executor.layout().batch)) / sizeof(float));
  for (const PersistentTensor& tensor : executor.persistents())
    if (tensor.kind == ValueKind::kBuffer) buffers_.emplace_back(static_cast<size_t>(tensor.view.bytes));
}

llvm::Error CodeSensitivityMeter::Pass(Executor& executor, BoundGraph& graph, BatchSource& data,
                                       const StepState& state, NodeObserver& observer) {
  ACT_CHECK_OK(executor.BeginStep());
  ACT_CHECK_OK(FillInputs(graph, data));
  NodeObserver* observers[] = {&observer};
  return executor.Run(graph, state, observers);
}

llvm::Expected<std::optional<CodeSensitivity>> CodeSensitivityMeter::Measure(
    Executor& executor, BoundGraph& graph, BatchSource& data, StepState state,
    std::span<const int32_t> streams, int64_t repeats, const volatile std::sig_atomic_t* stop) {
  const auto copy_buffers = [&](bool back) -> llvm::Error {
    size_t i = 0;
    for (const PersistentTensor& tensor : executor.persistents()) {
      if (tensor.kind != ValueKind::kBuffer) continue;
      std::vector<std::byte>& kept = buffers_[i++];
      if (kept.empty()) continue;
      Device& device = executor.device();
      ACT_CHECK_OK(back ? device.Upload(tensor.view.data, kept) : device.Download(kept, tensor.view.data));
    }
    return llvm::Error::success();
  };
  ACT_CHECK_OK(copy_buffers(false));
  const std::vector<NodeTimes> times = graph.Times();
  Comparison comparison(graph, gradient_);
  if (!comparison.IsFloat()) return MakeError("gradients", "are not float32: they cannot be compared");
  state.updates = false;
  state.update.keep_sum = 0;
  state.update.sum_weight = 1;
  CodeSensitivity result;
  bool ends = false;
  const auto run = [&]() -> llvm::Error {
    comparison.Begin(true);
    ACT_CHECK_OK(Pass(executor, graph, data, state, comparison));
    result.gradient_square = comparison.square();
    for (const int32_t stream : streams) {
      double sum = 0;
      for (int64_t r = 1; r <= repeats && !ends; ++r) {
        state.rounding_stream = stream;
        state.rounding = static_cast<uint64_t>(r);
        comparison.Begin(false);
        ACT_CHECK_OK(Pass(executor, graph, data, state, comparison));
        sum += comparison.square() / 2;
        ends = (stop && *stop) || !std::isfinite(sum);
      }
      result.variance.push_back(sum / static_cast<double>(repeats));
    }
    return llvm::Error::success();
  };
  llvm::Error error = run();
  error = llvm::joinErrors(std::move(error), copy_buffers(true));
  graph.SetTimes(times);
  if (error) return error;
  if (ends || !std::isfinite(result.gradient_square)) return std::nullopt;
  // In expectation, the square of a gradient with codes is that of the exact gradient plus the
  // codes' variance.
  double noise = 0;
  for (const double v : result.variance) noise += v;
  if (noise < result.gradient_square) result.gradient_square -= noise;
  if (result.gradient_square > 0)
    for (double& v : result.variance) v /= result.gradient_square;
  return result;
}

}  // namespace act
