// Builds graphs a node at a time. The op table infers each node's output types as it is added.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// The attributes of a reduction over axes, which stay with extent 1 if `keep`.
inline Attributes Over(std::vector<int64_t> axes, bool keep) {
  Attributes attrs;
  attrs.Set("axes", std::move(axes));
  attrs.Set("keepdims", int64_t{keep});
  return attrs;
}

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // A value that no node makes. graph.inputs lists inputs (kInput) in the order of the calls.
  ValueId Input(std::string name, TensorType type, ValueKind kind, HostTensor data = {});
  ValueId Constant(std::string name, TensorType type, HostTensor data);
  // f32[] constants are shared: one value for each number.
  ValueId Scalar(float value);

  // Adds a node and infers its output types. wanted: the output types of operators that need them
  // (see InferContext). Errors: an unknown operator, a wrong number of inputs, or whatever infer
  // refuses. The place in the error is "node '<name>' (<op>)".
  llvm::Expected<std::vector<ValueId>> Add(const std::string& op, std::vector<ValueId> inputs,
                                           Attributes attrs = {}, std::string name = "", int outputs = 1,
                                           std::vector<TensorType> wanted = {});
  llvm::Expected<ValueId> Add1(const std::string& op, std::vector<ValueId> inputs, Attributes attrs = {},
                               std::string name = "");
  // One output whose type is given.
  llvm::Expected<ValueId> AddTyped(const std::string& op, std::vector<ValueId> inputs, TensorType type,
                                   Attributes attrs = {}, std::string name = "");

  llvm::Expected<ValueId> Reshape(ValueId x, Dims dims, std::string name = "");
  llvm::Expected<ValueId> Transpose(ValueId x, std::vector<int64_t> perm, std::string name = "");
  llvm::Expected<ValueId> Expand(ValueId x, Dims dims, std::string name = "");
  // starts, steps and extents: one per axis; x[starts + i * steps], i < extents.
  llvm::Expected<ValueId> Slice(ValueId x, std::vector<int64_t> starts, Dims extents,
                                std::vector<int64_t> steps, std::string name = "");
  // ConvTranspose: x [N,S..,C], w [C,M/group,K..], bias? -> [N,O..,M]; attrs of Conv plus
  // output_padding (one per axis).
  llvm::Expected<ValueId> ConvTranspose(ValueId x, ValueId w, ValueId bias, Attributes attrs,
                                        std::string name = "");

  // Phase of the nodes added from now on.
  void SetPhase(Phase phase) { phase_ = phase; }

 private:
  Graph& graph_;
  Phase phase_ = Phase::kForward;
  // The f32[] constants among the first `indexed_` values, by the bits of their numbers.
  std::unordered_map<uint32_t, ValueId> scalars_;
  size_t indexed_ = 0;
};

}  // namespace act
