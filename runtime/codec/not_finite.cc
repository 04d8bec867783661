#include "runtime/codec/not_finite.h"

#include "runtime/codec/codec_row.h"

namespace act {

int64_t CountNotFinite(const Codec& codec, int64_t elements, const uint8_t* code) {
  return RowOf(codec).count_not_finite(codec, LayoutOf(codec, elements), code);
}

}  // namespace act
