#include "runtime/plan/token_loops.h"

#include <algorithm>
#include <utility>

#include "runtime/codec/code_samples.h"
#include "runtime/plan/tile_rules.h"

namespace act {
namespace {

// k N, where k is a multiple of `tokens`, becomes k / tokens N.
std::optional<Dim> TokenDim(const Dim& dim, int64_t tokens) {
  if (dim.fixed != 0 || dim.per_batch2 != 0 || dim.per_batch % tokens != 0) return std::nullopt;
  return Dim(0, dim.per_batch / tokens);
}

std::optional<Dims> TokenDims(Dims dims, int64_t tokens) {
  if (dims.empty()) return std::nullopt;
  if (const std::optional<Dim> first = TokenDim(dims[0], tokens)) {
    dims[0] = *first;
  } else {
    if (dims.size() < 2 || dims[0] != Dim::Batch() || dims[1] != Dim(tokens)) return std::nullopt;
    dims[1] = Dim(1);
  }
  return dims;
}

// A loop's 1/n of a mean over the batch: n counts samples, which become `tokens` times as many.
bool TokenConstants(Program& program, int64_t tokens) {
  for (ProgramConstant& constant : program.constants) {
    if (constant.extent.IsFixed()) continue;
    const std::optional<Dim> extent = TokenDim(constant.extent, tokens);
    if (!extent) return false;
    constant.extent = *extent;
  }
  return true;
}

// Whether it matters to which sample an element belongs.
bool IsBySample(const Program& program) {
  const auto has_code = [](const auto& operand) { return operand.codec.kind != CodecKind::kNone; };
  return std::any_of(program.inputs.begin(), program.inputs.end(), has_code) ||
         std::any_of(program.outputs.begin(), program.outputs.end(), has_code) ||
         std::any_of(program.instrs.begin(), program.instrs.end(),
                     [](const Instr& instr) { return instr.op == Opcode::kDropout; });
}

size_t RankOf(const Graph& graph, ValueId id) { return graph.value(id).type.dims.size(); }
bool HoldsSamples(const Graph& graph, ValueId id) {
  return TileRoleOf(graph.value(id).type) == TileRole::kSlice;
}

}  // namespace

std::optional<TensorType> TokenType(const TensorType& type, int64_t tokens) {
  if (tokens == 1 || TileRoleOf(type) == TileRole::kSame) return type;
  std::optional<Dims> dims = TokenDims(type.dims, tokens);
  if (!dims) return std::nullopt;
  return TensorType{type.dtype, std::move(*dims)};
}

std::optional<Graph> TokenGraph(const Graph& graph, const Node& node, int64_t tokens) {
  Graph alone;
  Node& copy = alone.nodes.emplace_back(node);
  for (std::vector<ValueId>* const ids : {&copy.inputs, &copy.outputs})
    for (ValueId& id : *ids) {
      if (id == kNoValue) continue;
      const Value& value = graph.value(id);
      std::optional<TensorType> type = TokenType(value.type, tokens);
      if (!type) return std::nullopt;
      alone.values.push_back({.name = value.name, .type = std::move(*type), .kind = value.kind, .data = {}, .coded = value.coded});
      id = static_cast<ValueId>(alone.values.size()) - 1;
    }
  if (copy.program.Empty()) return alone;
  const bool by_sample = tokens > 1 && IsBySample(copy.program);
  if (by_sample && !TokenDim(CodeSamplesOf(copy.program.space).samples, tokens)) return std::nullopt;
  std::optional<Dims> space = TokenDims(copy.program.space, tokens);
  if (!space || !TokenConstants(copy.program, tokens)) return std::nullopt;
  copy.program.space = std::move(*space);
  return alone;
}

std::optional<std::string> WhyNotOfTokensLoop(const Graph& graph, const Node& node) {
  const Program& program = node.program;
  if (program.space[0] != Dim::Batch()) return std::nullopt;  // tokens and samples are one axis
  const size_t rank = program.space.size();
  if (static_cast<size_t>(program.row_axes) + 2 > rank) return "its rows hold several tokens";
  for (const ValueId id : node.inputs) {
    const Dims& dims = graph.value(id).type.dims;
    if (!HoldsSamples(graph, id) && dims.size() + 1 >= rank && dims[dims.size() + 1 - rank] != Dim(1))
      return "an operand without samples differs from token to token";
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (program.outputs[i].kind == OutputKind::kSum && RankOf(graph, node.outputs[i]) + 1 >= rank)
      return "a sum over samples keeps their tokens apart";
  return std::nullopt;
}

// Tokens follow one another in memory, whatever shape each has.
std::optional<std::string> WhyNotOfTokensReshape(const Graph& /*graph*/, const Node& /*node*/) {
  return std::nullopt;
}

// Tokens are rows of the first operand, with the same factor and bias for all. Or the product sums over them.
std::optional<std::string> WhyNotOfTokensProduct(const Graph& graph, const Node& node) {
  if (!HoldsSamples(graph, node.outputs[0]))
    return std::nullopt;  // both operands have two axes (tile_rules.h)
  const bool same_bias =
      node.inputs.size() < 3 || node.inputs[2] == kNoValue || RankOf(graph, node.inputs[2]) < 2;
  if (node.attrs.Int("trans_a") == 0 && !HoldsSamples(graph, node.inputs[1]) && same_bias)
    return std::nullopt;
  return "mixes tokens";
}

// A softmax or a reduction of rows. The rows of a sample are its tokens, or each token has some.
std::optional<std::string> WhyNotOfTokensRows(const Graph& graph, const Node& node) {
  const Dims& dims = graph.value(node.inputs[0]).type.dims;
  if (dims.size() == 2 && dims[0] == Dim::Batch()) return "has one row a sample";
  return std::nullopt;
}

// The last axis of scores are classes, so it must not be the one that is cut. Labels have no such axis.
std::optional<std::string> WhyNotOfTokensLoss(const Graph& graph, const Node& node) {
  for (const std::vector<ValueId>* const ids : {&node.inputs, &node.outputs})
    for (const ValueId id : *ids) {
      if (id == kNoValue || graph.value(id).type.dtype == DType::kInt64) continue;
      const Dims& dims = graph.value(id).type.dims;
      if (dims.size() == 2 && dims[0] == Dim::Batch()) return "has one row of scores a sample";
    }
  return std::nullopt;
}

}  // namespace act
