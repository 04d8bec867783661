#include "runtime/plan/runtime_op.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "runtime/plan/recurrent_signature.h"
#include "runtime/plan/row_update.h"
#include "runtime/plan/tile_rules.h"
#include "runtime/plan/token_loops.h"
#include "runtime/plan/workspace_rules.h"

namespace act {
namespace {

constexpr int kAny = RuntimeOp::Count::kAny;

// A column that a row leaves out has its default: one operand, one result, run by a kernel that
// takes the whole batch and needs no scratch space.
const RuntimeOp kOps[] = {
    {.name = kFused,
     .operands = {0, kAny},  // as its program says
     .results = {0, kAny},
     .runs = Runs::kProgram,
     .why_not_tileable = WhyNotTileableLoop,
     .why_not_of_tokens = WhyNotOfTokensLoop,
     .workspace = {LoopWorkspace, CudaLoopWorkspace},
     .bfloat16 = {"b", "b"}},
    {.name = kReshape,
     .runs = Runs::kAlias,
     .why_not_tileable = UnlessOfSamples,
     .why_not_of_tokens = WhyNotOfTokensReshape,
     .moves_numbers = true,
     .bfloat16 = {"s", "s"}},
    {.name = kSwapOut, .runs = Runs::kSwapOut, .moves_numbers = true, .bfloat16 = {"s", "s"}},
    {.name = kSwapIn, .runs = Runs::kSwapIn, .moves_numbers = true, .bfloat16 = {"s", "s"}},

    {.name = "Conv",
     .operands = {2, 3},
     .why_not_tileable = WhyNotTileableConvolution,
     .workspace = {ConvWorkspace, CudaConvWorkspace},
     .decodes = 1,
     .bfloat16 = {"b-", "r"}},
    {.name = "ConvGradInput",
     .operands = {2, 2},
     .why_not_tileable = WhyNotTileableConvolution,
     .workspace = {ConvGradInputWorkspace, CudaConvWorkspace},
     .decodes = 1,
     .bfloat16 = {"b-", "r"}},
    {.name = "ConvGradWeight",
     .operands = {2, 2},
     .why_not_tileable = UnlessSumOverSamples,
     .workspace = {ConvGradWeightWorkspace, CudaConvGradWeightWorkspace},
     .bfloat16 = {"s", "-"}},
    {.name = "MatMul",
     .operands = {2, 3},
     .why_not_tileable = WhyNotTileableProduct,
     .why_not_of_tokens = WhyNotOfTokensProduct,
     .workspace = {MatMulWorkspace, CudaMatMulWorkspace},
     .goes_on = GoesOnFrom::kSum,
     .decodes = 1,
     .bfloat16 = {"bb-", "r"}},
    {.name = "Attention",
     .operands = {3, 5},
     .why_not_tileable = WhyNotTileableAttention,
     .workspace = {AttentionWorkspace, nullptr},
     .bfloat16 = {"sss-", "r"}},
    {.name = "AttentionGrad",
     .operands = {4, 6},
     .results = {1, 4},
     .why_not_tileable = WhyNotTileableAttentionGrad,
     .workspace = {AttentionGradWorkspace, CudaAttentionGradWorkspace},
     .in_place = "011223",
     .bfloat16 = {"ssss-", "r"}},
    {.name = "Softmax", .why_not_tileable = WhyNotTileableRows, .why_not_of_tokens = WhyNotOfTokensRows},
    {.name = "LogSoftmax", .why_not_tileable = WhyNotTileableRows, .why_not_of_tokens = WhyNotOfTokensRows},
    {.name = "SoftmaxGrad",
     .operands = {2, 2},
     .why_not_tileable = WhyNotTileableRows,
     .why_not_of_tokens = WhyNotOfTokensRows},

    {.name = "MaxPool", .results = {1, 2}, .why_not_tileable = UnlessOfSamples, .bfloat16 = {"s", "s-"}},
    {.name = "MaxPoolGrad", .operands = {2, 2}, .why_not_tileable = UnlessOfSamples, .bfloat16 = {"s-", "s"}},
    {.name = "AveragePool", .why_not_tileable = UnlessOfSamples, .bfloat16 = {"s", "s"}},
    {.name = "AveragePoolGrad", .why_not_tileable = UnlessOfSamples, .bfloat16 = {"s", "s"}},
    {.name = "Resize"},
    {.name = "ResizeGrad"},
    {.name = "GridSample", .operands = {2, 2}, .why_not_tileable = UnlessOfSamples},
    {.name = "GridSampleGradInput",
     .operands = {2, 2},
     .why_not_tileable = UnlessOfSamples,
     .workspace = {nullptr, CudaGridGradientWorkspace}},
    {.name = "GridSampleGradGrid", .operands = {3, 3}, .why_not_tileable = UnlessOfSamples},
    {.name = "RoiAlign", .operands = {3, 3}},
    {.name = "RoiAlignGrad", .operands = {3, 3}},
    {.name = "Det", .why_not_tileable = UnlessOfSamples},
    {.name = "DetGrad", .operands = {2, 2}, .why_not_tileable = UnlessOfSamples},

    {.name = "ReduceSum",
     .why_not_tileable = WhyNotTileableReduction,
     .why_not_of_tokens = WhyNotOfTokensRows,
     .workspace = {ReduceWorkspace, CudaRowSumsWorkspace},
     .bfloat16 = {"b", "-"}},
    {.name = "ReduceMean",
     .why_not_tileable = WhyNotTileableReduction,
     .why_not_of_tokens = WhyNotOfTokensRows,
     .workspace = {ReduceWorkspace, CudaRowSumsWorkspace},
     .bfloat16 = {"b", "-"}},
    {.name = "ReduceMax",
     .why_not_tileable = WhyNotTileableReduction,
     .why_not_of_tokens = WhyNotOfTokensRows,
     .workspace = {nullptr, CudaRowSumsWorkspace},
     .bfloat16 = {"b", "-"}},
    {.name = "BatchNormStats",
     .operands = {1, 3},
     .results = {2, 3},
     .workspace = {BatchNormWorkspace, CudaBatchNormWorkspace},
     .writes_from = 1,
     .bfloat16 = {"b-", "-"}},
    {.name = "BatchNormMoments",
     .why_not_tileable = UnlessStateOfSamples,
     .workspace = {BatchNormWorkspace, CudaBatchNormWorkspace},
     .goes_on = GoesOnFrom::kMoments,
     .bfloat16 = {"b", "-"}},
    {.name = "BatchNormFromMoments", .operands = {1, 3}, .results = {2, 3}, .writes_from = 1},

    {.name = "Transpose",
     .why_not_tileable = WhyNotTileableTranspose,
     .moves_numbers = true,
     .bfloat16 = {"s", "s"}},
    {.name = "Concat",
     .operands = {1, kAny},
     .why_not_tileable = WhyNotTileableConcat,
     .moves_numbers = true,
     .bfloat16 = {"s", "s"}},
    {.name = "Slice", .why_not_tileable = WhyNotTileableSlice, .moves_numbers = true, .bfloat16 = {"s", "s"}},
    {.name = "SliceGrad", .why_not_tileable = WhyNotTileableSlice, .bfloat16 = {"s", "s"}},
    {.name = "Pad", .bfloat16 = {"s", "s"}},
    {.name = "Gather",
     .operands = {2, 3},
     .positions = PositionsOn::kAttributeAxis,
     .decodes = 0,
     .bfloat16 = {"s-", "s"}},
    {.name = "Scatter", .operands = {2, 4}, .workspace = {nullptr, CudaScatterWorkspace}, .in_place = "02"},
    {.name = "FlatIndex"},
    {.name = "Range", .operands = {0, 0}},
    {.name = "Random", .operands = {0, 0}},
    {.name = "NonZero", .results = {2, 2}, .workspace = {nullptr, CudaNonZeroWorkspace}},
    {.name = "TopK", .workspace = {nullptr, CudaTopKWorkspace}},
    {.name = "CumSum"},
    {.name = "Integer", .operands = {1, 3}},
    {.name = "IntegerReduce", .workspace = {nullptr, CudaRowSumsWorkspace}},

    {.name = kLossDenominator, .operands = {1, 2}, .workspace = {nullptr, CudaLossWorkspace}},
    {.name = "SoftmaxCrossEntropy",
     .operands = {2, 4},
     .results = {2, 2},
     .why_not_tileable = WhyNotTileableLoss,
     .why_not_of_tokens = WhyNotOfTokensLoss,
     .workspace = {nullptr, CudaLossWorkspace},
     .positions = PositionsOn::kLastAxis,
     .in_place = "10"},
    {.name = "SoftmaxCrossEntropyGrad",
     .operands = {3, 5},
     .why_not_tileable = WhyNotTileableLossGrad,
     .why_not_of_tokens = WhyNotOfTokensLoss,
     .workspace = {nullptr, CudaLossWorkspace},
     .in_place = "01",
     .bfloat16 = {"-", "b"}},
    {.name = kCountCorrect,
     .operands = {2, 2},
     .why_not_tileable = WhyNotTileableCount,
     .why_not_of_tokens = WhyNotOfTokensLoss,
     .workspace = {nullptr, CudaLossWorkspace},
     .positions = PositionsOn::kLastAxis},
    {.name = "StepScalar", .operands = {0, 0}},
    // With state in bfloat16 they have fewer operands than with codes and maxima.
    {.name = "QuantizedAdam",
     .operands = {12, 14},
     .results = {0, 0},
     .writes_from = 9,
     .bfloat16 = {"----------b"}},
    {.name = "QuantizedMomentum",
     .operands = {9, 10},
     .results = {0, 0},
     .writes_from = 7,
     .bfloat16 = {"--------b"}},
    {.name = "QuantizedLamb",
     .operands = {12, 14},
     .in_place = "00",
     .writes_from = 10,
     .bfloat16 = {"----------b"}},
    // Updates by rows (row_update.h), which their scratch space marks.
    {.name = "UpdateRows",
     .operands = {3, kAny},  // as its program says, and the rows' index
     .results = {0, 0},
     .runs = Runs::kProgram,
     .workspace = {RowUpdateWorkspace, nullptr}},
    {.name = "QuantizedAdamRows",
     .operands = {13, 16},
     .results = {0, 0},
     .workspace = {RowUpdateWorkspace, nullptr},
     .writes_from = 9,
     .bfloat16 = {"----------bb-"}},
    {.name = "QuantizedMomentumRows",
     .operands = {10, 12},
     .results = {0, 0},
     .workspace = {RowUpdateWorkspace, nullptr},
     .writes_from = 7,
     .bfloat16 = {"--------b-"}},
};

// The recurrent operators have rows of their own, in recurrent_signature.h.
std::vector<RuntimeOp> AllOps() {
  std::vector<RuntimeOp> all(std::begin(kOps), std::end(kOps));
  for (const RecurrentSignature& s : kRecurrentSignatures) {
    const auto is_optional = [](char tensor) { return tensor >= 'a'; };
    const auto optional = static_cast<int>(std::count_if(s.inputs.begin(), s.inputs.end(), is_optional));
    const auto operands = static_cast<int>(s.inputs.size()), results = static_cast<int>(s.outputs.size());
    all.push_back({.name = s.op,
                   .operands = {operands - optional, operands},
                   .results = {results, results},
                   .workspace = {RecurrentWorkspace, CudaRecurrentWorkspace},
                   .in_place = s.in_place});
  }
  return all;
}

const std::vector<RuntimeOp>& Table() {
  static const std::vector<RuntimeOp> table = AllOps();
  return table;
}

// "has 3 operands, not 1 to 2"
std::optional<std::string> WrongCount(const RuntimeOp::Count& count, size_t has, const char* what) {
  if (count.Allows(static_cast<int64_t>(has))) return std::nullopt;
  return "has " + std::to_string(has) + what + (has == 1 ? "" : "s") + ", not " + ToString(count);
}

}  // namespace

std::string ToString(const RuntimeOp::Count& count) {
  const std::string least = std::to_string(count.least);
  if (count.most == kAny) return least + " or more";
  return count.most > count.least ? least + " to " + std::to_string(count.most) : least;
}

std::span<const RuntimeOp> RuntimeOps() { return Table(); }

const RuntimeOp* FindRuntimeOp(std::string_view name) {
  static const std::unordered_map<std::string_view, const RuntimeOp*> index = [] {
    std::unordered_map<std::string_view, const RuntimeOp*> map;
    for (const RuntimeOp& op : Table()) map.emplace(op.name, &op);
    return map;
  }();
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

Runs RunsOf(const Node& node) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  return op ? op->runs : Runs::kKernel;
}

bool DecodesOperand(const Graph& graph, const Node& node, size_t i) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op || op->decodes != static_cast<int>(i) || node.inputs[i] == kNoValue) return false;
  const auto& coded = graph.value(node.inputs[i]).coded;
  return coded && !coded->codec.IsCast();
}

