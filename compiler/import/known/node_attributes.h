// The attributes of an ONNX node, read by name and type.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// Each accessor returns the attribute, or `fallback` where the node does not have it. An attribute
// of another type is an error: the accessor returns the fallback then, and Check() returns the
// error afterwards, so an importer reads on and its caller asks once. Attributes that nothing reads
// are ignored, whatever their type.
class NodeAttributes {
 public:
  using Type = onnx::AttributeProto::AttributeType;

  explicit NodeAttributes(const onnx::NodeProto& node) : node_(&node) {}  // the node must outlive this

  // Whether the node has an attribute of this name, of whatever type.
  bool Has(const std::string& name) const;

  int64_t Int(const std::string& name, int64_t fallback = 0) const;
  // Floats are the shortest decimals that give them: 1e-05, not 9.99999974e-06.
  double Float(const std::string& name, double fallback = 0) const;
  std::string String(const std::string& name, const std::string& fallback = "") const;
  std::vector<int64_t> Ints(const std::string& name, std::vector<int64_t> fallback = {}) const;
  std::vector<double> Floats(const std::string& name, std::vector<double> fallback = {}) const;
  std::vector<std::string> Strings(const std::string& name) const;
  // Null where the node does not have it.
  const onnx::TensorProto* Tensor(const std::string& name) const;
  const onnx::GraphProto* Graph(const std::string& name) const;

  // The error of the first attribute that was read as another type than its own, with the node as
  // its place; or of one, read or not, whose type no operator that we import has (sparse tensors,
  // lists of tensors).
  llvm::Error Check() const;

  // The names that were asked for so far, by Has or an accessor.
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  const onnx::AttributeProto* Find(const std::string& name) const;
  // The attribute where it has the type; null where it does not, which is an error, or where there
  // is none.
  const onnx::AttributeProto* FindTyped(const std::string& name, Type expected) const;

  struct Mismatch {
    std::string name;
    Type expected, found;
  };

  const onnx::NodeProto* node_;
  // An accessor is const to importers: what it records is no state of the node.
  mutable std::vector<Mismatch> mismatches_;
  mutable std::vector<std::string> asked_;
};

// "node '/conv1/Conv' (Conv)": a node without a name goes by its first output.
std::string PlaceOf(const onnx::NodeProto& node);

// The number that was meant: exporters keep 0.1 as a float, whose double is 0.10000000149.
double ShortestDecimal(float value);

}  // namespace act::onnx_import
