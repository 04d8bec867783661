// The op table is the one place where an operator is described. A row holds its types (infer), its
// backward pass (grad), its arithmetic if it is elementwise (expr), its cost, and its traits.
// Traits are the facts by which passes decide. A pass asks for a trait and never for a name, so all
// passes treat a new operator correctly.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/traits.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/runtime_op.h"

namespace act {

class GradContext;
class ExprBuilder;
struct Reg;
using Regs = std::vector<Reg>;

// The input of an infer rule: the node's inputs, and its outputs to fill in. Some operators have
// results that do not follow from the inputs, such as the gradient of a convolution's input. They
// find the wanted type in `outputs` and check it.
struct InferContext {
  const Node& node;
  std::vector<const TensorType*> inputs;  // null: left out
  std::vector<TensorType>& outputs;

  const TensorType& in(size_t i) const { return *inputs[i]; }
  bool Has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  // An error without a place. The caller adds the node.
  llvm::Error Fail(const std::string& what) const;
  // Checks that all operands that are present are f32.
  llvm::Error CheckFloats() const;
};

// The work of one run, as polynomials in N. Bytes count operands and results.
struct Cost {
  Dim flops, bytes;
};

struct OpDef {
  std::string name;
  // For an operator that plans contain, the row leaves this out: its RuntimeOp has it.
  RuntimeOp::Count operands = {};
  llvm::Error (*infer)(InferContext&) = nullptr;
  // Builds the gradients of the inputs from those of the outputs. Null: the gradient is zero
  // (comparisons, Floor).
  void (*grad)(GradContext&) = nullptr;
  // Elementwise operators: makes the result's register from the operands' registers.
  // Null: not elementwise.
  Reg (*expr)(ExprBuilder&, const Node&, const Regs& operands) = nullptr;
  // Elementwise operators that write operands in place: makes the registers of the results, then
  // those of the operands that they mutate, in order.
  Regs (*exprs)(ExprBuilder&, const Node&, const Regs& operands) = nullptr;
  Dim (*flops)(const Node&, const Graph&) = nullptr;  // null: one per output element
  std::vector<int> mutates = {};                      // inputs written in place
  // Pairs (result, operand) of the same type. The kernel's last read of each element of the operand
  // comes before it writes that element of the result, so that both may use one storage.
  std::vector<std::pair<int, int>> in_place = {};

  // Traits of the result.
  bool boolean = false;        // 0 or 1: saved exactly in one bit
  bool rectifies = false;      // the operand where it is above 0, and 0 elsewhere (ReLU)
  bool loss = false;           // a loss of scores and labels; result 1 is the scores' softmax
  bool loss_gradient = false;  // of such a loss, from dloss, that softmax and the labels
  bool gradient = false;       // a gradient, even if no operand is known to be one
  bool random = false;         // two equal nodes do not compute the same value
  Values values = Values::kNormal;
  // Not null: result 1 holds the position in its window of each number of result 0, in this many
  // bits (max pooling).
  int64_t (*index_bits)(const Node&) = nullptr;

  // How the result follows from the operands.
  // Not affine in the operand. If a derived node with this trait reads a decoded value, its result
  // is biased.
  bool nonlinear = false;
  // The operand by which its derivative is larger than any bound somewhere (1 / x, roots, logarithms). -1: none
  int steep_operand = -1;
  // Not null: whether the operands bound that derivative near 0 after all. Then `values` and steep_operand, which say that
  // it has no bound, do not hold for the node.
  bool (*slope_is_bounded)(const Graph&, const Node&) = nullptr;
  // An activation function or its derivative, with a continuous derivative of about 1. A small
  // error of the operand gives a small average error of the result.
  bool smooth = false;
  Arithmetic arithmetic = Arithmetic::kOther;
  Movement movement = Movement::kNone;
  Product product = Product::kNone;
  Reduction reduction = Reduction::kNone;
  Normalization norm = {};
  Squares squares = Squares::kFirst;
  Coding coding = Coding::kNone;
  // The result has the element type that an attribute names. A loop can convert only the values
  // that it stores.
  bool converts = false;

  // How the operator reads each operand. The last entry also holds for all later operands. Empty:
  // it reads all of them as numbers.
  std::vector<Need> needs = {};

  OnnxTwin (*onnx)(const Node&) = nullptr;  // null: ONNX has no such operator

  // Whether the operator reads operand i as `need`.
  bool Reads(size_t i, Need need) const;
};

// The operator of this name; null if there is none.
const OpDef* FindOp(const std::string& name);
// The operator of a node. It always exists in a graph that was verified or made by a GraphBuilder.
const OpDef& OpOf(const Node& node);
// Every operator, in the order of the tables.
const std::vector<OpDef>& AllOps();

Cost CostOf(const Node& node, const Graph& graph);

// A convolution, a transposed convolution or a matrix product: linear in each of two operands.
bool IsLinearProduct(const OpDef& op);
// The value of OpDef::onnx for operators that ONNX has unchanged.
OnnxTwin SameInOnnx(const Node& node);
// Whether the result is 1 where the operand is above 0, and 0 elsewhere.
bool IsSignMask(const OpDef& op);

// The families of operators, one file each. op_table.cc calls each function once.
void AddElementwiseOps(std::vector<OpDef>& ops);
void AddStructureOps(std::vector<OpDef>& ops);
void AddGatherOps(std::vector<OpDef>& ops);
void AddSequenceOps(std::vector<OpDef>& ops);
void AddIntegerOps(std::vector<OpDef>& ops);
void AddReductionOps(std::vector<OpDef>& ops);
void AddSpatialOps(std::vector<OpDef>& ops);
void AddMatMulOps(std::vector<OpDef>& ops);
void AddDeterminantOps(std::vector<OpDef>& ops);
void AddAttentionOps(std::vector<OpDef>& ops);
void AddSoftmaxOps(std::vector<OpDef>& ops);
void AddRecurrentOps(std::vector<OpDef>& ops);
void AddNormalizationOps(std::vector<OpDef>& ops);
void AddLossOps(std::vector<OpDef>& ops);
void AddUpdateOps(std::vector<OpDef>& ops);
void AddCodecOps(std::vector<OpDef>& ops);

// The broadcast shape of two shapes by ONNX's (numpy's) rules; nullopt if they do not fit.
std::optional<Dims> Broadcast(const Dims& a, const Dims& b);
// A tensor of shape `from` was broadcast to shape `to`. Returns the axes of `to` over which the
// gradient must be summed to get back to shape `from`.
std::vector<int64_t> BroadcastAxes(const Dims& from, const Dims& to);

}  // namespace act
