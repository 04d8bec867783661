#include "compiler/emit/emit_onnx.h"

#include <set>

#include "compiler/import/known/onnx_types.h"
#include "compiler/ir/uses.h"
#include "compiler/ops/op_table.h"
#include "onnx/onnx-ml.pb.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/plan/program.h"

namespace act {
namespace {

constexpr int64_t kIrVersion = 10, kOpset = 20;
constexpr int64_t kLargestInitializer = 4096;  // bytes
constexpr char kDomain[] = "act";

struct AttributeWriter {
  onnx::AttributeProto& to;
  void operator()(int64_t v) const {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(v);
  }
  void operator()(double v) const {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(static_cast<float>(v));
  }
  void operator()(const std::string& v) const {
    to.set_type(onnx::AttributeProto::STRING);
    to.set_s(v);
  }
  void operator()(const std::vector<int64_t>& list) const {
    to.set_type(onnx::AttributeProto::INTS);
    for (int64_t v : list) to.add_ints(v);
  }
  void operator()(const std::vector<double>& list) const {
    to.set_type(onnx::AttributeProto::FLOATS);
    for (double v : list) to.add_floats(static_cast<float>(v));
  }
};

const char* ToString(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kDerived:
      return "derived";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "";
}

class Emitter {
 public:
  explicit Emitter(const Graph& graph) : graph_(graph) {}

  onnx::ModelProto Run() {
    model_.set_ir_version(kIrVersion);
    model_.set_producer_name("actc");
    model_.add_opset_import()->set_version(kOpset);
    onnx::OperatorSetIdProto* ours = model_.add_opset_import();
    ours->set_domain(kDomain);
    ours->set_version(1);
    onnx::GraphProto& to = *model_.mutable_graph();
    to.set_name("act");
    NameValues();
    const Uses uses(graph_);
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (uses.Producer(id) >= 0) {
        WriteInfo(*to.add_value_info(), i);
      } else if (!uses.Readers(id).empty() || graph_.values[i].kind == ValueKind::kInput) {
        WriteSource(to, i);
      }
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) WriteNode(*to.add_node(), i);
    for (ValueId id : graph_.outputs) WriteInfo(*to.add_output(), static_cast<size_t>(id));
    return std::move(model_);
  }

 private:
  // Values keep their names where they have one that no other has.
  void NameValues() {
    std::set<std::string> taken;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const std::string& name = graph_.values[i].name;
      std::string unique = name.empty() || taken.count(name) ? name + "%" + std::to_string(i) : name;
      while (!taken.insert(unique).second) unique += "'";
      names_.push_back(std::move(unique));
    }
  }

  void WriteInfo(onnx::ValueInfoProto& info, size_t i) const {
    info.set_name(names_[i]);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    const TensorType& type = graph_.values[i].type;
    tensor.set_elem_type(onnx_import::ToOnnxType(type.dtype));
    tensor.mutable_shape();
    for (const Dim& dim : type.dims) {
      auto& to = *tensor.mutable_shape()->add_dim();
      if (dim.IsFixed()) {
        to.set_dim_value(dim.fixed);
      } else {
        to.set_dim_param(act::ToString(dim));
      }
    }
  }

  // A value that no node makes.
  void WriteSource(onnx::GraphProto& to, size_t i) const {
    const Value& value = graph_.values[i];
    if (value.kind == ValueKind::kInput || !value.data.data || value.coded ||
        value.data.bytes > kLargestInitializer)
      return WriteInfo(*to.add_input(), i);
    onnx::TensorProto& tensor = *to.add_initializer();
    tensor.set_name(names_[i]);
    tensor.set_data_type(onnx_import::ToOnnxType(value.type.dtype));
    for (const Dim& dim : value.type.dims) tensor.add_dims(dim.fixed);
    tensor.set_raw_data(value.data.data, static_cast<size_t>(value.data.bytes));
  }

  void WriteNode(onnx::NodeProto& to, size_t i) const {
    const Node& node = graph_.nodes[i];
    const OpDef& op = OpOf(node);
    const OnnxTwin twin = op.onnx ? op.onnx(node) : OnnxTwin::kNone;
    to.set_op_type(node.op);
    if (twin == OnnxTwin::kNone) to.set_domain(kDomain);
    to.set_name((node.name.empty() ? node.op : node.name) + "#" + std::to_string(i));
    for (ValueId id : node.inputs) to.add_input(id == kNoValue ? "" : names_[static_cast<size_t>(id)]);
    for (ValueId id : node.outputs) to.add_output(names_[static_cast<size_t>(id)]);
    for (const auto& [name, value] : node.attrs.map()) {
      if (twin == OnnxTwin::kWithoutAttributes) continue;
      onnx::AttributeProto& attribute = *to.add_attribute();
      attribute.set_name(name);
      std::visit(AttributeWriter{attribute}, value);
    }
    const auto add = [&to](const char* name, Attribute value) {
      onnx::AttributeProto& attribute = *to.add_attribute();
      attribute.set_name(name);
      std::visit(AttributeWriter{attribute}, value);
    };
    if (!node.program.Empty()) add("program", act::ToString(node.program));
    if (!node.mutates.empty()) add("mutates", std::vector<int64_t>(node.mutates.begin(), node.mutates.end()));
    auto& phase = *to.add_metadata_props();
    phase.set_key("phase");
    phase.set_value(ToString(node.phase));
  }

  const Graph& graph_;
  onnx::ModelProto model_;
  std::vector<std::string> names_;
};

}  // namespace

llvm::Error EmitOnnx(const Graph& graph, const std::string& path) {
  std::string bytes;
  if (!Emitter(graph).Run().SerializeToString(&bytes))
    return MakeError(path, "the graph is too large for an ONNX file");
  return WriteFile(path, bytes);
}

}  // namespace act
