#include "kernels/reference/fused.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math/random.h"
#include "kernels/reference/codec.h"
#include "kernels/site/dereference.h"
#include "kernels/site/element_types.h"
#include "kernels/site/fused_shape.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

using Register = std::vector<float>;  // one value per element of the space

RandomStream StreamOf(uint64_t seed, const StepState& state, int32_t stream) {
  return {seed, state.step, static_cast<uint32_t>(stream)};
}
RandomStream RoundingOf(const StepState& state, int32_t stream) {
  return StreamOf(state.RoundingSeed(stream), state, stream);
}

Register ReadBroadcast(const TensorView& view, const FusedShape& shape) {
  Register x(static_cast<size_t>(shape.count));
  const std::vector<int64_t> strides = BroadcastStrides(view.dims, shape.dims);
  const int64_t size = ByteSize(view.dtype);
  for (int64_t i = 0; i < shape.count; ++i) {
    int64_t rest = i, offset = 0;
    for (size_t axis = shape.dims.size(); axis-- > 0; rest /= shape.dims[axis])
      offset += rest % shape.dims[axis] * strides[axis];
    ReadAsFloat(view.dtype, view.as<const std::byte>() + offset * size, 1, 1, &x[static_cast<size_t>(i)]);
  }
  return x;
}

Register ReadCode(const TensorView& view, const ProgramInput& input, const FusedShape& shape,
                  const KernelArgs& args) {
  const int64_t before = args.first_sample * shape.samples_each;
  Register x(static_cast<size_t>(shape.count));
  const int64_t bytes = LayoutOf(input.codec, shape.elements).sample_bytes;
  for (int64_t s = 0; s < shape.samples; ++s) {
    const auto* code = view.as<const uint8_t>() + s * bytes;
    float* to = x.data() + s * shape.elements;
    if (input.mask)
      DecodeMaskReference(input.codec, shape.elements, code, to);
    else
      DecodeSampleReference(input.codec, RoundingOf(*args.state, input.stream), before + s, shape.elements,
                            code, to);
  }
  return x;
}

Register Dropout(const Instr& instr, const Register& a, const FusedShape& shape, const KernelArgs& args) {
  const StepState& state = *args.state;
  const int64_t before = args.first_sample * shape.samples_each;
  Register x(a.size());
  const uint32_t threshold = DropoutThreshold(instr.parameter);
  const RandomStream stream = StreamOf(state.seed, state, instr.stream);
  const float scale = 1.0f / (1.0f - instr.parameter);
  for (int64_t i = 0; i < shape.count; ++i) {
    const uint32_t u = Random32(stream, before + i / shape.elements, shape.elements, i % shape.elements);
    x[static_cast<size_t>(i)] = u >= threshold ? a[static_cast<size_t>(i)] * scale : 0.0f;
  }
  return x;
}

void WriteSum(const Register& x, const TensorView& view) {
  std::vector<double> sum(static_cast<size_t>(view.elements), 0.0);
  for (size_t i = 0; i < x.size(); ++i) sum[i % sum.size()] += static_cast<double>(x[i]);
  for (size_t i = 0; i < sum.size(); ++i) view.as<float>()[i] = static_cast<float>(sum[i]);
}

// The sum or the maximum of each row of a, repeated for all of its elements.
Register ReduceRows(Opcode op, const Register& a, int64_t row) {
  Register x(a.size());
  const auto length = static_cast<size_t>(row);
  for (size_t first = 0; first < a.size(); first += length) {
    double result = op == Opcode::kRowSum ? 0 : -std::numeric_limits<double>::infinity();
    for (size_t i = first; i < first + length; ++i)
      result = op == Opcode::kRowSum ? result + static_cast<double>(a[i])
                                     : Evaluate(Opcode::kMax, result, static_cast<double>(a[i]), 0);
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(first), length, static_cast<float>(result));
  }
  return x;
}

