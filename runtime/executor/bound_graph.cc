#include "runtime/executor/bound_graph.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

TensorView ViewOrNone(const std::vector<TensorView>& views, ValueId id) {
  return id == kNoValue ? TensorView{} : views[static_cast<size_t>(id)];
}

// A program stores into the operands that it mutates as it stores results.
void AddMutated(const Node& node, const std::vector<TensorView>& inputs, std::vector<TensorView>& outputs) {
  if (!RunsProgram(node)) return;
  for (int32_t m : node.mutates) outputs.push_back(inputs[static_cast<size_t>(m)]);
}

// The node as its kernel sees it.
void SetTokens(const Graph& graph, int32_t loop, BoundNode& bound) {
  const int64_t tokens = loop < 0 ? 1 : graph.loops[static_cast<size_t>(loop)].tokens;
  if (tokens == 1) return;
  if (std::optional<Graph> alone =
          TokenGraph(graph, *bound.node, tokens))  // CheckLoops has seen that it is there
    bound.of_tokens = std::make_unique<const Graph>(std::move(*alone));
}

// The samples of a node's or value's whole batch, or their tokens in a loop over tokens.
int64_t AllSamples(const Graph& graph, int32_t loop, int64_t batch) {
  return loop < 0 ? batch : LoopSamples(graph.loops[static_cast<size_t>(loop)], batch);
}

// The site by which a kernel is chosen that runs `samples` of `batch` samples at a time.
KernelSite SiteOf(const Graph& whole, const BoundNode& bound, int64_t samples, int64_t batch,
                  int64_t workspace_bytes, int threads) {
  const Graph& graph = bound.of_tokens ? *bound.of_tokens : whole;
  const Node& node = bound.of_tokens ? graph.nodes[0] : *bound.node;
  KernelSite site{.node = &node,
                  .inputs = {},
                  .outputs = {},
                  .batch = samples,
                  .workspace_bytes = workspace_bytes,
                  .threads = threads,
                  .whole_batch = batch,
                  .goes_on = samples < batch && GoesOn(graph, node)};
  const auto view = [&](ValueId id) {
    return id == kNoValue ? TensorView{} : MakeView(graph.value(id).type, samples);
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    site.inputs.push_back(view(node.inputs[i]));
    if (DecodesOperand(graph, node, i)) site.inputs[i].coded = graph.value(node.inputs[i]).coded.get();
  }
  for (ValueId id : node.outputs) site.outputs.push_back(view(id));
  AddMutated(node, site.inputs, site.outputs);
  return site;
}

// The bytes that one tile's part of a result takes in the node's workspace: 0 for a result that is no
// sum over samples.
int64_t PartBytes(const Graph& graph, const Node& node, ValueId result, int64_t samples, int64_t batch,
                  int64_t alignment) {
  if (samples == batch || !IsSumOfTiles(graph, node, result)) return 0;
  return RoundUp(MakeView(graph.value(result).type, samples).bytes, alignment);
}

// What a node's sums over tiles leave of its workspace.
llvm::Expected<int64_t> ScratchOf(const Graph& graph, const Node& node, int64_t samples, int64_t batch,
                                  int64_t workspace_bytes, int64_t alignment) {
  for (const ValueId id : node.outputs)
    workspace_bytes -= PartBytes(graph, node, id, samples, batch, alignment);
  if (workspace_bytes < 0)
    return MakeError(PlaceOf(node), "has no room for its sums", "compile the model again");
  return workspace_bytes;
}

