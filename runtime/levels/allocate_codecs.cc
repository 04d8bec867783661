#include "runtime/levels/allocate_codecs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/levels/allocate_bits.h"
#include "runtime/plan/swap.h"

namespace act {
namespace {

int64_t BytesOf(const Codec& codec, const Dims& dims, int64_t batch, CodeBytes count) {
  if (count == CodeBytes::kPacked) return PackedBytes(codec, dims, batch);
  const std::optional<TensorType> type = CodeType(codec, dims);
  return type ? type->Bytes().At(batch) : kTooLarge;
}

// The least average is rounded up to a thousandth, so that a user can pass it back.
llvm::Error BudgetError(const std::vector<CodedEdge>& edges, int64_t batch, int64_t budget_bytes,
                        int64_t least_bytes) {
  double elements = 0;
  for (const CodedEdge& edge : edges)
    elements += static_cast<double>(TensorType{DType::kBool, edge.dims}.Elements().At(batch));
  const double least = std::ceil(8e3 * static_cast<double>(least_bytes + 1) / elements) / 1e3;
  char text[64];
  std::snprintf(text, sizeof text, "%.3f bits an element (%lld bytes)", least,
                static_cast<long long>(least_bytes));
  char average[64];
  std::snprintf(average, sizeof average, "%.3f", 8 * static_cast<double>(budget_bytes) / elements);
  return MakeError("--bits",
                   std::string("an average of ") + average +
                       " bits an element is less than codes of the fewest levels take",
                   std::string("the least possible is ") + text);
}

// The codecs that an edge may have, smallest first. A codec is left out if another has at most its
// bytes and at most its variance.
struct Choices {
  std::vector<Codec> codecs;
  std::vector<BitOption> options;
};

Choices ChoicesOf(const CodedEdge& edge, int64_t batch, CodeBytes count) {
  std::vector<Codec> codecs = edge.freedom == Freedom::kForms
                                  ? FormChoices(edge.codec, edge.share_below, edge.normalized)
                                  : LevelChoices(edge.codec, edge.share_below);
  std::erase_if(codecs, [&](const Codec& codec) {
    return codec.bits < edge.least_bits || codec.levels < edge.least_levels ||
           (edge.freedom == Freedom::kPlanes && codec.levels != 1 << codec.bits);
  });
  if (codecs.empty()) codecs.push_back(edge.codec);
  const double now = RelativeError(edge.codec, edge.share_below);
  std::vector<std::pair<BitOption, size_t>> sorted;
  for (size_t c = 0; c < codecs.size(); ++c)
    sorted.push_back({{BytesOf(codecs[c], edge.dims, batch, count),
                       edge.variance * RelativeError(codecs[c], edge.share_below) / now},
                      c});
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first.bytes, a.first.variance, a.second) <
           std::tuple(b.first.bytes, b.first.variance, b.second);
  });
  Choices choices;
  for (const auto& [option, c] : sorted) {
    if (!choices.options.empty() && option.variance >= choices.options.back().variance) continue;
    choices.options.push_back(option);
    choices.codecs.push_back(codecs[c]);
  }
  return choices;
}

}  // namespace

llvm::Expected<std::vector<Codec>> AllocateCodecs(const std::vector<CodedEdge>& edges, int64_t batch,
                                                  int64_t budget_bytes, CodeBytes count) {
  BitProblem problem{.edges = {}, .budget_bytes = budget_bytes};
  std::vector<std::vector<Codec>> codecs;
  for (const CodedEdge& edge : edges) {
    Choices choices = ChoicesOf(edge, batch, count);
    problem.edges.push_back(std::move(choices.options));
    codecs.push_back(std::move(choices.codecs));
  }
  const std::optional<BitAllocation> allocation = SolveBits(problem);
  if (!allocation) return BudgetError(edges, batch, budget_bytes, LeastBytes(problem));
  if (const auto wrong = ValidateBits(problem, *allocation))
    return MakeError("internal error: bit allocation", *wrong);
  std::vector<Codec> result;
  for (size_t e = 0; e < edges.size(); ++e) result.push_back(codecs[e][(*allocation)[e]]);
  return result;
}

