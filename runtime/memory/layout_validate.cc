#include <algorithm>
#include <map>
#include <string>

#include "runtime/base/error.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

llvm::Error Wrong(const std::string& what) {
  return MakeError("internal error: memory layout", what, "please report this model");
}

// A range of bytes, when it is live, and what it is (for the message).
struct Tenant {
  int64_t begin, end;    // bytes
  int64_t lower, upper;  // node positions
  std::string name;
};

// Sweeps over the nodes with the live ranges ordered by address. A range that becomes live can only
// overlap its two neighbours.
llvm::Error CheckDisjoint(const std::vector<Tenant>& tenants) {
  std::vector<const Tenant*> arrivals, departures;
  for (const Tenant& tenant : tenants) arrivals.push_back(&tenant), departures.push_back(&tenant);
  std::sort(arrivals.begin(), arrivals.end(), [](auto* a, auto* b) { return a->lower < b->lower; });
  std::sort(departures.begin(), departures.end(), [](auto* a, auto* b) { return a->upper < b->upper; });
  std::map<int64_t, const Tenant*> live;  // by begin
  auto leaving = departures.begin();
  for (const Tenant* tenant : arrivals) {
    while (leaving != departures.end() && (*leaving)->upper <= tenant->lower) live.erase((*leaving++)->begin);
    const auto next = live.lower_bound(tenant->begin);
    const Tenant* clash = nullptr;
    if (next != live.end() && next->first < tenant->end) clash = next->second;
    if (next != live.begin() && std::prev(next)->second->end > tenant->begin) clash = std::prev(next)->second;
    if (clash) {
      return Wrong(tenant->name + " at bytes " + std::to_string(tenant->begin) + " to " +
                   std::to_string(tenant->end) + " overlaps " + clash->name + " at " +
                   std::to_string(clash->begin) + " to " + std::to_string(clash->end) +
                   ", both live at node " + std::to_string(tenant->lower));
    }
    live.emplace(tenant->begin, tenant);
  }
  return llvm::Error::success();
}

class StepChecker {
 public:
  StepChecker(const StepGraph& step, const StepLayout& layout, const MemoryLayout& whole)
      : step_(step),
        layout_(layout),
        whole_(whole),
        on_host_(static_cast<size_t>(step.storages)),
        loop_of_node_(LoopOfNodes(step.graph)),
        loop_of_value_(LoopOfValues(step.graph)) {
    for (const Node& node : step.graph.nodes)
      for (const ValueId id : node.outputs)
        if (RunsOf(node) == Runs::kSwapOut) on_host_[Storage(id)] = true;
  }

  llvm::Error Check() {
    const size_t storages = static_cast<size_t>(step_.storages), nodes = step_.graph.nodes.size();
    for (const auto* of_storages : {&layout_.offset, &layout_.bytes, &layout_.lower, &layout_.upper})
      if (of_storages->size() != storages) return Wrong("it is not of this plan");
    for (const auto* of_nodes : {&layout_.workspace_offset, &layout_.workspace_bytes})
      if (of_nodes->size() != nodes) return Wrong("it is not of this plan");
    if (layout_.alignment != AlignmentOf(whole_.target)) return Wrong("it is not of its target");
    if (layout_.on_host != on_host_) return Wrong("a storage is in another memory than the plan's nodes say");
    ACT_CHECK_OK(CheckUses());
    return CheckPlaces();
  }

 private:
  size_t Storage(ValueId id) const { return static_cast<size_t>(step_.storage_of[static_cast<size_t>(id)]); }

  // The loop over samples that contains `node`. Null if there is none, or if all samples are one tile.
  const SampleLoop* LoopAt(int64_t node) const {
    const int32_t loop =
        static_cast<size_t>(node) < loop_of_node_.size() ? loop_of_node_[static_cast<size_t>(node)] : -1;
    if (loop < 0 || !HasTiles(step_.graph.loops[static_cast<size_t>(loop)], whole_.batch)) return nullptr;
    return &step_.graph.loops[static_cast<size_t>(loop)];
  }

  int64_t BytesOfTile(const TensorType& type, const SampleLoop& loop) const {
    return type.Bytes().At(1) / loop.tokens * TileSamples(loop, whole_.batch);
  }

  static llvm::Error WrongMemory(const Node& node) {
    return Wrong("node '" + node.name + "' (" + node.op + ") reads or writes in another memory than it may");
  }

