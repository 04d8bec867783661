// Matrix products in float32, our own. Each thread multiplies blocks of the operands that it has
// copied into scratch space, where they lie in the order in which the registers take them
// (tile_product.h). Copying converts: bfloat16 becomes float32, and a float32 factor beside a
// bfloat16 one is rounded. So a product of bfloat16 factors takes the time of one in float32, on any
// processor. A number of the result is one sum in the order of k, whatever the number of threads.
#include <omp.h>

#include <algorithm>
#include <optional>

#include "kernels/cpu/coded_numbers.h"
#include "kernels/cpu/float_rows.h"
#include "kernels/cpu/product_blocks.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/site/coded_operand.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/loss_shape.h"
#include "kernels/site/matmul_shape.h"
#include "kernels/site/workspace_text.h"

namespace act {
namespace {

// Rows of b that a thread copies at a time.
constexpr int64_t kCopiedRows = 32;

class BlockedMatMul final : public Kernel {
 public:
  BlockedMatMul(const MatMulShape& shape, const ProductSizes& sizes, const ProductBlocks& blocks,
                FloatSource a, FloatSource b, const CodedParameter* coded)
      : s_(shape), sizes_(sizes), blocks_(blocks), a_{a, nullptr, 0}, b_{b, nullptr, 0} {
    if (coded) b_.code = &code_.emplace(*coded);
    a_.row = sizes_.transposed_a ? s_.a_k : s_.a_m;
    b_.row = b_is_across() ? s_.b_n : s_.b_k;
  }
  int64_t WorkspaceBytes() const override { return blocks_.Bytes(sizes_); }
  std::string Describe() const override {
    return std::to_string(blocks_.teams * blocks_.threads) + " threads, blocks of " +
           std::to_string(blocks_.rows) + " x " + std::to_string(blocks_.depth) + " and " +
           std::to_string(blocks_.b_depth) + " x " + std::to_string(blocks_.columns) + ", " +
           WorkspaceText(WorkspaceBytes());
  }

  std::string Run(const KernelArgs& args) override {
    auto* scratch = args.workspace.data.as<float>();
#pragma omp parallel num_threads(blocks_.teams* blocks_.threads)
    if (blocks_.threads == 1) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < sizes_.batches; ++i)
        Product(args, i, scratch + omp_get_thread_num() * blocks_.TeamFloats(sizes_));
    } else {
      for (int64_t i = 0; i < sizes_.batches; ++i) Product(args, i, scratch);
    }
    return "";
  }

 private:
  // b lies by columns.
  bool b_is_across() const { return s_.b_n != 1; }

