#include "runtime/train/evaluate.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// Positions among the outputs of the evaluation's graph, after the loss.
constexpr size_t kCorrect = 1, kDenominator = 2;

// The number of labels in the batch that are not ignored. Labels are inputs, whose storage holds
// them before the run (reshaped or not).
llvm::Expected<int64_t> CountLabels(const BoundGraph& graph) {
  for (const BoundNode& bound : graph.nodes()) {
    if (bound.node->op != kCountCorrect) continue;
    const TensorView& labels = bound.inputs[1];
    if (!bound.node->attrs.Has("ignore_index")) return labels.elements;
    const Graph& step = graph.step().graph;
    const bool is_input = std::any_of(step.inputs.begin(), step.inputs.end(),
                                      [&](ValueId id) { return graph.view(id).data == labels.data; });
    if (!is_input || labels.dtype != DType::kInt64) return labels.elements;
    ACT_TRY(const std::span<const std::byte> bytes, graph.device().Read(labels.data, labels.bytes));
    const auto* begin = reinterpret_cast<const int64_t*>(bytes.data());
    return labels.elements -
           std::count(begin, begin + labels.elements, bound.node->attrs.Int("ignore_index"));
  }
  return 0;
}

llvm::Expected<double> ScalarOf(Device& device, const TensorView& view) {
  float number = 0;
  ACT_CHECK_OK(device.Download(std::as_writable_bytes(std::span(&number, 1)), view.data));
  return static_cast<double>(number);
}

}  // namespace

llvm::Error FillInputs(const BoundGraph& graph, BatchSource& data) {
  const std::vector<ValueId>& inputs = graph.step().graph.inputs;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    const TensorView& view = graph.view(inputs[slot]);
    if (!view.data) continue;
    ACT_TRY(const std::span<std::byte> staged, graph.device().Stage(view.data, view.bytes));
    data.Fill(slot, staged);
    ACT_CHECK_OK(graph.device().Commit(view.data, staged));
  }
  return llvm::Error::success();
}

llvm::Expected<uint64_t> StartReadingLoss(const BoundGraph& graph) {
  const std::vector<ValueId>& outputs = graph.step().graph.outputs;
  if (outputs.empty()) return MakeError("plan", "has no loss");
  return StartReadingNumber(graph, outputs[0]);
}

llvm::Expected<uint64_t> StartReadingNumber(const BoundGraph& graph, ValueId id) {
  const TensorView& number = graph.view(id);
  if (!number.data || number.elements != 1 || number.dtype != DType::kFloat32)
    return MakeError("output '" + graph.step().graph.value(id).name + "'", "is not a float scalar");
  return graph.device().StartRead(number.data);
}

llvm::Expected<double> LossOf(const BoundGraph& graph) {
  ACT_TRY(const uint64_t ticket, StartReadingLoss(graph));
  ACT_TRY(const float loss, graph.device().FinishRead(ticket));
  return static_cast<double>(loss);
}

llvm::Expected<Evaluation> Evaluate(Executor& executor, BatchSource& data, const StepState& state) {
  data.StartEpoch(0, 0);
  Evaluation result;
  int64_t labels = 0;
  double correct = 0, loss_sum = 0, weights = 0;
  while (const int64_t batch = data.Next(executor.layout().batch)) {
    ACT_TRY(BoundGraph* const graph, executor.Eval(batch));
    ACT_CHECK_OK(executor.BeginStep());
    ACT_CHECK_OK(FillInputs(*graph, data));
    data.FetchNext();
    ACT_TRY(const int64_t counted, CountLabels(*graph));
    labels += counted;
    ACT_CHECK_OK(executor.Run(*graph, state));
    ACT_TRY(const double loss, LossOf(*graph));
    const std::vector<ValueId>& outputs = graph->step().graph.outputs;
    if (outputs.size() > kCorrect) {
      ACT_TRY(const double hits, ScalarOf(executor.device(), graph->view(outputs[kCorrect])));
      correct += hits;
    }
    auto weight = static_cast<double>(batch);
    if (outputs.size() > kDenominator) {
      ACT_TRY(weight, ScalarOf(executor.device(), graph->view(outputs[kDenominator])));
    }
    if (weight != 0) loss_sum += loss * weight;  // the mean over no label is NaN
    weights += weight;
  }
  result.loss = loss_sum / weights;
  if (labels > 0) result.accuracy = correct / static_cast<double>(labels);
  return result;
}

}  // namespace act
