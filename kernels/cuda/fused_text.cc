#include "kernels/cuda/fused_text.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "kernels/cuda/code_text.h"
#include "kernels/cuda/fused_body.h"
#include "kernels/cuda/number_type.h"

namespace act::cuda {
namespace {

using Kind = ParameterField::Kind;

// The program, a comment line an instruction. Loops that differ in their random streams alone share a kernel, and
// so do those over other spaces whose text is the same.
std::string Heading(Program program) {
  for (ProgramInput& input : program.inputs) input.stream = 0;
  for (Instr& instr : program.instrs) instr.stream = 0;
  for (ProgramOutput& output : program.outputs) output.stream = 0;
  std::string text = "A fused loop:\n" + ToString(program);
  static const std::string kStream = ", stream 0";
  for (size_t at = text.find(kStream); at != std::string::npos; at = text.find(kStream, at))
    text.erase(at, kStream.size());
  std::string s = "// ";
  for (size_t i = 0; i < text.size(); ++i) {
    s += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) s += "// ";
  }
  return s.empty() || s.back() == '\n' ? s : s + "\n";
}

// FNV-1a.
std::string HashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

// FusedShapeOf refuses float16.
std::string TypeName(DType dtype) {
  if (dtype == DType::kBool) return "Bool";
  if (dtype == DType::kFloat64) return "double";
  if (dtype == DType::kBFloat16) return "BFloat16";
  const char* name = NumberType(dtype);
  return name ? name : "";
}

std::string FieldText(const ParameterField& field, const CudaLoop& loop, const KernelSite& site) {
  const std::string number = std::to_string(field.number);
  const auto i = static_cast<size_t>(field.number);
  const auto type = [](bool code, const TensorView& view) {
    return code ? std::string("uint8_t") : TypeName(view.dtype);
  };
  switch (field.kind) {
    case Kind::kStep:
      return "const StepBlock* step";
    case Kind::kInput:
      return "const " + type(site.node->program.inputs[i].codec.kind != CodecKind::kNone, site.inputs[i]) +
             "* in" + number;
    case Kind::kOutput:
      return type(site.node->program.outputs[i].kind == OutputKind::kEncode, site.outputs[i]) + "* out" +
             number;
    case Kind::kPartial:
      return "double* partial" + number;
    case Kind::kWalk:
      return "LoopWalk walk";
    case Kind::kStream:
      return "int32_t stream_" + loop.streams[i].of;
    case Kind::kConstant:
      return "float c" + number;
  }
  return "";
}

// Where element `i` of the whole space lies in an operand that broadcasts.
std::string PlaceText(const std::string& name, const ReadPattern& pattern) {
  std::string s = "ACT_DEVICE Index PlaceIn" + name + "(Index i) {\n  Index place = 0;\n";
  const size_t axes = pattern.extents.size();
  bool used = false;
  for (size_t axis = axes; axis-- > 0;) {
    const std::string extent = std::to_string(pattern.extents[axis]),
                      stride = std::to_string(pattern.strides[axis]);
    const std::string at = axis == 0 ? "i" : "i % Index{" + extent + "}";
    if (pattern.strides[axis] != 0) s += "  place += " + at + " * Index{" + stride + "};\n";
    used |= pattern.strides[axis] != 0;
    const bool more =
        std::any_of(pattern.strides.begin(), pattern.strides.begin() + static_cast<int64_t>(axis),
                    [](int64_t stride_before) { return stride_before != 0; });
    if (more) s += "  i /= Index{" + extent + "};\n";
  }
  if (!used) s += "  (void)i;\n";
  return s + "  return place;\n}\n";
}

std::string Declarations(const CudaLoop& loop, const KernelSite& site) {
  const Program& program = *loop.program;
  std::string s =
      "#include \"kernels/cuda/source/codes.h\"\n"
      "#include \"kernels/cuda/source/fused_loop.h\"\n"
      "#include \"kernels/cuda/source/fused_math.h\"\n\n"
      "using namespace act;\n\nnamespace {\n\n";
  const bool wide = loop.shape.count >= int64_t{1} << 32;
  s +=
      std::string("using Index = ") + (wide ? "uint64_t" : "uint32_t") + ";  // of an element of the space\n";
  s +=
      "[[maybe_unused]] constexpr int kPiece = " + std::to_string(loop.piece) + ", kPerLane = kPiece / 32;\n";
  s += "[[maybe_unused]] constexpr int kUnit = " + std::to_string(loop.unit) +
       ", kTeams = " + std::to_string(loop.teams) + ", kWarps = " + std::to_string(loop.warps) + ";\n";
  if (loop.rows) s += "constexpr int kRow = " + std::to_string(loop.shape.row) + ";\n";
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].codec.kind != CodecKind::kNone)
      s += CodeText("kIn" + std::to_string(i), program.inputs[i].codec, loop.shape.elements);
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].kind == OutputKind::kEncode)
      s += CodeText("kOut" + std::to_string(i), program.outputs[i].codec, loop.shape.elements);
  for (size_t i = 0; i < loop.operands.size(); ++i)
    if (loop.operands[i].kind == OperandKind::kBroadcast) s += PlaceText(std::to_string(i), loop.patterns[i]);
  s += "\nstruct Parameters {\n";
  for (const ParameterField& field : ParameterFields(loop)) s += "  " + FieldText(field, loop, site) + ";\n";
  return s + "};\n\n}  // namespace\n\n";
}

}  // namespace

std::vector<ParameterField> ParameterFields(const CudaLoop& loop) {
  const Program& program = *loop.program;
  std::vector<ParameterField> fields{{Kind::kStep}};
  for (size_t i = 0; i < program.inputs.size(); ++i)
    fields.push_back({Kind::kInput, static_cast<int32_t>(i)});
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].kind != OutputKind::kSum)
      fields.push_back({Kind::kOutput, static_cast<int32_t>(i)});
  for (const LoopSum& sum : loop.sums) fields.push_back({Kind::kPartial, sum.output});
  fields.push_back({Kind::kWalk});
  for (size_t i = 0; i < loop.streams.size(); ++i) fields.push_back({Kind::kStream, static_cast<int32_t>(i)});
  for (size_t i = 0; i < program.constants.size(); ++i)
    if (program.constants[i].extent != Dim(0)) fields.push_back({Kind::kConstant, static_cast<int32_t>(i)});
  return fields;
}

KernelSource FusedSource(const CudaLoop& loop, const KernelSite& site) {
  const std::string declarations = Declarations(loop, site), body = FusedBody(loop);
  KernelSource source;
  source.name = "fused_" + HashOf(declarations + body);
  source.text = Heading(*loop.program) + declarations + "ACT_RESIDENT_KERNEL(" + source.name +
                ", 32 * kWarps, " + std::to_string(loop.ResidentBlocks()) + ", Parameters, p) {\n" + body +
                "}\n";
  return source;
}

}  // namespace act::cuda