  // Shares calls of f(0..count-1) among the team, and waits for all of them.
  template <class F>
  void ForEach(int64_t count, F&& f) const {
    if (blocks_.threads == 1) {
      for (int64_t i = 0; i < count; ++i) f(i);
    } else {
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < count; ++i) f(i);
    }
  }

  // A batch's product. All threads of the team call it.
  void Product(const KernelArgs& args, int64_t batch, float* scratch) const {
    const int64_t at_a = s_.a_batch.At(batch), at_b = s_.b_batch.At(batch);
    FloatRows a = a_, b = b_;
    a.data = args.inputs[0].as<void>();
    b.data = args.inputs[1].as<void>();
    const TensorView* bias = OptionalInput(args.inputs, 2);
    const int thread = blocks_.threads == 1 ? 0 : omp_get_thread_num();
    Work w{.a = a.At(at_a),
           .b = b.At(at_b),
           .bias = bias ? bias->as<float>() : nullptr,
           .goes_on = args.goes_on,
           .packed = scratch};
    w.block = scratch + blocks_.BFloats() + thread * blocks_.ThreadFloats(sizes_);
    w.sums = blocks_.sums_of_a_thread
                 ? w.block + blocks_.AFloats(sizes_)
                 : scratch + blocks_.BFloats() + blocks_.threads * blocks_.AFloats(sizes_);
    if (sizes_.sums_apart) {
      w.rounded = args.outputs[0].as<BFloat16>() + batch * s_.m * s_.n;
    } else {
      w.y = args.outputs[0].as<float>() + batch * s_.m * s_.n;
    }
    const bool sums_last = sizes_.sums_apart && !blocks_.sums_of_a_thread;
    const int64_t most_rows = sums_last ? blocks_.sum_rows : s_.m;
    for (w.column = 0; w.column < s_.n; w.column += blocks_.columns)
      for (w.row = 0; w.row < s_.m; w.row += most_rows)
        for (w.term = 0; w.term < s_.k; w.term += blocks_.b_depth) {
          w.columns = std::min(blocks_.columns, s_.n - w.column);
          w.rows = std::min(most_rows, s_.m - w.row);
          w.terms = std::min(blocks_.b_depth, s_.k - w.term);
          Pack(w);
          const int64_t row_blocks = (w.rows + blocks_.rows - 1) / blocks_.rows;
          const int64_t panels = (w.columns + blocks_.panel - 1) / blocks_.panel;
          const int64_t parts = std::clamp<int64_t>(blocks_.threads / row_blocks, 1, panels);
          ForEach(row_blocks * parts, [&](int64_t i) {
            const int64_t part = i % parts;
            Multiply(w, w.row + i / parts * blocks_.rows, panels * part / parts, panels * (part + 1) / parts);
          });
        }
  }

  // What a thread knows of the blocks that its team computes with.
  struct Work {
    FloatRows a, b;
    const float* bias;
    bool goes_on;            // from what y holds
    float* packed;           // b's block
    float* block = nullptr;  // a's, of this thread
    float* sums = nullptr;
    float* y = nullptr;  // one of these
    BFloat16* rounded = nullptr;
    int64_t column = 0, columns = 0, row = 0, rows = 0, term = 0, terms = 0;
  };

  void Pack(const Work& w) const {
    const int64_t panel = blocks_.panel, panels = (w.columns + panel - 1) / panel;
    const auto columns = [&](int64_t p) { return std::min(panel, w.columns - p * panel); };
    const auto to = [&](int64_t p, int64_t k) { return w.packed + p * blocks_.PanelFloats() + k * panel; };
    if (!b_is_across() && code_) {
      // A row at a time: its panels may share a group.
      ForEach(w.terms, [&](int64_t k) {
        float row[kMostColumns];
        ReadRows(w.b.At((w.term + k) * w.b.row + w.column), 1, w.columns, row, 0);
        for (int64_t p = 0; p < panels; ++p) std::copy_n(row + p * panel, columns(p), to(p, k));
      });
      return;
    }
    if (!b_is_across()) {
      ForEach((w.terms + kCopiedRows - 1) / kCopiedRows, [&](int64_t i) {
        const int64_t k = i * kCopiedRows, rows = std::min(kCopiedRows, w.terms - k);
        for (int64_t p = 0; p < panels; ++p)
          ReadRows(w.b.At((w.term + k) * w.b.row + w.column + p * panel), rows, columns(p), to(p, k), panel);
      });
      return;
    }
    const int64_t chunks = (w.terms + kStagedDepth - 1) / kStagedDepth;
    ForEach(chunks * panels, [&](int64_t i) {
      const int64_t p = i / chunks, k = i % chunks * kStagedDepth,
                    terms = std::min(kStagedDepth, w.terms - k);
      const FloatRows from = w.b.At((w.column + p * panel) * w.b.row + w.term + k);
      if (!sizes_.stages_b)
        return TransposeScaled(static_cast<const float*>(from.data), from.row, columns(p), terms, 1, to(p, k),
                               panel);
      const int64_t row = ProductRowFloats(kStagedDepth);
      ReadRows(from, columns(p), terms, w.block, row);
      TransposeScaled(w.block, row, columns(p), terms, 1, to(p, k), panel);
    });
  }

  // Rows from `row` on, by the columns of some panels.
  void Multiply(const Work& w, int64_t row, int64_t first_panel, int64_t last_panel) const {
    const int64_t rows = std::min(blocks_.rows, w.row + w.rows - row), panel = blocks_.panel;
    const int64_t first = first_panel * panel, columns = std::min(w.columns, last_panel * panel) - first;
    float* sums = w.y + row * s_.n + w.column;
    int64_t sums_row = s_.n;
    if (sizes_.sums_apart) {
      sums_row = ProductRowFloats(blocks_.columns);
      sums = w.sums + (blocks_.sums_of_a_thread ? 0 : (row - w.row) * sums_row);
    }
    if (w.bias && w.term == 0)
      for (int64_t i = 0; i < rows; ++i)
        std::copy_n(w.bias + w.column + first, columns, sums + i * sums_row + first);
    for (int64_t k = 0; k < w.terms; k += blocks_.depth) {
      const int64_t depth = std::min(blocks_.depth, w.terms - k);
      TileProduct product{};
      product.a = w.block;
      if (sizes_.transposed_a) {
        product.a_row = 1;
        product.a_column = ProductRowFloats(blocks_.rows);
        ReadRows(w.a.At((w.term + k) * w.a.row + row), depth, rows, w.block, product.a_column);
      } else {
        product.a_row = ProductRowFloats(blocks_.depth);
        product.a_column = 1;
        ReadRows(w.a.At(row * w.a.row + w.term + k), rows, depth, w.block, product.a_row);
      }
      product.b_row = panel;
      product.c_row = sums_row;
      product.rows = rows;
      product.depth = depth;
      product.add = w.bias || w.goes_on || w.term + k > 0;
      for (int64_t p = first_panel; p < last_panel; ++p) {
        product.b = w.packed + p * blocks_.PanelFloats() + k * panel;
        product.c = sums + p * panel;
        product.columns = std::min(panel, w.columns - p * panel);
        act::Multiply(product);
      }
    }
    if (w.rounded && w.term + w.terms == s_.k)
      WriteBFloat16Rows(sums + first, sums_row, rows, columns, 1, w.rounded + row * s_.n + w.column + first,
                        s_.n);
  }

  const MatMulShape s_;
  const ProductSizes sizes_;
  const ProductBlocks blocks_;
  FloatRows a_, b_;                   // without data
  std::optional<CodedNumbers> code_;  // b
};

