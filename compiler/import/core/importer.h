// The state of one import, and the part of it that the import function of one ONNX operator sees.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/file/model_file.h"
#include "compiler/import/known/known.h"
#include "compiler/import/known/node_attributes.h"
#include "compiler/import/known/standard_domain.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/value_numbers.h"
#include "onnx/onnx-ml.pb.h"
#include "runtime/base/error.h"

namespace act::onnx_import {

class NodeContext;

// An axis whose length depends on data: the elements that a NonZero found, and what follows from
// them. The tensor has room for the largest possible number of places, and `live` (bool, one per
// place) says which of them exist. A place that does not exist repeats one that does, so that
// computing with it is harmless; operators that count or join places must leave it out. See
// import_selection.cc.
struct Selection {
  size_t axis = 0;
  ValueId live = kNoValue;  // kNoValue: as many places exist as in another tensor, and all hold one number
};

// Uniform random numbers in [low, high), which become a value of the graph when they are first
// read as numbers. They become none where all that is asked for is a dropout's mask.
struct RandomDraw {
  TensorType type;
  double low = 0, high = 1;
  ValueId value = kNoValue;
};

// What an ONNX name stands for: a value of the graph, a tensor known during import, or both.
struct Operand {
  TensorType type;
  ValueId value = kNoValue;
  std::optional<Known> known = {};
  std::shared_ptr<RandomDraw> random = {};  // this is the draw plus `random_shift`
  double random_shift = 0;
  // A sequence of tensors, whose length is known: only operators of sequences and of control flow may read
  // it.
  std::shared_ptr<const std::vector<Operand>> sequence = {};
  ValueId scores = kNoValue;  // this is the log-softmax of `scores` over axis 1: a loss may start from them
  // Where our operator has no value for this tensor: what it keeps for its gradient instead (a
  // pooling keeps the index in the window where ONNX has the offset of the maximum). Only the
  // operator's gradient may read it.
  ValueId kept = kNoValue;
  std::optional<Selection> selection = {};
  bool counted = false;  // `known` holds the length of a selection
  // `value` follows from constants and the batch size, but is no polynomial in it (or is too large
  // to be known).
  bool of_batch = false;
};

// What a value was stacked of along a new axis. Reading one part back needs no slice of the whole, whose
// gradient would have zeros for all other parts.
struct Stacked {
  size_t axis = 0;
  std::vector<ValueId> parts;  // of extent 1 along the axis
};

inline Operand KnownOperand(Known known) {
  TensorType type = known.type;
  return {.type = std::move(type), .known = std::move(known)};
}

class Importer {
 public:
  Importer(Graph& graph, int64_t opset) : builder_(graph), opset_(opset) {}

  GraphBuilder& builder() { return builder_; }
  int64_t opset() const { return opset_; }

  // Null where nothing has this name yet.
  const Operand* Find(const std::string& name) const;
  // Errors: the name is taken (values are assigned once) or holds a zero byte, or the known tensors together exceed
  // what folding may hold.
  llvm::Error Define(const std::string& name, Operand operand);

  // Frees the known elements of this name, whose last reader has been imported.
  void Forget(const std::string& name);
  // The name is free again, as one inside a copy of a loop's body after its iteration.
  void Erase(const std::string& name);

  // The operand as a value of the graph in its full shape. A known tensor becomes a constant or,
  // where it varies with the batch size, nodes that compute it.
  llvm::Expected<ValueId> Materialize(const Operand& operand);
  // The same for operators that broadcast: a known tensor keeps extent 1 along axes where all
  // positions have the same elements.
  llvm::Expected<ValueId> MaterializeToBroadcast(const Operand& operand);

  // A constant with this data. Equal ones are one value.
  ValueId SharedConstant(const TensorType& type, HostTensor data);

  // Imports one node, whose inputs must be defined: folds it where all inputs are known, else calls
  // the import function of its operator. A node that has neither is an error.
  llvm::Error ImportNode(const onnx::NodeProto& node);

  // What the node just imported has defined under this name; null where it has not.
  Operand* Defined(const std::string& name) {
    const auto it = operands_.find(name);
    return it == operands_.end() ? nullptr : &it->second;
  }

  ValueNumbers numbers;  // of the graph

