// The gradient of a weight, from packed operands: in float32, or in bfloat16, to which float32 is rounded if
// the node allows it. This covers dense convolutions with any window, and matrix products that read both
// operands by rows of terms.
//
// Pixels are divided into blocks (pixel_blocks.h). For each block, a thread packs its part of dy and x, one
// pixel or a pair of neighbours to a slot (product_slots.h). It packs x once for each tap of the window's last
// axis, with zeros as its border. The taps of the other axes read the same rows of x at other
// places. Nothing else is copied, and no image is unrolled. While it multiplies a block, it
// prefetches the next one.
//
// An element of dw is one sum in the order of the pixels, or as few sums as the shape requires.
// Threads share these parts first, then the channels of dw's larger side, in shares as equal as
// vectors allow: a share's last panel is narrow. Neither changes a bit of the result.
//
// Product makes the products of packed operands: FloatProduct (float_product.h), PairProduct
// (pair_product.h) or AmxProduct (tile_pairs.h).
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/cpu/pixel_blocks.h"
#include "kernels/math/convert.h"
#include "kernels/site/dereference.h"
#include "kernels/site/workspace_text.h"
#include "runtime/executor/kernel.h"

namespace act {

// Walks over what the next block reads, while the current block is multiplied.
class ReadAhead {
 public:
  // `channels` elements of each pixel, the first pixel's from `first` on, `distance` elements apart.
  template <class T>
  void Add(const T* operand, int64_t first, int64_t pixels, int64_t channels, int64_t distance) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    const auto from = reinterpret_cast<uintptr_t>(operand) + static_cast<uintptr_t>(first * kBytes);
    const int64_t bytes = channels * kBytes;
    regions_[count_++] = channels == distance
                             ? Region{from, kLine, pixels * bytes / kLine, 1}
                             : Region{from, distance * kBytes, pixels, (bytes + kLine - 1) / kLine};
    lines_ += regions_[count_ - 1].lines * regions_[count_ - 1].columns;
  }
  // Spreads the lines over this many chances to prefetch. All at once, they would keep memory busy while
  // products wait for their operands.
  void Spread(int64_t chances) {
    ahead_.every = std::max<int64_t>(1, chances / std::max<int64_t>(1, lines_));
  }
  // For the next product.
  Ahead& Next() {
    for (; ahead_.lines <= 0 && at_ < count_; ++at_) {
      Region& region = regions_[at_];
      if (region.columns-- <= 0) continue;
      ahead_.at = region.from;
      ahead_.step = region.step;
      ahead_.lines = region.lines;
      region.from += kLine;
      break;
    }
    if (ahead_.lines <= 0) ahead_.wait = Ahead::kNever;
    return ahead_;
  }

 private:
  static constexpr int64_t kLine = 64;
  // A column has a line of each pixel, or all of them.
  struct Region {
    uintptr_t from;
    int64_t step, lines, columns;
  };
  std::array<Region, 2> regions_;
  size_t count_ = 0, at_ = 0;
  int64_t lines_ = 0;
  Ahead ahead_;
};

template <class Product>
class PackedGradWeight final : public Kernel {
 public:
  PackedGradWeight(const GradWeightShape& shape, DType type, int64_t block_slots, int64_t parts, int threads)
      : s_(shape),
        type_(type),
        blocks_(shape, block_slots, Product::kTerms),
        parts_(parts),
        slices_(std::max<int64_t>(1, threads / parts)),
        threads_(threads) {
    int64_t m = 0, c = 0;
    for (int64_t slice = 0; slice < slices_; ++slice) {
      m = std::max(m, SliceOfM(slice).size());
      c = std::max(c, SliceOfC(slice).size());
    }
    const int64_t row_slots = blocks_.MostRowSlots();
    dy_words_ = RoundUp(RoundUp(m, kRows) * Product::LeftDepth(blocks_.MostRows() * row_slots), kLanes);
    thread_words_ =
        dy_words_ + s_.kernel[2] * RoundUp(c, kLanes) * Product::RightDepth(blocks_.MostXRows() * row_slots);
    // For a pointwise convolution, the first part is summed in dw itself.
    copies_ = s_.KernelPixels() == 1 ? parts_ - 1 : parts_;
    copy_floats_ = RoundUp(s_.out_channels * s_.channels * s_.KernelPixels(), kLanes);
    for (int t = 0; t < threads_; ++t) scratch_.push_back(blocks_.Empty());
  }

  int64_t WorkspaceBytes() const override {
    return (copies_ * copy_floats_ + threads_ * thread_words_) * kFloat;
  }
  std::string Describe() const override {
    return std::string(Product::kName) + ", " + std::to_string(threads_) + " threads, " +
           std::to_string(parts_) + " x " + std::to_string(slices_) + " parts, " +
           WorkspaceText(WorkspaceBytes());
  }

  std::string Run(const KernelArgs& args) override {
    if (type_ == DType::kBFloat16) return RunOn<BFloat16>(args);
    return RunOn<float>(args);
  }

