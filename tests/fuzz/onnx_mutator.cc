#include "tests/fuzz/onnx_mutator.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "compiler/import/file/onnx_versions.h"

namespace act::fuzz {
namespace {

size_t Below(size_t bound, Random& random) { return bound == 0 ? 0 : random() % bound; }

template <class Field>
auto* Any(Field* field, Random& random) {
  return field->size() == 0 ? nullptr : &*(field->begin() + static_cast<int>(Below(field->size(), random)));
}

// One that is there, or, sometimes and where there is none, a new one.
template <class Field>
auto& AnyOrNew(Field* field, Random& random) {
  auto* any = random() % 4 ? Any(field, random) : nullptr;
  return any ? *any : *field->Add();
}

// Numbers at which shape arithmetic goes wrong; mostly small ones, with which models stay valid.
int64_t Number(Random& random) {
  static constexpr int64_t kNumbers[] = {-2,
                                         -3,
                                         8,
                                         9,
                                         16,
                                         63,
                                         64,
                                         255,
                                         256,
                                         1 << 16,
                                         INT32_MAX,
                                         INT32_MIN,
                                         int64_t{1} << 40,
                                         int64_t{1} << 59,
                                         INT64_MAX,
                                         INT64_MIN,
                                         INT64_MIN + 1};
  return random() % 3 ? static_cast<int64_t>(random() % 6) - 1 : kNumbers[Below(std::size(kNumbers), random)];
}

float Real(Random& random) {
  static constexpr float kReals[] = {0,
                                     1,
                                     -1,
                                     .5f,
                                     1e-45f,
                                     3e38f,
                                     -3e38f,
                                     2e9f,
                                     1e19f,
                                     std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::quiet_NaN()};
  return kReals[Below(std::size(kReals), random)];
}

int32_t ElementType(Random& random) { return static_cast<int32_t>(random() % 24); }

// A list of nodes: of a graph, or of a function's body.
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Every list of nodes and every graph in a model.
struct Parts {
  std::vector<Nodes*> nodes;
  std::vector<onnx::GraphProto*> graphs;

  explicit Parts(onnx::ModelProto& model) {
    Add(*model.mutable_graph());
    for (auto& function : *model.mutable_functions()) Add(*function.mutable_node());
    for (auto& info : *model.mutable_training_info()) {
      if (info.has_algorithm()) Add(*info.mutable_algorithm());
      if (info.has_initialization()) Add(*info.mutable_initialization());
    }
  }

