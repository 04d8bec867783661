// Optimizers and Gradient as operators of a graph, by ONNX's definitions. In the algorithm of a
// TrainingInfoProto they are not imported: training_info.h reads them, and the plan has its own
// backward pass and update.
#include <algorithm>

#include "compiler/autodiff/differentiate.h"
#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

// Arithmetic on values. After the first error all results are kNoValue; Finish returns the error.
class Arithmetic {
 public:
  explicit Arithmetic(NodeContext& c) : c_(c) {}
  ~Arithmetic() { llvm::consumeError(std::move(error_)); }
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;

  ValueId In(int i) { return Check(c_.Value(static_cast<size_t>(i))); }
  ValueId Op(const char* op, std::vector<ValueId> x, Attributes attrs = {}) {
    return error_ ? kNoValue : Check(c_.Emit(op, std::move(x), std::move(attrs)));
  }
  ValueId Number(double x) { return c_.builder().Scalar(static_cast<float>(x)); }
  ValueId Add(ValueId a, ValueId b) { return Op("Add", {a, b}); }
  ValueId Sub(ValueId a, ValueId b) { return Op("Sub", {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("Mul", {a, b}); }
  ValueId Scaled(double a, ValueId x) { return Mul(x, Number(a)); }
  // a x + b y
  ValueId Mix(double a, ValueId x, double b, ValueId y) { return Add(Scaled(a, x), Scaled(b, y)); }
  // x / (sqrt(h) + eps)
  ValueId OverRoot(ValueId x, ValueId h, double eps) {
    return Op("Div", {x, Add(Op("Sqrt", {h}), Number(eps))});
  }
  llvm::Error Finish() { return std::move(error_); }

 private:
  ValueId Check(llvm::Expected<ValueId> x) {
    if (x) return *x;
    error_ = llvm::joinErrors(std::move(error_), x.takeError());
    return kNoValue;
  }

  NodeContext& c_;
  llvm::Error error_ = llvm::Error::success();
};

// Operands: rate R, count T, then the n parameters, the n gradients and the states; results the n
// new parameters and the new states. `step(math, tensors)` makes the results of one parameter from
// its tensors.
template <class Step>
llvm::Error ForEachParameter(NodeContext& c, size_t states, const Step& step) {
  const size_t group = 2 + states, count = (c.inputs() - 2) / group;
  if (count * group + 2 != c.inputs() || count * (1 + states) != c.outputs())
    return c.Fail("has " + std::to_string(c.inputs()) + " inputs and " + std::to_string(c.outputs()) +
                  " outputs");
  for (size_t i = 0; i < count; ++i) {
    Arithmetic math(c);
    std::vector<ValueId> tensors;
    for (size_t k = 0; k < group; ++k) tensors.push_back(math.In(static_cast<int>(2 + k * count + i)));
    const std::vector<ValueId> results = step(math, tensors);
    ACT_CHECK_OK(math.Finish());
    for (size_t k = 0; k < results.size(); ++k) ACT_CHECK_OK(c.Set(k * count + i, results[k]));
  }
  return llvm::Error::success();
}

// T as f32, and T > 0.
struct Count {
  ValueId number, started;
};
Count CountOf(Arithmetic& m) {
  Attributes to_float;
  to_float.Set("to", static_cast<int64_t>(DType::kFloat32));
  const ValueId t = m.Op("Cast", {m.In(1)}, to_float);
  return {t, m.Op("Greater", {t, m.Number(0)})};
}

// G + norm_coefficient X
ValueId Regularized(Arithmetic& m, const NodeAttributes& a, ValueId x, ValueId g) {
  return m.Add(g, m.Scaled(a.Float("norm_coefficient", 0), x));
}

llvm::Error ImportAdam(NodeContext& c) {
  const double alpha = c.attrs.Float("alpha", .9), beta = c.attrs.Float("beta", .999);
  return ForEachParameter(c, 2, [&](Arithmetic& m, const std::vector<ValueId>& in) {
    const ValueId g = Regularized(m, c.attrs, in[0], in[1]);
    const ValueId v = m.Mix(alpha, in[2], 1 - alpha, g);
    const ValueId h = m.Mix(beta, in[3], 1 - beta, m.Mul(g, g));
    const Count t = CountOf(m);
    const auto correction = [&](double b) {  // 1 - b^T
      return m.Sub(m.Number(1), m.Op("Pow", {m.Number(b), t.number}));
    };
    const ValueId ratio = m.Op("Div", {m.Op("Sqrt", {correction(beta)}), correction(alpha)});
    const ValueId rate = m.Mul(m.In(0), m.Op("Where", {t.started, ratio, m.Number(1)}));
    const ValueId x = m.Sub(in[0], m.Mul(rate, m.OverRoot(v, h, c.attrs.Float("epsilon", 1e-6))));
    return std::vector<ValueId>{m.Scaled(1 - c.attrs.Float("norm_coefficient_post", 0), x), v, h};
  });
}

llvm::Error ImportMomentum(NodeContext& c) {
  const std::string mode = c.attrs.String("mode", "");
  if (mode != "standard" && mode != "nesterov") return c.Fail("mode must be standard or nesterov");
  const double alpha = c.attrs.Float("alpha", 0);
  return ForEachParameter(c, 1, [&](Arithmetic& m, const std::vector<ValueId>& in) {
    const ValueId g = Regularized(m, c.attrs, in[0], in[1]);
    const ValueId beta = m.Op("Where", {CountOf(m).started, m.Number(c.attrs.Float("beta", 1)), m.Number(1)});
    const ValueId v = m.Add(m.Scaled(alpha, in[2]), m.Mul(beta, g));
    const ValueId step = mode == "nesterov" ? m.Add(g, m.Scaled(alpha, v)) : v;
    return std::vector<ValueId>{m.Sub(in[0], m.Mul(m.In(0), step)), v};
  });
}

llvm::Error ImportAdagrad(NodeContext& c) {
  return ForEachParameter(c, 1, [&](Arithmetic& m, const std::vector<ValueId>& in) {
    const ValueId g = Regularized(m, c.attrs, in[0], in[1]);
    const ValueId h = m.Add(in[2], m.Mul(g, g));
    const ValueId decay = m.Add(m.Number(1), m.Scaled(c.attrs.Float("decay_factor", 0), CountOf(m).number));
    const ValueId step = m.Mul(m.In(0), m.OverRoot(g, h, c.attrs.Float("epsilon", 1e-6)));
    return std::vector<ValueId>{m.Sub(in[0], m.Op("Div", {step, decay})), h};
  });
}

// The derivatives of y by xs at the values that the model has: our backward pass of the nodes so
// far, as ordinary nodes.
llvm::Error ImportGradient(NodeContext& c) {
  if (!c.importer.keeps_outputs)
    return c.Fail("the loss depends on a gradient", "derivatives of a gradient are not supported");
  const std::vector<std::string> xs = c.attrs.Strings("xs"), zs = c.attrs.Strings("zs");
  const std::string y = c.attrs.String("y");
  std::vector<std::string> named = xs;
  named.insert(named.end(), zs.begin(), zs.end());
  if (!std::equal(named.begin(), named.end(), c.node.input().begin(), c.node.input().end()))
    return c.Fail("must read the tensors that xs and zs name, in this order");
  if (!c.importer.Find(y)) return c.Fail("there is no value '" + y + "' before it");
  ACT_TRY(const ValueId of, c.importer.Materialize(*c.importer.Find(y)));
  std::vector<ValueId> by;
  for (size_t i = 0; i < xs.size(); ++i) {
    ACT_TRY(const ValueId x, c.Value(i));
    by.push_back(x);
  }
  Graph& graph = c.builder().graph();
  for (const Node& node : graph.nodes)  // their gradients are made only when they are lowered
    if (node.op == "BatchNorm" || node.op == "LayerNorm") return c.Fail("stands after a " + node.op);
  const size_t nodes = graph.nodes.size(), outputs = graph.outputs.size();
  UpdateOptions no_update;
  no_update.optimizer = "none";
  ACT_CHECK_OK(Differentiate(graph, of, by, no_update).takeError());
  for (size_t i = nodes; i < graph.nodes.size(); ++i) graph.nodes[i].phase = Phase::kForward;
  const std::vector<ValueId> gradients(graph.outputs.begin() + static_cast<std::ptrdiff_t>(outputs),
                                       graph.outputs.end());
  graph.outputs.resize(outputs);
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string name = "grad." + graph.value(by[i]).name;
    const auto made = std::find_if(gradients.begin(), gradients.end(),
                                   [&](ValueId v) { return graph.value(v).name == name; });
    if (made == gradients.end()) return c.Fail("'" + y + "' does not depend on '" + xs[i] + "'");
    ACT_CHECK_OK(c.Set(i, *made));
  }
  return llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& OptimizerImports() {
  static const std::vector<ImportEntry> entries = {
      {"Adam", 6, -1, ImportAdam, kPreviewTraining},
      {"Momentum", 5, -1, ImportMomentum, kPreviewTraining},
      {"Adagrad", 5, -1, ImportAdagrad, kPreviewTraining},
      {"Gradient", 1, -1, ImportGradient, kPreviewTraining},
  };
  return entries;
}

}  // namespace act::onnx_import