 private:
  static constexpr int64_t kRows = Product::kRows, kColumns = Product::kColumns, kLanes = kSlotLanes;
  static constexpr int64_t kFloat = sizeof(float);

  template <class T>
  std::string RunOn(const KernelArgs& args) {
    auto* copies = args.workspace.data.as<float>();
    auto* packed = reinterpret_cast<uint32_t*>(copies + copies_ * copy_floats_);
    float* dw = args.outputs[0].as<float>();
    const auto *dy = args.inputs[0].as<T>(), *x = args.inputs[1].as<T>();
#pragma omp parallel for schedule(static, 1) num_threads(threads_)
    for (int64_t i = 0; i < parts_ * slices_; ++i) {
      const int64_t part = i % parts_, copy = part - (parts_ - copies_);
      const int t = omp_get_thread_num();
      AddBlocks(dy, x, part, i / parts_, scratch_[static_cast<size_t>(t)], packed + t * thread_words_,
                copy < 0 ? Sums{dw, false, args.goes_on} : Sums{copies + copy * copy_floats_, true, false});
    }
    if (copies_ == 0) return "";
#pragma omp parallel for schedule(static, 1) num_threads(threads_)
    for (int t = 0; t < threads_; ++t) AddCopies(copies, dw, Cut({0, s_.out_channels}, 1, t, threads_));
    return "";
  }

  bool CutsM() const { return s_.out_channels > s_.channels; }
  Range SliceOfM(int64_t slice) const {
    const Range all{0, s_.out_channels};
    return CutsM() ? Cut(all, kRows, slice, slices_) : all;
  }
  Range SliceOfC(int64_t slice) const {
    const Range all{0, s_.channels};
    return CutsM() ? all : Cut(all, kLanes, slice, slices_);
  }

  // Where a thread adds up a slice: in dw itself, or in a part's copy. A copy holds the slices one after
  // the other, and of each its panels of columns, [taps, m, columns]. So the sums of a product lie
  // together, products walk through them in order, and no two threads write near each other.
  struct Sums {
    float* first;
    bool in_panels;
    bool goes_on;  // from what is there
  };
  // Elements of a copy before this slice's.
  int64_t SliceStart(Range m, Range c) const {
    return s_.KernelPixels() * (CutsM() ? m.first * s_.channels : c.first * s_.out_channels);
  }

  // Sums over a part's pixels, for the channels of a slice.
  template <class T>
  void AddBlocks(const T* dy, const T* x, int64_t part, int64_t slice, Block& block, uint32_t* packed,
                 Sums sums) const {
    const Range m = SliceOfM(slice), c = SliceOfC(slice);
    if (m.size() == 0 || c.size() == 0) return;
    [[maybe_unused]] const typename Product::Scope scope;
    const Pixels pixels = PartOf(s_, part, parts_);
    const int64_t count = blocks_.Count(pixels);
    for (int64_t i = 0; i < count; ++i) {
      blocks_.Fill(pixels, i, block);
      PackDy(dy + m.first, m.size(), block, packed);
      PackX(x + c.first, c.size(), block, packed + dy_words_);
      Multiply(block, m, c, packed, sums, i > 0 || sums.goes_on,
               i + 1 < count ? Behind(block, m, c, dy, x) : ReadAhead());
    }
  }

  template <class T>
  void PackDy(const T* dy, int64_t channels, const Block& block, uint32_t* to) const {
    const int64_t slots = block.RowSlots(), depth = Product::LeftDepth(block.DyRows() * slots);
    const auto [rows, columns] = block.pixels;
    for (int64_t row = 0; row < rows.size(); ++row) {
      const T* from = dy + ((rows.first + row) * s_.out[2] + columns.first) * s_.dy_pixel;
      Product::PackLeft(from, s_.dy_pixel, columns.size(), channels, depth, row * slots, to);
    }
  }

  template <class T>
  void PackX(const T* x, int64_t channels, const Block& block, uint32_t* to) const {
    const int64_t slots = block.RowSlots(), depth = Product::RightDepth(block.XRows() * slots);
    const Range columns = block.pixels.columns;
    for (int64_t tap = 0; tap < s_.kernel[2]; ++tap, to += RoundUp(channels, kLanes) * depth) {
      const auto inside = [&](int64_t column) {
        return s_.Inside(2, s_.Input(2, columns.first + column, tap));
      };
      // Zeros also fill a row's last slot: dy is 0 there, but x need not be finite.
      PixelRow<T> pixels{.x = x, .distance = s_.stride[2] * s_.x_pixel, .pixels = slots * Product::kTerms};
      auto& [first, last] = pixels.inside;
      for (last = columns.size(); last > 0 && !inside(last - 1);) --last;
      while (first < last && !inside(first)) ++first;
      for (int64_t row = 0; row < block.XRows(); ++row) {
        const int64_t x_row = block.x_rows[static_cast<size_t>(row)] * s_.in[2];
        pixels.first = (x_row + s_.Input(2, columns.first, tap)) * s_.x_pixel;
        Product::PackRight(pixels, channels, depth, row * slots, to);
      }
    }
  }

