// The functions in the rows of codecs with levels (kUniform, kSign, kZero). See codec_row.h for
// what each does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/attributes.h"
#include "runtime/codec/codec.h"

namespace act::level_codec {

// Where `count` levels over a range of the codec lie. Null where its spacing has none so many.
const FittedShape* ShapeOf(const Codec& codec, int count);
std::string UniformName(const Codec& codec);
std::string SignName(const Codec& codec);
std::string ZeroName(const Codec& codec);
std::optional<std::string> Check(const Codec& codec);
int64_t MetadataBytes(const Codec& codec);
int64_t PayloadBytes(const Codec& codec, int64_t count);
int64_t CountNotFinite(const Codec& codec, const CodeLayout& layout, const uint8_t* code);
void Read(const Attributes& attrs, Codec& codec);
void Write(const Codec& codec, Attributes& attrs);

}  // namespace act::level_codec