llvm::Error Take(const KernelRegistry& registry, const KernelSite& site, BoundNode& bound) {
  ACT_TRY(TakenKernel taken, TakeKernel(registry, site, bound.choice.kernel));
  bound.kernel_name = std::move(taken.name);
  bound.kernel = std::move(taken.kernel);
  bound.refusals = std::move(taken.refusals);
  return llvm::Error::success();
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

BoundGraph::BoundGraph(const StepGraph& step, int64_t batch, int threads, Device& device)
    : step_(&step),
      device_(&device),
      batch_(batch),
      threads_(threads),
      loop_of_node_(LoopOfNodes(step.graph)),
      loop_of_value_(LoopOfValues(step.graph)) {}

llvm::Expected<std::unique_ptr<BoundGraph>> BoundGraph::Place(const StepGraph& step, const StepLayout& layout,
                                                              int64_t batch, int threads, Device& device,
                                                              Memories memories) {
  std::unique_ptr<BoundGraph> bound(new BoundGraph(step, batch, threads, device));
  const Graph& graph = step.graph;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const int32_t loop = bound->loop_of_value_[v];
    const TensorType type = TypeIn(graph, loop, graph.values[v].type);
    TensorView& view = bound->views_.emplace_back(MakeView(type, SamplesAtATime(graph, loop, batch)));
    const StorageId storage = step.storage_of[v];
    if (storage < 0 || layout.offset[static_cast<size_t>(storage)] < 0) continue;
    const auto s = static_cast<size_t>(storage);
    const int64_t bytes = layout.bytes[s];
    if (view.bytes > bytes) {
      return MakeError("value '" + graph.values[v].name + "'", "is larger than its storage",
                       "compile the model again");
    }
    // Hands out the whole storage, since a kernel may read a full vector at the tail.
    ACT_TRY(view.data, memories.Of(layout.on_host[s]).HandOut(layout.offset[s], bytes));
  }
  bound->nodes_.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) ACT_CHECK_OK(bound->PlaceNode(i, layout, memories.device));
  return bound;
}

llvm::Error BoundGraph::PlaceNode(size_t position, const StepLayout& layout, Arena& arena) {
  const Graph& graph = step_->graph;
  const Node& node = graph.nodes[position];
  BoundNode& slot = nodes_[position];
  slot.node = &node;
  slot.scratch_bytes = layout.workspace_bytes[position];
  if (layout.workspace_offset[position] >= 0 && layout.workspace_bytes[position] > 0) {
    const int64_t bytes = layout.workspace_bytes[position];
    ACT_TRY(const DevicePointer scratch, arena.HandOut(layout.workspace_offset[position], bytes));
    slot.workspace = {scratch, bytes};
  }
  if (loop_of_node_[position] >= 0) return PlaceTiles(position, layout);

  for (ValueId id : node.inputs) slot.inputs.push_back(ViewOrNone(views_, id));
  for (ValueId id : node.outputs) slot.outputs.push_back(ViewOrNone(views_, id));
  AddMutated(node, slot.inputs, slot.outputs);
  if (IsAlias(node) && slot.inputs[0].data != slot.outputs[0].data) {
    return MakeError(PlaceOf(node), "its output does not share its input's storage",
                     "compile the model again");
  }
  return llvm::Error::success();
}

llvm::Error BoundGraph::PlaceTiles(size_t position, const StepLayout& layout) {
  const Graph& graph = step_->graph;
  BoundNode& slot = nodes_[position];
  const Node& node = *slot.node;
  if (IsAlias(node)) return llvm::Error::success();
  const SampleLoop& loop = graph.loops[static_cast<size_t>(loop_of_node_[position])];
  SetTokens(graph, loop_of_node_[position], slot);
  slot.tiles = std::make_unique<BoundTiles>();
  BoundTiles& tiles = *slot.tiles;
  tiles.samples = TileSamples(loop, batch_);
  tiles.last = LoopSamples(loop, batch_) % tiles.samples;
  const int64_t all = LoopSamples(loop, batch_);

  // A value that only the loop uses has memory for one tile. A sum over samples is the same tensor
  // for all tiles.
  const auto sample_bytes = [&](ValueId id) {
    const bool moves =
        loop_of_value_[static_cast<size_t>(id)] < 0 && TileRoleOf(graph.value(id).type) == TileRole::kSlice;
    return moves ? MakeView(TypeIn(graph, loop_of_node_[position], graph.value(id).type), 1).bytes : 0;
  };
  for (ValueId id : node.inputs)
    tiles.places.AddInput(ViewOrNone(views_, id).data, id == kNoValue ? 0 : sample_bytes(id));
  // Parts of sums lie at the end of the workspace.
  ACT_TRY(slot.scratch_bytes,
          ScratchOf(graph, node, tiles.samples, all, slot.workspace.bytes, layout.alignment));
  int64_t part = slot.workspace.bytes;
  for (ValueId id : node.outputs) {
    tiles.places.AddOutput(ViewOrNone(views_, id).data, sample_bytes(id));
    const int64_t bytes = PartBytes(graph, node, id, tiles.samples, all, layout.alignment);
    if (bytes > 0) tiles.places.MakeSum(slot.workspace.data + (part -= bytes));
  }

  KernelSite site = Site(position);
  tiles.goes_on = site.goes_on;
  slot.inputs = std::move(site.inputs);
  slot.outputs = std::move(site.outputs);
  tiles.places.MoveTo(0, slot.inputs, slot.outputs);
  if (tiles.last > 0) {
    KernelSite rest = SiteOfSamples(position, tiles.last);
    tiles.last_inputs = std::move(rest.inputs);
    tiles.last_outputs = std::move(rest.outputs);
  }
  return llvm::Error::success();
}