int64_t LeastCodeBytes(const std::vector<CodedEdge>& edges, int64_t batch, CodeBytes count) {
  BitProblem problem;
  for (const CodedEdge& edge : edges) problem.edges.push_back(ChoicesOf(edge, batch, count).options);
  return LeastBytes(problem);
}

std::vector<PlanCode> CodesWithLevels(const Plan& plan) {
  std::map<ValueId, std::pair<Codec, Dims>> made;
  for (const Node& node : plan.train.graph.nodes)
    for (size_t o = 0; o < node.outputs.size() && o < node.program.outputs.size(); ++o)
      if (node.program.outputs[o].codec.HasLevels())
        made[node.outputs[o]] = {node.program.outputs[o].codec, node.program.space};
  std::vector<PlanCode> codes;
  for (size_t e = 0; e < plan.edges.size(); ++e) {
    const auto it = made.find(plan.edges[e].stored);
    if (it == made.end()) continue;
    codes.push_back({e,
                     {.codec = it->second.first,
                      .dims = it->second.second,
                      .variance = plan.edges[e].variance,
                      .least_bits = plan.edges[e].least_bits}});
  }
  return codes;
}

Totals TotalsOf(const Plan& plan, int64_t batch) {
  Totals totals;
  for (const PlanCode& code : CodesWithLevels(plan)) {
    totals.bytes += plan.edges[code.edge].bytes.At(batch);
    totals.variance += code.coded.variance;
  }
  return totals;
}

int64_t BudgetOf(const std::vector<PlanCode>& codes, double average_bits, int64_t batch) {
  double bits = 0;
  for (const PlanCode& code : codes) {
    Dim elements(1);
    for (const Dim& d : code.coded.dims) elements = elements * d;
    bits += average_bits * static_cast<double>(elements.At(batch));
  }
  return bits < 8 * static_cast<double>(kTooLarge) ? static_cast<int64_t>(bits / 8) : kTooLarge;
}

void SetCodec(Plan& plan, size_t e, const Codec& codec) {
  SavedEdge& edge = plan.edges[e];
  Graph& graph = plan.train.graph;
  const std::vector<ValueId> before_swaps = BeforeSwaps(graph);
  const auto is_code = [&](ValueId v) {
    return v != kNoValue && before_swaps[static_cast<size_t>(v)] == edge.stored;
  };
  for (Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size() && i < node.program.inputs.size(); ++i)
      if (is_code(node.inputs[i])) node.program.inputs[i].codec = codec;
    for (size_t o = 0; o < node.outputs.size() && o < node.program.outputs.size(); ++o) {
      if (node.outputs[o] != edge.stored) continue;
      edge.variance *= RelativeError(codec) / RelativeError(node.program.outputs[o].codec);
      node.program.outputs[o].codec = codec;
      for (size_t v = 0; v < graph.values.size(); ++v)
        if (is_code(static_cast<ValueId>(v))) graph.values[v].type = *CodeType(codec, node.program.space);
    }
  }
  edge.form = ToString(codec);
  edge.bits = BitsPerElement(codec);
  edge.bytes = graph.value(edge.stored).type.Bytes();
}

llvm::Error MoveLevels(Plan& plan, int64_t batch, int64_t budget_bytes, Freedom freedom, CodeBytes count) {
  const std::vector<PlanCode> codes = CodesWithLevels(plan);
  std::vector<CodedEdge> edges;
  double variance = 0;
  for (const PlanCode& code : codes) {
    edges.push_back(code.coded);
    edges.back().freedom = freedom;
    variance += code.coded.variance;
  }
  if (codes.empty()) return MakeError("plan", "stores nothing in levels", "compile the model at L1 or above");
  if (!(variance > 0))
    return MakeError("plan", "holds no measured variance of any code", "run actrun --calibrate");
  ACT_TRY(const std::vector<Codec> codecs, AllocateCodecs(edges, batch, budget_bytes, count));
  for (size_t c = 0; c < codes.size(); ++c)
    if (codecs[c] != codes[c].coded.codec) SetCodec(plan, codes[c].edge, codecs[c]);
  return llvm::Error::success();
}

}  // namespace act