  // Checks that a value that is read or written at `node` lies inside its storage, and that the
  // storage is live then. In a loop over samples, a storage that is not the loop's own must be live
  // from the loop's first node to its last.
  llvm::Error CheckUse(ValueId id, int64_t node) const {
    const Value& value = step_.graph.value(id);
    const size_t s = Storage(id);
    const SampleLoop* loop = LoopAt(node);
    const bool own = loop && loop_of_value_[static_cast<size_t>(id)] >= 0;
    // Of a loop over tokens, a tile has that part of a sample's bytes.
    const int64_t bytes = own ? BytesOfTile(value.type, *loop) : value.type.Bytes().At(whole_.batch);
    if (bytes == 0) return llvm::Error::success();
    if (layout_.offset[s] < 0) return Wrong("value '" + value.name + "' has no place");
    if (bytes > layout_.bytes[s]) return Wrong("value '" + value.name + "' is larger than its storage");
    const int64_t from = loop && !own ? loop->first : node, to = loop && !own ? loop->last : node + 1;
    if (from < layout_.lower[s] || to > layout_.upper[s]) {
      return Wrong("value '" + value.name + "' is used at node " + std::to_string(node) +
                   ", its storage lives from " + std::to_string(layout_.lower[s]) + " to " +
                   std::to_string(layout_.upper[s]));
    }
    return llvm::Error::success();
  }

  llvm::Error CheckUses() const {
    const Graph& graph = step_.graph;
    const auto nodes = static_cast<int64_t>(graph.nodes.size());
    for (int64_t t = 0; t < nodes; ++t) {
      const Node& node = graph.nodes[static_cast<size_t>(t)];
      for (const ValueId id : node.inputs) {
        if (id == kNoValue) continue;
        ACT_CHECK_OK(CheckUse(id, t));
        if (on_host_[Storage(id)] != (RunsOf(node) == Runs::kSwapIn)) return WrongMemory(node);
      }
      for (const ValueId id : node.outputs) {
        ACT_CHECK_OK(CheckUse(id, t));
        if (on_host_[Storage(id)] != (RunsOf(node) == Runs::kSwapOut)) return WrongMemory(node);
      }
      const SampleLoop* loop = LoopAt(t);
      const int64_t samples = loop ? TileSamples(*loop, whole_.batch) : whole_.batch;
      int64_t workspace = node.workspace_bytes[whole_.target].At(samples);
      for (const ValueId id : node.outputs)
        if (loop && IsSumOfTiles(graph, node, id)) workspace += graph.value(id).type.Bytes().At(samples);
      if (workspace > layout_.workspace_bytes[static_cast<size_t>(t)]) {
        return Wrong("node '" + node.name + "' has too little workspace");
      }
    }
    const int64_t last = std::max<int64_t>(1, nodes) - 1;
    for (const ValueId id : graph.inputs)
      if (step_.storage_of[static_cast<size_t>(id)] >= 0) ACT_CHECK_OK(CheckUse(id, 0));
    for (const ValueId id : graph.outputs) ACT_CHECK_OK(CheckUse(id, last));
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (!IsPersistent(graph.values[v].kind) || step_.storage_of[v] < 0) continue;
      ACT_CHECK_OK(CheckUse(static_cast<ValueId>(v), 0));
      ACT_CHECK_OK(CheckUse(static_cast<ValueId>(v), last));
    }
    return llvm::Error::success();
  }

  // Bytes of an arena, and what lies in them.
  class Part {
   public:
    Part(int64_t alignment, int64_t from, int64_t to)
        : alignment_(alignment), from_(from), to_(to), highest_(from) {}
    llvm::Error Add(int64_t offset, int64_t bytes, int64_t lower, int64_t upper, std::string who) {
      if (offset % alignment_ != 0) return Wrong(who + " is not aligned");
      if (offset < from_ || bytes < 0 || bytes > to_ || offset > to_ - bytes)
        return Wrong(who + " is outside its part");
      highest_ = std::max(highest_, offset + bytes);
      if (lower < upper && bytes > 0)
        tenants_.push_back({offset, offset + bytes, lower, upper, std::move(who)});
      return llvm::Error::success();
    }
    int64_t highest() const { return highest_; }
    llvm::Error CheckDisjoint() const { return act::CheckDisjoint(tenants_); }

   private:
    int64_t alignment_, from_, to_, highest_;
    std::vector<Tenant> tenants_;
  };

  // Checks that every storage lies inside the right arena, aligned, and on the right side of
  // persistent_bytes, and that no two overlap.
  llvm::Error CheckPlaces() const {
    std::vector<bool> is_persistent(layout_.offset.size());
    std::vector<std::string> name(layout_.offset.size());
    for (size_t v = 0; v < step_.graph.values.size(); ++v) {
      if (step_.storage_of[v] < 0) continue;
      const auto s = static_cast<size_t>(step_.storage_of[v]);
      if (IsPersistent(step_.graph.values[v].kind)) is_persistent[s] = true;
      if (name[s].empty()) name[s] = "value '" + step_.graph.values[v].name + "'";
    }
    const int64_t alignment = AlignmentOf(whole_.target);
    Part persistent(alignment, 0, whole_.persistent_bytes),
        device(alignment, whole_.persistent_bytes, layout_.peak_bytes),
        host(alignment, 0, layout_.host_peak_bytes);
    for (size_t s = 0; s < layout_.offset.size(); ++s) {
      if (layout_.offset[s] < 0) continue;
      Part& part = on_host_[s] ? host : is_persistent[s] ? persistent : device;
      ACT_CHECK_OK(
          part.Add(layout_.offset[s], layout_.bytes[s], layout_.lower[s], layout_.upper[s], name[s]));
    }
    for (size_t t = 0; t < layout_.workspace_offset.size(); ++t) {
      const auto now = static_cast<int64_t>(t);
      if (layout_.workspace_bytes[t] == 0) continue;
      ACT_CHECK_OK(device.Add(layout_.workspace_offset[t], layout_.workspace_bytes[t], now, now + 1,
                              "workspace of node '" + step_.graph.nodes[t].name + "'"));
    }
    if (layout_.peak_bytes != device.highest() || layout_.host_peak_bytes != host.highest())
      return Wrong("the peak is not the end of what is highest");
    if (layout_.peak_bytes > whole_.arena_bytes || layout_.host_peak_bytes > whole_.host_bytes)
      return Wrong("the arena is smaller than the peak");
    for (const Part* part : {&persistent, &device, &host}) ACT_CHECK_OK(part->CheckDisjoint());
    return llvm::Error::success();
  }

  const StepGraph& step_;
  const StepLayout& layout_;
  const MemoryLayout& whole_;
  std::vector<bool> on_host_;  // by storage
  const std::vector<int32_t> loop_of_node_, loop_of_value_;
};

