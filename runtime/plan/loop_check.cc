#include "runtime/plan/loop_check.h"

#include <algorithm>

namespace act {
namespace {

// Operand dims against the iteration space, by numpy's broadcasting.
bool Broadcasts(const Dims& operand, const Dims& space) {
  if (operand.size() > space.size()) return false;
  const size_t skipped = space.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i)
    if (!(operand[i] == Dim(1)) && !(operand[i] == space[skipped + i])) return false;
  return true;
}

bool IsTrailing(const Dims& part, const Dims& space) {
  return part.size() <= space.size() && std::equal(part.rbegin(), part.rend(), space.rbegin());
}

// One number a row: the axes before the rows', which may be followed by ones.
bool IsRowValue(const Dims& dims, const Program& program) {
  const size_t lead = program.space.size() - static_cast<size_t>(program.row_axes);
  return dims.size() >= lead && dims.size() <= program.space.size() &&
         std::equal(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(lead), program.space.begin()) &&
         std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(lead), dims.end(),
                     [](const Dim& d) { return d == Dim(1); });
}

// A loop may sum over axes that neither an operand nor a result has, as where a scalar is expanded and its functions are
// computed again. Nothing else bounds its work there: so many elements take seconds, and a tensor of them 4 GiB.
constexpr int64_t kMostFreeElements = 1 << 30;

// Elements of the axes that no tensor has.
int64_t FreeElements(const Graph& graph, const Node& node) {
  const Program& program = node.program;
  const auto has = [&](const TensorType& type, size_t axis, bool from_end) {
    const size_t skipped =
        from_end ? program.space.size() - std::min(program.space.size(), type.dims.size()) : 0;
    return axis >= skipped && axis - skipped < type.dims.size() &&
           type.dims[axis - skipped] == program.space[axis];
  };
  int64_t elements = 1;
  for (size_t axis = 0; axis < program.space.size(); ++axis) {
    bool bound = false;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      bound |= program.inputs[i].codec.kind != CodecKind::kNone ||
               has(graph.value(node.inputs[i]).type, axis, true);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const OutputKind kind = program.outputs[i].kind;
      bound |= kind == OutputKind::kStore || kind == OutputKind::kEncode ||
               has(graph.value(node.outputs[i]).type, axis, kind == OutputKind::kSum);
    }
    if (!bound && node.mutates.empty()) elements = SaturatingMul(elements, program.space[axis].At(1));
  }
  return elements;
}

bool IsCodeOf(const TensorType& type, const Codec& codec, const Dims& space) {
  return std::optional<TensorType>(type) == CodeType(codec, space);
}

}  // namespace

bool IsPossible(const Dim& dim) {
  return !dim.TooLarge() && dim.per_batch >= 0 && dim.per_batch2 >= 0 && dim.At(1) >= 0;
}

std::optional<std::string> WrongLoop(const Graph& graph, const Node& node) {
  const Program& program = node.program;
  for (const Dim& dim : program.space)
    if (!IsPossible(dim)) return "an impossible iteration space " + ToString(program.space);
  if (TensorType{DType::kFloat64, program.space}.Bytes().TooLarge()) return "too large an iteration space";
  if (const auto problem = CheckProgram(program)) return "its program: " + *problem;
  if (program.inputs.size() != node.inputs.size()) return "its program has another number of inputs";
  if (program.outputs.size() != node.outputs.size() + node.mutates.size())
    return "its program has another number of outputs";

  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) return "its program has no optional inputs";
    const TensorType& type = graph.value(node.inputs[i]).type;
    const Codec& codec = program.inputs[i].codec;
    const bool fits = codec.kind == CodecKind::kNone ? Broadcasts(type.dims, program.space)
                                                     : IsCodeOf(type, codec, program.space);
    if (!fits) {
      return "input " + std::to_string(i) + ", " + ToString(type) + ", does not fit the iteration space " +
             ToString(program.space);
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& type = graph.value(node.outputs[i]).type;
    const ProgramOutput& output = program.outputs[i];
    const bool fits = output.kind == OutputKind::kStore      ? type.dims == program.space
                      : output.kind == OutputKind::kEncode   ? IsCodeOf(type, output.codec, program.space)
                      : output.kind == OutputKind::kRowStore ? IsRowValue(type.dims, program)
                                                             : IsTrailing(type.dims, program.space);
    if (!fits) {
      return "output " + std::to_string(i) + ", " + ToString(type) + ", does not fit the iteration space " +
             ToString(program.space);
    }
  }
  for (size_t i = 0; i < node.mutates.size(); ++i) {
    const TensorType& type = graph.value(node.inputs[static_cast<size_t>(node.mutates[i])]).type;
    const bool stored = program.outputs[node.outputs.size() + i].kind == OutputKind::kStore;
    if (!stored || type.dtype != DType::kFloat32 || type.dims != program.space)
      return "does not write all of its operand " + std::to_string(node.mutates[i]) + ", " + ToString(type);
  }
  if (FreeElements(graph, node) > kMostFreeElements)
    return "its iteration space " + ToString(program.space) + " has elements that no operand or result has";
  return std::nullopt;
}

}  // namespace act
