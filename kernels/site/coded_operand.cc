#include "kernels/site/coded_operand.h"

#include "kernels/math/level_code.h"
#include "kernels/math/level_scale.h"
#include "runtime/codec/group_code.h"
#include "runtime/executor/bound_graph.h"

namespace act {

TensorView NumbersOf(const TensorView& operand) {
  return operand.coded ? MakeView(operand.coded->type, 1) : operand;
}

KernelSite WithNumbers(KernelSite site, size_t i) {
  const CodedParameter* const coded = site.inputs[i].coded;
  site.inputs[i] = NumbersOf(site.inputs[i]);
  site.inputs[i].coded = coded;
  return site;
}

float CodedElements::At(const void* code, int64_t i) const {
  const auto* const bytes = static_cast<const uint8_t*>(code);
  const GroupPlace group = PlaceOfGroup(codec_, layout_, i / codec_.group_size);
  const int64_t at = i - group.first, plane_bytes = (group.count + 7) / 8;
  uint32_t level = 0;
  for (int bit = 0; bit < codec_.bits; ++bit)
    level |= (bytes[group.payload + bit * plane_bytes + at / 8] >> (at % 8) & 1U) << bit;
  return DequantizeLevel(codec_, level, LoadGroupScale(codec_, bytes + group.metadata), {}, 0);
}

}  // namespace act
