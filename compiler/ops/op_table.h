// The op table: the one place where an operator is described. Types from types (infer), the
// backward pass (grad), its arithmetic where it is elementwise (expr), its cost, and its traits:
// the facts by which passes decide. A pass asks for a trait and never for a name, so that a new
// operator is treated right by all of them.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/traits.h"
#include "runtime/plan/graph.h"

namespace act {

class GradContext;
class ExprBuilder;
struct Reg;
using Regs = std::vector<Reg>;

// What an infer rule sees: the node's inputs, and its outputs to fill in. Operators whose result cannot
// follow from the inputs (the gradient of a convolution's input) find the wanted type in `outputs` and check
// it.
struct InferContext {
  const Node& node;
  std::vector<const TensorType*> inputs;  // null: left out
  std::vector<TensorType>& outputs;

  const TensorType& in(size_t i) const { return *inputs[i]; }
  bool Has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  // An error without a place; the caller adds the node.
  llvm::Error Fail(const std::string& what) const;
  // All operands that are there are f32.
  llvm::Error CheckFloats() const;
};

// Work of one run, as polynomials in N. Bytes are those of operands and results.
struct Cost {
  Dim flops, bytes;
};

struct OpDef {
  std::string name;
  int min_inputs = 1, max_inputs = 1;  // max_inputs -1: any number
  llvm::Error (*infer)(InferContext&) = nullptr;
  // Builds the gradients of the inputs from those of the outputs. Null: the gradient is zero (comparisons,
  // Floor).
  void (*grad)(GradContext&) = nullptr;
  // Elementwise operators: the result's register from the operands' registers. Null: not elementwise.
  Reg (*expr)(ExprBuilder&, const Node&, const Regs& operands) = nullptr;
  // Elementwise operators that write operands in place: the registers of the results, then of what they
  // mutate, in order.
  Regs (*exprs)(ExprBuilder&, const Node&, const Regs& operands) = nullptr;
  Dim (*flops)(const Node&, const Graph&) = nullptr;  // null: one per output element
  std::vector<int> mutates = {};                      // inputs written in place
  // (result, operand) of the same type: the kernel reads each element of the operand for the last time before
  // it writes that element of the result, so that both may be one storage.
  std::vector<std::pair<int, int>> in_place = {};

  // What the result is.
  bool boolean = false;    // 0 or 1: saved exactly in one bit
  bool rectifies = false;  // the operand where that is above 0, and 0 elsewhere (ReLU)
  bool loss = false;       // of scores and labels; result 1 is the scores' softmax
  bool gradient = false;   // a gradient, also where no operand is known to be one
  bool random = false;     // two equal nodes do not compute the same value
  Values values = Values::kNormal;
  // Not null: result 1 says which number of its window each number of result 0 is, in so many bits
  // (max pooling).
  int64_t (*index_bits)(const Node&) = nullptr;

  // How it follows from the operands.
  bool nonlinear = false;  // derived nodes: not affine in the saved value, so decoding before it would bias
  // An activation function or its derivative, with a continuous derivative of the size of 1: little
  // wrong on average for an operand that is little wrong.
  bool smooth = false;
  Arithmetic arithmetic = Arithmetic::kOther;
  Movement movement = Movement::kNone;
  Product product = Product::kNone;
  Reduction reduction = Reduction::kNone;
  Normalization norm = {};
  Squares squares = Squares::kFirst;
  Coding coding = Coding::kNone;
  // The result has the element type that an attribute names. A loop converts what it stores and
  // nothing else.
  bool converts = false;

  // What it reads each operand as; the last entry holds for all operands after it too. Empty: as
  // numbers.
  std::vector<Need> needs = {};

  OnnxTwin (*onnx)(const Node&) = nullptr;  // null: ONNX has no such operator

  // Does it read operand i as `need`?
  bool Reads(size_t i, Need need) const;
};

// The operator of this name; null where there is none.
const OpDef* FindOp(const std::string& name);
// That of a node in a graph that was verified, or made by a GraphBuilder: there is one.
const OpDef& OpOf(const Node& node);
// Every operator, in the order of the tables.
const std::vector<OpDef>& AllOps();

Cost CostOf(const Node& node, const Graph& graph);

// A convolution, a transposed one or a matrix product: linear in each of two operands.
bool IsLinearProduct(const OpDef& op);
// OpDef::onnx of operators that ONNX has as they are.
OnnxTwin SameInOnnx(const Node& node);
// 1 where its operand is above 0, else 0.
bool IsSignMask(const OpDef& op);

// The families; each is one file. Called once by op_table.cc.
void AddElementwiseOps(std::vector<OpDef>& ops);
void AddStructureOps(std::vector<OpDef>& ops);
void AddGatherOps(std::vector<OpDef>& ops);
void AddSequenceOps(std::vector<OpDef>& ops);
void AddIntegerOps(std::vector<OpDef>& ops);
void AddReductionOps(std::vector<OpDef>& ops);
void AddSpatialOps(std::vector<OpDef>& ops);
void AddMatMulOps(std::vector<OpDef>& ops);
void AddAttentionOps(std::vector<OpDef>& ops);
void AddSoftmaxOps(std::vector<OpDef>& ops);
void AddRecurrentOps(std::vector<OpDef>& ops);
void AddNormalizationOps(std::vector<OpDef>& ops);
void AddLossOps(std::vector<OpDef>& ops);
void AddUpdateOps(std::vector<OpDef>& ops);
void AddCodecOps(std::vector<OpDef>& ops);

// ONNX's (numpy's) broadcast of two shapes; nullopt where they do not fit.
std::optional<Dims> Broadcast(const Dims& a, const Dims& b);
// The axes of `from` over which a gradient of shape `to` must be summed to come back to shape `from`.
std::vector<int64_t> BroadcastAxes(const Dims& from, const Dims& to);

}  // namespace act