// Rows of b that lie a multiple of 4 KiB apart fall on the same few sets of a first-level cache, and
// each on a page of its own. Where oneDNN reads them in place, its product takes twice the time (with
// AVX-512; 3072 columns). Copying b costs little if many rows of a use the copy.
bool RowsMeetInTheCache(const MatMulShape& s) {
  constexpr int64_t kPage = 4096, kManyRows = 64;
  return TileColumns() == kMostTileColumns && s.b_n == 1 && s.n > 1 && s.m >= kManyRows &&
         s.b_k * int64_t{sizeof(float)} % kPage == 0;
}

std::unique_ptr<Kernel> Create(const KernelSite& site, bool other_float32, std::string* why) {
  const TensorView &a = site.inputs[0], &y = site.outputs[0], b = NumbersOf(site.inputs[1]);
  const CodedParameter* const coded = site.inputs[1].coded;
  const auto shape = MixedMatMulShapeOf(site.node->attrs, a, b, y, why);
  if (!shape || !BiasFits(*shape, site.inputs, why)) return nullptr;
  if (a.elements == 0 || b.elements == 0 || y.elements == 0) return Refuse(why, "an empty tensor");
  const MatMulShape s = Folded(*shape);
  const FloatSource b_source = !coded                        ? SourceOf(b.dtype, a.dtype)
                               : a.dtype == DType::kBFloat16 ? FloatSource::kRoundedCode
                                                             : FloatSource::kCode;
  const bool float32 = a.dtype == DType::kFloat32 && b.dtype == DType::kFloat32 && !coded;
  if ((float32 && !RowsMeetInTheCache(s)) != other_float32)
    return Refuse(why, other_float32 ? "cpu.matmul takes it" : "oneDNN is as fast in float32");
  ProductSizes sizes{.m = s.m, .n = s.n, .k = s.k, .batches = s.Batches()};
  sizes.transposed_a = s.a_k != 1;
  sizes.stages_b = s.b_n != 1 && b_source != FloatSource::kFloat32;
  sizes.sums_apart = y.dtype == DType::kBFloat16;
  const auto blocks = FitProductBlocks(sizes, TileColumns(), site.threads, site.workspace_bytes);
  if (!blocks)
    return Refuse(
        why, "its blocks do not fit into " + std::to_string(site.workspace_bytes) + " bytes of workspace");
  return std::make_unique<BlockedMatMul>(s, sizes, *blocks, SourceOf(a.dtype, b.dtype), b_source, coded);
}

}  // namespace

void RegisterCpuMatMul(KernelRegistry& registry) {
  registry.Add("MatMul", {"cpu.matmul",
                          [](const KernelSite& site, std::string* why) { return Create(site, false, why); }});
}

void RegisterCpuFloat32MatMul(KernelRegistry& registry) {
  registry.Add("MatMul", {"cpu.float32_matmul",
                          [](const KernelSite& site, std::string* why) { return Create(site, true, why); }});
}

}  // namespace act
