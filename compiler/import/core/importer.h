// The state of one import, and what the function of one ONNX operator sees of it.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/file/model_file.h"
#include "compiler/import/known/known.h"
#include "compiler/ops/graph_builder.h"
#include "onnx/onnx-ml.pb.h"
#include "runtime/base/error.h"

namespace act::onnx_import {

class NodeContext;

// An axis whose length depends on data: what a NonZero of data found, and what follows from it. The tensor
// has as many places as there can be; `live` (bool, one a place) says which are there. Those that are not
// repeat one that is, so that nothing computed from them is out of the ordinary; whatever counts or joins
// places must leave them out. See import_selection.cc.
struct Selection {
  size_t axis = 0;
  ValueId live =
      kNoValue;  // kNoValue: as many places are there as in another tensor, all with the same number
};

// What an ONNX name stands for: a value of the graph, a tensor known while importing, or both.
struct Operand {
  TensorType type;
  ValueId value = kNoValue;
  std::optional<Known> known = {};
  // Random numbers in [first, second): only a comparison may read them.
  std::optional<std::pair<double, double>> uniform = {};
  std::vector<ValueId> sequence = {};  // a sequence of tensors: only SequenceAt may read it
  ValueId scores = kNoValue;  // this is the log-softmax of `scores` over axis 1: a loss may start from them
  // What our operator keeps for its gradient instead of this tensor, which has no value of its own (the index
  // in the window for the offset of a pool's maximum): only the gradient of the operator may read it.
  ValueId kept = kNoValue;
  // Why this has neither a value nor elements: who reads more than the type is told.
  std::string problem = {};
  std::optional<Selection> selection = {};
  bool counted = false;  // `known` holds the length of a selection
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
  // Errors: the name is taken (values are assigned once), or the known tensors together exceed what folding
  // may hold.
  llvm::Error Define(const std::string& name, Operand operand);

  // The node that was imported last was the last to read this name: its known elements go.
  void Forget(const std::string& name);

  // The operand as a value of the graph in its full shape; makes a constant of a known tensor.
  llvm::Expected<ValueId> Materialize(const Operand& operand);
  // The same, but a known tensor may keep extent 1 where all positions have the same elements: for operators
  // that broadcast.
  llvm::Expected<ValueId> MaterializeToBroadcast(const Operand& operand);

  // Imports one node: folds it where all it reads is known, else calls the function of its operator. A node
  // without either is an error. Its inputs must be defined.
  llvm::Error ImportNode(const onnx::NodeProto& node);

  // What a node has just defined; null where it did not.
  Operand* Defined(const std::string& name) {
    const auto it = operands_.find(name);
    return it == operands_.end() ? nullptr : &it->second;
  }

  // Inputs of the cross entropy that was imported last.
  ValueId logits = kNoValue, label = kNoValue;
  bool freeze_bn = false;
  bool keeps_outputs = false;        // nothing is trained: the graph's results are the model's
  bool torchscript = false;          // the file is by PyTorch's TorchScript exporter, which keeps no notes
  std::set<std::string> parameters;  // initializers that are parameters whatever their names look like
  bool onnx_statistics = false;  // the model's own algorithm updates running statistics: by ONNX's definition
  bool own_backward =
      false;  // a training graph: what only gradients read need not have a value (Operand::kept)

 private:
  GraphBuilder builder_;
  int64_t opset_;
  llvm::Expected<ValueId> ConstantOf(const Known& known);
  llvm::Error FoldOrImport(NodeContext& context);
  llvm::Error ImportUnfolded(NodeContext& context);

  std::map<std::string, Operand> operands_;
  std::multimap<size_t, ValueId> constants_;  // by a hash of their bytes: equal ones are one
  int64_t known_elements_ = 0;
};

// One node while it is imported: its inputs and attributes, typed, and the graph to add to. Failures name the
// node.
class NodeContext {
 public:
  NodeContext(Importer& importer_in, const onnx::NodeProto& node_in, Attributes attrs_in);

