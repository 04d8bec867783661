#include "runtime/train/evaluate.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// The mean over a data set, from those over its batches.
class Mean {
 public:
  // A mean over nothing is NaN, and counts as little.
  void Add(double mean, double weight) {
    if (weight != 0) sum_ += mean * weight;
    weights_ += weight;
  }
  void AddSum(double sum, double weight) {
    sum_ += sum;
    weights_ += weight;
  }
  double Get() const { return IsEmpty() ? std::numeric_limits<double>::quiet_NaN() : sum_ / weights_; }
  bool IsEmpty() const { return weights_ == 0; }

 private:
  double sum_ = 0, weights_ = 0;
};

// Whether the first pair of the outputs after the loss counts correct predictions (Plan::eval).
bool CountsCorrect(const Graph& graph) {
  return graph.outputs.size() > 2 &&
         std::any_of(graph.nodes.begin(), graph.nodes.end(), [&graph](const Node& node) {
           return node.op == kCountCorrect && node.outputs[0] == graph.outputs[1];
         });
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
  const Graph& graph = executor.plan().eval.graph;
  const size_t terms = CountsCorrect(graph) ? 3 : 1;  // position of the first among the outputs
  Mean accuracy;
  std::vector<Mean> losses(std::max<size_t>(1, (graph.outputs.size() - terms) / 2));
  while (const int64_t batch = data.Next(executor.layout().batch)) {
    ACT_TRY(BoundGraph* const bound, executor.Eval(batch));
    ACT_CHECK_OK(executor.BeginStep());
    ACT_CHECK_OK(FillInputs(*bound, data));
    data.FetchNext();
    ACT_CHECK_OK(executor.Run(*bound, state));
    std::vector<double> numbers;
    for (const ValueId output : graph.outputs) {
      ACT_TRY(const double number, ScalarOf(executor.device(), bound->view(output)));
      numbers.push_back(number);
    }
    if (terms > 1) accuracy.AddSum(numbers[1], numbers[2]);
    if (numbers.size() == terms) losses[0].Add(numbers[0], static_cast<double>(batch));
    for (size_t i = terms; i + 1 < numbers.size(); i += 2)
      losses[(i - terms) / 2].Add(numbers[i], numbers[i + 1]);
  }
  Evaluation result;
  for (const Mean& loss : losses) result.loss += loss.Get();
  if (!accuracy.IsEmpty()) result.accuracy = accuracy.Get();
  return result;
}

}  // namespace act
