#include "kernels/cpu/group_scales.h"

namespace act {

void StoreScales(const CodecSpec& codec, std::span<const GroupRange> ranges, uint8_t* metadata,
                 int64_t metadata_bytes, GroupScale* scales) {
  WithScaleForm(codec, [&](auto kind, auto form) {
    const CodecSpec spec = Known(codec, kind, form);
    for (const GroupRange& range : ranges) {
      StoreGroupScale(spec, range, metadata);
      *scales++ = LoadGroupScale(spec, metadata);
      metadata += metadata_bytes;
    }
  });
}

}  // namespace act
