// Decides what the backward pass can recompute, and from which stored values.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "passes/pass.h"
#include "passes/storage/cut_forward.h"
#include "passes/storage/saved_values.h"

namespace act {

// x, mean, rstd, gamma, beta -> normalized x times gamma plus beta
bool IsApply(const Node& node);
// A convolution, matrix product or attention, which may be re-run.
bool IsRerunProduct(const Node& node);
// The cost of having a value in the backward pass.
struct Recipe {
  // Full-size codes that are read. A code that is read twice counts twice.
  double reads = 0;
  // Nodes that each reader makes anew. One that is made along two ways counts twice.
  double repeated = 0;
  int depth = 0;  // nodes in the longest chain from what is read
  // Products in the longest chain that is re-run from normalized values.
  int products = 0;
  bool curved = false;          // not a linear function of what is read
  bool of_segment = false;      // a segment between anchors is re-run (cut_forward.h)
  std::set<ValueId> from = {};  // the stored activations that are read
};

class Recipes {
 public:
  Recipes(const Graph& graph, PassContext& context, const SavedValues& saved)
      : graph_(graph), context_(context), saved_(saved), maker_(graph) {}

  // Decides which values that cross to the backward pass are recomputed, and marks the values from
  // which that starts as anchors.
  void Choose();

  const std::map<ValueId, Recipe>& Rebuilt() const { return rebuilt_; }
  bool IsRebuilt(ValueId v) const { return rebuilt_.count(v) != 0; }
  // Whether a product or normalization of a re-run segment makes v.
  bool InSegment(ValueId v) const { return in_segment_.count(v) != 0; }
  // The part of a segment that makes v, if the segment is re-run in parts: when the backward pass comes to a part, it
  // makes that part's normalized values, and keeps nothing of the parts before it, which it makes again later. Parts
  // are numbered from 1 through the whole forward pass. 0: no such segment makes v.
  int64_t PartOf(ValueId v) const {
    const auto it = part_of_.find(v);
    return it == part_of_.end() ? 0 : it->second;
  }
  // The stored mask of a ReLU's result. kNoValue: there is none.
  ValueId MaskOf(ValueId relu) const;
  // The stored normalized form of the value that an IsApply node reads.
  ValueId NormalizedOf(const Node& apply) const;

 private:
  using Key = std::vector<ValueId>;

  const Node& ProducerOf(ValueId v) const { return graph_.nodes[static_cast<size_t>(saved_.Producer(v))]; }
  // The node that computes v, possibly in another shape and without a bias.
  const Node& MakerOf(ValueId v) const { return graph_.nodes[maker_[v]]; }
  int64_t Elements(ValueId v) const;
  bool ReordersInput(const Node& node) const;
  bool CodesReorderedInput(ValueId v) const;
  bool IsAnchor(ValueId v) const { return context_.marks[v].anchor; }
  void MakeAnchor(ValueId v) { context_.marks[v].anchor = true; }
  bool HasSegments() const { return context_.policy.rerun_spacing > 0 && context_.rerun_elements > 0; }
  void FindMakers();
  void FindMasksAndNormalized();
  void ChooseSegments();
  void FindParts(const Segment& segment);
  bool StartsAnew(const Node& node) const;
  bool IsCoded(ValueId v) const;
  void PromoteOperand(const Node& node);
  bool MayBeRebuilt(ValueId v, const Recipe& recipe) const;
  void EnterAnchors();
  std::optional<Recipe> Of(ValueId v);
  bool IsOpen(ValueId v) const;
  std::optional<Recipe> OfAll(const std::vector<ValueId>& values);
  // The recipe of v by its own operator.
  std::optional<Recipe> OfProducer(ValueId v);
  std::optional<Recipe> ByOperator(const Node& node, ValueId v);
  bool IsInexact(ValueId v);
  std::optional<Recipe> OfSum(const Node& node);
  std::optional<Recipe> OfParts(const Node& concat);
  std::optional<Recipe> FromNormalized(const Node& node, ValueId v);

  const Graph& graph_;
  PassContext& context_;
  const SavedValues& saved_;
  ValueMap<size_t> maker_;              // MakerOf, by its place
  std::map<ValueId, ValueId> mask_of_;  // a ReLU's result to its stored mask
  std::map<Key, ValueId> normalized_;   // (x, mean, rstd) to the stored (x - mean) rstd
  std::set<ValueId> in_segment_;
  std::map<ValueId, int64_t> part_of_;
  std::map<ValueId, Recipe> rebuilt_;
  // Of values that do not cross to the backward pass.
  std::map<ValueId, std::optional<Recipe>> known_;
};

// The bounds on the size of re-run tensors that lead to different choices
// of re-runs. 0 is one of them.
std::set<int64_t> RerunBounds(const Graph& graph, const PassContext& context);

}  // namespace act
