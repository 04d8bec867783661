#include "kernels/cuda/code_text.h"

#include <utility>

namespace act::cuda {
namespace {

std::string CodecText(const Codec& c) {
  const auto enumerator = [](const char* type, auto value) {
    return std::string("static_cast<") + type + ">(" + std::to_string(static_cast<int>(value)) + ")";
  };
  std::string s = "{.kind = " + enumerator("CodecKind", c.kind) + ", .bits = " + std::to_string(c.bits) +
                  ", .group_size = " + std::to_string(c.group_size) +
                  ", .levels = " + std::to_string(c.levels) + ", .below = " + std::to_string(c.below) +
                  ",\n              .rounding = " + enumerator("Rounding", c.rounding) +
                  ", .metadata = " + enumerator("Metadata", c.metadata) +
                  ", .spacing = " + enumerator("Spacing", c.spacing);
  if (c.IsCast())
    s += ",\n              .cast = {.exponent_bits = " + std::to_string(c.cast.exponent_bits) +
         ", .mantissa_bits = " + std::to_string(c.cast.mantissa_bits) +
         ", .infinities = " + (c.cast.infinities ? "true" : "false") + "}";
  return s + "}";
}

}  // namespace

std::string CodeText(const std::string& name, const Codec& codec, int64_t elements) {
  const CodeLayout layout = LayoutOf(codec, elements);
  const std::pair<const char*, int64_t> fields[] = {{"elements", layout.elements},
                                                    {"groups", layout.groups},
                                                    {"metadata_bytes", layout.metadata_bytes},
                                                    {"payload_offset", layout.payload_offset},
                                                    {"group_bytes", layout.group_bytes},
                                                    {"payload_bytes", layout.payload_bytes},
                                                    {"sample_bytes", layout.sample_bytes},
                                                    {"codes", layout.packing.codes},
                                                    {"bits", layout.packing.bits}};
  std::string s =
      "// " + ToString(codec) + "\nconstexpr DeviceCode " + name + " = {\n    .codec = " + CodecText(codec);
  for (const auto& [field, value] : fields)
    s += std::string(",\n    .") + field + " = " + std::to_string(value);
  return s + "};\n";
}

}  // namespace act::cuda