  Importer& importer;
  const onnx::NodeProto& node;
  const Attributes attrs;  // floats as the shortest decimal that gives them: 1e-05, not 9.99999974e-06

  int64_t opset() const { return importer.opset(); }
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

  // Integers that newer opsets take as input `i` and older ones as attribute `name`; nullopt where neither is
  // there. An error where the input depends on data or on N.
  llvm::Expected<std::optional<std::vector<int64_t>>> Integers(size_t i, const char* name) const;
  llvm::Expected<Dims> DimsFrom(size_t i) const;  // the elements of input i
  // Known number that all elements of the input have; nullopt for anything else.
  std::optional<double> Number(size_t i) const;
  // Axis 0..rank-1 from one that may count from the end.
  llvm::Expected<size_t> Axis(int64_t axis, size_t rank) const;

  // Adds a node of ours, named after this one.
  llvm::Expected<ValueId> Emit(const std::string& op, std::vector<ValueId> in,
                               Attributes attributes = {}) const;
  // Input i beside operands that broadcast to `others`: a known tensor that does not widen them stays small.
  llvm::Expected<ValueId> BroadcastValue(size_t i, const Dims& others) const;
  // An elementwise node of inputs 0 and 1.
  llvm::Expected<ValueId> EmitBinary(const std::string& op) const;
  // x broadcast with all inputs: each of them may have stayed small beside the others.
  llvm::Expected<ValueId> ExpandToInputs(ValueId x) const;
  llvm::Expected<ValueId> Transpose(ValueId x, std::vector<int64_t> perm) const;
  // [N, C, S..] <-> [N, S.., C]. A later pass cancels the pairs.
  llvm::Expected<ValueId> ToChannelsLast(ValueId x) const;
  llvm::Expected<ValueId> ToChannelsFirst(ValueId x) const;
  llvm::Expected<ValueId> Reshape(ValueId x, Dims dims) const;
  GraphBuilder& builder() const { return importer.builder(); }
  const TensorType& TypeOf(ValueId id) const { return importer.builder().type(id); }

  // Defines output i.
  llvm::Error Set(size_t i, ValueId value) const;
  llvm::Error Set(size_t i, Operand operand) const;
  llvm::Error Return(llvm::Expected<ValueId> value) const;  // output 0

  llvm::Error Fail(const std::string& what, const std::string& hint = "") const;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// "node '/conv1/Conv' (Conv)": a node without a name goes by its first output.
std::string PlaceOf(const onnx::NodeProto& node);

// The number that was meant: exporters keep 0.1 as a float, whose double is 0.10000000149.
double ShortestDecimal(float value);

// ONNX's attributes as ours. Graphs and sparse tensors are left out; tensors too (FindTensor).
llvm::Expected<Attributes> ReadAttributes(const onnx::NodeProto& node);
const onnx::TensorProto* FindTensor(const onnx::NodeProto& node, const std::string& attribute);

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
const std::vector<ImportEntry>& IntegerImports();
const std::vector<ImportEntry>& ConstantImports();
const std::vector<ImportEntry>& StructureImports();
const std::vector<ImportEntry>& GatherImports();
const std::vector<ImportEntry>& ControlImports();
const std::vector<ImportEntry>& SequenceImports();
const std::vector<ImportEntry>& EinsumImports();
const std::vector<ImportEntry>& MatMulImports();
const std::vector<ImportEntry>& AttentionImports();
const std::vector<ImportEntry>& SpatialImports();
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
// Imports it by `plain`, as if all places were there, and follows the selection to its results. An error
// where the operator would not give the same numbers.
llvm::Error ImportSelected(NodeContext& context, const std::function<llvm::Error()>& plain);

// Null where the operator is not imported.
const ImportEntry* FindImport(const onnx::NodeProto& node);
// The form of the operator on integers, where the node's operands are that and fused loops would not be
// exact; else null.
const ImportEntry* FindIntegerImport(const NodeContext& context);
// The node's operator is imported, or at least folds.
bool IsSupported(const onnx::NodeProto& node);

}  // namespace act::onnx_import
