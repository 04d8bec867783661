#include "runtime/executor/bound_graph.h"

#include <chrono>

#include "runtime/base/error.h"

namespace act {
namespace {

std::string PlaceOf(const Node& node) { return "node '" + node.name + "' (" + node.op + ")"; }

TensorView ViewOrNone(const std::vector<TensorView>& views, ValueId id) {
  return id == kNoValue ? TensorView{} : views[static_cast<size_t>(id)];
}

// A fused loop stores what it mutates as it stores results.
void AddMutated(const Node& node, const std::vector<TensorView>& inputs, std::vector<TensorView>& outputs) {
  if (node.op != "Fused") return;
  for (int32_t m : node.mutates) outputs.push_back(inputs[static_cast<size_t>(m)]);
}

// The views of all values, without data: what kernels are chosen by.
std::vector<TensorView> DimsOfValues(const Graph& graph, int64_t batch) {
  std::vector<TensorView> views;
  views.reserve(graph.values.size());
  for (const Value& value : graph.values) views.push_back(MakeView(value.type, batch));
  return views;
}

llvm::Error ChooseKernel(const KernelRegistry& registry, const KernelSite& site, BoundNode& bound) {
  for (const KernelEntry& entry : registry.For(site.node->op)) {
    std::string why;
    if ((bound.kernel = entry.create(site, &why))) {
      bound.kernel_name = entry.name;
      if (bound.kernel->WorkspaceBytes() <= site.workspace_bytes) return llvm::Error::success();
      bound.kernel.reset();
      why = "asks for more workspace than the plan gives";
    }
    bound.refusals.push_back(entry.name + ": " + (why.empty() ? "refused" : why));
  }
  std::string what = "no kernel runs this operator here";
  for (const std::string& refusal : bound.refusals) what += "; " + refusal;
  return MakeError(PlaceOf(*site.node), what, "--verbose=dispatch lists the kernels of every node");
}

}  // namespace

TensorView MakeView(const TensorType& type, int64_t batch) {
  TensorView view;
  view.dtype = type.dtype;
  view.dims = DimsAt(type.dims, batch);
  view.elements = ElementCount(view.dims);
  view.bytes = SaturatingMul(view.elements, ByteSize(type.dtype));
  return view;
}

llvm::Expected<std::unique_ptr<BoundGraph>> BoundGraph::Bind(const StepGraph& step, const StepLayout& layout,
                                                             int64_t batch, const KernelRegistry& registry,
                                                             int threads, Arena& arena) {
  std::unique_ptr<BoundGraph> bound(new BoundGraph(step, batch));
  const Graph& graph = step.graph;
  bound->views_ = DimsOfValues(graph, batch);
  bound->nodes_.resize(graph.nodes.size());

  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    BoundNode& slot = bound->nodes_[i];
    slot.node = &node;
    if (node.op == "Reshape") continue;
    KernelSite site{.node = &node,
                    .inputs = {},
                    .outputs = {},
                    .batch = batch,
                    .workspace_bytes = layout.workspace_bytes[i],
                    .threads = threads};
    for (ValueId id : node.inputs) site.inputs.push_back(ViewOrNone(bound->views_, id));
    for (ValueId id : node.outputs) site.outputs.push_back(ViewOrNone(bound->views_, id));
    AddMutated(node, site.inputs, site.outputs);
    ACT_CHECK_OK(ChooseKernel(registry, site, slot));
  }

  for (size_t v = 0; v < graph.values.size(); ++v) {
    const StorageId storage = step.storage_of[v];
    if (storage < 0 || layout.offset[static_cast<size_t>(storage)] < 0) continue;
    TensorView& view = bound->views_[v];
    const int64_t bytes = layout.bytes[static_cast<size_t>(storage)];
    if (view.bytes > bytes) {
      return MakeError("value '" + graph.values[v].name + "'", "is larger than its storage",
                       "compile the model again");
    }
    // The whole storage: a kernel may read a full vector at the tail.
    ACT_TRY(view.data, arena.HandOut(layout.offset[static_cast<size_t>(storage)], bytes));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    BoundNode& slot = bound->nodes_[i];
    for (ValueId id : node.inputs) slot.inputs.push_back(ViewOrNone(bound->views_, id));
    for (ValueId id : node.outputs) slot.outputs.push_back(ViewOrNone(bound->views_, id));
    AddMutated(node, slot.inputs, slot.outputs);
    if (!slot.kernel && slot.inputs[0].data != slot.outputs[0].data) {
      return MakeError(PlaceOf(node), "its output does not share its input's storage",
                       "compile the model again");
    }
    if (layout.workspace_offset[i] < 0 || layout.workspace_bytes[i] == 0) continue;
    ACT_TRY(std::byte* const scratch, arena.HandOut(layout.workspace_offset[i], layout.workspace_bytes[i]));
    slot.workspace = {scratch, static_cast<size_t>(layout.workspace_bytes[i])};
  }
  return bound;
}

llvm::Error BoundGraph::Run(const StepState& state, std::span<NodeObserver* const> observers) {
  using Clock = std::chrono::steady_clock;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    BoundNode& bound = nodes_[i];
    for (NodeObserver* observer : observers) ACT_CHECK_OK(observer->BeforeNode(i));
    if (bound.kernel && bound.enabled && (state.updates || bound.node->phase != Phase::kUpdate)) {
      const auto start = Clock::now();
      const KernelArgs args{
          .inputs = bound.inputs, .outputs = bound.outputs, .workspace = bound.workspace, .state = &state};
      const std::string failure = bound.kernel->Run(args);
      bound.seconds += std::chrono::duration<double>(Clock::now() - start).count();
      if (!failure.empty()) return MakeError(PlaceOf(*bound.node), failure);
    }
    for (NodeObserver* observer : observers) ACT_CHECK_OK(observer->AfterNode(i));
  }
  return llvm::Error::success();
}

void BoundGraph::ResetTimes() {
  for (BoundNode& bound : nodes_) bound.seconds = 0;
}

std::vector<double> BoundGraph::Times() const {
  std::vector<double> seconds;
  for (const BoundNode& bound : nodes_) seconds.push_back(bound.seconds);
  return seconds;
}

void BoundGraph::SetTimes(std::span<const double> seconds) {
  for (size_t i = 0; i < nodes_.size() && i < seconds.size(); ++i) nodes_[i].seconds = seconds[i];
}

}  // namespace act
