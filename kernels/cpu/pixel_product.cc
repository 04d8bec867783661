#include "kernels/cpu/pixel_product.h"

#include "kernels/cpu/matmul.h"

namespace act {

using dnnl::memory;

std::optional<PixelProduct> PixelProduct::Choose(const DnnlContext& context, const PixelProductShape& s,
                                                 DType type, bool add, int threads, int64_t limit_bytes,
                                                 std::string* why) {
  const ThreadScope scope(threads);
  const auto data = type == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc dy({s.out_channels, s.pixels}, data, memory::dims{1, s.out_channels});
  const memory::desc x({s.pixels, s.channels}, data, memory::dims{s.channels, 1});
  const memory::desc dw({s.out_channels, s.channels}, memory::data_type::f32, memory::dims{s.channels, 1});
  dnnl::matmul::primitive_desc desc(context.engine, dy, x, dw, ProductAttributes(add));
  const auto bytes = [](const auto& d) { return AlignedBytes(d.scratchpad_desc()); };
  if (!MoveToFirstThatFits(desc, bytes, limit_bytes, why)) return std::nullopt;
  PixelProduct product;
  product.call_ = DnnlCall(context, dnnl::matmul(desc));
  product.name_ = desc.impl_info_str();
  product.scratch_bytes_ = bytes(desc);
  product.dy_ = product.call_.Bind(DNNL_ARG_SRC, dy);
  product.x_ = product.call_.Bind(DNNL_ARG_WEIGHTS, x);
  product.dw_ = product.call_.Bind(DNNL_ARG_DST, dw);
  product.scratch_ = product.call_.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  return product;
}

std::string PixelProduct::Run(const void* dy, const void* x, float* dw, void* scratch) {
  call_.Set(dy_, dy);
  call_.Set(x_, x);
  call_.Set(dw_, dw);
  call_.Set(scratch_, scratch);
  return call_.Run();
}

}  // namespace act
