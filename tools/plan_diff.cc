#include "tools/plan_diff.h"

#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/xxhash.h>

#include <map>
#include <set>
#include <string_view>

#include "compiler/ir/dump.h"
#include "runtime/base/size.h"
#include "runtime/memory/report.h"

namespace act {
namespace {

// Collects "what: a -> b" where they differ.
class Differences {
 public:
  void Compare(const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) text_ += "  " + what + ": " + a + " -> " + b + "\n";
  }
  void Compare(const std::string& what, int64_t a, int64_t b) {
    Compare(what, std::to_string(a), std::to_string(b));
  }
  // Compares maps from name to text. A name that only one of them has counts as "none" in the
  // other.
  template <class Map>
  void CompareMaps(const std::string& what, const Map& a, const Map& b) {
    std::set<std::string> names;
    for (const auto& [name, text] : a) names.insert(name);
    for (const auto& [name, text] : b) names.insert(name);
    const auto find = [](const Map& map, const std::string& name) {
      const auto it = map.find(name);
      return it == map.end() ? std::string("none") : it->second;
    };
    const std::string kind = what + " ";
    for (const std::string& name : names) Compare(kind + name, find(a, name), find(b, name));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

using Texts = std::map<std::string, std::string>;

Texts EdgeForms(const Plan& plan) {
  Texts forms;
  const std::vector<std::string> form_of = FormsOfEdges(plan);
  for (size_t e = 0; e < form_of.size(); ++e) {
    // A value may be stored in several forms, for several readers.
    std::string& form = forms[plan.edges[e].name];
    if (!form.empty()) form += " and ";
    form += form_of[e];
  }
  return forms;
}

Texts OperatorTexts(const Graph& graph) {
  Texts texts;
  for (const auto& [op, count] : OperatorCounts(graph)) texts[op] = std::to_string(count);
  return texts;
}

// Types of parameters and buffers, and a hash that shows where the stored weights differ.
Texts Weights(const Graph& graph) {
  Texts texts;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::kParameter && value.kind != ValueKind::kBuffer) continue;
    const std::string_view bytes(reinterpret_cast<const char*>(value.data.data),
                                 value.data.data ? static_cast<size_t>(value.data.bytes) : 0);
    texts[value.name] =
        ToString(value.type) +
        (value.data.data ? llvm::formatv(" hash {0:x}", llvm::xxHash64(bytes)).str() : " unknown");
  }
  return texts;
}

}  // namespace

std::map<std::string, int64_t> OperatorCounts(const Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const Node& node : graph.nodes) ++counts[node.op];
  return counts;
}

std::string DescribePrepared(const Plan& plan) {
  if (!plan.prepared) return "nothing";
  const Prepared& p = *plan.prepared;
  return std::to_string(p.kernels.size()) + " kernels and " + std::to_string(p.engines.size()) +
         " engines for " + p.card + " at batch " + std::to_string(p.batch) + ", " + FormatSize(p.Bytes());
}

std::string DescribeDifferences(const Plan& a, const MemoryLayout& at_a, const Plan& b,
                                const MemoryLayout& at_b) {
  Differences d;
  d.Compare("model", a.model_name, b.model_name);
  d.Compare("level", a.level, b.level);
  d.Compare("compute", std::string(ToString(a.compute)), std::string(ToString(b.compute)));
  d.Compare("optimizer", a.optimizer, b.optimizer);
  d.Compare("gradient norm", std::to_string(a.clip_norm), std::to_string(b.clip_norm));
  d.Compare("micro-batches", a.accumulate, b.accumulate);
  d.Compare("seed", std::to_string(a.seed), std::to_string(b.seed));
  d.Compare("batch", a.default_batch, b.default_batch);
  d.Compare("fixed batch", a.fixed_batch, b.fixed_batch);
  d.Compare("prepared", DescribePrepared(a), DescribePrepared(b));
  d.Compare("workspace limit", a.workspace_limit, b.workspace_limit);
  d.Compare("nodes", static_cast<int64_t>(a.train.graph.nodes.size()),
            static_cast<int64_t>(b.train.graph.nodes.size()));
  d.CompareMaps("operator", OperatorTexts(a.train.graph), OperatorTexts(b.train.graph));
  d.CompareMaps("weights", Weights(a.train.graph), Weights(b.train.graph));
  d.CompareMaps("edge", EdgeForms(a), EdgeForms(b));
  d.Compare("peak at batch " + std::to_string(at_a.batch), FormatSize(at_a.train.peak_bytes),
            FormatSize(at_b.train.peak_bytes));
  d.Compare("host's memory at batch " + std::to_string(at_a.batch), FormatSize(at_a.host_bytes),
            FormatSize(at_b.host_bytes));
  if (d.text().empty() && Dump(a.train.graph) != Dump(b.train.graph)) d.Compare("graph", "one", "another");
  return d.text();
}

}  // namespace act
