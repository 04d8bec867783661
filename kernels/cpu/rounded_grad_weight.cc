// The gradient of a weight, of products rounded to bfloat16 (pair_product.h), where the node allows it: dense
// convolutions of any window, and matrix products whose operands are both read by rows of terms.
//
// Pixels are cut in blocks. For each, a thread packs its part of dy and x as pairs of neighbouring pixels of
// a row, x once for each tap of the window's last axis, with its border as zeros; the taps of the other axes
// read the same rows of x at other places. Nothing else is copied, and no image is unrolled. An element of dw
// is one sum, in the order of the pixels, or as few as the shape says: threads share out these parts, then
// the channels of dw's larger side, and change no bit of it.
#include <omp.h>

#include <algorithm>
#include <optional>

#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/special.h"
#include "kernels/reference/lambda_kernel.h"
#include "kernels/reference/matmul_shape.h"
#include "kernels/reference/window.h"

namespace act {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Pairs of a block: the right operand's panel, 24 KiB, stays in the first cache while all rows pass by.
constexpr int64_t kBlockPairs = 128;
constexpr int64_t kFewestPairs = 16;
// Sums of an element of dw, each over a part of the pixels: copies of dw that together stay in a cache.
constexpr int64_t kMostParts = 4;
constexpr int64_t kCopyBytes = 512 << 10;

struct Range {
  int64_t first = 0, last = 0;
  int64_t size() const { return last - first; }
};

// Part `i` of `parts` of the range, cut at multiples of `unit` from its start.
Range Cut(Range range, int64_t unit, int64_t i, int64_t parts) {
  const int64_t units = (range.size() + unit - 1) / unit;
  const auto at = [&](int64_t part) {
    return std::min(range.last, range.first + units * part / parts * unit);
  };
  return {at(i), at(i + 1)};
}

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// dw [M, C, K..] of dy [pixels, M] and x [pixels, C].
struct Problem {
  ConvShape shape;
  size_t dy_operand = 0, x_operand = 1;
  int64_t dy_pixel = 0, x_pixel = 0;  // floats between neighbours

  int64_t Taps() const { return shape.KernelPixels(); }
  int64_t RowTaps() const { return shape.kernel[0] * shape.kernel[1]; }  // of all axes but the last
  int64_t DyRows() const { return shape.batch * shape.out[0] * shape.out[1]; }
};

// Pixels of dy: rows, numbered over all samples, and columns of them.
struct Pixels {
  Range rows, columns;
};

// Part `i` of `parts` of all pixels: of the rows, or of a single row. Pairs stay whole.
Pixels PartOf(const Problem& p, int64_t i, int64_t parts) {
  const Range rows{0, p.DyRows()}, columns{0, p.shape.out[2]};
  if (rows.size() > 1) return {Cut(rows, 1, i, parts), columns};
  return {rows, Cut(columns, 2, i, parts)};
}

// Some pixels, and the rows of x that their windows read.
struct Block {
  Pixels pixels;
  std::vector<int64_t> x_rows;             // numbered over all samples
  std::vector<std::vector<PairRun>> runs;  // by tap of the leading axes

  int64_t Rows() const { return pixels.rows.size(); }
  int64_t RowPairs() const { return (pixels.columns.size() + 1) / 2; }
};

// How pixels are cut in blocks of at most so many pairs, or one row's.
class Blocks {
 public:
  Blocks(const Problem& p, int64_t pairs)
      : p_(&p),
        columns_(std::min(p.shape.out[2], 2 * pairs)),
        rows_(std::clamp<int64_t>(pairs / MostRowPairs(), 1, p.DyRows())) {}

  int64_t MostRows() const { return rows_; }
  int64_t MostRowPairs() const { return (columns_ + 1) / 2; }

  int64_t Count(const Pixels& pixels) const {
    return (pixels.rows.size() + rows_ - 1) / rows_ * InARow(pixels);
  }

  // Most rows of x that a block of these reads.
  int64_t MostXRows(const Pixels& pixels) const {
    Block block = Empty();
    size_t most = 0;
    for (int64_t i = 0; i < Count(pixels); i += InARow(pixels)) {
      Fill(pixels, i, block);
      most = std::max(most, block.x_rows.size());
    }
    return static_cast<int64_t>(most);
  }

  // A block whose vectors never grow again.
  Block Empty() const {
    Block block;
    block.x_rows.reserve(static_cast<size_t>(rows_ * p_->RowTaps()));
    block.runs.resize(static_cast<size_t>(p_->RowTaps()));
    for (auto& runs : block.runs) runs.reserve(static_cast<size_t>(rows_));
    return block;
  }

