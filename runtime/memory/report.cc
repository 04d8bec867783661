#include "runtime/memory/report.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/memory/largest_batch.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

// Memory sizes of the machines that people have.
constexpr const char* kMemories[] = {"8GiB", "16GiB", "24GiB", "40GiB", "80GiB"};

// A weight that deserves a line of its own.
constexpr int64_t kLargeWeightBytes = 1 << 20;

bool Matches(const SavedEdge& edge, const std::string& glob) {
  const auto matches = [&](const std::string& name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; };
  return glob.empty() || matches(edge.name) ||
         std::any_of(edge.consumers.begin(), edge.consumers.end(), matches);
}

// "a", "a and b", "a, b and c".
std::string Enumerated(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text.empty() ? "nobody" : text;
}

}  // namespace

std::string NodeLabel(const Node& node) { return node.name.empty() ? node.op : node.op + " " + node.name; }

std::string ReportTitle(const MemoryReport& report) {
  std::string title = "Memory of " + report.model + ", level " + report.level +
                      (report.compute == Compute::kBFloat16 ? ", bfloat16" : "") + ", batch " +
                      std::to_string(report.batch);
  if (report.layout.target != TargetKind::kCpu)
    title += std::string(", target ") + ToString(report.layout.target);
  return title;
}

namespace {

// The loop over samples that alone makes and reads what is stored; -1: it exists whole.
int32_t LoopOf(const SavedEdge& edge, const std::vector<int32_t>& loop_of) {
  return edge.stored == kNoValue ? -1 : loop_of[static_cast<size_t>(edge.stored)];
}

// What each edge takes: a tile, if a loop makes and reads it.
std::vector<int64_t> BytesOfEdges(const Plan& plan, int64_t batch) {
  const Graph& graph = plan.train.graph;
  const std::vector<int32_t> loop_of = LoopOfValues(graph);
  std::vector<int64_t> bytes;
  for (const SavedEdge& edge : plan.edges) {
    const int32_t loop = LoopOf(edge, loop_of);
    // The part of a sample that a token has, of the loop's tile.
    const int64_t tokens = loop < 0 ? 1 : graph.loops[static_cast<size_t>(loop)].tokens;
    const int64_t samples = SamplesAtATime(graph, loop, batch);
    bytes.push_back(tokens == 1 ? edge.bytes.At(samples) : edge.bytes.At(1) / tokens * samples);
  }
  return bytes;
}

}  // namespace

std::vector<std::string> FormsOfEdges(const Plan& plan) {
  const Graph& graph = plan.train.graph;
  std::set<ValueId> swapped;
  for (const Node& node : graph.nodes)
    if (RunsOf(node) == Runs::kSwapOut) swapped.insert(node.inputs[0]);
  const std::vector<int32_t> loop_of = LoopOfValues(graph);
  std::vector<std::string> forms;
  for (const SavedEdge& edge : plan.edges)
    forms.push_back(edge.form + (swapped.count(edge.stored) ? ", swapped" : "") +
                    (LoopOf(edge, loop_of) >= 0 ? ", in tiles" : ""));
  return forms;
}

llvm::Expected<MemoryReport> MakeMemoryReport(const Plan& plan, int64_t batch, TargetKind target,
                                              const Card* card) {
  MemoryReport report;
  report.model = plan.model_name;
  report.level = plan.level;
  report.compute = plan.compute;
  report.batch = batch;
  ACT_TRY(report.layout, LayOut(plan, batch, target));
  const std::vector<Node>& nodes = plan.train.graph.nodes;
  for (const Node& node : nodes) report.ops.push_back(NodeLabel(node));
  const auto is_backward = [](const Node& node) { return node.phase == Phase::kBackward; };
  report.first_backward = std::find_if(nodes.begin(), nodes.end(), is_backward) - nodes.begin();
  report.by_category = CategoryTimeline(plan.train, report.layout.train, report.layout.persistent_bytes);

  for (const Value& value : plan.train.graph.values) {
    if (!value.coded) continue;
    report.frozen_bytes = SaturatingAdd(report.frozen_bytes, value.type.Bytes().At(batch));
    report.frozen_bytes_uncompressed =
        SaturatingAdd(report.frozen_bytes_uncompressed, value.FileType().Bytes().At(batch));
  }

  if (plan.clip_norm > 0 || plan.accumulate > 1) {
    std::set<StorageId> counted;
    for (const Updated& updated : UpdatesOf(plan.train.graph)) {
      const StorageId s =
          plan.train.storage_of[static_cast<size_t>(nodes[updated.node].inputs[updated.gradient])];
      if (counted.insert(s).second)
        report.kept_gradients_bytes += report.layout.train.bytes[static_cast<size_t>(s)];
    }
  }

  double elements = 0, coded_bits = 0;
  const std::vector<std::string> forms = FormsOfEdges(plan);
  const std::vector<int64_t> stored = BytesOfEdges(plan, batch);
  for (size_t e = 0; e < plan.edges.size(); ++e) {
    const SavedEdge& edge = plan.edges[e];
    const int64_t bytes = stored[e], uncompressed = edge.bytes_uncompressed.At(batch);
    report.edges.push_back({edge.name, forms[e], edge.consumers, edge.bits, bytes, uncompressed});
    report.saved_bytes = SaturatingAdd(report.saved_bytes, bytes);
    report.saved_bytes_uncompressed = SaturatingAdd(report.saved_bytes_uncompressed, uncompressed);
    if (edge.bits <= 0) continue;
    coded_bits += 8.0 * static_cast<double>(bytes);
    elements += 8.0 * static_cast<double>(bytes) / edge.bits;
  }
  if (elements > 0) report.saved_bits = coded_bits / elements;
  std::vector<int64_t> memories;
  for (const char* memory : kMemories) memories.push_back(*ParseSize(memory));
  if (card) memories.push_back(report.card_bytes = card->ArenaBytes());
  const std::vector<int64_t> batches = BatchSearch(plan, Arenas::kDevice, target).Largest(memories);
  for (const char* memory : kMemories) report.max_batch.push_back({memory, batches[report.max_batch.size()]});
  if (card) report.card = {std::string(card->name), batches.back()};
  return report;
}