  // Inputs of the cross entropy that was imported last.
  ValueId logits = kNoValue, label = kNoValue;
  std::vector<std::string> warnings;  // what was decided and may surprise
  std::map<ValueId, Stacked> stacked;
  std::map<std::string, Dim> symbols;  // of the inputs' axes, and their extents
  bool freeze_bn = false;
  bool keeps_outputs = false;         // nothing is trained: the graph's results are the model's
  bool torchscript = false;           // the file is by PyTorch's TorchScript exporter, which keeps no notes
  std::set<std::string> drawn_masks;  // results that may be masks of a dropout (drawn_masks.h)
  std::map<std::string, double>
      masks;  // the part of ones in each that a draw of the model became, by its name
  std::set<std::string> stored_statistics;  // running means that training uses and does not update
  std::set<std::string> parameters;         // initializers that are parameters whatever their names look like
  int64_t unrolled_nodes = 0;               // NodeContext::CountUnrolled
  int64_t inner_elements = 0;               // of known tensors that these made
  int64_t sequence_parts = 0;               // of all sequences that nodes made
  bool onnx_statistics = false;  // the model's own algorithm updates running statistics: by ONNX's definition
  bool own_backward =
      false;  // a training graph: what only gradients read need not have a value (Operand::kept)

 private:
  GraphBuilder builder_;
  int64_t opset_;
  llvm::Expected<ValueId> ConstantOf(const Known& known);         // whose elements are fixed
  llvm::Expected<ValueId> ComputedFromBatch(const Known& known);  // whose elements vary with N
  llvm::Expected<ValueId> CountOf(const Known& known);            // that is the length of a selection
  llvm::Expected<ValueId> Drawn(RandomDraw& draw, double shift);
  llvm::Error FoldOrImport(NodeContext& context);
  llvm::Error ImportUnfolded(NodeContext& context);

  std::map<std::string, Operand> operands_;
  std::multimap<size_t, ValueId> constants_;  // by a hash of their bytes: equal ones are one
  int64_t known_elements_ = 0;
};

// One node during its import: its typed inputs and attributes, and the graph to add to. Errors name
// the node.
class NodeContext {
 public:
  NodeContext(Importer& importer_in, const onnx::NodeProto& node_in);

  Importer& importer;
  const onnx::NodeProto& node;
  const NodeAttributes attrs;  // ImportNode refuses the node where one was read as another type

  int64_t opset() const;  // of the node
  size_t inputs() const { return static_cast<size_t>(node.input_size()); }
  size_t outputs() const { return static_cast<size_t>(node.output_size()); }
  // The input is there and not left out (an empty name).
  bool Has(size_t i) const { return i < inputs() && !node.input(static_cast<int>(i)).empty(); }
  // The output is there and named; whether something reads it is not known.
  bool WantsOutput(size_t i) const { return i < outputs() && !node.output(static_cast<int>(i)).empty(); }

  const Operand& In(size_t i) const;  // Has(i)
  const TensorType& Type(size_t i) const { return In(i).type; }
  const Dims& DimsOf(size_t i) const { return In(i).type.dims; }
  llvm::Expected<ValueId> Value(size_t i) const;  // an error where it is left out

  // Integers that newer opsets take as input `i` and older ones as attribute `name`; nullopt where
  // neither is there. An error where the input depends on data or on N.
  llvm::Expected<std::optional<std::vector<int64_t>>> Integers(size_t i, const char* name) const;
  // The same of an operator that has no such attribute in any opset.
  llvm::Expected<std::optional<std::vector<int64_t>>> Integers(size_t i) const;
  // The one integer of input i; an error where there are more.
  llvm::Expected<std::optional<int64_t>> Integer(size_t i) const;
  // The elements of input i, which may vary with N, and those of a shape.
  llvm::Expected<Dims> Polynomials(size_t i) const;
  llvm::Expected<Dims> DimsFrom(size_t i) const;
  // The number that all elements of a known input have; nullopt for any other input.
  std::optional<double> Number(size_t i) const;
  // Converts an axis that may count from the end to 0..rank-1.
  llvm::Expected<size_t> Axis(int64_t axis, size_t rank) const;