  // Block `number` of these pixels; neighbours in a row follow one another.
  void Fill(const Pixels& pixels, int64_t number, Block& block) const {
    const auto part = [](Range range, int64_t size, int64_t i) {
      return Range{range.first + i * size, std::min(range.last, range.first + (i + 1) * size)};
    };
    block.pixels = {part(pixels.rows, rows_, number / InARow(pixels)),
                    part(pixels.columns, columns_, number % InARow(pixels))};
    block.x_rows.clear();
    const int64_t pairs = block.RowPairs();
    for (int64_t tap = 0; tap < p_->RowTaps(); ++tap) {
      auto& runs = block.runs[static_cast<size_t>(tap)];
      runs.clear();
      for (int64_t row = 0; row < block.Rows(); ++row) {
        const int64_t x_row = XRow(block.pixels.rows.first + row, tap);
        if (x_row < 0) continue;
        auto at = std::find(block.x_rows.begin(), block.x_rows.end(), x_row);
        if (at == block.x_rows.end()) at = block.x_rows.insert(at, x_row);
        const int64_t b = (at - block.x_rows.begin()) * pairs, a = row * pairs;
        if (!runs.empty() && runs.back().a + runs.back().pairs == a && runs.back().b + runs.back().pairs == b)
          runs.back().pairs += pairs;
        else
          runs.push_back({a, b, pairs});
      }
    }
  }

 private:
  int64_t InARow(const Pixels& pixels) const { return (pixels.columns.size() + columns_ - 1) / columns_; }

  // The row of x that a row of dy reads by a tap of the leading axes; -1: it lies outside.
  int64_t XRow(int64_t dy_row, int64_t tap) const {
    const ConvShape& s = p_->shape;
    const int64_t o1 = dy_row % s.out[1], o0 = dy_row / s.out[1] % s.out[0], n = dy_row / s.out[1] / s.out[0];
    const int64_t i0 = s.Input(0, o0, tap / s.kernel[1]), i1 = s.Input(1, o1, tap % s.kernel[1]);
    return s.Inside(0, i0) && s.Inside(1, i1) ? (n * s.in[0] + i0) * s.in[1] + i1 : -1;
  }

  const Problem* p_;
  int64_t columns_, rows_;
};

class RoundedGradWeight final : public Kernel {
 public:
  RoundedGradWeight(Problem problem, int64_t block_pairs, int64_t parts, int threads)
      : p_(std::move(problem)),
        blocks_(p_, block_pairs),
        parts_(parts),
        slices_(std::max<int64_t>(1, threads / parts)),
        threads_(threads) {
    const ConvShape& s = p_.shape;
    int64_t x_rows = 0, m = 0, c = 0;
    for (int64_t part = 0; part < parts_; ++part)
      x_rows = std::max(x_rows, blocks_.MostXRows(PartOf(p_, part, parts_)));
    for (int64_t slice = 0; slice < slices_; ++slice) {
      m = std::max(m, SliceOfM(slice).size());
      c = std::max(c, SliceOfC(slice).size());
    }
    dy_words_ = RoundUp(RoundUp(m, kPairRows) * blocks_.MostRows() * blocks_.MostRowPairs(), kPairLanes);
    thread_words_ = dy_words_ + s.kernel[2] * RoundUp(c, kPairLanes) * x_rows * blocks_.MostRowPairs();
    // Of single pixels the first part adds up in dw itself.
    copies_ = p_.Taps() == 1 ? parts_ - 1 : parts_;
    copy_floats_ = RoundUp(s.out_channels * s.channels * p_.Taps(), kPairLanes);
    for (int t = 0; t < threads_; ++t) scratch_.push_back(blocks_.Empty());
  }

  RoundedGradWeight(const RoundedGradWeight&) = delete;  // blocks_ points to p_
  RoundedGradWeight& operator=(const RoundedGradWeight&) = delete;

  int64_t WorkspaceBytes() const override {
    return (copies_ * copy_floats_ + threads_ * thread_words_) * kFloat;
  }
  std::string Describe() const override {
    return std::to_string(threads_) + " threads, " + std::to_string(parts_) + " x " +
           std::to_string(slices_) + " parts, " + std::to_string((WorkspaceBytes() + 1023) / 1024) +
           " KiB workspace";
  }

