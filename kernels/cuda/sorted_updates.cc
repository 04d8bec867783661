#include "kernels/cuda/sorted_updates.h"

#include <bit>
#include <utility>

#include "kernels/cuda/column_plan.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {
namespace {

static_assert(kSortItems == kSortedByBlock && kChunkRows == kCombinedByThread &&
              kDigits * static_cast<int64_t>(sizeof(uint32_t)) == kSortCountBytes);

// Numbers in device code, or what has their size. Null if there is none.
const char* NumberType(DType dtype, Reduction reduction) {
  if (reduction == Reduction::kNone) {
    const int64_t size = ByteSize(dtype);
    return size == 8 ? "uint64_t" : size == 4 ? "uint32_t" : size == 2 ? "uint16_t" : "uint8_t";
  }
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kInt64:
      return "int64_t";
    case DType::kInt32:
      return "int32_t";
    default:
      return nullptr;
  }
}

const char* ReductionType(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return "act::cuda::KeepLast";
    case Reduction::kAdd:
      return "act::cuda::AddUp";
    case Reduction::kMul:
      return "act::cuda::MultiplyUp";
    case Reduction::kMin:
      return "act::cuda::KeepLeast";
    case Reduction::kMax:
      return "act::cuda::KeepLargest";
  }
  return "";
}

}  // namespace

SortedUpdates::SortedUpdates(const CudaContext& context, const std::string& lookup, const std::string& type,
                             const std::string& wide, const std::string& reduction)
    : find_(context, "find_targets", "ScatterParameters", "scatter", "FindTargets<" + lookup + ">"),
      combine_(context, "combine_chunks", "ScatterParameters", "scatter",
               "CombineChunks" + TemplateArguments(type, reduction)),
      join_(context, "join_chunks", "ScatterParameters", "scatter",
            "JoinChunks" + TemplateArguments(type, wide, reduction)),
      count_(context, "sort_count", "SortParameters", "radix_sort", "SortCount", kSortThreads),
      scan_(context, "sort_scan", "SortParameters", "radix_sort", "SortScan", kScanThreads),
      move_(context, "sort_move", "SortParameters", "radix_sort", "SortMove", kSortThreads) {}

std::optional<SortedUpdates> SortedUpdates::Of(const CudaContext& context, const ScatterParameters& shape,
                                               DType dtype, Reduction reduction, const std::string& lookup,
                                               std::string* why) {
  const char* type = NumberType(dtype, reduction);
  const int64_t length = shape.length.by;
  if (!type || DivideUp(shape.count, kChunkRows) * length >= kMaxCount) {
    *why = type ? "2^31 elements" : "combines f32, i64 and i32 only";
    return std::nullopt;
  }
  const bool adds_floats = dtype == DType::kFloat32 && reduction != Reduction::kNone;
  SortedUpdates updates(context, lookup, type, adds_floats ? "double" : type, ReductionType(reduction));
  updates.rows_ = shape.count;
  updates.length_ = length;
  updates.row_bytes_ = length * ByteSize(dtype);
  return updates;
}

int64_t SortedUpdates::WorkspaceBytes() const { return CudaScatterBytes(rows_, row_bytes_); }

Status SortedUpdates::Sort(ScatterParameters& p, uint32_t* keys, uint32_t* positions,
                           uint32_t* counts) const {
  SortParameters sort{.keys = p.keys,
                      .values = p.positions,
                      .keys_to = keys,
                      .values_to = positions,
                      .counts = counts,
                      .count = p.count,
                      .blocks = static_cast<int32_t>(DivideUp(rows_, kSortItems)),
                      .shift = 0};
  for (; sort.shift < static_cast<int32_t>(std::bit_width(p.targets)); sort.shift += kDigitBits) {
    Status status = count_.Launch(sort.blocks, sort);
    if (status.empty()) status = scan_.Launch(1, sort);
    if (status.empty()) status = move_.Launch(sort.blocks, sort);
    if (!status.empty()) return status;
    std::swap(p.keys, sort.keys_to);
    std::swap(p.positions, sort.values_to);
    sort.keys = p.keys;
    sort.values = p.positions;
  }
  return "";
}

Status SortedUpdates::Run(ScatterParameters p, const DeviceRange& workspace) const {
  int64_t used = 0;
  const auto take = [&](int64_t bytes) {
    constexpr int64_t kAligned = 256;
    const DevicePointer at = workspace.data + used;
    used += DivideUp(bytes, kAligned) * kAligned;
    return at;
  };
  const int64_t chunks = DivideUp(rows_, kChunkRows), words = rows_ * static_cast<int64_t>(sizeof(uint32_t));
  p.items = static_cast<int32_t>(chunks * length_);
  p.keys = take(words).as<uint32_t>();
  p.positions = take(words).as<uint32_t>();
  auto *keys = take(words).as<uint32_t>(), *positions = take(words).as<uint32_t>();
  auto* counts = take(DivideUp(rows_, kSortItems) * kSortCountBytes).as<uint32_t>();
  p.heads = take(chunks * row_bytes_).as<void>();
  p.tails = take(chunks * row_bytes_).as<void>();

  Status status = find_.LaunchItems(rows_, p);
  if (status.empty()) status = Sort(p, keys, positions, counts);
  if (status.empty()) status = combine_.LaunchItems(p.items, p);
  if (status.empty() && chunks > 1) status = join_.LaunchItems(p.items, p);
  return status;
}

}  // namespace act::cuda