void Write(const ProgramOutput& output, const Register& x, const TensorView& view, const FusedShape& shape,
           const KernelArgs& args) {
  if (output.kind == OutputKind::kStore)
    return WriteFromFloat(view.dtype, x.data(), shape.count, view.as<void>());
  if (output.kind == OutputKind::kSum) return WriteSum(x, view);
  if (output.kind == OutputKind::kRowStore) {
    for (int64_t i = 0; i < view.elements; ++i) view.as<float>()[i] = x[static_cast<size_t>(i * shape.row)];
    return;
  }
  const int64_t bytes = LayoutOf(output.codec, shape.elements).sample_bytes;
  for (int64_t s = 0; s < shape.samples; ++s)
    EncodeSampleReference(output.codec, RoundingOf(*args.state, output.stream),
                          args.first_sample * shape.samples_each + s, shape.elements,
                          x.data() + s * shape.elements, view.as<uint8_t>() + s * bytes);
}

void RunProgram(const Program& program, const FusedShape& shape, int64_t batch, const KernelArgs& args) {
  std::vector<Register> registers;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Codec& codec = program.inputs[i].codec;
    registers.push_back(codec.kind == CodecKind::kNone
                            ? ReadBroadcast(args.inputs[i], shape)
                            : ReadCode(args.inputs[i], program.inputs[i], shape, args));
  }
  for (const ProgramConstant& constant : program.constants)
    registers.emplace_back(static_cast<size_t>(shape.count), ConstantAt(constant, batch));
  for (const Instr& instr : program.instrs) {
    const auto at = [&registers](int32_t reg, size_t i) {
      return reg < 0 ? 0.0 : static_cast<double>(registers[static_cast<size_t>(reg)][i]);
    };
    Register x(static_cast<size_t>(shape.count));
    if (instr.op == Opcode::kDropout) {
      x = Dropout(instr, registers[static_cast<size_t>(instr.a)], shape, args);
    } else if (instr.op == Opcode::kRowSum || instr.op == Opcode::kRowMax) {
      x = ReduceRows(instr.op, registers[static_cast<size_t>(instr.a)], shape.row);
    } else {
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(Evaluate(instr.op, at(instr.a, i), at(instr.b, i), at(instr.c, i)));
    }
    registers.push_back(std::move(x));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i)
    Write(program.outputs[i], registers[static_cast<size_t>(program.outputs[i].reg)], args.outputs[i], shape,
          args);
}

}  // namespace

double Evaluate(Opcode op, double a, double b, double c) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  switch (op) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSub:
      return a - b;
    case Opcode::kMul:
      return a * b;
    case Opcode::kDiv:
      return a / b;
    case Opcode::kFma:
      return std::fma(a, b, c);
    case Opcode::kMax:
      return std::isnan(a) || std::isnan(b) ? nan : std::fmax(a, b);
    case Opcode::kMin:
      return std::isnan(a) || std::isnan(b) ? nan : std::fmin(a, b);
    case Opcode::kNeg:
      return -a;
    case Opcode::kAbs:
      return std::fabs(a);
    case Opcode::kSqrt:
      return std::sqrt(a);
    case Opcode::kExp:
      return std::exp(a);
    case Opcode::kLog:
      return std::log(a);
    case Opcode::kTanh:
      return std::tanh(a);
    case Opcode::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case Opcode::kErf:
      return std::erf(a);
    case Opcode::kPow:
      return std::pow(a, b);
    case Opcode::kFloor:
      return std::floor(a);
    case Opcode::kGreater:
      return a > b ? 1 : 0;
    case Opcode::kEqual:
      return a == b ? 1 : 0;
    case Opcode::kSelect:
      return a != 0 ? b : c;
    case Opcode::kDropout:
    case Opcode::kRowSum:
    case Opcode::kRowMax:
      return a;
    case Opcode::kSin:
      return std::sin(a);
    case Opcode::kCos:
      return std::cos(a);
  }
  return nan;
}

void RegisterReferenceFusedKernel(KernelRegistry& registry) {
  registry.Add("Fused",
               {"reference.fused", [](const KernelSite& site, std::string* why) -> std::unique_ptr<Kernel> {
                  const std::optional<FusedShape> shape = FusedShapeOf(site, why);
                  if (!shape) return nullptr;
                  const Program& program = site.node->program;
                  const int64_t batch = site.whole_batch;
                  return MakeKernel([&program, shape = *shape, batch](const KernelArgs& args) {
                    RunProgram(program, shape, batch, args);
                    return PluginFaultOf(PluginCodecsOf(program));
                  });
                }});
}

}  // namespace act