  std::string Run(const KernelArgs& args) override {
    auto* copies = reinterpret_cast<float*>(args.workspace.data());
    auto* packed = reinterpret_cast<uint32_t*>(copies + copies_ * copy_floats_);
    float* dw = args.outputs[0].as<float>();
#pragma omp parallel for schedule(static, 1) num_threads(threads_)
    for (int64_t i = 0; i < parts_ * slices_; ++i) {
      const int64_t part = i % parts_;
      float* sums = p_.Taps() > 1 ? copies + part * copy_floats_
                    : part == 0   ? dw
                                  : copies + (part - 1) * copy_floats_;
      const int t = omp_get_thread_num();
      AddBlocks(args, part, i / parts_, scratch_[static_cast<size_t>(t)], packed + t * thread_words_, sums);
    }
    if (copies_ == 0) return "";
#pragma omp parallel for schedule(static, 1) num_threads(threads_)
    for (int t = 0; t < threads_; ++t) AddCopies(copies, dw, Cut({0, p_.shape.out_channels}, 1, t, threads_));
    return "";
  }

 private:
  bool CutsM() const { return p_.shape.out_channels > p_.shape.channels; }
  Range SliceOfM(int64_t slice) const {
    return Cut({0, p_.shape.out_channels}, kPairRows, CutsM() ? slice : 0, CutsM() ? slices_ : 1);
  }
  Range SliceOfC(int64_t slice) const {
    return Cut({0, p_.shape.channels}, kPairColumns, CutsM() ? 0 : slice, CutsM() ? 1 : slices_);
  }

  // The sums of a part's pixels and a slice's channels, to sums [taps, M, C].
  void AddBlocks(const KernelArgs& args, int64_t part, int64_t slice, Block& block, uint32_t* packed,
                 float* sums) const {
    const Range m = SliceOfM(slice), c = SliceOfC(slice);
    if (m.size() == 0 || c.size() == 0) return;
    const Pixels pixels = PartOf(p_, part, parts_);
    uint32_t *dy = packed, *x = packed + dy_words_;
    for (int64_t i = 0; i < blocks_.Count(pixels); ++i) {
      blocks_.Fill(pixels, i, block);
      PackDy(args.inputs[p_.dy_operand].as<float>() + m.first, m.size(), block, dy);
      PackX(args.inputs[p_.x_operand].as<float>() + c.first, c.size(), block, x);
      Multiply(block, m, c, dy, x, sums, i > 0);
    }
  }

  void PackDy(const float* dy, int64_t channels, const Block& block, uint32_t* to) const {
    const int64_t pairs = block.RowPairs(), depth = block.Rows() * pairs;
    const auto [rows, columns] = block.pixels;
    for (int64_t row = 0; row < block.Rows(); ++row) {
      const float* from = dy + ((rows.first + row) * p_.shape.out[2] + columns.first) * p_.dy_pixel;
      for (int64_t k = 0; k < pairs; ++k, from += 2 * p_.dy_pixel)
        PackPair(from, 2 * k + 1 < columns.size() ? from + p_.dy_pixel : nullptr, channels, kPairRows, depth,
                 row * pairs + k, to);
    }
  }

  void PackX(const float* x, int64_t channels, const Block& block, uint32_t* to) const {
    const ConvShape& s = p_.shape;
    const int64_t pairs = block.RowPairs(), rows = std::ssize(block.x_rows), depth = rows * pairs;
    const Range columns = block.pixels.columns;
    for (int64_t tap = 0; tap < s.kernel[2]; ++tap, to += RoundUp(channels, kPairLanes) * depth)
      for (int64_t row = 0; row < rows; ++row) {
        const float* from = x + block.x_rows[static_cast<size_t>(row)] * s.in[2] * p_.x_pixel;
        // Pixels that no column of dy meets are zeros too: what dy is there, in pairs, is 0 and not a pixel.
        const auto pixel = [&](int64_t column) -> const float* {
          const int64_t i = s.Input(2, columns.first + column, tap);
          return column < columns.size() && s.Inside(2, i) ? from + i * p_.x_pixel : nullptr;
        };
        for (int64_t k = 0; k < pairs; ++k)
          PackPair(pixel(2 * k), pixel(2 * k + 1), channels, kPairColumns, depth, row * pairs + k, to);
      }
  }

  void Multiply(const Block& block, Range m, Range c, const uint32_t* dy, const uint32_t* x, float* sums,
                bool add) const {
    const ConvShape& s = p_.shape;
    const int64_t dy_depth = block.Rows() * block.RowPairs();
    const int64_t x_depth = std::ssize(block.x_rows) * block.RowPairs();
    for (int64_t j = 0; j < c.size(); j += kPairColumns) {
      const int64_t columns = std::min(kPairColumns, c.size() - j);
      for (int64_t tap = 0; tap < p_.Taps(); ++tap) {
        const auto& runs = block.runs[static_cast<size_t>(tap / s.kernel[2])];
        const uint32_t* right = x + (tap % s.kernel[2] * RoundUp(c.size(), kPairLanes) + j) * x_depth;
        float* to = sums + (tap * s.out_channels + m.first) * s.channels + c.first + j;
        for (int64_t i = 0; i < m.size(); i += kPairRows)
          MultiplyPairs(dy + i * dy_depth, right, runs, to + i * s.channels, s.channels,
                        std::min(kPairRows, m.size() - i), columns, add);
      }
    }
  }