  // The slice's channels of the pixels after this block, of as many as it has.
  template <class T>
  ReadAhead Behind(const Block& block, Range m, Range c, const T* dy, const T* x) const {
    const auto [rows, columns] = block.pixels;
    ReadAhead ahead;
    const int64_t pixels = (rows.size() - 1) * s_.out[2] + columns.size();
    ahead.Add(dy, (rows.first * s_.out[2] + columns.first + pixels) * s_.dy_pixel + m.first, pixels, m.size(),
              s_.dy_pixel);
    if (block.XRows() > 0) {
      const bool part_of_row = columns.size() < s_.out[2];
      const int64_t x_pixels = part_of_row ? columns.size() * s_.stride[2] : block.XRows() * s_.in[2];
      const int64_t first = part_of_row ? block.x_rows.front() * s_.in[2] + columns.last * s_.stride[2]
                                        : (block.x_rows.back() + 1) * s_.in[2];
      ahead.Add(x, first * s_.x_pixel + c.first, x_pixels, c.size(), s_.x_pixel);
    }
    return ahead;
  }

  void Multiply(const Block& block, Range m, Range c, const uint32_t* packed, Sums sums, bool add,
                ReadAhead ahead) const {
    const int64_t dy_depth = Product::LeftDepth(block.DyRows() * block.RowSlots());
    const int64_t x_depth = Product::RightDepth(block.XRows() * block.RowSlots());
    const auto panels = [](int64_t size, int64_t width) { return (size + width - 1) / width; };
    ahead.Spread(panels(c.size(), kColumns) * panels(m.size(), kRows) * s_.KernelPixels() *
                 Product::Prefetches(dy_depth));
    float* to = sums.first + (sums.in_panels ? SliceStart(m, c) : m.first * s_.channels + c.first);
    for (int64_t j = 0; j < c.size(); j += kColumns) {
      const int64_t columns = std::min(kColumns, c.size() - j);
      const int64_t c_row = sums.in_panels ? columns : s_.channels;
      for (int64_t tap = 0; tap < s_.KernelPixels(); ++tap) {
        const auto& runs = block.runs[static_cast<size_t>(tap / s_.kernel[2])];
        const uint32_t* x_panel =
            packed + dy_words_ + (tap % s_.kernel[2] * RoundUp(c.size(), kLanes) + j) * x_depth;
        for (int64_t i = 0; i < m.size(); i += kRows)
          Product::Multiply(packed + i * dy_depth, dy_depth, x_panel, runs, to + i * c_row, c_row,
                            std::min(kRows, m.size() - i), columns, add, ahead.Next());
        if (sums.in_panels) to += m.size() * columns;
      }
      if (!sums.in_panels) to += columns;
    }
  }

  // Rows of dw [M, C, taps]: the sum of the copies and, for pointwise convolutions, of dw itself.
  void AddCopies(const float* copies, float* dw, Range rows) const {
    for (int64_t slice = 0; slice < slices_; ++slice) {
      const Range m = SliceOfM(slice), c = SliceOfC(slice);
      const Range here{std::max(rows.first, m.first), std::min(rows.last, m.last)};
      for (int64_t row = here.first; row < here.last; ++row)
        AddRow(copies + SliceStart(m, c), row - m.first, m.size(), c.size(),
               dw + (row * s_.channels + c.first) * s_.KernelPixels());
    }
  }
  // A row of a slice of m x c elements. Taps lie far apart, often in the same sets of the first-level
  // cache. So some of each are added up here first.
  void AddRow(const float* copies, int64_t row, int64_t m, int64_t c, float* dw) const {
    constexpr int64_t kSome = 16;
    const int64_t taps = s_.KernelPixels();
    float sums[kSome][kColumns];
    for (int64_t j = 0; j < c; j += kColumns) {
      const int64_t columns = std::min(kColumns, c - j);
      for (int64_t first = 0; first < taps; first += kSome) {
        const int64_t some = std::min(kSome, taps - first);
        for (int64_t t = 0; t < some; ++t) {
          const float* from = copies + j * m * taps + ((first + t) * m + row) * columns;
          for (int64_t i = 0; i < columns; ++i) sums[t][i] = copies_ < parts_ ? dw[j + i] : 0;
          for (int64_t copy = 0; copy < copies_; ++copy, from += copy_floats_)
            for (int64_t i = 0; i < columns; ++i) sums[t][i] += from[i];
        }
        for (int64_t t = 0; t < some; ++t)
          for (int64_t i = 0; i < columns; ++i) dw[(j + i) * taps + first + t] = sums[t][i];
      }
    }
  }

  const GradWeightShape s_;
  const DType type_;  // of both operands
  const PixelBlocks blocks_;
  const int64_t parts_, slices_;
  const int threads_;
  int64_t dy_words_ = 0, thread_words_ = 0, copies_ = 0, copy_floats_ = 0;
  std::vector<Block> scratch_;  // by thread
};

}  // namespace act
