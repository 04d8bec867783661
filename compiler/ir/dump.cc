#include "compiler/ir/dump.h"

#include <cstdio>
#include <cstring>
#include <map>

namespace act {
namespace {

std::string Number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

struct AttributePrinter {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return Number(v); }
  std::string operator()(const std::string& v) const { return v; }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string s = "[";
    for (size_t i = 0; i < list.size(); ++i) s += (i ? "," : "") + (*this)(list[i]);
    return s + "]";
  }
};

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string Run() {
    std::string text;
    for (ValueId v : graph_.inputs)
      text +=
          "input " + Name(v) + ": " + ToString(graph_.value(v).type) + " '" + graph_.value(v).name + "'\n";
    const char* phase = nullptr;
    for (const Node& node : graph_.nodes) {
      const char* now =
          node.phase == Phase::kForward || node.phase == Phase::kDerived ? "forward" : "backward";
      if (node.phase == Phase::kDerived) now = phase ? phase : "forward";
      if (!phase || std::strcmp(phase, now) != 0) text += std::string("// ") + now + "\n";
      phase = now;
      text += Line(node) + "\n";
    }
    text += "return";
    for (ValueId v : graph_.outputs) text += " " + Name(v);
    return text + "\n";
  }

 private:
  std::string Name(ValueId v) {
    if (v == kNoValue) return "_";
    const Value& value = graph_.value(v);
    if (value.kind == ValueKind::kConstant && value.type.dims.empty() &&
        value.type.dtype == DType::kFloat32 && value.data.data) {
      float f;
      std::memcpy(&f, value.data.data, sizeof f);
      return Number(f);
    }
    if (IsPersistent(value.kind) && !value.name.empty()) return "@" + value.name;
    const auto [it, added] = number_.emplace(v, number_.size());
    return "%" + std::to_string(it->second);
  }

  std::string Line(const Node& node) {
    std::string inputs, outputs;
    for (ValueId v : node.inputs) inputs += (inputs.empty() ? "" : ", ") + Name(v);
    for (ValueId v : node.outputs)
      outputs += (outputs.empty() ? "" : ", ") + Name(v) + ": " + ToString(graph_.value(v).type);
    std::string line = "  " + outputs + (outputs.empty() ? "" : " = ") + node.op + "(" + inputs + ")";
    std::string attrs;
    for (const auto& [name, attribute] : node.attrs.map())
      attrs += (attrs.empty() ? "" : ", ") + name + "=" + std::visit(AttributePrinter{}, attribute);
    if (!attrs.empty()) line += " {" + attrs + "}";
    if (!node.program.Empty()) line += " {" + ToString(node.program) + "}";
    return line;
  }

  const Graph& graph_;
  std::map<ValueId, size_t> number_;
};

}  // namespace

std::string Dump(const Graph& graph) { return Printer(graph).Run(); }

}  // namespace act
