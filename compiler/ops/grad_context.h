// The interface of a gradient rule. A rule reads forward values only through Save(). The list of
// saved-activation edges is thus recorded while the backward pass is built, and it cannot drift
// from the rules.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/graph_builder.h"

namespace act {

// Rules run inside Differentiate(), which checks for errors once per rule. After the first error
// all calls return kNoValue.
class GradContext {
 public:
  GradContext(GraphBuilder& builder, const Node& node, std::vector<ValueId> output_grads,
              std::vector<bool> wanted, bool finite, std::vector<ValueId>& saved)
      : builder_(builder),
        node_(node),
        output_grads_(std::move(output_grads)),
        wanted_(std::move(wanted)),
        finite_(finite),
        saved_(saved),
        grads_(node.inputs.size(), kNoValue) {}

  const Node& node() const { return node_; }
  const Attributes& attrs() const { return node_.attrs; }
  ValueId in(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : kNoValue; }
  ValueId out(size_t i = 0) const { return node_.outputs[i]; }
  const TensorType& type(ValueId id) const { return builder_.type(id); }
  // The gradient of output i; kNoValue if there is none.
  ValueId dout(size_t i = 0) const { return output_grads_[i]; }
  // Is the gradient of input i asked for?
  bool Wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }

  // Saves a forward value for the backward pass. The operator that reads it says how it is read
  // (OpDef::needs).
  ValueId Save(ValueId value);
  // Adds a function of saved values alone (Phase::kDerived). It may run in the forward pass. Its
  // result is then stored in place of its operands.
  ValueId Derive(const std::string& op, std::vector<ValueId> saved, Attributes attrs = {});
  ValueId DeriveTyped(const std::string& op, std::vector<ValueId> saved, TensorType type,
                      Attributes attrs = {});
  ValueId DeriveReshape(ValueId saved, const Dims& dims);
  // Views [.., K] as a matrix [rows, K].
  ValueId DeriveRows(ValueId saved);
  // Adds a node to the backward pass.
  ValueId Emit(const std::string& op, std::vector<ValueId> inputs, Attributes attrs = {});
  // The same with several results; all kNoValue after an error.
  std::vector<ValueId> EmitMany(const std::string& op, std::vector<ValueId> inputs, size_t outputs,
                                Attributes attrs = {});
  ValueId EmitTyped(const std::string& op, std::vector<ValueId> inputs, TensorType type,
                    Attributes attrs = {});
  // grad * factor, and 0 where the factor is 0, also if grad is infinite there. Products cannot do that: inf * 0 is NaN.
  // A mask is a factor of 0 or 1.
  ValueId Masked(ValueId grad, ValueId factor, bool is_mask);
  // Calls `build`, a function of a GraphBuilder. The nodes that it adds are in the backward pass.
  template <class F>
  ValueId Build(const F& build) {
    return Check(build(builder_));
  }
  ValueId Scalar(float value) { return builder_.Scalar(value); }
  ValueId ReshapeTo(ValueId x, const Dims& dims);

  // Reports that the gradient is not supported. The user sees the message after the node's name.
  void Fail(const std::string& what);

  // Sets the gradient of input i. Where x was broadcast, sums it back to x's shape.
  void SetGrad(size_t i, ValueId grad);

  const std::vector<ValueId>& grads() const { return grads_; }
  llvm::Error TakeError() { return std::move(error_); }

 private:
  ValueId Check(llvm::Expected<ValueId> value);

  GraphBuilder& builder_;
  const Node node_;  // a copy: building the backward pass grows the graph's vectors
  std::vector<ValueId> output_grads_;
  std::vector<bool> wanted_;
  const bool finite_;  // no gradient of an output is infinite
  std::vector<ValueId>& saved_;
  std::vector<ValueId> grads_;
  llvm::Error error_ = llvm::Error::success();
};

}  // namespace act