  // dw [M, C, taps], rows m: the copies' sum.
  void AddCopies(const float* copies, float* dw, Range m) const {
    const int64_t channels = p_.shape.channels, taps = p_.Taps();
    for (int64_t i = m.first * channels; i < m.last * channels; ++i)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const float* from = copies + tap * p_.shape.out_channels * channels + i;
        float sum = taps == 1 ? dw[i] : 0;
        for (int64_t copy = 0; copy < copies_; ++copy) sum += from[copy * copy_floats_];
        dw[i * taps + tap] = sum;
      }
  }

  const Problem p_;
  const Blocks blocks_;
  const int64_t parts_, slices_;
  const int threads_;
  int64_t dy_words_ = 0, thread_words_ = 0, copies_ = 0, copy_floats_ = 0;
  std::vector<Block> scratch_;  // by thread
};

std::unique_ptr<Kernel> Create(Problem problem, const KernelSite& site, std::string* why) {
  if (site.node->attrs.Int("may_round") == 0) return Refuse(why, "its operands may not be rounded");
  if (!MultipliesPairs()) return Refuse(why, "the processor has no AVX512_BF16");
  const ConvShape& s = problem.shape;
  if (s.group != 1) return Refuse(why, "has groups");
  if (s.out_channels < kPairRows || s.channels < kPairLanes) return Refuse(why, "has few channels");
  for (const TensorView& operand : site.inputs)
    if (operand.elements == 0) return Refuse(why, "an empty tensor");
  const int64_t pixels = s.batch * s.OutPixels();
  int64_t parts = kMostParts;
  while (parts > 1 && (parts * site.outputs[0].bytes > kCopyBytes || pixels < parts * kBlockPairs))
    parts /= 2;
  int64_t needed = 0;
  for (int threads = site.threads; threads >= 1; threads /= 2)
    for (int64_t pairs = kBlockPairs; pairs >= kFewestPairs; pairs /= 2) {
      auto kernel = std::make_unique<RoundedGradWeight>(problem, pairs, parts, threads);
      needed = kernel->WorkspaceBytes();
      if (needed <= site.workspace_bytes) return kernel;
    }
  return Refuse(why, "needs " + std::to_string(needed) + " bytes of workspace, " +
                         std::to_string(site.workspace_bytes) + " are given");
}

std::unique_ptr<Kernel> OfConvolution(const KernelSite& site, std::string* why) {
  const auto shape = ConvShapeOf(site.node->attrs, site.inputs[1], site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  Problem problem{*shape};
  problem.dy_pixel = shape->out_channels;
  problem.x_pixel = shape->channels;
  if (shape->KernelPixels() == 1 && shape->in == shape->out && shape->pad == Window::Triple{} &&
      shape->stride == Window::Triple{1, 1, 1}) {
    problem.shape.in = problem.shape.out = {1, 1, shape->batch * shape->OutPixels()};
    problem.shape.batch = 1;
  }
  return Create(std::move(problem), site, why);
}

// dw [M, C] = a^T b, a [terms, M], b [terms, C].
std::unique_ptr<Kernel> OfProduct(const KernelSite& site, std::string* why) {
  const auto shape = MatMulShapeOf(site.node->attrs, site.inputs[0], site.inputs[1], site.outputs[0], why);
  if (!shape) return nullptr;
  if (shape->Batches() != 1 || shape->a_m != 1 || shape->b_n != 1 || site.inputs.size() > 2)
    return Refuse(why, "not the gradient of a weight");
  Problem problem;
  problem.shape.rank = 1;
  problem.shape.batch = 1;
  problem.shape.channels = shape->n;
  problem.shape.out_channels = shape->m;
  problem.shape.in = problem.shape.out = {1, 1, shape->k};
  problem.dy_pixel = shape->a_k;
  problem.x_pixel = shape->b_k;
  return Create(std::move(problem), site, why);
}

}  // namespace

void RegisterRoundedGradWeight(KernelRegistry& registry) {
  registry.Add("ConvGradWeight", {"cpu.rounded_grad_weight", OfConvolution});
  registry.Add("MatMul", {"cpu.rounded_grad_weight", OfProduct});
}

}  // namespace act
