#include "runtime/codec/codec.h"

#include <tuple>

#include "runtime/codec/code_samples.h"
#include "runtime/codec/codec_row.h"
#include "runtime/codec/plugin.h"

namespace act {
bool Codec::operator==(const Codec& other) const {
  const auto scalars = [](const Codec& c) {
    return std::tie(c.kind, c.bits, c.group_size, c.levels, c.below, c.rounding, c.metadata, c.spacing,
                    c.groups);
  };
  if (scalars(*this) != scalars(other) || !(cast == other.cast) || !plugin != !other.plugin) return false;
  return !plugin || plugin->SameCodec(*other.plugin);
}

bool Codec::IsExact() const { return RowOf(*this).exact; }

int64_t MetadataBytes(const Codec& codec) { return RowOf(codec).metadata_bytes(codec); }

int64_t PayloadBytes(const Codec& codec, int64_t count) { return RowOf(codec).payload_bytes(codec, count); }

// Payloads and samples begin at multiples of this many bytes, the widest access of a kernel.
static constexpr int64_t kCodeAlignment = 16;

CodeLayout LayoutOf(const Codec& codec, int64_t elements_per_sample) {
  const int64_t group = codec.group_size;
  CodeLayout layout;
  layout.elements = elements_per_sample;
  layout.packing = CodePackingOf(codec);
  layout.groups = CeilDiv(elements_per_sample, group);
  layout.metadata_bytes = MetadataBytes(codec);
  layout.payload_offset = RoundUp(SaturatingMul(layout.groups, layout.metadata_bytes), kCodeAlignment);
  layout.group_bytes = PayloadBytes(codec, group);
  const int64_t full_groups = elements_per_sample / group;
  const int64_t short_bytes = PayloadBytes(codec, elements_per_sample % group);
  layout.payload_bytes = SaturatingAdd(SaturatingMul(full_groups, layout.group_bytes), short_bytes);
  const int64_t bytes = SaturatingAdd(layout.payload_offset, layout.payload_bytes);
  layout.sample_bytes = RoundUp(bytes, kCodeAlignment);
  return layout;
}

SampleShape SamplesOf(const Dims& dims) {
  SampleShape shape{Dim(1), Dim(1)};
  const bool batched = !dims.empty() && !dims[0].IsFixed();
  if (batched) shape.samples = dims[0];
  for (size_t i = batched ? 1 : 0; i < dims.size(); ++i) shape.elements = shape.elements * dims[i];
  return shape;
}

std::optional<TensorType> CodeType(const Codec& codec, const Dims& dims) {
  const SampleShape shape = CodeSamplesOf(dims);
  if (CheckCodec(codec) || !shape.elements.IsFixed() || shape.elements.fixed < 0) return std::nullopt;
  const Dim bytes = shape.samples * Dim(LayoutOf(codec, shape.elements.fixed).sample_bytes);
  return TensorType{DType::kUint8, {bytes}};
}

int64_t PackedBytes(const Codec& codec, const Dims& dims, int64_t n) {
  if (!CodeType(codec, dims)) return kTooLarge;
  const SampleShape shape = CodeSamplesOf(dims);
  const CodeLayout layout = LayoutOf(codec, shape.elements.fixed);
  const int64_t metadata = SaturatingMul(layout.groups, layout.metadata_bytes);
  return SaturatingMul(shape.samples.At(n), RoundUp(SaturatingAdd(metadata, layout.payload_bytes), 4));
}

std::string ToString(const Codec& codec) { return RowOf(codec).name(codec); }

double BitsPerElement(const Codec& codec) {
  return 8.0 * static_cast<double>(PayloadBytes(codec, codec.group_size) + MetadataBytes(codec)) /
         codec.group_size;
}

std::optional<std::string> CheckCodec(const Codec& codec) {
  const int64_t group = codec.group_size;
  if (group < 64 || group > 1024 || (group & (group - 1)) != 0)
    return "group size " + std::to_string(group) + " is not a power of two in 64..1024";
  return RowOf(codec).check(codec);
}

}  // namespace act
