#include "runtime/codec/code_samples.h"

namespace act {

SampleShape CodeSamplesOf(const Dims& dims) {
  const SampleShape whole = SamplesOf(dims);
  if (dims.size() < 3 || dims[0].IsFixed() || !dims[1].IsFixed()) return whole;
  Dim of_token(1);
  for (size_t i = 2; i < dims.size(); ++i) of_token = of_token * dims[i];
  if (!of_token.IsFixed() || !AreLong(dims[1].fixed, of_token.fixed)) return whole;
  return {dims[0] * dims[1], of_token};
}

}  // namespace act