std::string ExplainEdges(const Plan& plan, int64_t batch, const std::string& glob) {
  std::string text;
  const std::vector<std::string> forms = FormsOfEdges(plan);
  const std::vector<int64_t> stored = BytesOfEdges(plan, batch);
  for (size_t e = 0; e < plan.edges.size(); ++e) {
    const SavedEdge& edge = plan.edges[e];
    if (!Matches(edge, glob)) continue;
    char bits[32];
    std::snprintf(bits, sizeof bits, "%.3g", edge.bits);
    text += edge.name + ": read by " + Enumerated(edge.consumers) + ".\n";
    if (!edge.reason.empty()) text += "  Why: " + edge.reason + ".\n";
    text += "  Form: " + forms[e] + ", " + bits + " bits an element; " +
            FormatSize(edge.bytes_uncompressed.At(batch)) + " -> " + FormatSize(stored[e]) + ".\n";
  }
  if (text.empty()) {
    return plan.edges.empty() ? "There are no saved-activation edges.\n"
                              : "No saved-activation edge matches '" + glob + "'.\n";
  }
  return text;
}

// A product is made twice where moments of a batch are taken from it, before the batch is normalized by them.
std::string ExplainRepeats(const Plan& plan, int64_t batch, const std::string& glob) {
  const Graph& graph = plan.train.graph;
  std::map<ValueId, const Node*> maker;
  std::map<std::pair<std::string, std::vector<ValueId>>, int> made;
  for (const Node& node : graph.nodes) {
    ++made[{node.op, node.inputs}];
    for (const ValueId v : node.outputs) maker[v] = &node;
  }
  const std::vector<int32_t> loop_of = LoopOfValues(graph);
  std::string text;
  for (const Node& node : graph.nodes) {
    const RuntimeOp* op = FindRuntimeOp(node.op);
    if (!op || op->goes_on != GoesOnFrom::kMoments || !maker.count(node.inputs[0])) continue;
    const ValueId result = node.inputs[0];
    const Node& product = *maker.at(result);
    if (made.at({product.op, product.inputs}) < 2) continue;
    if (!glob.empty() && fnmatch(glob.c_str(), product.name.c_str(), 0) != 0) continue;
    const TensorType& type = graph.value(result).type;
    const TensorType tile = TypeIn(graph, loop_of[static_cast<size_t>(result)], type);
    const int64_t at_a_time = SamplesAtATime(graph, loop_of[static_cast<size_t>(result)], batch);
    text += NodeLabel(product) + ": made twice, for the moments of the batch and for what they normalize; " +
            FormatSize(type.Bytes().At(batch)) + ", of which " + FormatSize(tile.Bytes().At(at_a_time)) +
            " exist at a time.\n";
  }
  return text;
}

std::string ExplainFrozen(const Plan& plan, const std::string& glob) {
  const Graph& graph = plan.train.graph;
  std::set<ValueId> changed;
  std::map<ValueId, std::vector<std::string>> readers;
  for (const Node& node : graph.nodes) {
    for (const int32_t at : node.mutates) changed.insert(node.inputs[static_cast<size_t>(at)]);
    for (const ValueId v : node.inputs) readers[v].push_back(NodeLabel(node));
  }
  std::string coded, others;
  bool any_coded = false;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values.size()); ++v) {
    const Value& value = graph.value(v);
    if ((value.kind != ValueKind::kParameter && value.kind != ValueKind::kBuffer) || changed.count(v))
      continue;
    any_coded |= value.coded != nullptr;
    if (!glob.empty() && fnmatch(glob.c_str(), value.name.c_str(), 0) != 0) continue;
    const int64_t bytes = value.FileType().Bytes().At(1);
    const std::string line = value.name + ": a frozen weight; " + FormatSize(bytes);
    if (value.coded)
      coded += line + " -> " + FormatSize(value.type.Bytes().At(1)) + " as " + ToString(value.coded->codec) +
               ".\n";
    else if (bytes >= kLargeWeightBytes)
      others += line + ", as it is: no product and no lookup reads it, but " + Enumerated(readers[v]) + ".\n";
  }
  return any_coded ? coded + others : "";
}

}  // namespace act
