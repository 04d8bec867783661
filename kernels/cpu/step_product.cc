#include "kernels/cpu/step_product.h"

#include <algorithm>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/product_blocks.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

using dnnl::memory;

class DnnlStepProduct final : public StepProduct {
 public:
  // Null if no implementation fits and packs weights, with the reason in *why. Throws dnnl::error.
  static std::unique_ptr<DnnlStepProduct> Choose(const DnnlContext& context, const Shape& s, int threads,
                                                 int64_t limit_bytes, std::string* why) {
    const auto f32 = memory::data_type::f32;
    const memory::desc left({s.rows, s.depth}, f32, memory::dims{s.row_stride, 1});
    const memory::desc plain({s.depth, s.columns}, f32,
                             s.transposed ? memory::dims{1, s.depth} : memory::dims{s.columns, 1});
    const memory::desc any({s.depth, s.columns}, f32, memory::format_tag::any);
    const memory::desc result({s.rows, s.columns}, f32, memory::format_tag::ab);
    const ThreadScope scope(threads);
    dnnl::matmul::primitive_desc desc(context.engine, left, any, result, ProductAttributes(s.accumulate));
    auto made = std::make_unique<DnnlStepProduct>();
    DnnlStepProduct& p = *made;
    const auto bytes = [&p](const auto& d) {
      p.scratch_at_ = AlignedBytes(d.weights_desc());
      p.scratch_bytes_ = AlignedBytes(d.scratchpad_desc());
      return p.WorkspaceBytes();
    };
    if (!MoveToFirstThatFits(desc, bytes, limit_bytes, why)) return nullptr;
    p.name_ = desc.impl_info_str();
    // gemm packs nothing in advance, and may divide a sum among threads.
    if (p.name_.starts_with("gemm")) {
      *why = "oneDNN packs no weights";
      return nullptr;
    }
    p.threads_ = threads;
    const memory::desc packed = desc.weights_desc();
    p.product_ = DnnlCall(context, dnnl::matmul(desc));
    p.left_ = p.product_.Bind(DNNL_ARG_SRC, left);
    p.packed_ = p.product_.Bind(DNNL_ARG_WEIGHTS, packed);
    p.result_ = p.product_.Bind(DNNL_ARG_DST, result);
    p.scratch_ = p.product_.Bind(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
    p.pack_ = DnnlCall(
        context, dnnl::reorder(dnnl::reorder::primitive_desc(context.engine, plain, context.engine, packed)));
    p.pack_from_ = p.pack_.Bind(DNNL_ARG_FROM, plain);
    p.pack_to_ = p.pack_.Bind(DNNL_ARG_TO, packed);
    return made;
  }

  int threads() const override { return threads_; }
  int64_t WorkspaceBytes() const override { return scratch_at_ + scratch_bytes_; }
  std::string name() const override { return name_; }

  std::string Pack(const float* weights, std::byte* workspace) override {
    pack_.Set(pack_from_, weights);
    pack_.Set(pack_to_, workspace);
    product_.Set(packed_, workspace);
    product_.Set(scratch_, workspace + scratch_at_);
    return pack_.Run();
  }
  std::string Run(const float* left, float* result) override {
    product_.Set(left_, left);
    product_.Set(result_, result);
    return product_.Run();
  }

 private:
  DnnlCall product_, pack_;
  std::string name_;
  size_t left_ = 0, packed_ = 0, result_ = 0, scratch_ = 0, pack_from_ = 0, pack_to_ = 0;
  int64_t scratch_at_ = 0, scratch_bytes_ = 0;
  int threads_ = 1;
};

// Weights lie in panels of as many columns as tile_product.h computes side by side.
class PanelStepProduct final : public StepProduct {
 public:
  PanelStepProduct(const Shape& shape, int threads)
      : s_(shape),
        width_(TileColumns()),
        panels_((s_.columns + width_ - 1) / width_),
        threads_(ThreadsOfProduct({.m = s_.rows, .n = s_.columns, .k = s_.depth}, threads)) {}

  int threads() const override { return threads_; }
  int64_t WorkspaceBytes() const override { return panels_ * s_.depth * width_ * int64_t{sizeof(float)}; }
  std::string name() const override { return "panels of " + std::to_string(width_) + " columns"; }

  std::string Pack(const float* weights, std::byte* workspace) override {
    packed_ = reinterpret_cast<float*>(workspace);
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (int64_t p = 0; p < panels_; ++p) {
      const int64_t column = p * width_, columns = Columns(p);
      float* to = packed_ + column * s_.depth;
      if (s_.transposed) {
        TransposeScaled(weights + column * s_.depth, s_.depth, columns, s_.depth, 1, to, width_);
      } else {
        for (int64_t k = 0; k < s_.depth; ++k)
          std::copy_n(weights + k * s_.columns + column, columns, to + k * width_);
      }
    }
    return "";
  }
  std::string Run(const float* left, float* result) override {
    const int64_t blocks = (s_.rows + kRows - 1) / kRows;
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads_)
    for (int64_t p = 0; p < panels_; ++p)
      for (int64_t i = 0; i < blocks; ++i)
        Multiply({.a = left + i * kRows * s_.row_stride,
                  .a_row = s_.row_stride,
                  .a_column = 1,
                  .b = packed_ + p * width_ * s_.depth,
                  .b_row = width_,
                  .c = result + i * kRows * s_.columns + p * width_,
                  .c_row = s_.columns,
                  .rows = std::min(kRows, s_.rows - i * kRows),
                  .columns = Columns(p),
                  .depth = s_.depth,
                  .add = s_.accumulate});
    return "";
  }

 private:
  static constexpr int64_t kRows = 24;  // of a thread at a time
  int64_t Columns(int64_t panel) const { return std::min(width_, s_.columns - panel * width_); }

  const Shape s_;
  const int64_t width_, panels_;
  const int threads_;
  float* packed_ = nullptr;
};

}  // namespace

std::unique_ptr<StepProduct> StepProduct::Create(const DnnlContext& context, const Shape& shape, int threads,
                                                 int64_t limit_bytes, std::string* why) {
  std::string reason = "oneDNN has no fast implementation";
  try {
    for (const int count : ThreadLadder(threads)) {
      auto product = DnnlStepProduct::Choose(context, shape, count, limit_bytes, &reason);
      if (product) return product;
    }
  } catch (const dnnl::error& error) {
    reason = error.what();
  }
  auto product = std::make_unique<PanelStepProduct>(shape, threads);
  if (product->WorkspaceBytes() <= limit_bytes) return product;
  if (why) *why = reason + "; " + TooLittleWorkspace(product->WorkspaceBytes(), limit_bytes);
  return nullptr;
}

}  // namespace act