const TensorType& OperandType(const Graph& graph, const Node& node, size_t i) {
  const Value& value = graph.value(node.inputs[i]);
  return DecodesOperand(graph, node, i) ? value.coded->type : value.type;
}

char BFloat16Letter(std::string_view letters, size_t i) { return letters[std::min(i, letters.size() - 1)]; }

std::optional<std::string> WrongBFloat16(const Graph& graph, const Node& node) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op) return std::nullopt;
  bool any = false;  // of the operands
  std::optional<bool> same;
  const auto wrong = [&](ValueId v, char letter) {
    const bool narrow = graph.value(v).type.dtype == DType::kBFloat16;
    if (letter == 's' && same.value_or(narrow) != narrow) return true;
    if (letter == 's') same = narrow;
    return narrow && (letter == '-' || (letter == 'r' && !any));
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    if (v == kNoValue) continue;
    const DType dtype = graph.value(v).type.dtype;
    if (wrong(v, BFloat16Letter(op->bfloat16.operands, i)))
      return "cannot read " + std::string(ToString(dtype)) + " as operand " + std::to_string(i);
    any |= dtype == DType::kBFloat16;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (wrong(node.outputs[i], BFloat16Letter(op->bfloat16.results, i)))
      return "cannot make " + std::string(ToString(graph.value(node.outputs[i]).type.dtype)) + " as result " +
             std::to_string(i);
  return std::nullopt;
}

std::optional<std::string> WrongCounts(const Node& node) {
  const RuntimeOp* op = FindRuntimeOp(node.op);
  if (!op) return std::nullopt;
  if (auto wrong = WrongCount(op->operands, node.inputs.size(), " operand")) return wrong;
  for (int i = 0; i < op->operands.least; ++i)
    if (node.inputs[static_cast<size_t>(i)] == kNoValue) return "lacks operand " + std::to_string(i);
  return WrongCount(op->results, node.outputs.size(), " result");
}

}  // namespace act
