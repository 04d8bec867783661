#include "kernels/cpu/step_product.h"

#include "kernels/cpu/matmul.h"

namespace act {

using dnnl::memory;

std::optional<StepProduct> StepProduct::Create(const DnnlContext& context, const Shape& s, int threads,
                                               int64_t limit_bytes, std::string* why) {
  std::string reason = "oneDNN has no fast implementation";
  try {
    const auto f32 = memory::data_type::f32;
    const memory::desc left({s.rows, s.depth}, f32, memory::dims{s.row_stride, 1});
    const memory::desc plain({s.depth, s.columns}, f32,
                             s.transposed ? memory::dims{1, s.depth} : memory::dims{s.columns, 1});
    const memory::desc any({s.depth, s.columns}, f32, memory::format_tag::any);
    const memory::desc result({s.rows, s.columns}, f32, memory::format_tag::ab);
    for (int count : ThreadLadder(threads)) {
      const ThreadScope scope(count);
      dnnl::matmul::primitive_desc desc(context.engine, left, any, result, ProductAttributes(s.accumulate));
      StepProduct p;
      const auto bytes = [&p](const auto& d) {
        p.scratch_at_ = AlignedBytes(d.weights_desc());
        p.scratch_bytes_ = AlignedBytes(d.scratchpad_desc());
        return p.WorkspaceBytes();
      };
      if (!MoveToFirstThatFits(desc, bytes, limit_bytes, &reason)) continue;
      p.name_ = desc.impl_info_str();
      p.threads_ = count;
      const memory::desc packed = desc.weights_desc();
      p.product_ = DnnlCall(context, dnnl::matmul(desc));
      p.left_ = p.product_.Bind(DNNL_ARG_SRC, left);
      p.packed_ = p.product_.Bind(DNNL_ARG_WEIGHTS, packed);
      p.result_ = p.product_.Bind(DNNL_ARG_DST, result);
      p.scratch_ = p.product_.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
      p.pack_ = DnnlCall(context, dnnl::reorder(dnnl::reorder::primitive_desc(context.engine, plain,
                                                                              context.engine, packed)));
      p.pack_from_ = p.pack_.Bind(DNNL_ARG_FROM, plain);
      p.pack_to_ = p.pack_.Bind(DNNL_ARG_TO, packed);
      return p;
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  if (why) *why = reason;
  return std::nullopt;
}

std::string StepProduct::Pack(const float* weights, std::byte* workspace) {
  pack_.Set(pack_from_, weights);
  pack_.Set(pack_to_, workspace);
  product_.Set(packed_, workspace);
  product_.Set(scratch_, workspace + scratch_at_);
  return pack_.Run();
}

std::string StepProduct::Run(const float* left, float* result) {
  product_.Set(left_, left);
  product_.Set(result_, result);
  return product_.Run();
}

}  // namespace act
