#include "compiler/ops/graph_builder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/ops/op_table.h"
#include "runtime/base/dtype_kind.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitizer.h"
#include "runtime/plan/attribute_types.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

// A reference to a value or a node of the graph is good until the next one is added. Where the address sanitizer
// watches, all of them move then, so that any test that keeps one for longer fails, not only the unlucky one.
template <class T>
void MoveIfWatched([[maybe_unused]] std::vector<T>& elements) {
#ifdef ACT_ADDRESS_SANITIZER
  constexpr size_t kMost = 4096;  // moving all of them each time takes the square of their number
  if (elements.size() < kMost) elements.reserve(elements.capacity() + 1);
#endif
}

// The highest power of N in the number of elements.
int Degree(const TensorType& type) {
  int degree = 0;
  for (const Dim& dim : type.dims) degree += dim.per_batch2 != 0 ? 2 : dim.per_batch != 0 ? 1 : 0;
  return degree;
}

constexpr int kMostDegree = 2;  // that a Dim holds

}  // namespace

ValueId GraphBuilder::Input(std::string name, TensorType type, ValueKind kind, HostTensor data) {
  const auto id = static_cast<ValueId>(graph_.values.size());
  MoveIfWatched(graph_.values);
  graph_.values.push_back({std::move(name), std::move(type), kind, std::move(data)});
  if (kind == ValueKind::kInput) graph_.inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::Constant(std::string name, TensorType type, HostTensor data) {
  return Input(std::move(name), std::move(type), ValueKind::kConstant, std::move(data));
}

ValueId GraphBuilder::Scalar(float value) {
  // By bits, so that 0 differs from -0 and NaN equals itself.
  uint32_t bits = 0;
  for (; indexed_ < graph_.values.size(); ++indexed_) {
    const Value& v = graph_.values[indexed_];
    if (v.kind != ValueKind::kConstant || !v.type.dims.empty() || v.type.dtype != DType::kFloat32 ||
        v.data.bytes != sizeof bits)
      continue;
    std::memcpy(&bits, v.data.data, sizeof bits);
    scalars_.try_emplace(bits, static_cast<ValueId>(indexed_));
  }
  if (const auto known = scalars_.find(std::bit_cast<uint32_t>(value)); known != scalars_.end())
    return known->second;
  return Constant("", {DType::kFloat32, {}}, HostTensor::Copy(&value, sizeof value));
}

llvm::Expected<std::vector<ValueId>> GraphBuilder::Add(const std::string& op, std::vector<ValueId> inputs,
                                                       Attributes attrs, std::string name, int outputs,
                                                       std::vector<TensorType> wanted) {
  const std::string place = "node '" + name + "' (" + op + ")";
  const OpDef* def = FindOp(op);
  if (!def) return MakeError(place, "unknown operator");
  const int count = static_cast<int>(inputs.size());
  if (!def->operands.Allows(count))
    return MakeError(place, "takes " + ToString(def->operands) + " inputs, has " + std::to_string(count));
  Node node{op, std::move(name), std::move(inputs), {}, std::move(attrs), phase_, {}, {}, {}};
  for (int i : def->mutates)
    if (i < count && node.inputs[static_cast<size_t>(i)] != kNoValue) node.mutates.push_back(i);

  wanted.resize(static_cast<size_t>(outputs));
  InferContext context{node, {}, wanted};
  for (int i = 0; i < count; ++i) {
    const ValueId id = node.inputs[static_cast<size_t>(i)];
    if (id == kNoValue && i < def->operands.least)
      return MakeError(place, "input " + std::to_string(i) + " is missing");
    context.inputs.push_back(id == kNoValue ? nullptr : &graph_.value(id).type);
  }
  if (llvm::Error error = def->infer(context)) return WithPlace(std::move(error), place);
  for (const TensorType& type : wanted)
    if (Degree(type) > kMostDegree)
      return MakeError(place,
                       "result " + ToString(type) + " grows with more than the square of the batch size",
                       "fix the batch: dynamic_batch=False in the Python helper, --dim in actc");
  for (const TensorType& type : wanted)
    if (type.Bytes().TooLarge() || type.rank() > kMostAxes)
      return MakeError(place, "result " + ToString(type) +
                                  (type.rank() > kMostAxes ? " has more than 16 axes" : " is too large"));
  // A plan with such an attribute could not be read. The operator's own rule, which names what is wrong, comes first.
  if (const auto wrong = WrongType(node.attrs)) return MakeError(place, *wrong);
  for (int i = 0; i < outputs; ++i) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    MoveIfWatched(graph_.values);
    graph_.values.push_back({"", std::move(wanted[static_cast<size_t>(i)]), ValueKind::kActivation, {}});
    node.outputs.push_back(id);
  }
  MoveIfWatched(graph_.nodes);
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

llvm::Expected<ValueId> GraphBuilder::Add1(const std::string& op, std::vector<ValueId> inputs,
                                           Attributes attrs, std::string name) {
  ACT_TRY(const std::vector<ValueId> out, Add(op, std::move(inputs), std::move(attrs), std::move(name)));
  return out[0];
}

llvm::Expected<ValueId> GraphBuilder::AddTyped(const std::string& op, std::vector<ValueId> inputs,
                                               TensorType type, Attributes attrs, std::string name) {
  ACT_TRY(const std::vector<ValueId> out,
          Add(op, std::move(inputs), std::move(attrs), std::move(name), 1, {std::move(type)}));
  return out[0];
}

llvm::Expected<ValueId> GraphBuilder::Reshape(ValueId x, Dims dims, std::string name) {
  if (type(x).dims == dims) return x;
  return AddTyped(kReshape, {x}, {type(x).dtype, std::move(dims)}, {}, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::Transpose(ValueId x, std::vector<int64_t> perm, std::string name) {
  Attributes attrs;
  attrs.Set("perm", std::move(perm));
  return Add1("Transpose", {x}, std::move(attrs), std::move(name));
}

namespace {

template <class T>
bool AllSmall(const HostTensor& data) {
  constexpr int64_t kExact = int64_t{1} << 24;  // every integer up to here is a float32
  for (int64_t at = 0; at < data.bytes; at += static_cast<int64_t>(sizeof(T))) {
    T value;  // mapped files do not align it
    std::memcpy(&value, data.data + at, sizeof value);
    if (static_cast<int64_t>(value) < -kExact || static_cast<int64_t>(value) > kExact) return false;
  }
  return true;
}

// Whether float32, in which fused loops compute, has all numbers that the value may hold.
bool FitsFloat(const Value& value) {
  if (IsFloat(value.type.dtype) || ByteSize(value.type.dtype) <= 2) return true;
  if (value.kind != ValueKind::kConstant || !value.data.data) return false;
  switch (value.type.dtype) {
    case DType::kInt32:
      return AllSmall<int32_t>(value.data);
    case DType::kUint32:
      return AllSmall<uint32_t>(value.data);
    default:  // a uint64 beyond int64's range is negative there, and far from small
      return AllSmall<int64_t>(value.data);
  }
}

}  // namespace

llvm::Expected<ValueId> GraphBuilder::Expand(ValueId x, Dims dims, std::string name) {
  if (type(x).dims == dims) return x;
  if (!FitsFloat(graph_.value(x))) {
    Attributes attrs;
    attrs.Set("op", std::string("expand"));
    return AddTyped("Integer", {x}, {type(x).dtype, std::move(dims)}, std::move(attrs), std::move(name));
  }
  return AddTyped("Expand", {x}, {type(x).dtype, std::move(dims)}, {}, std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::Slice(ValueId x, std::vector<int64_t> starts, Dims extents,
                                            std::vector<int64_t> steps, std::string name) {
  Attributes attrs;
  attrs.Set("starts", std::move(starts));
  attrs.Set("steps", std::move(steps));
  return AddTyped("Slice", {x}, {type(x).dtype, std::move(extents)}, std::move(attrs), std::move(name));
}

llvm::Expected<ValueId> GraphBuilder::ConvTranspose(ValueId x, ValueId w, ValueId bias, Attributes attrs,
                                                    std::string name) {
  // The forward pass of a transposed convolution is the input gradient of a convolution that maps
  // its output to its input.
  const std::string place = "node '" + name + "' (ConvTranspose)";
  const Dims& xd = type(x).dims;
  const Dims& wd = type(w).dims;
  const size_t rank = xd.size();
  if (rank < 3 || wd.size() != rank)
    return MakeError(place, "input and weight must have the same rank, 3 to 5");
  const auto strides = attrs.Ints("strides"), dilations = attrs.Ints("dilations"), pads = attrs.Ints("pads"),
             extra = attrs.Ints("output_padding", std::vector<int64_t>(rank - 2, 0));
  if (strides.size() != rank - 2 || dilations.size() != rank - 2 || pads.size() != 2 * (rank - 2) ||
      extra.size() != rank - 2)
    return MakeError(place,
                     "strides, dilations, pads and output_padding must have one entry per spatial axis");
  Dims out{xd[0]};
  for (size_t i = 0; i + 2 < rank; ++i) {
    const int64_t kernel = wd[i + 2].fixed;
    out.push_back((xd[i + 1] - Dim(1)) * Dim(strides[i]) +
                  Dim((kernel - 1) * dilations[i] + 1 + extra[i] - pads[i] - pads[i + rank - 2]));
  }
  out.push_back(wd[1] * Dim(attrs.Int("group", 1)));
  ACT_TRY(ValueId y, AddTyped("ConvGradInput", {x, w}, {DType::kFloat32, out}, std::move(attrs), name));
  if (bias == kNoValue) return y;
  return Add1("Add", {y, bias}, {}, std::move(name) + ".bias");
}

}  // namespace act
