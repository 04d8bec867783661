#include "kernels/cuda/coded_numbers.h"

#include "kernels/cuda/code_text.h"
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/float_type.h"

namespace act::cuda {
namespace {

// Calls `function`, whose first template argument is the code; `arguments`: the others.
KernelSource SourceOf(const CodedParameter& coded, const std::string& name, const std::string& parameters,
                      const std::string& function, const std::string& arguments) {
  return SourceWith(name, OwnKernel<DecodeParameters>::kThreads, parameters, "coded_numbers",
                    "  using namespace act;\n" + CodeText("kCode", coded.codec, coded.type.Elements().fixed) +
                        "  act::cuda::" + function + "<kCode, " + arguments + ">(p);\n");
}

}  // namespace

Decoding::Decoding(const CudaContext& context, const CodedParameter& coded, DType to)
    : kernel_(context,
              SourceOf(coded, "decode_numbers", "DecodeParameters", "DecodeNumbers", FloatType(to))) {}

Status Decoding::Run(const void* code, int64_t first, int64_t count, void* to) const {
  return kernel_.LaunchItems(
      (count + 3) / 4, {.code = static_cast<const uint8_t*>(code), .to = to, .first = first, .count = count});
}

std::optional<StridedDecoding> StridedDecoding::Of(const CudaContext& context, const CodedParameter& coded,
                                                   const Strided& view, DType to, std::string* why) {
  const auto axes = AxesOf(view);
  if (!axes || view.Elements() >= kMaxCount) {
    *why = "more than 8 axes, or 2^31 weights";
    return std::nullopt;
  }
  StridedDecoding decoding(OwnKernel<DecodeStridedParameters>(
      context, SourceOf(coded, "decode_strided", "DecodeStridedParameters", "DecodeStrided", FloatType(to))));
  decoding.parameters_.first = view.offset;
  decoding.parameters_.axes = *axes;
  decoding.parameters_.items = static_cast<int32_t>(view.Elements());
  return decoding;
}

Status StridedDecoding::Run(const void* code, void* to) const {
  DecodeStridedParameters p = parameters_;
  p.code = static_cast<const uint8_t*>(code);
  p.to = to;
  return kernel_.LaunchItems(p.items, p);
}

OwnKernel<GatherParameters> CodedGather(const CudaContext& context, const CodedParameter& coded,
                                        const std::string& index, const std::string& flags) {
  return {context,
          SourceOf(coded, "gather_numbers", "GatherParameters", "GatherNumbers", index + ", " + flags)};
}

}  // namespace act::cuda