 private:
  void Add(onnx::GraphProto& graph) {
    graphs.push_back(&graph);
    Add(*graph.mutable_node());
  }
  void Add(Nodes& list) {
    nodes.push_back(&list);
    for (auto& node : list)
      for (auto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) Add(*attribute.mutable_g());
  }
};

// The name of a value of the model; now and then none, or one that nothing makes.
std::string ValueName(const Parts& parts, Random& random) {
  std::vector<std::string> names = {"", "absent"};
  for (const onnx::GraphProto* graph : parts.graphs) {
    for (const auto& input : graph->input()) names.push_back(input.name());
    for (const auto& tensor : graph->initializer()) names.push_back(tensor.name());
  }
  for (const Nodes* list : parts.nodes)
    for (const auto& node : *list) names.insert(names.end(), node.output().begin(), node.output().end());
  return names[Below(names.size(), random)];
}

std::string Operator(Random& random) {
  static const std::vector<std::string_view> kOperators = onnx_import::OnnxOperators();
  static constexpr const char* kOthers[] = {"GistEncode",
                                            "FusedMatMul",
                                            "BiasGelu",
                                            "SoftmaxCrossEntropyLossInternal",
                                            "LayerNormalizationGrad",
                                            "ReluGrad",
                                            "ConvGrad",
                                            "InPlaceAccumulatorV2"};
  if (random() % 8 == 0) return kOthers[Below(std::size(kOthers), random)];
  return std::string(kOperators[Below(kOperators.size(), random)]);
}

// The bytes that the tensor's type and shape ask for, if these are few.
void FillTensor(onnx::TensorProto& tensor, Random& random) {
  constexpr int64_t kMostElements = 256;
  int64_t elements = 1;
  for (const int64_t dim : tensor.dims()) {
    if (dim < 0 || dim > kMostElements) return;
    elements *= dim;
    if (elements > kMostElements) return;
  }
  if (random() % 8 != 0)
    tensor.set_data_type(random() % 2 ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64);
  onnx::TensorProto filled;
  filled.set_name(tensor.name());
  filled.set_data_type(tensor.data_type());
  *filled.mutable_dims() = tensor.dims();
  for (int64_t i = 0; i < elements; ++i) {
    if (tensor.data_type() == onnx::TensorProto::FLOAT) {
      filled.add_float_data(Real(random));
    } else if (tensor.data_type() == onnx::TensorProto::INT64) {
      filled.add_int64_data(Number(random));
    } else if (tensor.data_type() == onnx::TensorProto::DOUBLE) {
      filled.add_double_data(Real(random));
    } else if (tensor.data_type() == onnx::TensorProto::UINT64 ||
               tensor.data_type() == onnx::TensorProto::UINT32) {
      filled.add_uint64_data(static_cast<uint64_t>(Number(random)));
    } else {
      filled.add_int32_data(static_cast<int32_t>(Number(random) & 0xFF));
    }
  }
  tensor = filled;
}

void ChangeTensor(onnx::TensorProto& tensor, Random& random) {
  switch (random() % 6) {
    case 0:
      if (tensor.dims_size() > 0)
        tensor.set_dims(static_cast<int>(Below(tensor.dims_size(), random)), Number(random));
      break;
    case 1:
      tensor.add_dims(Number(random));
      break;
    case 2:
      if (tensor.dims_size() > 0) tensor.mutable_dims()->RemoveLast();
      break;
    case 3:
      tensor.set_data_type(ElementType(random));
      return;
    case 4:
      tensor.set_data_location(random() % 2 ? onnx::TensorProto::EXTERNAL : onnx::TensorProto::DEFAULT);
      return;
    default:
      break;
  }
  FillTensor(tensor, random);
}

void ChangeAttribute(onnx::AttributeProto& attribute, Random& random) {
  static constexpr const char* kNames[] = {
      "axis",           "axes",          "perm",      "kernel_shape", "strides",     "pads",
      "dilations",      "group",         "auto_pad",  "ceil_mode",    "keepdims",    "to",
      "value",          "value_ints",    "alpha",     "beta",         "epsilon",     "equation",
      "mode",           "hidden_size",   "direction", "num_groups",   "reduction",   "ignore_index",
      "batch_dims",     "allowzero",     "start",     "end",          "blocksize",   "largest",
      "sorted",         "exclusive",     "reverse",   "split",        "num_outputs", "output_shape",
      "output_padding", "training_mode", "seed",      "shape"};
  static constexpr const char* kTexts[] = {"",          "SAME_UPPER",     "VALID",           "linear",
                                           "cubic",     "nearest",        "reflect",         "none",
                                           "sum",       "mean",           "bidirectional",   "reverse",
                                           "ij,jk->ik", "...i,...j->...", "bhqd,bhkd->bhqk", "tanh",
                                           "crop",      "align_corners",  "i->ii",           "->"};
  switch (random() % 8) {
    case 0:
      attribute.set_name(kNames[Below(std::size(kNames), random)]);
      break;
    case 1:
      attribute.set_type(static_cast<onnx::AttributeProto::AttributeType>(random() % 15));
      break;
    case 2:
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(Number(random));
      break;
    case 3:
      attribute.set_type(onnx::AttributeProto::FLOAT);
      attribute.set_f(Real(random));
      break;
    case 4:
      attribute.set_type(onnx::AttributeProto::STRING);
      attribute.set_s(kTexts[Below(std::size(kTexts), random)]);
      break;
    case 5:
      if (attribute.ints_size() > 0 && random() % 2) {
        attribute.set_ints(static_cast<int>(Below(attribute.ints_size(), random)), Number(random));
      } else {
        attribute.set_type(onnx::AttributeProto::INTS);
        attribute.add_ints(Number(random));
      }
      break;
    case 6:
      if (attribute.ints_size() > 0) attribute.mutable_ints()->RemoveLast();
      break;
    default:
      attribute.set_type(onnx::AttributeProto::TENSOR);
      ChangeTensor(*attribute.mutable_t(), random);
  }
}

void ChangeNode(onnx::NodeProto& node, const Parts& parts, Random& random) {
  const auto input = [&] { return static_cast<int>(Below(node.input_size(), random)); };
  switch (random() % 9) {
    case 0:
      node.set_op_type(Operator(random));
      break;
    case 1:
    case 2:
      if (node.input_size() > 0) node.set_input(input(), ValueName(parts, random));
      break;
    case 3:
      node.add_input(ValueName(parts, random));
      break;
    case 4:
      if (node.input_size() > 0) node.mutable_input()->RemoveLast();
      break;
    case 5:
      node.add_output(random() % 2 ? "" : "new" + std::to_string(random() % 1000));
      break;
    case 6:
      if (node.attribute_size() > 0)
        node.mutable_attribute()->DeleteSubrange(static_cast<int>(Below(node.attribute_size(), random)), 1);
      break;
    default:
      ChangeAttribute(AnyOrNew(node.mutable_attribute(), random), random);
  }
}

void ChangeType(onnx::ValueInfoProto& info, Random& random) {
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  auto& shape = *tensor.mutable_shape();
  switch (random() % 5) {
    case 0:
      tensor.set_elem_type(ElementType(random));
      break;
    case 1:
      if (shape.dim_size() > 0) shape.mutable_dim()->RemoveLast();
      break;
    case 2:
      shape.add_dim()->set_dim_value(Number(random));
      break;
    case 3:
      if (auto* dim = Any(shape.mutable_dim(), random)) dim->set_dim_value(Number(random));
      break;
    default:
      if (auto* dim = Any(shape.mutable_dim(), random)) dim->set_dim_param(random() % 2 ? "N" : "M");
  }
}

// Nodes in another number or order.
void ChangeNodes(Nodes& nodes, Random& random) {
  if (nodes.empty()) return;
  const int at = static_cast<int>(Below(nodes.size(), random)),
            other = static_cast<int>(Below(nodes.size(), random));
  switch (random() % 4) {
    case 0:
      nodes.DeleteSubrange(at, 1);
      break;
    case 1:
      nodes.SwapElements(at, other);
      break;
    case 2: {  // once more, with results of its own, after itself
      onnx::NodeProto copy = nodes[at];
      for (auto& output : *copy.mutable_output()) output += "_" + std::to_string(random() % 100);
      *nodes.Add() = copy;
      for (int i = nodes.size() - 1; i > at + 1; --i) nodes.SwapElements(i, i - 1);
      break;
    }
    default: {  // a node between another one and a reader of it
      onnx::NodeProto made;
      made.set_op_type(Operator(random));
      if (nodes[at].output_size() == 0 || nodes[other].input_size() == 0 || other <= at) return;
      made.add_input(nodes[at].output(0));
      made.add_output("between" + std::to_string(random() % 1000));
      nodes[other].set_input(0, made.output(0));
      *nodes.Add() = made;
      for (int i = nodes.size() - 1; i > at + 1; --i) nodes.SwapElements(i, i - 1);
    }
  }
}

void ChangeGraph(onnx::GraphProto& graph, const Parts& parts, Random& random) {
  switch (random() % 7) {
    case 0:
      if (auto* info = Any(graph.mutable_input(), random)) ChangeType(*info, random);
      break;
    case 1:
      if (auto* info = Any(graph.mutable_output(), random)) info->set_name(ValueName(parts, random));
      break;
    case 2: {
      auto& info = *(random() % 2 ? graph.add_input() : graph.add_output());
      info.set_name(ValueName(parts, random));
      ChangeType(info, random);
      break;
    }
    case 3: {
      auto& list = *(random() % 2 ? graph.mutable_input() : graph.mutable_output());
      if (!list.empty()) list.DeleteSubrange(static_cast<int>(Below(list.size(), random)), 1);
      break;
    }
    case 4:
      if (auto* info = Any(graph.mutable_value_info(), random)) ChangeType(*info, random);
      break;
    case 5: {  // a constant in place of an input
      auto* info = Any(graph.mutable_input(), random);
      if (!info) return;
      auto& tensor = *graph.add_initializer();
      tensor.set_name(info->name());
      tensor.add_dims(static_cast<int64_t>(random() % 5));
      FillTensor(tensor, random);
      break;
    }
    default:
      if (auto* tensor = Any(graph.mutable_initializer(), random)) ChangeTensor(*tensor, random);
  }
}

// A function of the body's first node, which then calls it.
void AddFunction(onnx::ModelProto& model, Nodes& nodes, Random& random) {
  auto* node = Any(&nodes, random);
  if (!node) return;
  auto& function = *model.add_functions();
  function.set_name("f" + std::to_string(model.functions_size()));
  function.set_domain("local");
  *function.mutable_input() = node->input();
  *function.mutable_output() = node->output();
  *function.add_node() = *node;
  *function.mutable_opset_import() = model.opset_import();
  node->set_op_type(random() % 8 ? function.name() : "f1");
  node->set_domain("local");
  if (random() % 4 != 0) node->clear_attribute();
  auto& import = *model.add_opset_import();
  import.set_domain("local");
  import.set_version(1);
}

void ChangeTraining(onnx::ModelProto& model, const Parts& parts, Random& random) {
  auto* info = Any(model.mutable_training_info(), random);
  if (!info) {
    info = model.add_training_info();
    *info->mutable_algorithm() = model.graph();
    return;
  }
  auto& bindings = *(random() % 2 ? info->mutable_update_binding() : info->mutable_initialization_binding());
  if (random() % 3 == 0 && !bindings.empty()) {
    bindings.DeleteSubrange(static_cast<int>(Below(bindings.size(), random)), 1);
    return;
  }
  auto& binding = AnyOrNew(&bindings, random);
  (random() % 2 ? binding.mutable_key() : binding.mutable_value())->assign(ValueName(parts, random));
}

}  // namespace

void ChangeModel(onnx::ModelProto& model, Random& random) {
  const Parts parts(model);
  Nodes& nodes = *parts.nodes[Below(parts.nodes.size(), random)];
  switch (random() % 16) {
    case 0:
      if (auto* import = Any(model.mutable_opset_import(), random))
        random() % 4 ? import->set_version(static_cast<int64_t>(1 + random() % 23))
                     : import->set_version(Number(random));
      break;
    case 1:
      AddFunction(model, nodes, random);
      break;
    case 2:
      ChangeTraining(model, parts, random);
      break;
    case 3: {  // of how the model is compiled: see onnx_fuzz.cc
      std::string choices = model.doc_string();
      choices.resize(std::max<size_t>(choices.size(), 15), '0');
      choices[Below(choices.size(), random)] = static_cast<char>('0' + random() % 64);
      model.set_doc_string(choices);
      break;
    }
    case 4:
    case 5:
    case 6:
      ChangeGraph(*parts.graphs[Below(parts.graphs.size(), random)], parts, random);
      break;
    case 7:
    case 8:
    case 9:
      ChangeNodes(nodes, random);
      break;
    default:
      if (auto* node = Any(&nodes, random)) ChangeNode(*node, parts, random);
  }
}

}  // namespace act::fuzz