  // Adds one of our nodes, named after this ONNX node.
  llvm::Expected<ValueId> Emit(const std::string& op, std::vector<ValueId> in,
                               Attributes attributes = {}) const;
  // Input i of an operator whose other operands broadcast to `others`. A known tensor that does not
  // widen them stays small.
  llvm::Expected<ValueId> BroadcastValue(size_t i, const Dims& others) const;
  // An elementwise node of inputs 0 and 1.
  llvm::Expected<ValueId> EmitBinary(const std::string& op) const;
  // x expanded to the shape that all inputs broadcast to. Each input may have stayed small on its
  // own.
  llvm::Expected<ValueId> ExpandToInputs(ValueId x) const;
  llvm::Expected<ValueId> Transpose(ValueId x, std::vector<int64_t> perm) const;
  // [N, C, S..] <-> [N, S.., C]. A later pass cancels the pairs.
  llvm::Expected<ValueId> ToChannelsLast(ValueId x) const;
  llvm::Expected<ValueId> ToChannelsFirst(ValueId x) const;
  llvm::Expected<ValueId> Reshape(ValueId x, Dims dims) const;
  llvm::Expected<ValueId> Cast(ValueId x, DType to) const;
  GraphBuilder& builder() const { return importer.builder(); }
  // A copy: what the graph holds moves when a node is added.
  TensorType TypeOf(ValueId id) const { return importer.builder().type(id); }

  // Defines output i.
  llvm::Error Set(size_t i, ValueId value) const;
  llvm::Error Set(size_t i, Operand operand) const;
  llvm::Error Return(llvm::Expected<ValueId> value) const;  // output 0

  // Counts nodes that the node becomes: those of iterations and branches, parts of sequences. Error: more than
  // 2^17 in one import.
  llvm::Error CountUnrolled(int64_t nodes, const std::string& hint = "") const;

  llvm::Error Fail(const std::string& what, const std::string& hint = "") const;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// The attributes of an operator that has an axis alone, as Concat and Gather.
inline Attributes Along(size_t axis) {
  Attributes attrs;
  attrs.Set("axis", static_cast<int64_t>(axis));
  return attrs;
}

inline constexpr char kMicrosoft[] = "com.microsoft";
inline constexpr char kPreviewTraining[] = "ai.onnx.preview.training";

using ImportFn = llvm::Error (*)(NodeContext&);
struct ImportEntry {
  const char* op;
  int min_inputs, max_inputs;  // max -1: any number
  ImportFn import;
  const char* domain = "";  // "": the standard operators
};
// The families of operators, each one file. Adding an operator is one entry.
const std::vector<ImportEntry>& ElementwiseImports();
const std::vector<ImportEntry>& LogicImports();
const std::vector<ImportEntry>& IntegerImports();
const std::vector<ImportEntry>& ConstantImports();
const std::vector<ImportEntry>& StructureImports();
const std::vector<ImportEntry>& PadImports();
const std::vector<ImportEntry>& SliceImports();
const std::vector<ImportEntry>& GatherImports();
const std::vector<ImportEntry>& ControlImports();
const std::vector<ImportEntry>& SequenceImports();
const std::vector<ImportEntry>& TensorSequenceImports();
const std::vector<ImportEntry>& EinsumImports();
const std::vector<ImportEntry>& MatMulImports();
const std::vector<ImportEntry>& FourierImports();
const std::vector<ImportEntry>& AttentionImports();
const std::vector<ImportEntry>& RotaryImports();
const std::vector<ImportEntry>& SpatialImports();
const std::vector<ImportEntry>& ResizeImports();
const std::vector<ImportEntry>& ImageImports();
const std::vector<ImportEntry>& GridImports();
const std::vector<ImportEntry>& DeformConvImports();
const std::vector<ImportEntry>& RecurrentImports();
const std::vector<ImportEntry>& NormalizationImports();
const std::vector<ImportEntry>& ReductionImports();
const std::vector<ImportEntry>& RandomImports();
const std::vector<ImportEntry>& LossImports();
const std::vector<ImportEntry>& MicrosoftImports();
const std::vector<ImportEntry>& GradientImports();
const std::vector<ImportEntry>& OptimizerImports();

// The node reads a selection or the length of one.
bool ReadsSelection(const NodeContext& context);
// Imports the node by `plain` as if all places existed, and marks the selection in its results. An
// error where the operator would give other numbers that way.
llvm::Error ImportSelected(NodeContext& context, const std::function<llvm::Error()>& plain);

// All of these families, in the order in which FindImport looks them up.
const std::vector<const std::vector<ImportEntry>*>& AllImports();

// Null where the operator is not imported.
const ImportEntry* FindImport(const onnx::NodeProto& node);
// The integer form of the operator, where the node's operands are integers that a fused loop, in
// float32, would not compute exactly; else null.
const ImportEntry* FindIntegerImport(const NodeContext& context);
// The node's operator can be imported, or at least folded.
bool IsSupported(const onnx::NodeProto& node);

}  // namespace act::onnx_import
