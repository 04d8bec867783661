#include "kernels/cpu/weight_packing.h"

#include <algorithm>

#include "runtime/plan/workspace.h"

namespace act {
namespace {

using dnnl::memory;

// What a thread decodes at a time: whole groups of every code.
constexpr int64_t kDecodedAtOnce = 16384;

// The rows first .. first + rows - 1 of `weights`. Throws dnnl::error if they are no whole blocks of the layout.
memory::desc RowsOf(const memory::desc& weights, int64_t first, int64_t rows) {
  memory::dims dims = weights.get_dims(), offsets(dims.size());
  dims[0] = rows;
  offsets[0] = first;
  return weights.submemory_desc(dims, offsets);
}

// The fewest rows that the layout's blocks divide into; those of a part are a multiple. 0: there are none. With AVX2
// blocks may have 24 rows.
int64_t RowsOfABlock(const memory::desc& packed) {
  constexpr int64_t kLeast = 8;
  const int64_t all = packed.get_dims()[0];
  for (int64_t rows = kLeast; rows <= kCodedRows; rows += kLeast) {
    if (rows >= all) return all;
    try {
      RowsOf(packed, rows, std::min(rows, all - rows));
      return rows;
    } catch (const dnnl::error&) {
      continue;
    }
  }
  return 0;
}

}  // namespace

std::optional<WeightPacking> WeightPacking::Of(const DnnlContext& context, const memory::desc& plain,
                                               const memory::desc& packed, const CodedParameter* coded,
                                               std::string* why) {
  WeightPacking packing;
  if (!coded) {
    packing.parts_.push_back({WeightReorder(context, plain, packed)});
    return packing;
  }
  packing.code_.emplace(*coded);
  const memory::dims dims = plain.get_dims();
  const int64_t all = dims[0], row = coded->type.Elements().fixed / all, block = RowsOfABlock(packed);
  if (dims != packed.get_dims() || block == 0) {
    *why = "its layout of weights cannot be filled by rows";
    return std::nullopt;
  }
  const auto row_bytes = row * static_cast<int64_t>(sizeof(float));
  const int64_t rows = std::max<int64_t>(kCodedRowsBytes / row_bytes / block, 1) * block;
  packing.scratch_bytes_ = RoundUp(std::min(rows, all) * row_bytes, 64);
  for (int64_t first = 0; first < all; first += rows) {
    const int64_t count = std::min(rows, all - first);
    packing.parts_.push_back({WeightReorder(context, RowsOf(plain, 0, count), RowsOf(packed, first, count)),
                              first * row, count * row});
  }
  return packing;
}

std::string WeightPacking::Run(const void* weights, void* packed, void* scratch) {
  if (!code_) return parts_[0].reorder.Run(weights, packed);
  auto* const numbers = static_cast<float*>(scratch);
  for (Part& part : parts_) {
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < part.numbers; at += kDecodedAtOnce)
      code_->Read(weights, part.first + at, std::min(kDecodedAtOnce, part.numbers - at), numbers + at);
    if (std::string error = part.reorder.Run(scratch, packed); !error.empty()) return error;
  }
  return "";
}

}  // namespace act
