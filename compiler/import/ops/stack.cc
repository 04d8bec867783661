#include "compiler/import/ops/stack.h"

#include "compiler/import/ops/made_node.h"

namespace act::onnx_import {

llvm::Error SetJoined(const NodeContext& c, size_t i, std::vector<Operand> parts, int64_t axis,
                      bool axis_is_new) {
  if (!c.WantsOutput(i)) return llvm::Error::success();
  if (parts.empty()) return c.Fail("joins no tensors");
  const std::string& result = c.node.output(static_cast<int>(i));
  ACT_TRY(const size_t along, c.Axis(axis, parts[0].type.dims.size() + (axis_is_new ? 1 : 0)));
  const auto at = static_cast<int64_t>(along);
  std::vector<std::string> names;
  for (Operand& part : parts) {
    const std::string name = result + "/part/" + std::to_string(names.size());
    ACT_CHECK_OK(c.importer.Define(name, std::move(part)));
    names.push_back(name);
    if (!axis_is_new) continue;
    names.back() += "/unsqueezed";
    ACT_CHECK_OK(c.importer.ImportNode(
        MadeNode(c, "Unsqueeze", {name}, names.back(), {{"axes", std::vector<int64_t>{at}}})));
    c.importer.Erase(name);
  }
  ACT_CHECK_OK(c.importer.ImportNode(MadeNode(c, "Concat", names, result, {{"axis", at}})));
  const Operand& made = *c.importer.Find(result);
  if (axis_is_new && names.size() > 1 && made.value != kNoValue) {
    Stacked stacked{along, {}};
    for (const std::string& name : names) {
      ACT_TRY(const ValueId part, c.importer.Materialize(*c.importer.Find(name)));
      stacked.parts.push_back(part);
    }
    c.importer.stacked.emplace(made.value, std::move(stacked));
  }
  for (const std::string& name : names) c.importer.Erase(name);
  return llvm::Error::success();
}

}  // namespace act::onnx_import