// Checks the values that keep their place from step to step, in both graphs. Each has one place,
// and no two share a byte.
llvm::Error CheckPersistent(const Plan& plan, const MemoryLayout& layout) {
  std::map<std::string, Tenant> tenants;  // by name
  for (const auto& [step, places] :
       {std::pair(&plan.train, &layout.train), std::pair(&plan.eval, &layout.eval)}) {
    for (size_t v = 0; v < step->graph.values.size(); ++v) {
      const Value& value = step->graph.values[v];
      if (!IsPersistent(value.kind) || step->storage_of[v] < 0) continue;
      const auto s = static_cast<size_t>(step->storage_of[v]);
      if (places->offset[s] < 0) continue;
      const int64_t begin = places->offset[s];
      const Tenant tenant{begin, begin + places->bytes[s], 0, 1, "value '" + value.name + "'"};
      const auto [it, is_new] = tenants.emplace(value.name, tenant);
      if (!is_new && it->second.begin != begin) {
        return Wrong(tenant.name + " lies at byte " + std::to_string(it->second.begin) +
                     " in training and at " + std::to_string(begin) + " in evaluation");
      }
    }
  }
  std::vector<Tenant> all;
  all.reserve(tenants.size());
  for (auto& [name, tenant] : tenants) all.push_back(std::move(tenant));
  return CheckDisjoint(all);
}

}  // namespace

llvm::Error ValidateLayout(const Plan& plan, const MemoryLayout& layout) {
  ACT_CHECK_OK(StepChecker(plan.train, layout.train, layout).Check());
  ACT_CHECK_OK(StepChecker(plan.eval, layout.eval, layout).Check());
  return CheckPersistent(plan, layout);
}

}  // namespace act