KernelSite BoundGraph::SiteOfSamples(size_t position, int64_t samples) const {
  const BoundNode& slot = nodes_[position];
  const int64_t all = AllSamples(step_->graph, loop_of_node_[position], batch_);
  return SiteOf(step_->graph, slot, samples, all, slot.scratch_bytes, threads_);
}

KernelSite BoundGraph::Site(size_t position) const {
  return SiteOfSamples(position, nodes_[position].tiles ? nodes_[position].tiles->samples : batch_);
}

llvm::Error BoundGraph::TakeKernels(const KernelRegistry& registry, std::span<const KernelChoice> choices) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    BoundNode& slot = nodes_[i];
    if (IsAlias(*slot.node)) continue;
    if (i < choices.size()) slot.choice = choices[i];
    ACT_CHECK_OK(Take(registry, Site(i), slot));
    if (!slot.tiles || slot.tiles->last == 0) continue;
    const KernelSite rest = SiteOfSamples(i, slot.tiles->last);
    ACT_TRY(TakenKernel taken, TakeKernel(registry, rest, slot.choice.kernel));
    slot.tiles->last_kernel = std::move(taken.kernel);
  }
  return device_->Prepare();
}

llvm::Expected<std::vector<BoundNode>> ChooseKernels(const StepGraph& step, const StepLayout& layout,
                                                     int64_t batch, const KernelRegistry& registry,
                                                     int threads) {
  const Graph& graph = step.graph;
  const std::vector<int32_t> loop_of_node = LoopOfNodes(graph), loop_of_value = LoopOfValues(graph);
  std::vector<BoundNode> nodes(graph.nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *(nodes[i].node = &graph.nodes[i]);
    if (IsAlias(node)) continue;
    const int32_t loop = loop_of_node[i];
    const int64_t samples = SamplesAtATime(graph, loop, batch), all = AllSamples(graph, loop, batch);
    SetTokens(graph, loop, nodes[i]);
    ACT_TRY(const int64_t scratch,
            ScratchOf(graph, node, samples, all, layout.workspace_bytes[i], layout.alignment));
    ACT_CHECK_OK(Take(registry, SiteOf(graph, nodes[i], samples, all, scratch, threads), nodes[i]));
    const int64_t last = all % samples;
    if (last == 0) continue;
    BoundNode rest;
    ACT_CHECK_OK(Take(registry, SiteOf(graph, nodes[i], last, all, scratch, threads), rest));
    nodes[i].tiles = std::make_unique<BoundTiles>();
    nodes[i].tiles->samples = samples;
    nodes[i].tiles->last = last;
    nodes[i].tiles->last_kernel = std::move(rest.kernel);
  }
  return nodes;
}

void BoundGraph::Enable(size_t position, bool enabled) {
  if (std::exchange(nodes_[position].enabled, enabled) != enabled)
    for (Recorded& recorded : recorded_) recorded = {};
}

