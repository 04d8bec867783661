#include "kernels/cpu/matmul.h"

#include <algorithm>

#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/matmul_shape.h"
#include "kernels/site/workspace_text.h"

namespace act {
namespace {

using dnnl::memory;

struct Problem {
  memory::desc a, b, y, bias;
};

Problem ProblemOf(const MatMulShape& shape, bool has_bias) {
  const MatMulShape s = Folded(shape);
  const auto f32 = memory::data_type::f32;
  return {DnnlMatrix(f32, s.a_batch, s.m, s.k, s.a_m, s.a_k),
          DnnlMatrix(f32, s.b_batch, s.k, s.n, s.b_k, s.b_n),
          DnnlMatrix(f32, DnnlResultBatch(s), s.m, s.n, s.n, 1),
          has_bias ? DnnlMatrix(f32, DnnlOneMatrix(s), 1, s.n, s.n, 1) : memory::desc()};
}

// oneDNN's primitive for a product, with its operands.
class BoundProduct {
 public:
  BoundProduct(const DnnlContext& context, const Problem& p, ProductOperands operands,
               const dnnl::matmul::primitive_desc& desc)
      : call_(context, dnnl::matmul(desc)), operands_(operands) {
    a_ = call_.Bind(DNNL_ARG_SRC, p.a);
    b_ = call_.Bind(DNNL_ARG_WEIGHTS, p.b);
    y_ = call_.Bind(DNNL_ARG_DST, p.y);
    if (operands_.bias) bias_ = call_.Bind(DNNL_ARG_BIAS, p.bias);
    scratch_ = call_.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
  }

  std::string Run(const KernelArgs& args) {
    call_.Set(a_, args.inputs[operands_.a].as<void>());
    call_.Set(b_, args.inputs[operands_.b].as<void>());
    call_.Set(y_, args.outputs[0].as<void>());
    if (operands_.bias) call_.Set(bias_, args.inputs[*operands_.bias].as<void>());
    call_.Set(scratch_, args.workspace.data.as<std::byte>());
    return call_.Run();
  }

 private:
  DnnlCall call_;
  ProductOperands operands_;
  size_t a_ = 0, b_ = 0, y_ = 0, scratch_ = 0, bias_ = 0;
};

// oneDNN's first fast implementation that needs at most `limit` bytes, for the current number of threads. Otherwise
// *reason says why there is none.
std::optional<dnnl::matmul::primitive_desc> ChooseProduct(const DnnlContext& context, const Problem& p,
                                                          bool adds, int64_t limit, std::string* reason) {
  dnnl::matmul::primitive_desc desc(context.engine, p.a, p.b, p.bias, p.y, ProductAttributes(adds));
  const auto bytes = [](const auto& d) { return AlignedBytes(d.scratchpad_desc()); };
  if (!MoveToFirstThatFits(desc, bytes, limit, reason)) return std::nullopt;
  return desc;
}

class DnnlMatMul final : public Kernel {
 public:
  // `adding`: where tiles go on from a sum.
  DnnlMatMul(BoundProduct product, std::optional<BoundProduct> adding, std::string name, int threads,
             int64_t workspace_bytes)
      : product_(std::move(product)),
        adding_(std::move(adding)),
        name_(std::move(name)),
        threads_(threads),
        workspace_bytes_(workspace_bytes) {}

  std::string Run(const KernelArgs& args) override {
    const ThreadScope scope(threads_);
    return args.goes_on ? adding_->Run(args) : product_.Run(args);
  }
  int64_t WorkspaceBytes() const override { return workspace_bytes_; }
  bool IsLibraryCall() const override { return true; }
  std::string Describe() const override {
    return name_ + ", " + std::to_string(threads_) + " threads, " + WorkspaceText(workspace_bytes_);
  }

 private:
  BoundProduct product_;
  std::optional<BoundProduct> adding_;
  std::string name_;
  int threads_;
  int64_t workspace_bytes_;
};

std::unique_ptr<Kernel> Create(const DnnlContext& context, const KernelSite& site, std::string* why) {
  const auto shape = MatMulShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.outputs[0], why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  ProductOperands operands;
  if (OptionalInput(site.inputs, 2)) operands.bias = 2;
  return CreateDnnlProduct(context, site, *shape, operands, ThreadLadder(site.threads), why);
}

}  // namespace

memory::desc DnnlMatrix(memory::data_type type, const Strided& batch, int64_t rows, int64_t columns,
                        int64_t row_stride, int64_t column_stride) {
  memory::dims dims, strides;
  for (size_t d = 0; d < batch.dims.size(); ++d) {
    const bool broadcast = batch.strides[d] == 0;
    dims.push_back(broadcast ? 1 : batch.dims[d]);
    strides.push_back(broadcast ? rows * columns : batch.strides[d]);
  }
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {row_stride, column_stride});
  return {dims, type, strides};
}

Strided DnnlResultBatch(const MatMulShape& s) {
  Strided batch = s.a_batch;
  batch.strides = RowMajorStrides(batch.dims);
  for (int64_t& stride : batch.strides) stride *= s.m * s.n;
  return batch;
}

Strided DnnlOneMatrix(const MatMulShape& s) {
  return {s.a_batch.dims, std::vector<int64_t>(s.a_batch.dims.size(), 0)};
}

dnnl::primitive_attr ProductAttributes(bool adds) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (adds) {
    dnnl::post_ops sum;
    sum.append_sum();
    attr.set_post_ops(sum);
  }
  return attr;
}

std::unique_ptr<Kernel> CreateDnnlProduct(const DnnlContext& context, const KernelSite& site,
                                          const MatMulShape& shape, ProductOperands operands,
                                          const std::vector<int>& thread_counts, std::string* why) {
  if (site.inputs[0].elements == 0 || site.inputs[1].elements == 0 || site.outputs[0].elements == 0)
    return Refuse(why, "an empty tensor");
  std::string reason = "oneDNN has no fast implementation";
  try {
    const Problem problem = ProblemOf(shape, operands.bias.has_value());
    for (int threads : thread_counts) {
      const ThreadScope scope(threads);
      const auto product = ChooseProduct(context, problem, false, site.workspace_bytes, &reason);
      if (!product) continue;
      int64_t workspace_bytes = AlignedBytes(product->scratchpad_desc());
      std::optional<BoundProduct> adding;
      if (site.goes_on) {
        const auto desc = ChooseProduct(context, problem, true, site.workspace_bytes, &reason);
        if (!desc) continue;
        workspace_bytes = std::max(workspace_bytes, AlignedBytes(desc->scratchpad_desc()));
        adding.emplace(context, problem, operands, *desc);
      }
      return std::make_unique<DnnlMatMul>(BoundProduct(context, problem, operands, *product),
                                          std::move(adding), product->impl_info_str(), threads,
                                          workspace_bytes);
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  return Refuse(why, reason);
}

void RegisterDnnlMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  registry.Add("MatMul", {"dnnl.matmul", [context](const KernelSite& site, std::string* why) {
                            return Create(*context, site, why);
                          }});
}

}  // namespace act
