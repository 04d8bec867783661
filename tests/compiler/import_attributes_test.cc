// Attributes of ONNX nodes are read by type. An attribute of another type is an
// error that names it.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/fold_shapes.h"
#include "compiler/import/training/ort_optimizer.h"
#include "tests/compiler/import_testing.h"

namespace act {
namespace {

using namespace import_testing;
using onnx_import::NodeAttributes;

using Type = onnx::AttributeProto::AttributeType;
constexpr Type kTypes[] = {onnx::AttributeProto::INT,    onnx::AttributeProto::FLOAT,
                           onnx::AttributeProto::STRING, onnx::AttributeProto::INTS,
                           onnx::AttributeProto::FLOATS, onnx::AttributeProto::STRINGS,
                           onnx::AttributeProto::TENSOR, onnx::AttributeProto::GRAPH};

onnx::AttributeProto Typed(const std::string& name, Type type) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  return a;
}

onnx::NodeProto NodeWith(const std::vector<onnx::AttributeProto>& attributes) {
  onnx::NodeProto node;
  node.set_name("n");
  node.set_op_type("Op");
  for (const auto& a : attributes) *node.add_attribute() = a;
  return node;
}

std::string TextOf(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : std::string("no error");
}

TEST(NodeAttributes, AnAccessorReturnsWhatTheNodeHasElseTheFallback) {
  onnx::AttributeProto floats = Typed("floats", onnx::AttributeProto::FLOATS);
  floats.add_floats(.1f);
  onnx::AttributeProto strings = Typed("strings", onnx::AttributeProto::STRINGS);
  strings.add_strings("one");
  const onnx::NodeProto node =
      NodeWith({Attr("int", int64_t{3}), Attr("float", .1), Attr("string", std::string("s")),
                Attr("ints", std::vector<int64_t>{1, 2}), floats, strings});
  const NodeAttributes attrs(node);
  EXPECT_EQ(attrs.Int("int", 7), 3);
  EXPECT_EQ(attrs.Float("float", 7), .1) << "the decimal that was meant, not the float's nearest double";
  EXPECT_EQ(attrs.String("string", "t"), "s");
  EXPECT_EQ(attrs.Ints("ints"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(attrs.Floats("floats"), std::vector<double>{.1});
  EXPECT_EQ(attrs.Strings("strings"), std::vector<std::string>{"one"});
  EXPECT_EQ(attrs.Int("absent", 7), 7);
  EXPECT_EQ(attrs.Ints("absent", {7}), std::vector<int64_t>{7});
  EXPECT_EQ(attrs.Tensor("absent"), nullptr);
  EXPECT_EQ(TextOf(attrs.Check()), "no error");
}

TEST(NodeAttributes, EachAccessorRefusesAllTypesButItsOwn) {
  const std::vector<std::pair<Type, std::function<void(const NodeAttributes&)>>> accessors = {
      {onnx::AttributeProto::INT, [](const NodeAttributes& a) { a.Int("x"); }},
      {onnx::AttributeProto::FLOAT, [](const NodeAttributes& a) { a.Float("x"); }},
      {onnx::AttributeProto::STRING, [](const NodeAttributes& a) { a.String("x"); }},
      {onnx::AttributeProto::INTS, [](const NodeAttributes& a) { a.Ints("x"); }},
      {onnx::AttributeProto::FLOATS, [](const NodeAttributes& a) { a.Floats("x"); }},
      {onnx::AttributeProto::STRINGS, [](const NodeAttributes& a) { a.Strings("x"); }},
      {onnx::AttributeProto::TENSOR, [](const NodeAttributes& a) { a.Tensor("x"); }},
      {onnx::AttributeProto::GRAPH, [](const NodeAttributes& a) { a.Graph("x"); }}};
  for (const auto& [own, read] : accessors)
    for (const Type type : kTypes) {
      const onnx::NodeProto node = NodeWith({Typed("x", type)});
      const NodeAttributes attrs(node);
      read(attrs);
      const bool refused = TextOf(attrs.Check()).find("attribute 'x': expected ") != std::string::npos;
      EXPECT_EQ(refused, type != own) << "read as " << own << ", is " << type;
    }
}

TEST(NodeAttributes, TheErrorNamesNodeOperatorAttributeAndBothTypes) {
  const onnx::NodeProto node = NodeWith({Attr("axes", int64_t{1})});
  const NodeAttributes attrs(node);
  EXPECT_EQ(attrs.Ints("axes", {5}), std::vector<int64_t>{5});
  EXPECT_EQ(TextOf(attrs.Check()),
            "node 'n' (Op): attribute 'axes': expected a list of ints, found an int\n"
            "hint: the operator takes 'axes' as a list of ints; write it with that type");
}

TEST(NodeAttributes, WhatNothingReadsIsIgnoredUnlessNoOperatorHasItsType) {
  const onnx::NodeProto unread = NodeWith({Attr("alpha", std::string("much"))});
  EXPECT_EQ(TextOf(NodeAttributes(unread).Check()), "no error");
  const onnx::NodeProto sparse = NodeWith({Typed("s", onnx::AttributeProto::SPARSE_TENSOR)});
  EXPECT_NE(
      TextOf(NodeAttributes(sparse).Check()).find("attribute 's' has an unsupported type, SPARSE_TENSOR"),
      std::string::npos);
}

// Makes one operand of a trial: the value that a name among the node's inputs stands for.
using Operand = std::function<onnx_import::Operand(GraphBuilder&)>;

Operand Value(DType dtype, const Dims& dims) {
  return [=](GraphBuilder& builder) {
    const TensorType type{dtype, dims};
    return onnx_import::Operand{.type = type, .value = builder.Input("x", type, ValueKind::kInput)};
  };
}
Operand Integers(const Dims& elements) {
  return [=](GraphBuilder&) { return onnx_import::KnownOperand(onnx_import::IntegerVector(elements)); };
}

// The first, the second and all further operands of a node.
struct Operands {
  Operand first, second, rest;
};
std::vector<Operands> OperandsToTry() {
  const Dim n = Dim::Batch();
  const Operand image = Value(DType::kFloat32, {n, 4, 8, 8}), matrix = Value(DType::kFloat32, {8, 8}),
                row = Value(DType::kFloat32, {4}), rows = Value(DType::kFloat32, {n, 8}),
                scores = Value(DType::kFloat32, {n, 8, 8}), layer = Value(DType::kFloat32, {1, 32, 8}),
                labels = Value(DType::kInt64, {n}), many = Value(DType::kInt64, {8, 8}),
                steps = Value(DType::kFloat32, {8, n, 8}), one = Integers({1}),
                kernel = Value(DType::kFloat32, {4, 4, 3, 3}), shape = Integers({4, 16});
  return {{image, image, image}, {matrix, matrix, matrix}, {image, kernel, row}, {image, one, one},
          {one, one, one},       {steps, layer, layer},    {matrix, many, many}, {rows, labels, row},
          {many, many, many},    {scores, labels, row},    {image, row, row},    {matrix, shape, one}};
}

// One node with such operands, in an importer of its own.
struct Trial {
  const Operands& operands;
  const onnx::NodeProto& node;
  int64_t opset;

  // Calls `import` with an importer that knows the node's operands.
  template <class F>
  auto With(const F& import) const {
    Graph graph;
    onnx_import::Importer importer(graph, opset);
    importer.keeps_outputs = true;
    for (int i = 0; i < node.input_size(); ++i) {
      const Operand& make = i == 0 ? operands.first : i == 1 ? operands.second : operands.rest;
      llvm::cantFail(importer.Define(node.input(i), make(importer.builder())));
    }
    return import(importer);
  }

  // The names of the attributes that the node's fold or importer asks for.
  std::set<std::string> Asked() const {
    return With([&](onnx_import::Importer& importer) {
      onnx_import::NodeContext context(importer, node);
      onnx_import::FoldArgs args{{}, context.attrs, context.outputs()};
      bool folds = node.domain().empty();
      for (size_t i = 0; i < context.inputs(); ++i) {
        args.in.push_back(context.In(i).known ? &*context.In(i).known : nullptr);
        folds = folds && args.in.back();
      }
      const onnx_import::FoldEntry* fold = folds ? onnx_import::FindFold(node.op_type()) : nullptr;
      if (!fold || !fold->fold(args)) {
        const onnx_import::ImportEntry* entry = onnx_import::FindIntegerImport(context);
        if (!entry) entry = onnx_import::FindImport(node);
        const bool fits = entry && node.input_size() >= entry->min_inputs &&
                          (entry->max_inputs < 0 || node.input_size() <= entry->max_inputs);
        if (fits) llvm::consumeError(entry->import(context));
      }
      return std::set<std::string>(context.attrs.asked().begin(), context.attrs.asked().end());
    });
  }

  std::string Error() const {
    return With([&](onnx_import::Importer& importer) { return TextOf(importer.ImportNode(node)); });
  }
};

// Every operator of the registries is tried, on operands with which most importers get far. An
// importer accepts each attribute that it asks for in exactly one type. Every other type is an
// error that names the attribute.
TEST(ImportAttributes, EveryImporterTakesEachAttributeInOneTypeOnly) {
  std::set<std::pair<std::string, std::pair<std::string, int>>> rows;  // domain, operator, inputs
  for (const auto* family : onnx_import::AllImports())
    for (const auto& entry : *family) {
      const int most = entry.max_inputs < 0 ? entry.min_inputs + 2 : entry.max_inputs;
      for (int inputs = entry.min_inputs; inputs <= most; ++inputs)
        rows.insert({entry.domain, {entry.op, inputs}});
    }
  for (const auto* family : onnx_import::AllFolds())
    for (const auto& entry : *family)
      for (int inputs = entry.min_inputs; inputs <= (entry.max_inputs < 0 ? 3 : entry.max_inputs); ++inputs)
        rows.insert({"", {std::string(entry.op), inputs}});

  std::set<std::pair<std::string, std::string>> seen;  // operator, attribute
  for (const auto& [domain, op] : rows)
    for (const Operands& operands : OperandsToTry())
      for (const auto& [opset, outputs] : {std::pair<int64_t, int>{9, 1}, {22, 1}, {22, 2}, {22, 3}}) {
        onnx::NodeProto node;
        node.set_op_type(op.first);
        node.set_domain(domain);
        node.set_name("n");
        for (int i = 0; i < outputs; ++i) node.add_output("y" + std::to_string(i));
        for (int i = 0; i < op.second; ++i) node.add_input("x" + std::to_string(i));
        for (const std::string& name : Trial{operands, node, opset}.Asked()) {
          seen.insert({op.first, name});
          int taken = 0;
          for (const Type type : kTypes) {
            onnx::NodeProto with = node;
            *with.add_attribute() = Typed(name, type);
            const std::string error = Trial{operands, with, opset}.Error();
            taken += error.find("attribute '" + name + "': expected ") == std::string::npos;
          }
          EXPECT_EQ(taken, 1) << op.first << " of " << op.second << " inputs takes '" << name << "' in "
                              << taken << " types";
        }
      }
  for (const auto& [op, name] : std::vector<std::pair<std::string, std::string>>{{"Attention", "q_num_heads"},
                                                                                 {"BitShift", "direction"},
                                                                                 {"Constant", "value"},
                                                                                 {"If", "then_branch"},
                                                                                 {"IsInf", "detect_negative"},
                                                                                 {"LSTM", "hidden_size"},
                                                                                 {"Conv", "strides"},
                                                                                 {"Gradient", "xs"},
                                                                                 {"Adam", "norm_coefficient"},
                                                                                 {"Trilu", "upper"}})
    EXPECT_TRUE(seen.count({op, name})) << "the scan no longer reaches " << op << "'s " << name;
  EXPECT_GT(seen.size(), 150u) << "pairs of operator and attribute";
}

OnnxModel Causal(const onnx::AttributeProto& is_causal) {
  OnnxModel m(23);
  m.Input("x", {"N", 2, 4, 8}).Weight("w", {8, 8}).Node("MatMul", {"x", "w"}, {"q"});
  return m.Node("Attention", {"q", "q", "q"}, {"y"}, {is_causal}).MeanLoss("y");
}

TEST(ImportAttributes, AttentionWhoseCausalFlagIsAFloatIsNotImportedAsNonCausal) {
  Import(Causal(Attr("is_causal", int64_t{1})));
  EXPECT_NE(ErrorOf(Causal(Attr("is_causal", 1.0)))
                .find("node 'y' (Attention): attribute 'is_causal': expected an int, found a float"),
            std::string::npos);
}

// The folds of the exporters' shape computations read attributes too.
TEST(ImportAttributes, AFoldedNodeRefusesAnAttributeOfAnotherType) {
  OnnxModel m;
  m.Input("x", {"N", 8}).Node("Shape", {"x"}, {"s"}).Integers("last", {1});
  m.Node("Gather", {"s", "last"}, {"extent"}, {Attr("axis", 0.0)}).Integers("minus", {-1});
  m.Node("Concat", {"minus", "extent"}, {"to"}, {Attr("axis", int64_t{0})});
  m.Node("Reshape", {"x", "to"}, {"y"}).MeanLoss("y");
  EXPECT_NE(ErrorOf(m).find("node 'extent' (Gather): attribute 'axis': expected an int, found a float"),
            std::string::npos);
}

// The function's node refers to the call's attribute, and the caller decides that attribute's type.
TEST(ImportAttributes, AFunctionsAttributeHasTheTypeThatItsNodeReads) {
  const auto model = [](const onnx::AttributeProto& slope) {
    OnnxModel m = Linear();
    m.proto.add_opset_import()->set_domain("custom");
    m.proto.mutable_opset_import(1)->set_version(1);
    onnx::FunctionProto& f = *m.proto.add_functions();
    f.set_domain("custom");
    f.set_name("Leaky");
    f.add_input("x");
    f.add_output("y");
    f.add_attribute("slope");
    onnx::NodeProto& inner = *f.add_node();
    inner.set_op_type("LeakyRelu");
    inner.add_input("x");
    inner.add_output("y");
    onnx::AttributeProto& alpha = *inner.add_attribute();
    alpha.set_name("alpha");
    alpha.set_type(onnx::AttributeProto::FLOAT);
    alpha.set_ref_attr_name("slope");
    return m.Node("Leaky", {"logits"}, {"z"}, {slope}, "custom").MeanLoss("z");
  };
  Import(model(Attr("slope", .5)));
  EXPECT_NE(
      ErrorOf(model(Attr("slope", int64_t{1}))).find("attribute 'alpha': expected a float, found an int"),
      std::string::npos);
}

TEST(ImportAttributes, OnnxRuntimesOptimizerRefusesAnAttributeOfAnotherType) {
  const auto error = [](const onnx::AttributeProto& attribute, const std::string& op) {
    OnnxModel m;
    m.Node(op, {"lr"}, {"updated"}, {attribute}, "com.microsoft");
    const TemporaryFolder folder;
    return TextOf(onnx_import::ReadOrtOptimizer(m.Write(folder)).takeError());
  };
  EXPECT_EQ(error(Attr("alpha", .9), "AdamWOptimizer"), "no error");
  EXPECT_NE(error(Attr("alpha", int64_t{1}), "AdamWOptimizer")
                .find("(AdamWOptimizer): attribute 'alpha': expected a float, found an int"),
            std::string::npos);
  EXPECT_NE(
      error(Attr("adam_mode", 1.0), "AdamWOptimizer").find("'adam_mode': expected an int, found a float"),
      std::string::npos);
  EXPECT_NE(error(Attr("max_norm", int64_t{1}), "InplaceClipGradNorm")
                .find("'max_norm': expected a float, found an int"),
            std::string::npos);
}

TEST(ImportAttributes, TopKOfTheFirstOpsetsTakesItsCountAsAnAttribute) {
  OnnxModel m(9);
  m.Input("x", {"N", 8}).Node("TopK", {"x"}, {"y", "i"}, {Attr("k", int64_t{3})}).MeanLoss("y");
  EXPECT_NE(Find(Import(m).graph, "TopK"), nullptr);
}

}  // namespace
}  // namespace act
