#include "kernels/site/fused_shape.h"

#include <algorithm>

#include "runtime/codec/code_samples.h"
#include "runtime/codec/plugin.h"

namespace act {
namespace {

// Whether count is the product of some trailing axes of the space (of no axes: 1).
bool IsTrailing(int64_t count, const std::vector<int64_t>& space) {
  int64_t product = 1;
  if (count == product) return true;
  for (size_t i = space.size(); i-- > 0;) {
    product = SaturatingMul(product, space[i]);
    if (count == product) return true;
  }
  return false;
}

bool Converts(DType dtype) { return dtype != DType::kFloat16; }

std::string Text(const std::vector<int64_t>& dims) {
  std::string s;
  for (int64_t d : dims) s.append(s.empty() ? 0 : 1, ',').append(std::to_string(d));
  return std::string("[").append(s).append("]");
}

std::string CheckOperand(const ProgramInput& input, const TensorView& view, const FusedShape& shape) {
  if (input.codec.kind != CodecKind::kNone) {
    const int64_t bytes = SaturatingMul(shape.samples, LayoutOf(input.codec, shape.elements).sample_bytes);
    return view.bytes == bytes
               ? ""
               : "its code has " + std::to_string(view.bytes) + " bytes, not " + std::to_string(bytes);
  }
  if (!Converts(view.dtype)) return "a fused loop does not read " + std::string(ToString(view.dtype));
  if (!BroadcastsTo(view.dims, shape.dims))
    return Text(view.dims) + " does not broadcast to " + Text(shape.dims);
  return "";
}

std::string CheckResult(const ProgramOutput& output, const TensorView& view, const FusedShape& shape) {
  switch (output.kind) {
    case OutputKind::kStore:
      if (!Converts(view.dtype)) return "a fused loop does not write " + std::string(ToString(view.dtype));
      if (view.elements != shape.count) return Text(view.dims) + " does not hold " + Text(shape.dims);
      return "";
    case OutputKind::kEncode: {
      const int64_t bytes = SaturatingMul(shape.samples, LayoutOf(output.codec, shape.elements).sample_bytes);
      return view.bytes == bytes
                 ? ""
                 : "its code has " + std::to_string(view.bytes) + " bytes, not " + std::to_string(bytes);
    }
    case OutputKind::kSum:
      if (view.dtype != DType::kFloat32) return "a sum is f32";
      if (!IsTrailing(view.elements, shape.dims))
        return Text(view.dims) + " are not trailing axes of " + Text(shape.dims);
      return "";
    case OutputKind::kRowStore:
      if (view.dtype != DType::kFloat32) return "a number a row is f32";
      if (view.elements != shape.count / shape.row) return Text(view.dims) + " is not one number a row";
      return "";
  }
  return "";
}

}  // namespace

bool BroadcastsTo(const std::vector<int64_t>& operand, const std::vector<int64_t>& space) {
  const size_t skip = operand.size() > space.size() ? operand.size() - space.size() : 0;
  for (size_t i = 0; i < operand.size(); ++i) {
    if (operand[i] == 1) continue;
    if (i < skip || operand[i] != space[space.size() - operand.size() + i]) return false;
  }
  return true;
}

std::vector<Codec> PluginCodecsOf(const Program& program) {
  std::vector<Codec> codecs;
  const auto add = [&codecs](const Codec& codec) {
    if (codec.plugin) codecs.push_back(codec);
  };
  for (const ProgramInput& input : program.inputs) add(input.codec);
  for (const ProgramOutput& output : program.outputs) add(output.codec);
  return codecs;
}

std::string PluginFaultOf(const std::vector<Codec>& codecs) {
  for (const Codec& codec : codecs)
    if (codec.plugin->fault)
      if (const char* what = codec.plugin->fault->what) return "codec '" + codec.plugin->name + "': " + what;
  return "";
}

std::optional<FusedShape> FusedShapeOf(const KernelSite& site, std::string* why) {
  const Program& program = site.node->program;
  const auto refuse = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (auto wrong = CheckProgram(program)) return refuse(*wrong);
  if (program.inputs.size() != site.inputs.size() || program.outputs.size() != site.outputs.size())
    return refuse("the program has other operands than the node");

  FusedShape shape;
  shape.dims = DimsAt(program.space, site.batch);
  if (std::any_of(shape.dims.begin(), shape.dims.end(), [](int64_t d) { return d < 0; }))
    return refuse("the iteration space " + Text(shape.dims) + " has a negative extent");
  const SampleShape samples = CodeSamplesOf(program.space);
  shape.samples = samples.samples.At(site.batch);
  shape.samples_each = site.batch > 0 ? shape.samples / site.batch : 1;
  shape.elements = samples.elements.At(site.batch);
  shape.count = SaturatingMul(shape.samples, shape.elements);
  if (shape.count >= kTooLarge) return refuse("the iteration space is too large");

  if (program.row_axes > 0) shape.row = *RowElements(program.space, program.row_axes);
  for (const Codec& codec : PluginCodecsOf(program))
    if (!codec.plugin->functions) return refuse(ToString(codec) + ": its library is not loaded");
  for (size_t i = 0; i < site.inputs.size(); ++i)
    if (auto wrong = CheckOperand(program.inputs[i], site.inputs[i], shape); !wrong.empty())
      return refuse("in" + std::to_string(i) + ": " + wrong);
  for (size_t i = 0; i < site.outputs.size(); ++i)
    if (auto wrong = CheckResult(program.outputs[i], site.outputs[i], shape); !wrong.empty())
      return refuse("out" + std::to_string(i) + ": " + wrong);
  return shape;
}

std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& operand,
                                      const std::vector<int64_t>& space) {
  std::vector<int64_t> strides(space.size(), 0);
  int64_t stride = 1;
  for (size_t i = 1; i <= std::min(operand.size(), space.size()); ++i) {
    const int64_t extent = operand[operand.size() - i];
    if (extent != 1) strides[space.size() - i] = stride;
    stride *= extent;
  }
  return strides;
}

float ConstantAt(const ProgramConstant& constant, int64_t batch) {
  if (constant.extent == Dim(0)) return constant.value;
  return static_cast<float>(static_cast<double>(constant.value) /
                            static_cast<double>(constant.extent.At(batch)));
}

}  // namespace act
