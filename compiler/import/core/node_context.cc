#include <algorithm>
#include <numeric>

#include "compiler/import/core/importer.h"
#include "compiler/import/core/node_opset.h"
#include "compiler/import/fold/fold_shapes.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

constexpr char kFixTheBatch[] =
    "--dim=NAME=EXTENT fixes the batch size (NAME: the symbol of the inputs' first axis)";

std::string MustBeKnown(size_t input, bool of_batch) {
  return "input " + std::to_string(input) + " must be known when compiling; it depends on " +
         (of_batch ? "the batch size" : "data");
}

}  // namespace

NodeContext::NodeContext(Importer& importer_in, const onnx::NodeProto& node_in)
    : importer(importer_in), node(node_in), attrs(node_in) {
  name_ = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : node.op_type();
}

int64_t NodeContext::opset() const { return OpsetOf(node, importer.opset()); }

llvm::Error NodeContext::CountUnrolled(int64_t nodes, const std::string& hint) const {
  // A step is as long as these nodes together, and the passes are not meant for more.
  constexpr int64_t kMost = int64_t{1} << 17;
  importer.unrolled_nodes += std::min(nodes, kMost + 1);
  if (importer.unrolled_nodes <= kMost) return llvm::Error::success();
  return Fail("becomes more than " + std::to_string(kMost) +
                  " nodes, with those of other loops, branches and sequences",
              hint);
}

const Operand& NodeContext::In(size_t i) const { return *importer.Find(node.input(static_cast<int>(i))); }

llvm::Expected<ValueId> NodeContext::Value(size_t i) const {
  if (!Has(i)) return Fail("input " + std::to_string(i) + " is left out");
  return importer.Materialize(In(i));
}

llvm::Expected<std::optional<std::vector<int64_t>>> NodeContext::Integers(size_t i,
                                                                          const char* attribute) const {
  if (Has(i) || !attrs.Has(attribute)) return Integers(i);
  return std::optional(attrs.Ints(attribute));
}

llvm::Expected<std::optional<std::vector<int64_t>>> NodeContext::Integers(size_t i) const {
  if (!Has(i)) return std::optional<std::vector<int64_t>>();
  auto values = In(i).known ? AsIntegers(*In(i).known) : std::nullopt;
  if (values) return values;
  return Fail(MustBeKnown(i, In(i).known || In(i).of_batch),
              In(i).known || In(i).of_batch ? kFixTheBatch : "");
}

llvm::Expected<std::optional<int64_t>> NodeContext::Integer(size_t i) const {
  ACT_TRY(const auto values, Integers(i));
  if (!values) return std::optional<int64_t>();
  if (values->size() != 1) return Fail("input " + std::to_string(i) + " must be one number");
  return std::optional((*values)[0]);
}

llvm::Expected<Dims> NodeContext::Polynomials(size_t i) const {
  const auto values = In(i).known ? AsDims(*In(i).known) : std::nullopt;
  if (values) return *values;
  return Fail(MustBeKnown(i, In(i).of_batch), In(i).of_batch ? kFixTheBatch : "");
}

llvm::Expected<Dims> NodeContext::DimsFrom(size_t i) const {
  const auto dims = In(i).known ? AsDims(*In(i).known) : std::nullopt;
  if (dims) return *dims;
  const std::string shape = "the shape in input " + std::to_string(i);
  if (In(i).of_batch)
    return Fail(shape + " depends on the batch size, and is no polynomial in it", kFixTheBatch);
  return Fail(shape + " depends on data", "shapes must follow from the shapes of the inputs");
}

std::optional<double> NodeContext::Number(size_t i) const {
  return Has(i) && In(i).known ? AsReal(*In(i).known) : std::nullopt;
}

llvm::Expected<size_t> NodeContext::Axis(int64_t axis, size_t rank) const {
  const auto normal = NormalizeAxis(axis, rank);
  if (!normal)
    return Fail("axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  return *normal;
}

llvm::Expected<ValueId> NodeContext::Emit(const std::string& op, std::vector<ValueId> in,
                                          Attributes attributes) const {
  return builder().Add1(op, std::move(in), std::move(attributes), name_);
}

llvm::Expected<ValueId> NodeContext::BroadcastValue(size_t i, const Dims& others) const {
  if (Has(i) && Broadcast(others, DimsOf(i)) == others) return importer.MaterializeToBroadcast(In(i));
  return Value(i);
}

llvm::Expected<ValueId> NodeContext::EmitBinary(const std::string& op) const {
  ACT_TRY(const ValueId a, BroadcastValue(0, DimsOf(1)));
  ACT_TRY(const ValueId b, BroadcastValue(1, DimsOf(0)));
  ACT_TRY(const ValueId y, Emit(op, {a, b}));
  return ExpandToInputs(y);
}

llvm::Expected<ValueId> NodeContext::ExpandToInputs(ValueId x) const {
  Dims dims = TypeOf(x).dims;
  for (size_t i = 0; i < inputs(); ++i)
    if (const auto joint = Broadcast(dims, DimsOf(i))) dims = *joint;
  return builder().Expand(x, dims, name_);
}

llvm::Expected<ValueId> NodeContext::Transpose(ValueId x, std::vector<int64_t> perm) const {
  return builder().Transpose(x, std::move(perm), name_);
}

llvm::Expected<ValueId> NodeContext::ToChannelsLast(ValueId x) const {
  const int64_t rank = TypeOf(x).rank();
  if (rank < 3) return Fail("needs at least one spatial axis, its operand is " + ToString(TypeOf(x)));
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin() + 1, perm.end() - 1, 2);
  perm.back() = 1;
  return Transpose(x, std::move(perm));
}

llvm::Expected<ValueId> NodeContext::ToChannelsFirst(ValueId x) const {
  std::vector<int64_t> perm(static_cast<size_t>(TypeOf(x).rank()));
  std::iota(perm.begin() + 2, perm.end(), 1);
  perm[1] = TypeOf(x).rank() - 1;
  return Transpose(x, std::move(perm));
}

llvm::Expected<ValueId> NodeContext::Reshape(ValueId x, Dims dims) const {
  return builder().Reshape(x, std::move(dims), name_);
}

llvm::Expected<ValueId> NodeContext::Cast(ValueId x, DType to) const {
  Attributes attributes;
  attributes.Set("to", static_cast<int64_t>(to));
  return Emit("Cast", {x}, std::move(attributes));
}

llvm::Error NodeContext::Set(size_t i, ValueId value) const {
  return Set(i, Operand{.type = TypeOf(value), .value = value});
}

llvm::Error NodeContext::Set(size_t i, Operand operand) const {
  if (!WantsOutput(i)) return llvm::Error::success();
  return importer.Define(node.output(static_cast<int>(i)), std::move(operand));
}

llvm::Error NodeContext::Return(llvm::Expected<ValueId> value) const {
  if (!value) return value.takeError();
  return Set(0, *value);
}

llvm::Error NodeContext::Fail(const std::string& what, const std::string& hint) const {
  return MakeError(PlaceOf(node), what, hint);
}

}  // namespace act::onnx_import