llvm::Error BoundGraph::Run(const StepState& state, std::span<NodeObserver* const> observers) {
  ACT_CHECK_OK(device_->BeginStep(state));
  if (!observers.empty() || !device_->Records()) return RunNodes(state, observers);
  // A kernel's first run may load code or allocate, which a recording does not allow.
  Recorded& recorded = recorded_[state.updates ? 1 : 0];
  if (!std::exchange(recorded.ran, true)) return RunNodes(state, {});
  if (!recorded.recording) {
    ACT_CHECK_OK(device_->StartRecording());
    llvm::Error failure = RunNodes(state, {});
    llvm::Expected<std::unique_ptr<Recording>> recording = device_->FinishRecording();
    if (failure || !recording) return llvm::joinErrors(std::move(failure), recording.takeError());
    recorded.recording = std::move(*recording);
  }
  return device_->Launch(*recorded.recording);
}

llvm::Error BoundGraph::RunNodes(const StepState& state, std::span<NodeObserver* const> observers) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int32_t loop = loop_of_node_[i];
    if (loop < 0) {
      ACT_CHECK_OK(RunNode(i, state, observers));
      continue;
    }
    const SampleLoop& nodes = step_->graph.loops[static_cast<size_t>(loop)];
    ACT_CHECK_OK(RunLoop(nodes, state, observers));
    i = static_cast<size_t>(nodes.last) - 1;
  }
  return llvm::Error::success();
}

llvm::Error BoundGraph::RunLoop(const SampleLoop& loop, const StepState& state,
                                std::span<NodeObserver* const> observers) {
  const int64_t samples = TileSamples(loop, batch_), all = LoopSamples(loop, batch_);
  for (first_sample_ = 0; first_sample_ < all; first_sample_ += samples) {
    on_last_tile_ = first_sample_ + samples >= all;
    for (int64_t i = loop.first; i < loop.last; ++i)
      ACT_CHECK_OK(RunNode(static_cast<size_t>(i), state, observers));
  }
  first_sample_ = 0;
  return llvm::Error::success();
}

llvm::Error BoundGraph::RunNode(size_t position, const StepState& state,
                                std::span<NodeObserver* const> observers) {
  BoundNode& bound = nodes_[position];
  // A last tile of fewer samples has tensors of its own. The node shows them while that tile runs.
  const bool is_short = bound.tiles && bound.tiles->last > 0 && on_last_tile_;
  const auto swap_tensors = [&bound] {
    std::swap(bound.inputs, bound.tiles->last_inputs);
    std::swap(bound.outputs, bound.tiles->last_outputs);
  };
  if (is_short) swap_tensors();
  for (NodeObserver* observer : observers) ACT_CHECK_OK(observer->BeforeNode(position));
  if (bound.kernel && bound.enabled && (state.updates || bound.node->phase != Phase::kUpdate)) {
    BoundTiles* const tiles = bound.tiles.get();
    if (tiles) tiles->places.MoveTo(first_sample_, bound.inputs, bound.outputs);
    const KernelArgs args{.inputs = bound.inputs,
                          .outputs = bound.outputs,
                          .workspace = bound.workspace,
                          .state = &state,
                          .first_sample = first_sample_,
                          .goes_on = tiles && tiles->goes_on && first_sample_ > 0};
    double* const seconds = bound.times.runs++ == 0 ? &bound.times.first : &bound.times.others;
    const std::string failure =
        device_->Run(is_short ? *bound.tiles->last_kernel : *bound.kernel, args, seconds);
    if (tiles && first_sample_ > 0) ACT_CHECK_OK(tiles->places.AddSums(*device_, bound.outputs));
    if (!failure.empty()) return MakeError(PlaceOf(*bound.node), failure);
  }
  for (NodeObserver* observer : observers) ACT_CHECK_OK(observer->AfterNode(position));
  if (is_short) swap_tensors();
  return llvm::Error::success();
}

std::vector<NodeTimes> BoundGraph::Times() const {
  std::vector<NodeTimes> times;
  for (const BoundNode& bound : nodes_) times.push_back(bound.times);
  return times;
}

void BoundGraph::SetTimes(std::span<const NodeTimes> times) {
  for (size_t i = 0; i < nodes_.size() && i < times.size(); ++i) nodes_[i].times = times[i];
}

}  // namespace act
