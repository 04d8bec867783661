#include "compiler/import/known/node_attributes.h"

#include <charconv>

#include "runtime/base/error.h"

namespace act::onnx_import {
namespace {

using Type = NodeAttributes::Type;

std::string Describe(Type type) {
  switch (type) {
    case onnx::AttributeProto::INT:
      return "an int";
    case onnx::AttributeProto::FLOAT:
      return "a float";
    case onnx::AttributeProto::STRING:
      return "a string";
    case onnx::AttributeProto::INTS:
      return "a list of ints";
    case onnx::AttributeProto::FLOATS:
      return "a list of floats";
    case onnx::AttributeProto::STRINGS:
      return "a list of strings";
    case onnx::AttributeProto::TENSOR:
      return "a tensor";
    case onnx::AttributeProto::GRAPH:
      return "a graph";
    default:
      return onnx::AttributeProto::AttributeType_Name(type);
  }
}

// Types that no operator that we import has.
bool IsUnsupported(Type type) {
  switch (type) {
    case onnx::AttributeProto::INT:
    case onnx::AttributeProto::FLOAT:
    case onnx::AttributeProto::STRING:
    case onnx::AttributeProto::INTS:
    case onnx::AttributeProto::FLOATS:
    case onnx::AttributeProto::STRINGS:
    case onnx::AttributeProto::TENSOR:
    case onnx::AttributeProto::GRAPH:
      return false;
    default:
      return true;
  }
}

}  // namespace

const onnx::AttributeProto* NodeAttributes::Find(const std::string& name) const {
  asked_.push_back(name);
  const onnx::AttributeProto* found = nullptr;
  for (const auto& a : node_->attribute())
    if (a.name() == name) found = &a;
  return found;
}

const onnx::AttributeProto* NodeAttributes::FindTyped(const std::string& name, Type expected) const {
  const onnx::AttributeProto* a = Find(name);
  if (!a || a->type() == expected) return a;
  mismatches_.push_back({name, expected, a->type()});
  return nullptr;
}

bool NodeAttributes::Has(const std::string& name) const { return Find(name) != nullptr; }

int64_t NodeAttributes::Int(const std::string& name, int64_t fallback) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::INT);
  return a ? a->i() : fallback;
}

double NodeAttributes::Float(const std::string& name, double fallback) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::FLOAT);
  return a ? ShortestDecimal(a->f()) : fallback;
}

std::string NodeAttributes::String(const std::string& name, const std::string& fallback) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::STRING);
  return a ? a->s() : fallback;
}

std::vector<int64_t> NodeAttributes::Ints(const std::string& name, std::vector<int64_t> fallback) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::INTS);
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end()) : std::move(fallback);
}

std::vector<double> NodeAttributes::Floats(const std::string& name, std::vector<double> fallback) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::FLOATS);
  if (!a) return fallback;
  std::vector<double> values;
  for (const float value : a->floats()) values.push_back(ShortestDecimal(value));
  return values;
}

std::vector<std::string> NodeAttributes::Strings(const std::string& name) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::STRINGS);
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end()) : std::vector<std::string>();
}

const onnx::TensorProto* NodeAttributes::Tensor(const std::string& name) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::TENSOR);
  return a ? &a->t() : nullptr;
}

const onnx::GraphProto* NodeAttributes::Graph(const std::string& name) const {
  const onnx::AttributeProto* a = FindTyped(name, onnx::AttributeProto::GRAPH);
  return a ? &a->g() : nullptr;
}

llvm::Error NodeAttributes::Check() const {
  // Where a function is expanded, none of these is left.
  for (const auto& a : node_->attribute())
    if (!a.ref_attr_name().empty())
      return MakeError(PlaceOf(*node_), "attribute '" + a.name() + "' refers to '" + a.ref_attr_name() +
                                            "' of a function, and the node is in none");
  for (const auto& a : node_->attribute())
    if (IsUnsupported(a.type()))
      return MakeError(PlaceOf(*node_),
                       "attribute '" + a.name() + "' has an unsupported type, " + Describe(a.type()));
  if (mismatches_.empty()) return llvm::Error::success();
  const Mismatch& m = mismatches_.front();
  return MakeError(
      PlaceOf(*node_),
      "attribute '" + m.name + "': expected " + Describe(m.expected) + ", found " + Describe(m.found),
      "the operator takes '" + m.name + "' as " + Describe(m.expected) + "; write it with that type");
}

double ShortestDecimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

std::string PlaceOf(const onnx::NodeProto& node) {
  const std::string name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "";
  return "node '" + name + "' (" + node.op_type() + ")";
}

}  // namespace act::onnx_import
